# SPDX-License-Identifier: Apache-2.0
"""Models of `lathe autocast`: valid, near the float32 model in ONNX Runtime, and float32 where values want it."""
import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import judge
from judge import relative_l2


def save(path, nodes, inputs, outputs, constants, opset=17, ir=8):
    """`inputs`, `outputs`: shapes by name."""
    info = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in each.items()] for each in (inputs, outputs)]
    graph = helper.make_graph(nodes, "model", *info, [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir), path)


def convert(t, model, *flags):
    """The result as JSON and the model; None when it failed."""
    done = t.lathe("autocast", model, "--json", "--force", "-o", "mixed.onnx", *flags)
    if not t.check(done.code == 0, f"autocast {model}", done):
        return None, None
    mixed = onnx.load(t.folder / "mixed.onnx")
    onnx.checker.check_model(mixed, full_check=True)
    return json.loads("\n".join(done.out)), mixed


def count(model, op_type):
    return sum(n.op_type == op_type for n in model.graph.node)


def left(result):
    return {entry["node"]: entry for entry in result["left"]}


def whole_network(t, x):
    expected = judge.run(t.folder / "small.onnx", {"input": x})[0]
    for kind, opset in (("fp16", 17), ("bf16", 22)):
        result, mixed = convert(t, "small.onnx", "--to", kind, "--calib", "samples")
        if result is None:
            continue
        t.check(result["narrow_nodes"] == result["nodes"] and not result["left"], f"{kind}: {result}")
        t.check(count(mixed, "Cast") == result["casts"] == 2, f"{kind}: {count(mixed, 'Cast')} Casts")
        t.check(result["held_back"] and result["passed"] and result["samples"] == 3, f"{kind}: {result}")
        t.check(mixed.opset_import[0].version == opset and (opset < 22 or mixed.ir_version == 10), f"{kind}: opset {mixed.opset_import}")
        types = {i.data_type for i in mixed.graph.initializer}
        t.check(types == {TensorProto.FLOAT16 if kind == "fp16" else TensorProto.BFLOAT16}, f"{kind}: constants of types {types}")
        t.check(result["constant_bytes"] * 2 == result["constant_bytes_before"], f"{kind}: {result}")
        ours, log = t.engine("mixed.onnx", x)
        t.check(ours is not None and 0 < relative_l2(ours, expected) < (2e-3 if kind == "fp16" else 2e-2), f"{kind}: our engine: {log[-2000:] if ours is None else ours}")
        if kind == "fp16":  # ONNX Runtime has no bfloat16 convolutions on CPUs
            loss = relative_l2(judge.run(t.folder / "mixed.onnx", {"input": x})[0], expected)
            t.check(0 < loss < 2e-3, f"fp16: {loss:.2e} in ONNX Runtime")
    result, mixed = convert(t, "small.onnx", "--to", "fp16", "--calib", "samples", "--convert-io")
    if result is not None:
        kinds = [v.type.tensor_type.elem_type for v in (mixed.graph.input[0], mixed.graph.output[0])]
        t.check(kinds == [TensorProto.FLOAT16] * 2 and count(mixed, "Cast") == 0, f"--convert-io: {kinds}")
        theirs = judge.run(t.folder / "mixed.onnx", {"input": x.astype(np.float16)})[0]
        t.check(theirs.dtype == np.float16 and relative_l2(theirs, expected) < 2e-3, "--convert-io: other results")
    result, mixed = convert(t, "small.onnx", "--to", "fp16", "--exclude=left*", "--exclude-types=Gemm,MaxPool", "--max-reduction=100")
    if result is not None:
        reasons = {node: entry["reason"] for node, entry in left(result).items()}
        t.check(reasons.get("left") == reasons.get("fc") == reasons.get("pool") == "it is excluded", f"--exclude: {reasons}")
        t.check(reasons.get("grouped") is None and reasons.get("right") is None, f"--max-reduction: {reasons}")  # 72 and 16
    result, mixed = convert(t, "small.onnx", "--to", "fp16", "--max-reduction=70")
    if result is not None:
        t.check(left(result)["grouped"]["reason"] == "it sums more than 70" and left(result)["grouped"]["detail"] == "'grouped' sums 72", f"--max-reduction: {left(result)}")


def values(t):
    """Values beyond the range, below it, differences of what is nearly equal; a constant that both kinds of nodes read."""
    random = np.random.default_rng(1)
    weights = {n: (random.standard_normal((32, 32)) / 6).astype(np.float32) for n in ("a.w", "b.w", "c.w")}
    constants = weights | {"large": np.float32(3e5), "small": np.float32(1 / 3e5), "epsilon": np.float32(1e-12), "offset": np.float32(1e3), "ones": np.ones(32, np.float32)}
    node = helper.make_node
    nodes = [node("MatMul", ["input", "a.w"], ["a"], "a"), node("Add", ["a", "ones"], ["a.1"], "narrow_sum"),
             node("Mul", ["a.1", "large"], ["big"], "grow"), node("Add", ["big", "ones"], ["big.1"], "wide_sum"), node("Mul", ["big.1", "small"], ["shrunk"], "shrink"),
             node("MatMul", ["shrunk", "b.w"], ["b"], "b"), node("Relu", ["b"], ["b.relu"], "relu"), node("Add", ["b.relu", "epsilon"], ["b.eps"], "epsilon_sum"),
             node("MatMul", ["b.eps", "c.w"], ["c"], "c"),
             node("Add", ["c", "offset"], ["far"], "far"), node("Sub", ["far", "offset"], ["near"], "difference"), node("MatMul", ["near", "a.w"], ["output"], "last")]
    save(t.folder / "values.onnx", nodes, {"input": ["rows", 32]}, {"output": ["rows", 32]}, constants)
    result, mixed = convert(t, "values.onnx", "--to", "fp16", "--shapes=input:16x32")
    if result is None:
        return
    stays = left(result)
    t.check("values are too large" in stays["grow"]["reason"] and "wide_sum" in stays and "shrink" in stays, f"range: {stays}")
    t.check("values are too small" in stays["epsilon_sum"]["reason"] and "'epsilon' loses 1 of itself" in stays["epsilon_sum"]["detail"], f"constants: {stays}")
    t.check(stays["difference"]["reason"] == "rounding costs too much" and "'far' rounded to float16 changes 'difference'" in stays["difference"]["detail"], f"difference: {stays}")
    t.check(not {"a", "b", "c", "last", "narrow_sum"} & set(stays), f"too much stays: {sorted(stays)}")
    kinds = {i.name: i.data_type for i in mixed.graph.initializer}
    t.check(kinds["ones"] == TensorProto.FLOAT and kinds["ones_float16"] == TensorProto.FLOAT16, f"a constant of both: {kinds}")
    t.check("a.w_float16" not in kinds and kinds["a.w"] == TensorProto.FLOAT16, f"a constant of narrow nodes: {kinds}")
    x = random.standard_normal((5, 32)).astype(np.float32)
    loss = relative_l2(judge.run(t.folder / "mixed.onnx", {"input": x})[0], judge.run(t.folder / "values.onnx", {"input": x})[0])
    t.check(0 < loss < 5e-3, f"values: {loss:.2e} in ONNX Runtime")
    producers = {o: n for n in mixed.graph.node for o in n.output}
    chains = [n.name for n in mixed.graph.node if n.op_type == "Cast" and producers.get(n.input[0]) is not None and producers[n.input[0]].op_type == "Cast"]
    t.check(not chains, f"Casts of Casts: {chains}")
    result, _ = convert(t, "values.onnx", "--to", "bf16", "--shapes=input:16x32")
    t.check(result is not None and "grow" not in left(result) and "difference" in left(result), "bfloat16 has the range, and not the digits")
    result, _ = convert(t, "values.onnx", "--to", "fp16", "--shapes=input:16x32", "--max-magnitude=500")
    t.check(result is not None and left(result)["far"]["detail"].endswith("and 500 is allowed"), "--max-magnitude")


def bodies_and_opsets(t):
    node = helper.make_node
    # A body that reads a tensor of the graph around it, a shape computed from floats, and forms that opset 18 changed.
    then = helper.make_graph([node("Add", ["a", "a"], ["then.out"], "double")], "then", [], [helper.make_tensor_value_info("then.out", TensorProto.FLOAT, None)])
    other = helper.make_graph([node("Neg", ["a"], ["else.out"], "negate")], "else", [], [helper.make_tensor_value_info("else.out", TensorProto.FLOAT, None)])
    random = np.random.default_rng(2)
    constants = {"w": random.standard_normal((4, 3, 3, 3)).astype(np.float32), "w2": random.standard_normal((8, 4)).astype(np.float32), "zero": np.float32(0),
                 "half": np.float32(0.5), "limits": np.array([0, 1], np.int64), "four": np.array([4], np.int64)}
    nodes = [node("Conv", ["input", "w"], ["conv"], "conv", pads=[1] * 4), node("ReduceMean", ["conv"], ["a"], "mean", axes=[2, 3], keepdims=0),
             node("ReduceSum", ["a"], ["total"], "total", keepdims=0), node("Greater", ["total", "zero"], ["positive"], "positive"),
             node("If", ["positive"], ["chosen"], "choose", then_branch=then, else_branch=other),
             node("Split", ["conv"], ["s0", "s1"], "split", axis=1), node("ReduceMax", ["s0"], ["m0"], "max", axes=[1, 2, 3], keepdims=0),
             node("Shape", ["s1"], ["shape"], "shape"), node("Gather", ["shape", "limits"], ["rows"], "gather"), node("Cast", ["rows"], ["rows.f"], "floats", to=1),
             node("Mul", ["rows.f", "half"], ["rows.h"], "halve"), node("Cast", ["rows.h"], ["rows.i"], "integers", to=7),
             node("Concat", ["rows.i", "four", "four"], ["sizes"], "sizes", axis=0), node("Resize", ["s1", "", "", "sizes"], ["resized"], "resize"),
             node("ReduceMean", ["resized"], ["m1"], "mean1", axes=[1, 2, 3], keepdims=0)]
    save(t.folder / "bodies.onnx", nodes, {"input": [2, 3, 8, 8]}, {"chosen": [2, 4], "m0": [2], "m1": [1]}, constants, opset=13)
    x = random.standard_normal((2, 3, 8, 8)).astype(np.float32)
    expected = judge.run(t.folder / "bodies.onnx", {"input": x})
    for kind, opset in (("fp16", 13), ("bf16", 22)):
        result, mixed = convert(t, "bodies.onnx", "--to", kind)
        if result is None:
            continue
        t.check(mixed.opset_import[0].version == opset, f"bodies, {kind}: {mixed.opset_import}")
        t.check(left(result).get("choose", {}).get("reason") == "the operator keeps its types" and "halve" in left(result), f"bodies: {left(result)}")
        if kind == "fp16":
            losses = [relative_l2(g, w) for g, w in zip(judge.run(t.folder / "mixed.onnx", {"input": x}), expected)]
            t.check(max(losses) < 5e-3, f"bodies: {losses} in ONNX Runtime")
    nodes = [node("Conv", ["input", "w"], ["conv"], "conv", pads=[1] * 4), node("GridSample", ["conv", "grid"], ["n"], "sample", mode="bilinear"),
             node("Transpose", ["n"], ["nhwc"], "nhwc", perm=[0, 2, 3, 1]), node("MatMul", ["nhwc", "p"], ["output"], "product")]
    more = {"grid": random.random((1, 5, 5, 2)).astype(np.float32), "p": random.standard_normal((4, 4)).astype(np.float32)}
    save(t.folder / "grid.onnx", nodes, {"input": [1, 3, 8, 8]}, {"output": [1, 5, 5, 4]}, {"w": constants["w"]} | more, opset=17)
    result, mixed = convert(t, "grid.onnx", "--to", "bf16")
    t.check(result is not None and result["opset"] == 17 and left(result)["conv"]["detail"] == "the model stays at 17: GridSample changed after opset 17"
            and "product" not in left(result), f"an opset that cannot be raised: {result}")


def folded_operands(t):
    """The type of what is computed when the model is read stands nowhere: what it is joined with stays as wide."""
    node = helper.make_node
    random = np.random.default_rng(3)
    constants = {"w": random.standard_normal((8, 8)).astype(np.float32), "three": np.array([3, 8], np.int64), "first": np.array([0], np.int64)}
    nodes = [node("MatMul", ["input", "w"], ["a"], "product"), node("ConstantOfShape", ["three"], ["filled"], "fill", value=numpy_helper.from_array(np.float32([0.5]))),
             node("Concat", ["a", "filled"], ["joined"], "join", axis=0), node("MatMul", ["joined", "w"], ["b"], "second"), node("Gather", ["b", "first"], ["output"], "pick", axis=1)]
    save(t.folder / "folded.onnx", nodes, {"input": [2, 8]}, {"output": [5, 1]}, constants)
    result, mixed = convert(t, "folded.onnx", "--to", "fp16")
    if result is None:
        return
    t.check(left(result)["join"]["reason"] == "an operand is computed when the model is read" and not {"product", "second", "pick"} & set(left(result)), f"folded operands: {left(result)}")
    x = random.standard_normal((2, 8)).astype(np.float32)
    loss = relative_l2(judge.run(t.folder / "mixed.onnx", {"input": x})[0], judge.run(t.folder / "folded.onnx", {"input": x})[0])
    t.check(0 < loss < 5e-3, f"folded operands: {loss:.2e} in ONNX Runtime")


def bad_input(t):
    def refused(text, *words):
        done = t.lathe("autocast", *words, "-o", "bad.onnx")
        t.check(done.code == 1 and text in done.log(), f"no error '{text}'", done)
        t.check(not (t.folder / "bad.onnx").exists(), f"{' '.join(words)}: a file was left behind")

    small = "small.onnx"
    refused("--to is fp16 or bf16", small)
    refused("--to is fp16 or bf16, not 'int8'", small, "--to", "int8")
    refused("the model is quantised already", "max_uint8.onnx", "--to", "fp16")
    refused("no such folder or file", small, "--to", "fp16", "--calib", "nowhere")
    refused("has an element that is not a finite number", small, "--to", "fp16", "--calib", "nan")
    refused("no node of the model becomes narrower", small, "--to", "fp16", "--exclude=*")
    refused("--max-magnitude is a positive number", small, "--to", "fp16", "--max-magnitude=-1")
    save(t.folder / "old.onnx", [helper.make_node("Relu", ["input"], ["output"], "relu")], {"input": [2]}, {"output": [2]}, {}, opset=12)
    refused("the model has opset 12; 13 or later is needed", "old.onnx", "--to", "fp16")
    done = t.lathe("autocast", small, "--to", "fp16", "-o", "there.onnx")
    t.check(done.code == 1 and "--force overwrites it" in done.log(), "a file that is there", done)
    done = t.lathe("autocast", "values.onnx", "--to", "fp16", "--shapes=input:16x32", "--force", "-o", "mixed.onnx")
    t.check("the samples are random numbers" in done.log() and "values are too large for float16" in done.log() and "relative L2" in done.log(), "the table", done)


def run(t):
    """After run.py's own checks, which make small.onnx, the samples and max_uint8.onnx."""
    whole_network(t, np.load(t.folder / "samples" / "0.npy"))
    values(t)
    bodies_and_opsets(t)
    folded_operands(t)
    bad_input(t)
