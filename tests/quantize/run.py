#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quantised models: those of `lathe quantize` are valid, right in ONNX Runtime and in our engines, and those that ONNX Runtime's own
quantiser writes run here with the results that they mean.

ONNX Runtime without optimisations is the judge: it computes Q, DQ and the float operators between them as ONNX says. Results may differ
where a sum lies between two steps of a grid; one step then goes on through later layers.

usage: run.py --build build
"""
import argparse, json, pathlib, re, struct, sys, tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("cli", "common")]
import against  # noqa: E402
import autocast  # noqa: E402
import bisect_nodes  # noqa: E402
import budget  # noqa: E402
import fp8  # noqa: E402
import gates  # noqa: E402
import grid_limits  # noqa: E402
import why  # noqa: E402
import judge as reference  # noqa: E402
from harness import Tests  # noqa: E402
from judge import relative_l2 as error  # noqa: E402

QUICK = ["--iterations=1", "--warmUp=0", "--duration=0"]


def network(path):
    """A stem, a residual block with a depthwise convolution, joined branches, pools and a classifier."""
    random = np.random.default_rng(3)
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def conv(name, x, channels, to, kernel, groups=1, relu=True, **attributes):
        w = random.standard_normal((to, channels // groups, kernel, kernel)) * np.sqrt(2 / (channels // groups * kernel * kernel))
        w *= np.exp(random.standard_normal((to, 1, 1, 1)) / 2)  # channels of different sizes
        pad = kernel // 2
        nodes.append(helper.make_node("Conv", [x, constant(name + ".w", w), constant(name + ".b", random.standard_normal(to) / 4)], [name],
                                      name, kernel_shape=[kernel] * 2, pads=[pad] * 4, group=groups, **attributes))
        if relu:
            nodes.append(helper.make_node("Relu", [name], [name + ".relu"], name + "/relu"))
        return name + (".relu" if relu else "")

    x = conv("stem", "input", 3, 16, 3, strides=[2, 2])
    nodes.append(helper.make_node("MaxPool", [x], ["pool"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
    y = conv("expand", "pool", 16, 32, 1)
    y = conv("depthwise", y, 32, 32, 3, groups=32)
    y = conv("project", y, 32, 16, 1, relu=False)
    nodes.append(helper.make_node("Add", [y, "pool"], ["sum"], "sum"))
    nodes.append(helper.make_node("Relu", ["sum"], ["sum.relu"], "sum/relu"))
    a, b = conv("left", "sum.relu", 16, 12, 3), conv("right", "sum.relu", 16, 20, 1)
    nodes.append(helper.make_node("Concat", [a, b], ["joined"], "join", axis=1))
    y = conv("grouped", "joined", 32, 24, 3, groups=4)
    nodes.append(helper.make_node("GlobalAveragePool", [y], ["mean"], "mean"))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat"], "flatten"))
    nodes.append(helper.make_node("Gemm", ["flat", constant("fc.w", random.standard_normal((10, 24)) / 4),
                                           constant("fc.b", random.standard_normal(10))], ["output"], "fc", transB=1))
    graph = helper.make_graph(nodes, "small", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, 32, 32])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 10])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def products(path):
    """Products with weights of all forms: MatMul, Gemm with and without transB, weights that two nodes share, and one that is computed."""
    random = np.random.default_rng(5)
    weights = {"a.w": (96, 200), "b.w": (64, 200), "c.w": (64, 96), "head.w": (96, 40)}
    constants = [numpy_helper.from_array((random.standard_normal(s) / np.sqrt(s[0])).astype(np.float32), n) for n, s in weights.items()]
    constants += [numpy_helper.from_array(random.standard_normal(n).astype(np.float32), f"bias{n}") for n in (64, 96)]
    nodes = [helper.make_node("MatMul", ["input", "a.w"], ["a"], "a"), helper.make_node("Relu", ["a"], ["a.relu"], "relu"),
             helper.make_node("Gemm", ["a.relu", "b.w", "bias64"], ["b"], "b", transB=1),
             helper.make_node("Gemm", ["b", "c.w", "bias96"], ["c"], "c"),
             helper.make_node("Identity", ["head.w"], ["head.same"], "same"),  # as exporters write weights that are equal
             helper.make_node("MatMul", ["c", "head.same"], ["d"], "head1"), helper.make_node("MatMul", ["input", "head.w"], ["e"], "head2"),
             helper.make_node("Transpose", ["e"], ["e.t"], "transpose"), helper.make_node("MatMul", ["d", "e.t"], ["output"], "computed")]
    graph = helper.make_graph(nodes, "products", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", 96])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", "rows"])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class ModelTests(Tests):
    def lathe(self, *words):
        return self.run(*map(str, words), program="lathe")

    def engine(self, model, x, *flags):
        """Our result, and the log."""
        x.tofile(self.folder / "x.bin")
        done = self.run(f"--onnx={model}", "--loadInputs=input:x.bin", "--exportOutput=y.json", "--verbose",
                        f"--shapes=input:{'x'.join(map(str, x.shape))}", "--builderOptimizationLevel=1", *QUICK, *flags)
        log = "\n".join(done.out + done.err)
        if done.code != 0:
            return None, log[-4000:]
        return np.array(json.loads((self.folder / "y.json").read_text())[0]["values"]).reshape(x.shape[0], -1), log


def judge(path, x):
    return reference.run(path, {"input": x})[0]


def half(path):
    """A pool of float16."""
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT16, [1, 2, e, e]) for n, e in (("input", 8), ("output", 4))]
    node = helper.make_node("MaxPool", ["input"], ["output"], "pool", kernel_shape=[2, 2], strides=[2, 2])
    onnx.save(helper.make_model(helper.make_graph([node], "half", info[:1], info[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def images(count, seed):
    random = np.random.default_rng(seed)
    return [random.standard_normal((1, 3, 32, 32)).astype(np.float32) for _ in range(count)]


def same_as_judge(t, name, x, wanted_in_log):
    """Our engine of the model against the judge."""
    ours, log = t.engine(name, x)
    if ours is None:
        return t.check(False, f"{name}: no engine:\n{log}")
    t.check(error(ours, judge(t.folder / name, x)) < 2e-2, f"{name}: relative error {error(ours, judge(t.folder / name, x)):.2e} against ONNX Runtime")
    integers = re.search(r"Quantization: (\d+) of", log)
    t.check(not integers or integers[1] == "0" or "Whole engines: products in integers" in log, f"{name}: the engine with products in floats is not timed")
    t.check(wanted_in_log in log, f"{name}: the log has no '{wanted_in_log}':\n" + "\n".join(l for l in log.splitlines() if "uantiz" in l)[-3000:])


def our_quantiser(t, x):
    expected = judge(t.folder / "small.onnx", x)
    for method in ("max", "percentile", "entropy", "mse"):
        for kind in ("uint8", "int8"):
            name = f"{method}_{kind}.onnx"
            done = t.lathe("quantize", "small.onnx", "--calib", "samples", f"--method={method}", f"--activations={kind}", "-o", name)
            t.check(done.code == 0, f"quantize {name}: {done.text()}")
            if done.code != 0:
                continue
            model = onnx.load(t.folder / name)
            onnx.checker.check_model(model, full_check=True)
            counts = {op: sum(n.op_type == op for n in model.graph.node) for op in ("QuantizeLinear", "DequantizeLinear", "Conv")}
            t.check(counts["Conv"] == 7 and counts["QuantizeLinear"] >= 11, f"{name} has {counts}")
            zeros = [numpy_helper.to_array(i) for i in model.graph.initializer if i.name.endswith("_zero_point")]
            t.check(kind == "uint8" or all((z == 0).all() for z in zeros), f"{name}: a zero point of int8 is not 0")
            t.check(not any(i.name == "grouped.w" for i in model.graph.initializer), f"{name}: float weights are still there")
            loss = error(judge(t.folder / name, x), expected)
            t.check(loss < (0.2 if method == "entropy" else 0.1), f"{name}: quantisation costs {loss:.3f}")
            if method == "max":
                same_as_judge(t, name, x, "of 8 convolutions and products with quantised inputs compute in integers")
    done = t.lathe("quantize", "small.onnx", "--calib", "random", "--exclude=left,f*", "--op-types=Conv,Gemm", "-o", "some.onnx", "--json")
    t.check("the samples are random numbers" in done.log(), f"no warning of random samples: {done.text()}")
    result = json.loads("\n".join(done.out) or "{}")
    t.check(result.get("quantized_weights") == 6, f"--exclude: {done.text()}")
    model = onnx.load(t.folder / "some.onnx")
    t.check(any(i.name == "left.w" for i in model.graph.initializer), "--exclude: the weights of an excluded node are gone")


def their_quantiser(t, x):
    class Reader(CalibrationDataReader):
        def __init__(self):
            self.samples = iter([{"input": s} for s in images(4, 1)])

        def get_next(self):
            return next(self.samples, None)

    types = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}
    for activations, weights, per_channel in (("u8", "s8", True), ("u8", "s8", False), ("s8", "s8", True), ("u8", "u8", False)):
        for kind in (QuantFormat.QDQ, QuantFormat.QOperator):
            name = f"ort_{kind.name}_{activations}{weights}_{'channels' if per_channel else 'tensor'}.onnx"
            # Weights of 7 bits: ONNX Runtime's own kernels saturate on CPUs without VNNI otherwise.
            quantize_static(t.folder / "small.onnx", t.folder / name, Reader(), quant_format=kind, per_channel=per_channel, reduce_range=True,
                            activation_type=types[activations], weight_type=types[weights])
            same_as_judge(t, name, x, "compute in integers")


def weight_only(t):
    products(t.folder / "products.onnx")
    for rows in (1, 5):
        x = np.random.default_rng(rows).standard_normal((rows, 96)).astype(np.float32)
        expected = judge(t.folder / "products.onnx", x)
        for kind, block, most in (("int4", 16, 0.4), ("int4", 32, 0.4), ("int8", 32, 0.02)):
            name = f"products.{kind}.{block}.onnx"
            done = t.lathe("quantize", "products.onnx", "--weight-only", kind, f"--block={block}", "--force", "-o", name)
            t.check(done.code == 0 and "stays float: 1 MatMul: its weights are computed" in done.log(), f"{name}: {done.text()}")
            if done.code != 0:
                continue
            model = onnx.load(t.folder / name)
            onnx.checker.check_model(model)
            t.check(sum(n.op_type == "MatMulNBits" for n in model.graph.node) == 5, f"{name}: {[n.op_type for n in model.graph.node]}")
            t.check(not {i.name for i in model.graph.initializer} & {"a.w", "b.w", "c.w", "head.w"}, f"{name}: float weights are left")
            theirs = judge(t.folder / name, x)
            t.check(error(theirs, expected) < most, f"{name}: quantisation costs {error(theirs, expected):.3f}")
            ours, log = t.engine(name, x, "--saveEngine=weights.engine")
            t.check(ours is not None and error(ours, theirs) < 1e-5, f"{name}, {rows} rows: our results are others: {log[-1500:] if ours is None else error(ours, theirs)}")
            if rows == 1:
                t.check(f"weight_only_{kind}_blocks{block}_half_scales_avx" in log, f"{name}: no product reads packed weights:\n{log[-3000:]}")
            again = t.run("--loadEngine=weights.engine", "--loadInputs=input:x.bin", "--exportOutput=z.json", f"--shapes=input:{rows}x96", *QUICK)
            t.check(again.code == 0 and (t.folder / "z.json").read_text() == (t.folder / "y.json").read_text(),
                    f"{name}: a loaded engine has other results: {again.text()}")


def weights_of_16_bits(t):
    """A model that is stored in FP16: its products become MatMulNBits of FP16."""
    weights = np.random.default_rng(23).standard_normal((96, 40)).astype(np.float16)
    nodes = [helper.make_node("Cast", ["input"], ["half"], "narrow", to=TensorProto.FLOAT16), helper.make_node("MatMul", ["half", "a.w"], ["a"], "a"),
             helper.make_node("Cast", ["a"], ["output"], "widen", to=TensorProto.FLOAT)]
    graph = helper.make_graph(nodes, "halves", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", 96])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", 40])], [numpy_helper.from_array(weights, "a.w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), t.folder / "halves.onnx")
    x = np.random.default_rng(24).standard_normal((3, 96)).astype(np.float32)
    for kind, most in (("int4", 0.2), ("int8", 0.02)):
        done = t.lathe("quantize", "halves.onnx", "--weight-only", kind, "-o", f"halves.{kind}.onnx")
        if not t.check(done.code == 0, f"halves, {kind}: {done.text()}"):
            continue
        model = onnx.load(t.folder / f"halves.{kind}.onnx")
        scale = [i for i in model.graph.initializer if i.name == next(n for n in model.graph.node if n.op_type == "MatMulNBits").input[2]]
        t.check(len(scale) == 1 and scale[0].data_type == TensorProto.FLOAT16, f"halves, {kind}: scales of another type than the weights")
        theirs = judge(t.folder / f"halves.{kind}.onnx", x)
        t.check(error(theirs, x @ weights.astype(np.float32)) < most, f"halves, {kind}: quantisation costs {error(theirs, x @ weights.astype(np.float32)):.3f}")
        ours, log = t.engine(f"halves.{kind}.onnx", x)
        t.check(ours is not None and error(ours, theirs) < 2e-3, f"halves, {kind}: our results are others: {log[-1500:] if ours is None else error(ours, theirs)}")


def compensation(t):
    """Inputs that go together: weights whose errors later ones take up."""
    random = np.random.default_rng(19)
    mixing = random.standard_normal((12, 96)).astype(np.float32)
    weights = {"a.w": (random.standard_normal((96, 64)) / 10).astype(np.float32), "b.w": (random.standard_normal((48, 96)) / 10).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["input", "a.w"], ["a"], "a"), helper.make_node("Gemm", ["input", "b.w"], ["b"], "b", transB=1),
             helper.make_node("Concat", ["a", "b"], ["output"], "join", axis=1)]
    graph = helper.make_graph(nodes, "mixed", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", 96])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", 112])], [numpy_helper.from_array(w, n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), t.folder / "mixed_inputs.onnx")
    (t.folder / "mixed").mkdir()
    rows = lambda: (random.standard_normal((64, 12)) @ mixing + random.standard_normal((64, 96)) / 10).astype(np.float32)
    for i in range(4):
        np.save(t.folder / "mixed" / f"{i}.npy", rows())
    unseen = rows()
    expected = judge(t.folder / "mixed_inputs.onnx", unseen)
    losses = {}
    for name, flags in (("alone", []), ("together", ["--calib", "mixed"])):
        done = t.lathe("quantize", "mixed_inputs.onnx", "--weight-only=int4", *flags, "-o", name + ".onnx")
        if not t.check(done.code == 0, f"--weight-only {flags}", done):
            return
        losses[name] = error(judge(t.folder / (name + ".onnx"), unseen), expected)
    t.check(losses["together"] < 0.5 * losses["alone"], f"error compensation: {losses}")
    t.check("by 4 samples" in done.log(), "the number of samples", done)


def smoothing(t):
    """Channels that are 60 times larger than others: two products, one with transposed weights, read them."""
    random = np.random.default_rng(11)
    weights = [(random.standard_normal(s) / 8).astype(np.float32) for s in ((64, 48), (32, 64))]
    nodes = [helper.make_node("MatMul", ["input", "a.w"], ["a"], "a"), helper.make_node("Gemm", ["input", "b.w", "b.b"], ["b"], "b", transB=1),
             helper.make_node("MatMul", ["a", "c.w"], ["c"], "c"), helper.make_node("Concat", ["c", "b"], ["output"], "join", axis=1)]
    constants = [numpy_helper.from_array(w, n) for w, n in zip([*weights, (random.standard_normal((48, 32)) / 8).astype(np.float32),
                                                                random.standard_normal(32).astype(np.float32)], ("a.w", "b.w", "c.w", "b.b"))]
    graph = helper.make_graph(nodes, "outliers", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", 64])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", 64])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), t.folder / "outliers.onnx")
    (t.folder / "outliers").mkdir()
    channels = np.where(np.arange(64) % 16 == 3, 60, 1)
    samples = [(random.standard_normal((8, 64)) * channels).astype(np.float32) for _ in range(6)]
    for i, sample in enumerate(samples[1:]):
        np.save(t.folder / "outliers" / f"{i}.npy", sample)
    small = samples[0] * (channels == 1)  # what the outliers leave of the others
    losses = {}
    for name, flags in (("plain", []), ("smooth", ["--smooth=0.5"])):
        done = t.lathe("quantize", "outliers.onnx", "--calib", "outliers", *flags, "-o", name + ".onnx")
        t.check(done.code == 0, f"--smooth: {done.text()}")
        if done.code != 0:
            return
        onnx.checker.check_model(onnx.load(t.folder / (name + ".onnx")), full_check=True)
        losses[name] = error(judge(t.folder / (name + ".onnx"), small), judge(t.folder / "outliers.onnx", small))
    t.check(losses["smooth"] < losses["plain"] / 2, f"--smooth: {losses}")
    same_as_judge(t, "smooth.onnx", samples[0], "compute in integers")


def bias_correction(t, x):
    """The mean of each score over many images comes back to where it was."""
    many = np.concatenate(images(64, 21))
    (t.folder / "many").mkdir()
    for i in range(0, 64, 8):
        np.save(t.folder / "many" / f"{i}.npy", many[i:i + 8])
    expected = judge(t.folder / "small.onnx", many).mean(axis=0)
    shifts = {}
    for name, flags in (("uncorrected", []), ("corrected", ["--correct-bias"])):
        done = t.lathe("quantize", "small.onnx", "--calib", "many", *flags, "-o", name + ".onnx")
        t.check(done.code == 0, f"--correct-bias: {done.text()}")
        if done.code != 0:
            return
        shifts[name] = float(np.linalg.norm(judge(t.folder / (name + ".onnx"), many).mean(axis=0) - expected))
    t.check(shifts["corrected"] < 0.8 * shifts["uncorrected"], f"--correct-bias: shifts of the mean {shifts}")


def blocks_of_others(t):
    """INT4 weights as DequantizeLinear has them since opset 21: blocks along k, with zero points, and a block of zeros whose scale is 0."""
    random = np.random.default_rng(8)
    q, zero = random.integers(0, 16, (64, 48)), random.integers(4, 12, (2, 48))
    scale = (random.random((2, 48)) / 8).astype(np.float32)
    scale[1, 5] = 0
    constants = [helper.make_tensor("q", TensorProto.UINT4, [64, 48], q.flatten().tolist()),
                 helper.make_tensor("zero", TensorProto.UINT4, [2, 48], zero.flatten().tolist()), numpy_helper.from_array(scale, "scale")]
    nodes = [helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["w"], "dq", axis=0, block_size=32),
             helper.make_node("MatMul", ["input", "w"], ["output"], "product")]
    graph = helper.make_graph(nodes, "blocks", [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 64])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 48])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), t.folder / "blocks.onnx")
    x = random.standard_normal((1, 64)).astype(np.float32)
    expected = x @ ((q - np.repeat(zero, 32, 0)) * np.repeat(scale, 32, 0)).astype(np.float32)
    x.tofile(t.folder / "x.bin")
    done = t.run("--onnx=blocks.onnx", "--loadInputs=input:x.bin", "--exportOutput=y.json", "--verbose", *QUICK)
    t.check(done.code == 0, f"blocks of four bits: {done.text()}")
    if done.code == 0:
        ours = np.array(json.loads((t.folder / "y.json").read_text())[0]["values"]).reshape(1, -1)
        t.check(error(ours, expected) < 1e-5, f"blocks of four bits: relative error {error(ours, expected):.2e}")
        t.check("weight_only_int4_blocks32_zeros_avx" in done.log(), "blocks of four bits: no product reads packed weights")


def bad_scales(t):
    for value, text in ((0, "is 0; a scale is a positive number"), (np.nan, "is NaN; a scale is a positive number")):
        constants = [numpy_helper.from_array(np.array(value, np.float32), "scale"), numpy_helper.from_array(np.array(3, np.uint8), "zero")]
        nodes = [helper.make_node("QuantizeLinear", ["input", "scale", "zero"], ["q"], "round"),
                 helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["output"], "back")]
        info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("input", "output")]
        onnx.save(helper.make_model(helper.make_graph(nodes, "bad", info[:1], info[1:], constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
                  t.folder / "bad_scale.onnx")
        done = t.run("--onnx=bad_scale.onnx", *QUICK)
        log = done.log()
        t.check(done.code == 1 and text in log and "round" in log, f"a scale of {value}: exit {done.code}, {log[-1500:]}")


def pictures(t):
    """A folder of pictures has the ranges of the arrays that its preprocessing makes of them."""
    random = np.random.default_rng(41)
    for folder in ("pictures", "pictures_arrays"):
        (t.folder / folder).mkdir()
    for i in range(3):
        pixels = random.integers(0, 256, (32, 32, 3), np.uint8)
        write_bmp(t.folder / "pictures" / f"{i}.bmp", pixels)
        array = ((pixels / np.float32(255) - np.float32([0.5, 0.4, 0.3])) / np.float32([0.2, 0.3, 0.4])).astype(np.float32)[..., ::-1]
        np.save(t.folder / "pictures_arrays" / f"{i}.npy", array.transpose(2, 0, 1))
    caches = []
    for name, flags in (("pictures", ["--preprocess=resize=stretch,mean=0.3/0.4/0.5,std=0.4/0.3/0.2,order=bgr"]), ("pictures_arrays", [])):
        done = t.lathe("quantize", "small.onnx", "--calib", name, *flags, "--activations=int8", f"--save-cache={name}.cache", "-o", f"{name}.onnx")
        if t.check(done.code == 0, name, done):
            lines = (t.folder / f"{name}.cache").read_text().splitlines()[1:]
            caches.append({key: struct.unpack("!f", bytes.fromhex(value))[0] for key, value in (line.split(": ") for line in lines)})
    t.check(len(caches) == 2 and all(abs(caches[0][k] / caches[1][k] - 1) < 1e-4 for k in caches[1]), f"ranges of pictures: {caches}")
    done = t.lathe("autocast", "small.onnx", "--to=fp16", "--calib", "pictures", "--preprocess=imagenet", "--json", "-o", "pictures16.onnx")
    t.check(done.code == 0 and '"samples": 2' in done.log(), "pictures in autocast", done)
    (t.folder / "pictures" / "broken.png").write_bytes(b"\x89PNG\r\n")


def write_bmp(path, pixels):
    """24 bits a pixel, from the bottom up, blue first; rows of 32 pixels need no padding."""
    height, width, _ = pixels.shape
    head = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 54 + pixels.size, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    path.write_bytes(head + pixels[::-1, :, ::-1].tobytes())


def calibration_caches(t, x):
    """What `lathe quantize` writes, it reads, and trtexec builds the same engine from it."""
    done = t.lathe("quantize", "small.onnx", "--calib", "samples", "--activations=int8", "--save-cache=small.cache", "-o", "samples.onnx")
    lines = (t.folder / "small.cache").read_text().splitlines() if done.code == 0 else []
    t.check(len(lines) > 10 and lines[0] == "TRT-8601-MinMaxCalibration" and any(l.startswith("input: ") for l in lines), f"cache: {lines}{done.text()}")
    done = t.lathe("quantize", "small.onnx", "--calib", "small.cache", "-o", "cache.onnx")
    t.check(done.code == 0, f"from a cache: {done.text()}")
    if done.code == 0:
        t.check((t.folder / "cache.onnx").read_bytes() == (t.folder / "samples.onnx").read_bytes(), "a model from a cache is another one than from the samples")
    ours, log = t.engine("small.onnx", x, "--int8", "--calib=small.cache")
    t.check(ours is not None and error(ours, judge(t.folder / "samples.onnx", x)) < 2e-2, f"--int8 --calib: {log[-2000:] if ours is None else 'other results'}")
    t.check("tensors and 8 weights quantised, 0 nodes stay float" in log, f"--int8 --calib: {log[:3000]}")
    (t.folder / "some.cache").write_text("\n".join(l for l in lines if not l.startswith("pool:")))
    ours, log = t.engine("small.onnx", x, "--int8", "--calib=some.cache")
    t.check("(Conv) stays float: an input has no scale in the calibration cache: 'pool'" in log, f"a tensor that the cache has not: {log[:3000]}")
    for text, flags in (("--calib is read with --int8", ["--calib=small.cache"]), ("no calibration cache of TensorRT", ["--int8", "--calib=x.bin"]),
                        ("nowhere.cache", ["--int8", "--calib=nowhere.cache"])):
        ours, log = t.engine("small.onnx", x, *flags)
        t.check(ours is None and text in log, f"{flags}: {log}")


def bad_input(t):
    def refused(text, *words):
        done = t.lathe("quantize", *words, "-o", "bad.onnx")
        t.check(done.code == 1 and text in done.log(), f"{' '.join(words)}: exit {done.code}, {done.text()}")
        t.check(not (t.folder / "bad.onnx").exists(), f"{' '.join(words)}: a file was left behind")

    small = "small.onnx"
    empty = t.folder / "empty"
    empty.mkdir()
    refused("no .npy or .npz file and no picture (.png, .jpg, .bmp) in this folder", small, "--calib", "empty")
    refused("no such folder or file", small, "--calib", "nowhere")
    refused("the model is quantised already", "max_uint8.onnx", "--calib", "samples")
    refused("--calib names the samples", small)
    refused("use max, percentile, entropy or mse", small, "--calib", "samples", "--method=median")
    refused("operators of type 'Softmax' are not quantised", small, "--calib", "samples", "--op-types=Softmax")
    refused("nothing of the model can be quantised", small, "--calib", "samples", "--exclude=*")
    refused("--samples must be at least 1", small, "--calib", "samples", "--samples=-3")
    refused("--weight-only is int4 or int8, not 'int3'", small, "--weight-only", "int3")
    refused("--shapes: the model has no input 'wrong'", small, "--calib", "random", "--shapes=wrong:1x3x32x32")
    refused("--shapes: input 'input' would have no elements", small, "--calib", "random", "--shapes=input:0x3x32x32")
    refused("--preprocess is for pictures, and there is none", small, "--calib", "samples", "--preprocess=unit")
    refused("is no step that prepares pictures", small, "--calib", "pictures", "--preprocess=imagenet,sharpen=2")
    refused("'pictures/broken.png' is no picture that can be read", small, "--calib", "pictures/broken.png")
    refused("--shapes is for --calib=random and pictures", small, "--calib", "samples", "--shapes=input:1x3x32x32")
    refused("--smooth is a strength from 0 to 1", small, "--calib", "samples", "--smooth=2")
    refused("--block is a power of two from 16 to 1024", small, "--weight-only", "int4", "--block=24")
    refused("--method is for activations", small, "--weight-only", "int4", "--calib", "samples", "--method=mse")
    refused("--samples is for samples, and there is no --calib", small, "--weight-only", "int4", "--samples=2")
    refused("operators of type 'Conv' are not quantised", small, "--weight-only", "int4", "--op-types=Conv")
    refused("the model is quantised already", "products.int4.32.onnx", "--weight-only", "int4")
    refused("pool (MaxPool): an input is no float32 value", "half.onnx", "--calib", "random", "--op-types=MaxPool")
    done = t.lathe("quantize", small, "--calib", "random", "-o", "no/such/folder.onnx")
    t.check(done.code == 1 and "there is no folder no/such" in done.log(), done.text())
    for name, array, text in (("shape", np.zeros((1, 3, 16, 16), np.float32), "input 'input' is [batch, 3, 32, 32], the array 1x3x16x16"),
                              ("type", np.zeros((1, 3, 32, 32), np.float64), "input 'input' is float32, the array float64"),
                              ("nan", np.full((1, 3, 32, 32), np.nan, np.float32), "has an element that is not a finite number")):
        folder = t.folder / name
        folder.mkdir()
        np.save(folder / "a.npy", array)
        refused(text, small, "--calib", name)
    refused("has an element that is not a finite number", small, "--weight-only", "int4", "--calib", "nan")
    (t.folder / "there.onnx").write_text("mine")
    done = t.lathe("quantize", small, "--calib", "random", "-o", "there.onnx")
    t.check(done.code == 1 and "--force overwrites it" in done.log() and (t.folder / "there.onnx").read_text() == "mine", done.text())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        t = ModelTests(arguments.build, folder)
        network(t.folder / "small.onnx")
        (t.folder / "samples").mkdir()
        for i, image in enumerate(images(4, 1)):
            np.save(t.folder / "samples" / f"{i}.npy", image[0] if i % 2 else image)
        x = np.concatenate(images(2, 9))
        our_quantiser(t, x)
        their_quantiser(t, x)
        fp8.run(t, judge, error, x)
        weight_only(t)
        weights_of_16_bits(t)
        blocks_of_others(t)
        compensation(t)
        smoothing(t)
        bias_correction(t, x)
        bad_scales(t)
        calibration_caches(t, x)
        pictures(t)
        half(t.folder / "half.onnx")
        bad_input(t)
        autocast.run(t)
        bisect_nodes.run(t)
        against.run(t)
        grid_limits.run(t)
        gates.run(t, judge, error)
        why.run(t)
        budget.run(t, images(8, 31))
    return t.finish("quantised models")


if __name__ == "__main__":
    sys.exit(main())
