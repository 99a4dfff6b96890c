#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cases of operators outside of ONNX's own domain, in the form of ONNX's node tests: CASES/<domain>/<case>/model.onnx and
test_data_set_0/{input,output}_N.pb.

Shapes and values are random with a fixed seed. The expected results are ONNX Runtime's; where it has no kernel for the CPU, a few
lines of NumPy say what the operator's schema says. The cases themselves are in domains/<name>.py: each has a function cases(add).

usage: domain_cases.py CASES
"""
import importlib.util, pathlib, shutil, sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
from judge import run as reference  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
OPSETS = {"": 20, "com.microsoft": 1, "ai.onnx.ml": 3, "trt.plugins": 1}


def onnx_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def make_model(nodes, inputs, outputs, constants=(), output_type=None, opsets=None):
    """`inputs` and `constants`: arrays by name; `outputs`: names."""
    graph = helper.make_graph(
        nodes, "case",
        [helper.make_tensor_value_info(n, onnx_type(a), a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(n, output_type, None) if output_type else helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in dict(constants).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in (OPSETS | (opsets or {})).items()], ir_version=10)


class Writer:
    make_model, reference, helper = staticmethod(make_model), staticmethod(reference), helper

    def __init__(self, target, domain, family):
        self.target, self.domain, self.family, self.count, self.random = target, domain, family, 0, np.random.default_rng(1)

    def floats(self, *shape, scale=1.0):
        return (scale * self.random.standard_normal(shape)).astype(np.float32)

    def one_node(self, op, inputs, outputs=1, frozen=(), output_type=None, domain_opset=None, **attributes):
        """A model and its inputs. `inputs`: arrays, None where an optional one is absent; `outputs`: how many, or a list of flags;
        `frozen`: numbers of inputs that are constants; `domain_opset`: of the domain."""
        names = [f"x{i}" if x is not None else "" for i, x in enumerate(inputs)]
        flags = [True] * outputs if isinstance(outputs, int) else outputs
        results = [f"y{i}" if flag else "" for i, flag in enumerate(flags)]
        node = helper.make_node(op, names, results, name=op.lower(), domain=self.domain, **attributes)
        arrays = {n: np.asarray(x) for n, x in zip(names, inputs) if n}
        constants = {f"x{i}": arrays.pop(f"x{i}") for i in frozen}
        return make_model([node], arrays, [r for r in results if r], constants, output_type, {self.domain: domain_opset} if domain_opset else None), arrays

    def results(self, op, inputs, outputs=1, **attributes):
        """What ONNX Runtime gives for another form of a case."""
        return reference(*self.one_node(op, inputs, outputs, **attributes))

    def __call__(self, name, op, inputs, outputs=1, expected=None, frozen=(), output_type=None, domain_opset=None, **attributes):
        """One node; `expected`: results where ONNX Runtime has no kernel."""
        model, arrays = self.one_node(op, inputs, outputs, frozen, output_type, domain_opset, **attributes)
        self.model(f"{op.lower()}_{name}", model, arrays, expected)

    def model(self, name, model, inputs, expected=None):
        if expected is None:
            try:
                expected = reference(model, inputs)
            except Exception as error:
                raise SystemExit(f"ONNX Runtime on case {name}: {error}")
        folder = self.target / f"{self.family}-{name}"
        place = folder / "test_data_set_0"
        place.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        for kind, values in (("input", inputs.values()), ("output", expected)):
            for i, value in enumerate(values):
                (place / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(value)).SerializeToString())
        self.count += 1


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(cases):
    for path in sorted((HERE / "domains").glob("*.py")):
        module = load(path)
        target = cases / module.DOMAIN
        stamp = cases / f"{module.DOMAIN}-{path.stem}.done"
        state = f"{onnx.__version__} {ort.__version__} {path.read_text()} {pathlib.Path(__file__).read_text()}"
        if stamp.exists() and stamp.read_text() == state:
            continue
        for old in target.glob(f"{path.stem}-*"):
            shutil.rmtree(old)
        ort.set_default_logger_severity(4)
        writer = Writer(target, module.DOMAIN, path.stem)
        module.cases(writer)
        stamp.write_text(state)
        print(f"{path.stem} of {module.DOMAIN}: {writer.count} cases")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
