# SPDX-License-Identifier: Apache-2.0
"""`lathe diff` of layers whose results lie on a grid: one element may fall to the other side of a step, and a grid that is wrong is found.
And of layers whose sizes only the run finds."""
import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

QUICK = ["--skipInference", "--builderOptimizationLevel=1"]


def rounding_twice(path, scale):
    """Two roundings with arithmetic between them: one layer, whose result has no name in the model where a copy follows it."""
    constants = [numpy_helper.from_array(np.array(v, t), n) for n, v, t in (("s", 0.0137, np.float32), ("s2", scale, np.float32), ("z", 128, np.uint8), ("f", 0.3, np.float32))]
    nodes = [helper.make_node("QuantizeLinear", ["input", "s", "z"], ["q"], "q"), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "dq"),
             helper.make_node("Mul", ["d", "f"], ["m"], "mul"), helper.make_node("QuantizeLinear", ["m", "s2", "z"], ["q2"], "q2"),
             helper.make_node("DequantizeLinear", ["q2", "s2", "z"], ["output"], "dq2")]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 16, 16]) for n in ("input", "output")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "twice", info[:1], info[1:], constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def rounding_behind_a_view(path, factor, gathers):
    """A rounding that the engine does in front of the Flatten before it, or of the Gathers of all there is, on what a convolution with weights times `factor` gave."""
    random = np.random.default_rng(5)
    arrays = {"w": factor * random.normal(size=(32, 8, 1, 1)), "s": np.array(0.004), "w2": random.normal(size=(32, 4))}
    constants = [numpy_helper.from_array(np.float32(a), n) for n, a in arrays.items()] + [numpy_helper.from_array(np.array(128, np.uint8), "z"), numpy_helper.from_array(np.array(0), "first")]
    view = [helper.make_node("Gather", ["p", "first"], ["p1"], "last", axis=3), helper.make_node("Gather", ["p1", "first"], ["f"], "next", axis=2)] if gathers else [
        helper.make_node("Flatten", ["p"], ["f"], "flatten")]
    nodes = [helper.make_node("Conv", ["input", "w"], ["c"], "conv"), helper.make_node("GlobalAveragePool", ["c"], ["p"], "pool"),
             *view, helper.make_node("QuantizeLinear", ["f", "s", "z"], ["q"], "q"),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "dq"), helper.make_node("MatMul", ["d", "w2"], ["output"], "product")]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("input", [1, 8, 6, 6]), ("output", [1, 4]))]
    onnx.save(helper.make_model(helper.make_graph(nodes, "view", info[:1], info[1:], constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def sizes_of_the_run(path):
    """Where x is positive, as columns: how many there are is in the shapes of all layers behind."""
    nodes = [helper.make_node("NonZero", ["x"], ["where"], "where"), helper.make_node("Transpose", ["where"], ["rows"], "turn", perm=[1, 0]),
             helper.make_node("Squeeze", ["rows", "one"], ["flat"], "squeeze"), helper.make_node("Gather", ["x", "flat"], ["picked"], "pick"),
             helper.make_node("Mul", ["picked", "picked"], ["y"], "square")]
    info = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64]), helper.make_tensor_value_info("y", TensorProto.FLOAT, ["found"])]
    graph = helper.make_graph([helper.make_node("Relu", ["in"], ["x"], "relu"), *nodes], "sizes", [helper.make_tensor_value_info("in", TensorProto.FLOAT, [64])],
                              info[1:], [numpy_helper.from_array(np.array([1], np.int64), "one")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def diff(t, model, engine, *flags):
    done = t.lathe("diff", model, engine, "--json", *flags)
    return json.loads("\n".join(done.out)) if t.check(done.code in (0, 1), f"diff {model} {engine}", done) else {"layers": []}


def run(t):
    """After run.py's own checks, which quantise small.onnx."""
    rounding_twice(t.folder / "twice.onnx", 0.0041)
    built = t.run("--onnx=twice.onnx", "--saveEngine=twice.engine", *QUICK)
    t.check(built.code == 0, "twice", built)
    # The grid of the result has the step 0.0041; its elements are 0.3 times normal numbers, less what the first grid cuts off.
    found = diff(t, "twice.onnx", "twice.engine")
    rounds = [l for l in found["layers"] if "q2" in l["onnx_nodes"]]
    one_step = 0.0041 / np.sqrt(1024) / 0.3  # of one element, relative to all
    t.check(found.get("passed") and rounds and all(one_step / 2 < l["limit"] < 0.05 for l in rounds), f"the limit of a layer on a grid, {one_step:.1e} is one step: {found}")

    for gathers in (False, True):
        rounding_behind_a_view(t.folder / "view.onnx", 1, gathers)
        rounding_behind_a_view(t.folder / "other_view.onnx", 1.1, gathers)
        built = t.run("--onnx=other_view.onnx", "--saveEngine=view.engine", *QUICK)
        t.check(built.code == 0, "view", built)
        found = diff(t, "view.onnx", "view.engine")
        rounds = [l for l in found["layers"] if "q" in l["onnx_nodes"]]
        t.check(rounds and not any(l["bad"] for l in rounds) and any(l["bad"] for l in found["layers"]), f"a rounding is judged by what its layer reads: {found}")

    sizes_of_the_run(t.folder / "sizes.onnx")
    built = t.run("--onnx=sizes.onnx", "--saveEngine=sizes.engine", *QUICK)
    t.check(built.code == 0, "sizes", built)
    found = diff(t, "sizes.onnx", "sizes.engine")
    compared = {n for l in found["layers"] for n in l["onnx_nodes"]}
    t.check(found.get("passed") and {"turn", "squeeze", "pick", "square"} <= compared, f"sizes that a run finds: {found}")

    # Values have names in the model here. A batch of two is split among threads, and its integers are read in parts.
    model = onnx.load(t.folder / "max_uint8.onnx")
    scale = next(i for i in model.graph.initializer if i.name == "pool_scale")
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(1 + 1 / 32), scale.name))
    onnx.save(model, t.folder / "wrong_grid.onnx")
    for name, bad in (("max_uint8", False), ("wrong_grid", True)):
        built = t.run(f"--onnx={name}.onnx", f"--saveEngine={name}.engine", "--shapes=input:2x3x32x32", *QUICK)
        t.check(built.code == 0, name, built)
        found = diff(t, "max_uint8.onnx", f"{name}.engine", "--shapes=input:2x3x32x32")
        t.check(len(found["layers"]) > 8 and any(l["bad"] for l in found["layers"]) == bad, f"{name}: {[(l['layer'], l['local'] and l['local']['relative_l2'], l['limit']) for l in found['layers']]}")
