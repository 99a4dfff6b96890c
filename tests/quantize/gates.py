# SPDX-License-Identifier: Apache-2.0
"""Squeeze-and-excitation between convolutions: the pool and the product with the gate read one quantised tensor. Quantised by ONNX Runtime, too,
which rounds what activations read: such layers are functions of bytes."""
import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

QUICK = ["--iterations=1", "--warmUp=0", "--duration=0", "--builderOptimizationLevel=0"]  # untimed: integers wherever they can be


def network(path):
    random = np.random.default_rng(11)
    nodes, constants = [], []

    def conv(name, x, channels, to, kernel, groups=1):
        w = random.standard_normal((to, channels // groups, kernel, kernel)) * np.sqrt(2 / (channels // groups * kernel * kernel))
        constants.append(numpy_helper.from_array(w.astype(np.float32), name + ".w"))
        constants.append(numpy_helper.from_array((random.standard_normal(to) / 4).astype(np.float32), name + ".b"))
        nodes.append(helper.make_node("Conv", [x, name + ".w", name + ".b"], [name], name, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, group=groups))
        return name

    def silu(x):
        nodes.append(helper.make_node("Sigmoid", [x], [x + ".s"], x + "/sigmoid"))
        nodes.append(helper.make_node("Mul", [x, x + ".s"], [x + ".silu"], x + "/mul"))
        return x + ".silu"

    y = silu(conv("expand", "input", 3, 32, 3))
    y = silu(conv("depthwise", y, 32, 32, 3, 32))
    nodes.append(helper.make_node("GlobalAveragePool", [y], ["mean"], "mean"))
    squeezed = silu(conv("squeeze", "mean", 32, 8, 1))
    nodes.append(helper.make_node("Sigmoid", [conv("excite", squeezed, 8, 32, 1)], ["gate"], "gate"))
    nodes.append(helper.make_node("Mul", [y, "gate"], ["gated"], "gated"))
    conv("project", "gated", 32, 12, 1)
    nodes.append(helper.make_node("GlobalAveragePool", ["project"], ["pooled"], "pooled"))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["output"], "flatten"))
    info = [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, 20, 20]), helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 12])]
    graph = helper.make_graph(nodes, "gates", info[:1], info[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Samples(CalibrationDataReader):
    def __init__(self, samples):
        self.rest = iter([{"input": x} for x in samples])

    def get_next(self):
        return next(self.rest, None)


def result(t, model, x, *flags):
    x.tofile(t.folder / "x.bin")
    done = t.run(f"--onnx={model}", "--loadInputs=input:x.bin", "--exportOutput=y.json", f"--saveEngine={model}.engine", *QUICK, *flags)
    t.check(done.code == 0, f"{model} runs", done)
    return np.array(json.loads((t.folder / "y.json").read_text())[0]["values"]).reshape(1, -1)


def run(t, judge, error):
    random = np.random.default_rng(12)
    samples = [random.standard_normal((1, 3, 20, 20)).astype(np.float32) for _ in range(5)]
    network(t.folder / "gates.onnx")
    (t.folder / "gate_samples").mkdir()
    for i, sample in enumerate(samples[1:]):
        np.save(t.folder / "gate_samples" / f"{i}.npy", sample)
    expected = judge(t.folder / "gates.onnx", samples[0])

    done = t.lathe("quantize", "gates.onnx", "--calib", "gate_samples", "-o", "ours.onnx")
    t.check(done.code == 0, "quantize gates.onnx", done)
    made = {output: node for node in onnx.load(t.folder / "ours.onnx").graph.node for output in node.output}
    by_name = {node.name: node for node in made.values()}
    t.check(made[by_name["gated"].input[0]].op_type == "DequantizeLinear", "the product with the gate reads a quantised tensor")
    t.check(by_name["gated"].input[0] == by_name["mean"].input[0], "the product and the pool read the same")
    t.check(by_name["gated"].input[1] == "gate" and by_name["gate"].input[0] == "excite", "gates stay float")
    for conv in ("expand", "depthwise", "squeeze"):
        read = by_name[conv + "/sigmoid"].input[0]
        t.check(made[read].op_type == "DequantizeLinear" and by_name[conv + "/mul"].input[0] == read, f"x * sigmoid(x) behind {conv} reads bytes")
    done = t.lathe("quantize", "gates.onnx", "--calib", "gate_samples", "--exclude=gated", "-o", "excluded.onnx")
    plain = {node.name: node for node in onnx.load(t.folder / "excluded.onnx").graph.node}
    t.check(done.code == 0 and plain["gated"].input[0] == "depthwise.silu", "a product that is excluded stays float", done)

    done = t.lathe("quantize", "gates.onnx", "--calib", "gate_samples", "--op-types=Conv,GlobalAveragePool", "-o", "no_functions.onnx")
    plain = {node.name: node for node in onnx.load(t.folder / "no_functions.onnx").graph.node}
    t.check(done.code == 0 and plain["depthwise/sigmoid"].input[0] == "depthwise", "functions are types of operators, too", done)

    quantize_static(t.folder / "gates.onnx", t.folder / "theirs.onnx", Samples(samples[1:]), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    for model in ("ours.onnx", "theirs.onnx"):
        ours = result(t, model, samples[0])
        t.check(error(ours, judge(t.folder / model, samples[0])) < 2e-2, f"{model}: relative error {error(ours, judge(t.folder / model, samples[0])):.2e} against ONNX Runtime")
        t.check(error(ours, expected) < 5e-2, f"{model}: relative error {error(ours, expected):.2e} against the float model")
    layers = t.lathe("inspect", "ours.onnx.engine")
    t.check(layers.text().count("int8_") >= 5 and "float32:channels_last  int8_depthwise" not in layers.text(), "bytes between layers", layers)
    shown = t.lathe("inspect", "theirs.onnx.engine")
    t.check("byte_function" in shown.text(), "activations between roundings are functions of bytes", shown)
