# SPDX-License-Identifier: Apache-2.0
"""FP8: models that `lathe quantize` and others write are models of ONNX, run as the judge runs them, and say why nothing multiplies FP8 on this device."""
import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FP8 = TensorProto.FLOAT8E4M3FN
QUICK = ["--skipInference", "--builderOptimizationLevel=1"]


def small_float(name, values, shape=()):
    return helper.make_tensor(name, FP8, shape, values)


def reductions(path):
    """Of opset 13: the axes of ReduceMean, and what Split gives, are said otherwise in opset 19."""
    random = np.random.default_rng(3)
    constants = [numpy_helper.from_array(random.standard_normal(s).astype(np.float32) / 4, n) for n, s in (("w", (16, 24)), ("v", (12, 8)))]
    nodes = [helper.make_node("MatMul", ["input", "w"], ["a"], "a"), helper.make_node("Split", ["a"], ["b", "c"], "split", axis=2),
             helper.make_node("Add", ["b", "c"], ["d"], "sum"), helper.make_node("MatMul", ["d", "v"], ["e"], "e"),
             helper.make_node("ReduceMean", ["e"], ["output"], "mean", axes=[1], keepdims=0)]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("input", [2, 5, 16]), ("output", [2, 8]))]
    onnx.save(helper.make_model(helper.make_graph(nodes, "reductions", info[:1], info[1:], constants), opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


def of_others(path, opset):
    """As ModelOpt writes a model: float weights with both nodes behind them, or weights that are FP8 already; with a zero point, or (opset 21) the type alone."""
    random = np.random.default_rng(4)
    w, v = (random.standard_normal(s).astype(np.float32) / 4 for s in ((32, 24), (24, 8)))
    scale = np.abs(w).max(axis=0) / 448
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(scale.astype(np.float32), "w.scale"), numpy_helper.from_array(np.float32(0.01), "x.scale"),
                 numpy_helper.from_array(np.float32(0.02), "a.scale"), numpy_helper.from_array(np.float32(np.abs(v).max() / 448), "v.scale"),
                 small_float("zero", [0]), small_float("w.zero", [0] * 24, [24]), small_float("v", (v / (np.abs(v).max() / 448)).ravel(), [24, 8])]
    behind = ["zero"] if opset < 21 else []
    typed = {} if opset < 21 else {"output_dtype": FP8}
    nodes = [helper.make_node("QuantizeLinear", ["w", "w.scale", "w.zero"], ["w.q"], "w.q", axis=1),
             helper.make_node("DequantizeLinear", ["w.q", "w.scale", "w.zero"], ["w.dq"], "w.dq", axis=1),
             helper.make_node("QuantizeLinear", ["input", "x.scale", *behind], ["x.q"], "x.q", **typed),
             helper.make_node("DequantizeLinear", ["x.q", "x.scale", *behind], ["x.dq"], "x.dq"),
             helper.make_node("MatMul", ["x.dq", "w.dq"], ["a"], "a"), helper.make_node("Relu", ["a"], ["b"], "relu"),
             helper.make_node("QuantizeLinear", ["b", "a.scale", *behind], ["b.q"], "b.q", **typed),
             helper.make_node("DequantizeLinear", ["b.q", "a.scale", *behind], ["b.dq"], "b.dq"),
             helper.make_node("DequantizeLinear", ["v", "v.scale"], ["v.dq"], "v.dq"),
             helper.make_node("MatMul", ["b.dq", "v.dq"], ["output"], "c")]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", e]) for n, e in (("input", 32), ("output", 8))]
    onnx.save(helper.make_model(helper.make_graph(nodes, "others", info[:1], info[1:], constants), opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)


def agrees(t, judge, error, name, x):
    ours, log = t.engine(name, x, "--fp8")
    if not t.check(ours is not None, f"{name}: no engine:\n{log}"):
        return
    loss = error(ours, judge(t.folder / name, x))
    t.check(loss < 2e-2, f"{name}: relative error {loss:.2e} against ONNX Runtime")
    t.check("convolutions and products with quantised inputs compute in FP8" in log, f"{name}: the log does not speak of FP8:\n" + "\n".join(l for l in log.splitlines() if "uantiz" in l))
    t.check("computes in floats although its input is quantised: no FP8 kernel of this device" in log, f"{name}: no reason in the log")


def quantiser(t, judge, error, x):
    done = t.lathe("quantize", "small.onnx", "--calib", "samples", "--activations=fp8", "--correct-bias", "-o", "fp8.onnx")
    t.check(done.code == 0, f"quantize to fp8: {done.text()}")
    model = onnx.load(t.folder / "fp8.onnx")
    onnx.checker.check_model(model, full_check=True)
    t.check(model.opset_import[0].version == 19 and model.ir_version >= 9, f"opset {model.opset_import[0].version}, IR {model.ir_version}")
    stored = [i for i in model.graph.initializer if i.name.endswith("_quantized")]
    t.check(len(stored) == 8 and all(i.data_type == FP8 for i in stored), f"weights are {[(i.name, i.data_type) for i in stored]}")
    zeros = [i for i in model.graph.initializer if i.name.endswith("_zero_point")]
    t.check(zeros and all(i.data_type == FP8 and set(i.raw_data) <= {0} for i in zeros), "zero points are not 0 of FP8")
    quantized = {o: n.op_type for n in model.graph.node for o in n.output}
    biases = [n.input[2] for n in model.graph.node if n.op_type in ("Conv", "Gemm") and len(n.input) > 2]
    t.check(biases and not any(b in quantized for b in biases), f"biases are quantised: {biases}")
    loss = error(judge(t.folder / "fp8.onnx", x), judge(t.folder / "small.onnx", x))
    t.check(loss < 0.1, f"FP8 costs {loss:.3f}")
    agrees(t, judge, error, "fp8.onnx", x)


def limits(t):
    """A layer's limit follows from the grid: an engine of the model is within it, one with a scale that is off is not."""
    model = onnx.load(t.folder / "fp8.onnx")
    scale = next(i for i in model.graph.initializer if i.name == "pool_scale")
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(1 + 1 / 16), scale.name))
    onnx.save(model, t.folder / "fp8_wrong.onnx")
    for name, bad in (("fp8", False), ("fp8_wrong", True)):
        built = t.run(f"--onnx={name}.onnx", f"--saveEngine={name}.engine", "--shapes=input:2x3x32x32", *QUICK)
        t.check(built.code == 0, name, built)
        done = t.lathe("diff", "fp8.onnx", f"{name}.engine", "--json", "--shapes=input:2x3x32x32")
        found = json.loads("\n".join(done.out)) if t.check(done.code in (0, 1), f"diff {name}", done) else {"layers": []}
        told = [(l["layer"], l["local"] and l["local"]["relative_l2"], l["limit"]) for l in found["layers"]]
        t.check(len(told) > 8 and any(l["bad"] for l in found["layers"]) == bad, f"{name}: {told}")
    done = t.lathe("why", "fp8.engine", "--json")
    t.check(done.code == 0 and "no FP8 tactic is in the record" in done.text(), f"why: {done.text()[-3000:]}")


def refusals(t):
    for flags, text in ((["--method=mse"], "--method=mse weighs steps of one size"), (["--save-cache=x.cache"], "--save-cache writes scales of int8")):
        done = t.lathe("quantize", "small.onnx", "--calib", "samples", "--activations=fp8", *flags, "-o", "refused.onnx")
        t.check(done.code == 1 and text in done.log() and not (t.folder / "refused.onnx").exists(), f"'{text}': {done.text()}")
    done = t.run("--onnx=small.onnx", "--fp8", *QUICK)
    t.check(done.code == 1 and "--fp8 needs a model with QuantizeLinear and DequantizeLinear to FP8" in done.text(), done.text()[-2000:])
    done = t.run("--onnx=max_int8.onnx", "--fp8", *QUICK)
    t.check(done.code == 1 and "--fp8 needs a model" in done.text(), done.text()[-2000:])


def run(t, judge, error, x):
    """After run.py's own checks of the quantiser, which write small.onnx and max_int8.onnx."""
    quantiser(t, judge, error, x)
    reductions(t.folder / "reductions.onnx")
    done = t.lathe("quantize", "reductions.onnx", "--calib", "random", "--activations=fp8", "-o", "reductions.fp8.onnx")
    t.check(done.code == 0, f"opset 13: {done.text()}")
    model = onnx.load(t.folder / "reductions.fp8.onnx")
    onnx.checker.check_model(model, full_check=True)
    rows = np.random.default_rng(6).standard_normal((2, 5, 16)).astype(np.float32)
    loss = error(judge(t.folder / "reductions.fp8.onnx", rows), judge(t.folder / "reductions.onnx", rows))
    t.check(loss < 0.2, f"raised from opset 13: {loss:.3f}")
    for opset in (19, 21):
        of_others(t.folder / f"others{opset}.onnx", opset)
        agrees(t, judge, error, f"others{opset}.onnx", np.random.default_rng(opset).standard_normal((6, 32)).astype(np.float32))
    limits(t)
    refusals(t)
