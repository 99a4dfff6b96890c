# SPDX-License-Identifier: Apache-2.0
"""The code blocks of docs/serving.md, and what examples/serve hands to KServe and Triton. Run by slow.py in its environment."""
import importlib.util
import argparse
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

import numpy as np
import yaml

import lathe
from lathe._serve import add_arguments, options_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cli"), str(ROOT / "tests/python")]
import tiny_model  # noqa: E402
from blocks import blocks  # noqa: E402

SHAPES = {"input": ((1, 3, 32, 32), (8, 3, 32, 32), (8, 3, 32, 32))}


class TritonError(Exception):
    pass


def triton_backend():
    """What Triton's process has as triton_python_backend_utils, as far as the example uses it."""
    class Tensor:
        def __init__(self, name, array):
            self.name, self.array = name, array

        def as_numpy(self):
            return self.array

    class InferenceResponse:
        def __init__(self, tensors, error=None):
            self.tensors, self.error = {t.name: t.array for t in tensors}, error
    module = types.ModuleType("triton_python_backend_utils")
    module.Tensor, module.InferenceResponse, module.TritonError = Tensor, InferenceResponse, TritonError
    module.get_input_tensor_by_name = lambda request, name: request[name]
    return module


class Documents(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        tiny_model.write(self.folder / "model.onnx", size=32)

    def test_blocks(self):
        page = self.folder / "serving_md.py"
        page.write_text(blocks(ROOT / "docs/serving.md", "python"))
        subprocess.run([sys.executable, page], cwd=self.folder, check=True, timeout=120)

    def test_the_ray_block_names_what_is_there(self):
        compile(blocks(ROOT / "docs/serving.md", "py"), "serving.md", "exec")

    def test_the_inference_service_starts_what_there_is(self):
        service = yaml.safe_load((ROOT / "examples/serve/kserve.yaml").read_text())
        container, = service["spec"]["predictor"]["containers"]
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        arguments = parser.parse_args(container["args"])
        self.assertEqual((options_of(arguments).policy.max_batch, arguments.host), (8, "0.0.0.0"))
        self.assertEqual(container["ports"][0]["containerPort"], arguments.http_port)
        self.assertGreater(service["spec"]["predictor"]["terminationGracePeriodSeconds"],
                           arguments.grace_seconds + int(container["lifecycle"]["preStop"]["exec"]["command"][1]))

    def test_the_inference_service_is_one_of_kserve(self):
        import kserve

        service = yaml.safe_load((ROOT / "examples/serve/kserve.yaml").read_text())
        predictor = set(kserve.V1beta1PredictorSpec.attribute_map.values())
        self.assertEqual(set(service["spec"]["predictor"]) - predictor, set())

    def test_the_folder_of_triton(self):
        engine = lathe.compile(str(self.folder / "model.onnx"), SHAPES, level=0, progress=False)
        (self.folder / "1").mkdir()
        engine.save(str(self.folder / "1/model.engine"))
        sys.modules["triton_python_backend_utils"] = triton = triton_backend()
        source = importlib.util.spec_from_file_location("model", ROOT / "examples/serve/triton/lathe/1/model.py")
        module = importlib.util.module_from_spec(source)
        source.loader.exec_module(module)
        model = module.TritonPythonModel()
        model.initialize({"model_config": '{"parameters": {"threads": {"string_value": "1"}}}', "model_repository": str(self.folder), "model_version": "1"})
        pictures = [np.random.default_rng(i).standard_normal((1 + i, 3, 32, 32), np.float32) for i in range(3)]
        for picture, answer in zip(pictures, model.execute([{"input": triton.Tensor("input", p)} for p in pictures])):
            np.testing.assert_allclose(answer.tensors["output"], engine(picture), rtol=1e-5, atol=1e-6)
        failed, = model.execute([{"input": triton.Tensor("input", np.zeros((9, 3, 32, 32), np.float32))}])
        self.assertRegex(str(failed.error), "9")


if __name__ == "__main__":
    unittest.main()
