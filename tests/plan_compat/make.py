#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Engine files of one commit, for later ones to load: small networks, their inputs, and what ONNX Runtime says of them.

usage: make.py --build BUILD_OF_THAT_COMMIT --out tests/plan_compat/COMMIT
Writes NAME.engine and NAME.npz (inputs and outputs by name) for each network. FP32 for CPUs with AVX2, so that most
machines load it, and BF16 for those with AVX512-BF16: where it is made, the machine has it; where it is loaded, it may not.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
from judge import run  # noqa: E402


class Network:
    def __init__(self, inputs, output):
        self.inputs, self.output, self.nodes, self.weights = inputs, output, [], {}
        self.random = np.random.default_rng(11)

    def weight(self, name, *dims):
        self.weights[name] = self.random.normal(0, np.prod(dims[1:]) ** -0.5 if len(dims) > 1 else 0.1, dims).astype(np.float32)
        return name

    def add(self, kind, *inputs, to, **attributes):
        self.nodes.append(helper.make_node(kind, list(inputs), [to], name=to, **attributes))
        return to

    def model(self):
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(self.output, TensorProto.FLOAT, None)]
        initializers = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, initializers)
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def convolutions():
    """A first convolution, a depthwise block with a residual, a pool and a product; any batch."""
    net = Network({"image": ["batch", 3, 32, 32]}, "scores")
    add = net.add
    x = add(
        "Relu",
        add("Conv", "image", net.weight("w0", 16, 3, 3, 3), net.weight("b0", 16), to="first", strides=[2, 2], pads=[1, 1, 1, 1]),
        to="relu",
    )
    y = add("Conv", x, net.weight("w1", 64, 16, 1, 1), net.weight("b1", 64), to="expand")
    y = add("Clip", y, "low", "high", to="clip")
    net.weights |= {"low": np.array(0, np.float32), "high": np.array(6, np.float32)}
    y = add("Conv", y, net.weight("w2", 64, 1, 3, 3), net.weight("b2", 64), to="depthwise", group=64, pads=[1, 1, 1, 1])
    y = add("Conv", y, net.weight("w3", 16, 64, 1, 1), net.weight("b3", 16), to="project")
    y = add("GlobalAveragePool", add("Add", x, y, to="sum"), to="pool")
    add("Gemm", add("Flatten", y, to="flat"), net.weight("w4", 10, 16), net.weight("b4", 10), to="scores", transB=1)
    return net.model(), {"image": net.random.normal(size=(2, 3, 32, 32)).astype(np.float32)}


def attention():
    """A transformer's block of two heads; any batch and length."""
    net = Network({"x": ["batch", "length", 32]}, "y")
    add = net.add
    net.weights |= {"heads": np.array([0, 0, 2, 16]), "merged": np.array([0, 0, 32]), "scale": np.array(0.25, np.float32)}
    norm = add("LayerNormalization", "x", net.weight("gamma", 32), net.weight("beta", 32), to="norm", axis=-1)
    parts = {}
    for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        rows = add("Reshape", add("MatMul", norm, net.weight("w" + part, 32, 32), to=part), "heads", to=part + "_heads")
        parts[part] = add("Transpose", rows, to=part + "_turned", perm=order)
    scores = add("Mul", add("MatMul", parts["q"], parts["k"], to="scores"), "scale", to="scaled")
    mixed = add("MatMul", add("Softmax", scores, to="shares", axis=-1), parts["v"], to="mixed")
    rows = add("Reshape", add("Transpose", mixed, to="turned", perm=[0, 2, 1, 3]), "merged", to="rows")
    add("Add", "x", add("MatMul", rows, net.weight("wo", 32, 32), to="out"), to="y")
    return net.model(), {"x": net.random.normal(size=(2, 12, 32)).astype(np.float32)}


NETWORKS = {"convolutions": (convolutions, [1, 2, 4]), "attention": (attention, [1, 2, 4])}


def shape_flags(feeds, batches):
    at = lambda batch: ",".join(f"{name}:{'x'.join(map(str, (batch, *array.shape[1:])))}" for name, array in feeds.items())
    return [f"--{kind}Shapes={at(batch)}" for kind, batch in zip(("min", "opt", "max"), batches)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, (make, batches) in NETWORKS.items():
        model, feeds = make()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"{name}.onnx"
            onnx.save(model, path)
            for kind, flags in (("f32", ["--cpuIsa=avx2"]), ("bf16", ["--cpuIsa=avx512_bf16", "--bf16"])):
                subprocess.run(
                    [
                        arguments.build / "bin" / "trtexec",
                        f"--onnx={path}",
                        f"--saveEngine={arguments.out / f'{name}.{kind}.engine'}",
                        "--skipInference",
                        "--cpuThreads=2",
                        *shape_flags(feeds, batches),
                        *flags,
                    ],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
        outputs = dict(zip((o.name for o in model.graph.output), run(model, feeds)))
        np.savez_compressed(arguments.out / f"{name}.npz", **feeds, **{"output." + key: array for key, array in outputs.items()})


if __name__ == "__main__":
    main()
