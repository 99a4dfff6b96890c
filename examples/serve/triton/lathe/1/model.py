# SPDX-License-Identifier: Apache-2.0
"""Triton's Python backend with an engine of Lathe: the requests that Triton hands over together are one batch."""
import os

import numpy as np
import triton_python_backend_utils as triton

import lathe


class TritonPythonModel:
    def initialize(self, args):
        import json

        parameters = json.loads(args["model_config"]).get("parameters", {})
        threads = int(parameters.get("threads", {}).get("string_value", "0"))
        file = os.path.join(args["model_repository"], args["model_version"], "model.engine")
        self.engine = lathe.load(file, threads=threads)
        self.inputs, self.outputs = ([t.name for t in tensors] for tensors in (self.engine.inputs, self.engine.outputs))

    def execute(self, requests):
        given = [{n: triton.get_input_tensor_by_name(r, n).as_numpy() for n in self.inputs} for r in requests]
        try:
            results = self.engine(**{n: np.concatenate([g[n] for g in given]) for n in self.inputs})
        except lathe.Error as error:
            return [triton.InferenceResponse([], triton.TritonError(str(error))) for _ in requests]
        if not isinstance(results, dict):
            results = {self.outputs[0]: results}
        ends = np.cumsum([len(g[self.inputs[0]]) for g in given])
        parts = {n: np.split(a, ends[:-1]) for n, a in results.items()}
        return [triton.InferenceResponse([triton.Tensor(n, parts[n][i]) for n in self.outputs]) for i in range(len(requests))]
