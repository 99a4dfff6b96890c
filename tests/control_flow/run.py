#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan through the command line, against ONNX Runtime: built, saved, loaded and run at several shapes and conditions.

usage: run.py --build build [--device 0]
--device: on a GPU, where the warning that a layer with bodies runs on the reference is a failure, too.
"""
import argparse
import json
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from harness import Tests, quiet_environment  # noqa: E402
from models import BOOL, FLOAT, FLOAT16, INT64, KINDS, body, constant, model, rows, value, weights, yes_no  # noqa: E402
from sequences import CASES as SEQUENCES, FAILING  # noqa: E402

def choice(kind=FLOAT):
    """Branches that capture an input, a weight of the graph and a computed value, and have weights of their own."""
    small = KINDS[kind]
    yes = body([helper.make_node("MatMul", ["h", "w"], ["p"]), helper.make_node("Relu", ["p"], ["q"]),
                helper.make_node("MatMul", ["q", "own"], ["yes"])], [], [value("yes", kind, ["n", 5])], [weights("own", 5, 5, kind=small)])
    no = body([helper.make_node("MatMul", ["x", "w"], ["p2"]), helper.make_node("Neg", ["p2"], ["no"])], [], [value("no", kind, ["n", 5])])
    nodes = [helper.make_node("Tanh", ["x"], ["h"]),
             helper.make_node("If", ["c"], ["z"], then_branch=yes, else_branch=no), helper.make_node("Sigmoid", ["z"], ["y"])]
    return model(nodes, [value("c", BOOL, []), value("x", kind, ["n", 4])], [value("y", kind, ["n", 5])], [weights("w", 4, 5, kind=small)])


def nested():
    """An If in an If that captures through both, and a branch that only passes a captured value on."""
    inner_yes = body([helper.make_node("Add", ["x", "x"], ["iy"])], [], [value("iy", FLOAT, ["n", 4])])
    inner_no = body([helper.make_node("Mul", ["h", "x"], ["in"])], [], [value("in", FLOAT, ["n", 4])])
    outer_yes = body([helper.make_node("If", ["d"], ["o"], then_branch=inner_yes, else_branch=inner_no)], [], [value("o", FLOAT, ["n", 4])])
    outer_no = body([helper.make_node("Identity", ["h"], ["oo"])], [], [value("oo", FLOAT, ["n", 4])])
    return model([helper.make_node("Sin", ["x"], ["h"]), helper.make_node("If", ["c"], ["y"], then_branch=outer_yes, else_branch=outer_no)],
                 [value("c", BOOL, []), value("d", BOOL, []), value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])])


def loop_until():
    """A trip count and a condition that are data; carried state of a fixed shape; a loop in the loop."""
    inner = body([helper.make_node("MatMul", ["s2", "w"], ["m2"]), helper.make_node("Tanh", ["m2"], ["t2"]), helper.make_node("Identity", ["ic"], ["ioc"])],
                 [value("ii", INT64, []), value("ic", BOOL, []), value("s2", FLOAT, ["n", 4])], [value("ioc", BOOL, []), value("t2", FLOAT, ["n", 4])])
    outer = body([helper.make_node("Loop", ["count", "", "s"], ["t"], body=inner, name="inner"),
                  helper.make_node("ReduceSum", ["t"], ["total"], keepdims=0), helper.make_node("Less", ["total", "limit"], ["go"])],
                 [value("i", INT64, []), value("c", BOOL, []), value("s", FLOAT, ["n", 4])], [value("go", BOOL, []), value("t", FLOAT, ["n", 4])])
    return model([helper.make_node("Loop", ["count", "c0", "x"], ["y"], body=outer, name="outer")],
                 [value("count", INT64, []), value("c0", BOOL, []), value("limit", FLOAT, []), value("x", FLOAT, ["n", 4])],
                 [value("y", FLOAT, ["n", 4])], [weights("w", 4, 4)])


def loop_counted(count):
    """A constant trip count: short ones are unrolled, long ones loop, and what is scanned has a static length."""
    inside = body([helper.make_node("MatMul", ["s", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["t"]), helper.make_node("Identity", ["c"], ["go"]),
                   helper.make_node("Cast", ["i"], ["f"], to=FLOAT), helper.make_node("Add", ["t", "f"], ["out"])],
                  [value("i", INT64, []), value("c", BOOL, []), value("s", FLOAT, ["n", 4])],
                  [value("go", BOOL, []), value("t", FLOAT, ["n", 4]), value("out", FLOAT, ["n", 4])])
    return model([constant("count", np.int64(count)), helper.make_node("Loop", ["count", "", "x"], ["y", "all"], body=inside, name="loop")],
                 [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4]), value("all", FLOAT, [count, "n", 4])], [weights("w", 4, 4)])


def loop_scanning(count):
    """A loop that carries nothing: no condition and no carried values behind its trip count."""
    inside = body([helper.make_node("Cast", ["i"], ["f"], to=FLOAT), helper.make_node("Mul", ["f", "x"], ["out"]), helper.make_node("Identity", ["c"], ["go"])],
                  [value("i", INT64, []), value("c", BOOL, [])], [value("go", BOOL, []), value("out", FLOAT, ["n", 4])])
    return model([constant("count", np.int64(count)), helper.make_node("Loop", ["count", ""], ["all"], body=inside, name="loop")],
                 [value("x", FLOAT, ["n", 4])], [value("all", FLOAT, [count, "n", 4])])


def loop_growing(count):
    """A carried value that grows by a row in each of a constant number of iterations."""
    inside = body([helper.make_node("Concat", ["s", "x"], ["t"], axis=0), helper.make_node("Identity", ["c"], ["go"])],
                  [value("i", INT64, []), value("c", BOOL, []), value("s", FLOAT, ["m", 4])], [value("go", BOOL, []), value("t", FLOAT, ["m2", 4])])
    return model([constant("count", np.int64(count)), helper.make_node("Loop", ["count", "", "x"], ["y"], body=inside, name="loop"),
                  helper.make_node("Neg", ["y"], ["z"])],
                 [value("x", FLOAT, ["n", 4])], [value("z", FLOAT, ["k", 4])])


def scan():
    """A simple recurrence over axis 1, backwards, with a captured weight."""
    step = body([helper.make_node("MatMul", ["h", "w"], ["hw"]), helper.make_node("Add", ["hw", "xt"], ["sum"]), helper.make_node("Tanh", ["sum"], ["hn"]),
                 helper.make_node("Identity", ["hn"], ["ht"])],
                [value("h", FLOAT, ["n", 4]), value("xt", FLOAT, ["n", 4])], [value("hn", FLOAT, ["n", 4]), value("ht", FLOAT, ["n", 4])])
    return model([helper.make_node("Scan", ["h0", "x"], ["last", "all"], body=step, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1],
                                   scan_input_directions=[1], scan_output_directions=[1], name="scan")],
                 [value("h0", FLOAT, ["n", 4]), value("x", FLOAT, ["n", "time", 4])], [value("last", FLOAT, ["n", 4]), value("all", FLOAT, ["n", "time", 4])],
                 [weights("w", 4, 4)])


def found_sizes():
    """As detectors have it: what is found is captured by a branch, and the size of its result makes a tensor that reads nothing else."""
    yes = body([helper.make_node("Slice", ["found", "zero", "two", "zero"], ["yes"])], [], [value("yes", INT64, ["k", 2])],
               [numpy_helper.from_array(np.array([0]), "zero"), numpy_helper.from_array(np.array([2]), "two")])
    no = body([helper.make_node("Neg", ["found"], ["no"])], [], [value("no", INT64, ["m", 2])])
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("NonZero", ["r"], ["places"]),
             helper.make_node("Transpose", ["places"], ["found"], perm=[1, 0]),
             helper.make_node("If", ["c"], ["picked"], then_branch=yes, else_branch=no), helper.make_node("Shape", ["picked"], ["size"]),
             helper.make_node("ConstantOfShape", ["size"], ["ones"], value=helper.make_tensor("v", INT64, [1], [1])),
             helper.make_node("Add", ["picked", "ones"], ["y"])]
    return model(nodes, [value("c", BOOL, []), value("x", FLOAT, ["n", 4])], [value("y", INT64, ["l", 2])])


def loop_appending():
    """Results collected in two sequences, one of which has begun before, read in every way behind the loop; how often is data."""
    tensors = lambda name: helper.make_tensor_sequence_value_info(name, FLOAT, ["n", 4])
    inside = body([helper.make_node("Tanh", ["h"], ["g"]), helper.make_node("Add", ["g", "x"], ["next"]),
                   helper.make_node("SequenceInsert", ["s", "next"], ["longer"]), helper.make_node("Neg", ["g"], ["other"]),
                   helper.make_node("SequenceInsert", ["t", "other"], ["t_longer"]), helper.make_node("Identity", ["on"], ["still"])],
                  [value("i", INT64, []), value("on", BOOL, []), tensors("s"), value("h", FLOAT, ["n", 4]), tensors("t")],
                  [value("still", BOOL, []), tensors("longer"), value("next", FLOAT, ["n", 4]), tensors("t_longer")])
    nodes = [helper.make_node("SequenceEmpty", [], ["none"], dtype=FLOAT), helper.make_node("SequenceConstruct", ["x", "x"], ["begun"]),
             helper.make_node("Loop", ["count", "", "none", "x", "begun"], ["all", "last", "more"], body=inside),
             helper.make_node("ConcatFromSequence", ["all"], ["stacked"], axis=1, new_axis=1),
             helper.make_node("SequenceInsert", ["more", "last"], ["most"]), helper.make_node("ConcatFromSequence", ["most"], ["joined"], axis=1),
             helper.make_node("SequenceLength", ["most"], ["length"]), helper.make_node("SequenceAt", ["all", "place"], ["picked"])]
    return model(nodes, [value("count", INT64, []), value("place", INT64, []), value("x", FLOAT, ["n", 4])],
                 [value("stacked", FLOAT, ["n", "k", 4]), value("joined", FLOAT, ["n", "m"]), value("length", INT64, []),
                  value("picked", FLOAT, ["n", 4])])


def loop_rotating():
    """The rows of an input as a sequence, whose first goes to its end, changed, as often as is said; behind it they are read in every way."""
    tensors = lambda name: helper.make_tensor_sequence_value_info(name, FLOAT, [4])
    inside = body([helper.make_node("SequenceAt", ["s", "first"], ["one"]), helper.make_node("SequenceErase", ["s", "first"], ["rest"]),
                   helper.make_node("Tanh", ["one"], ["changed"]), helper.make_node("SequenceInsert", ["rest", "changed"], ["next"]),
                   helper.make_node("Identity", ["on"], ["still"])],
                  [value("i", INT64, []), value("on", BOOL, []), tensors("s")], [value("still", BOOL, []), tensors("next")],
                  [numpy_helper.from_array(np.array(0), "first")])
    nodes = [helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0),
             helper.make_node("Loop", ["count", "", "rows"], ["turned"], body=inside),
             helper.make_node("ConcatFromSequence", ["turned"], ["stacked"], axis=1, new_axis=1),
             helper.make_node("ReduceMax", ["stacked"], ["last"], keepdims=0, axes=[1]),
             helper.make_node("SequenceInsert", ["turned", "last", "place"], ["more"]),
             helper.make_node("ConcatFromSequence", ["more"], ["joined"], axis=0), helper.make_node("SequenceLength", ["more"], ["length"])]
    return model(nodes, [value("count", INT64, []), value("place", INT64, []), value("x", FLOAT, ["n", 4])],
                 [value("stacked", FLOAT, [4, "n"]), value("joined", FLOAT, ["m"]), value("length", INT64, [])])


def choice_of_sequences():
    """Branches that give sequences of different lengths, one of which the graph around them made."""
    tensors = lambda name: helper.make_tensor_sequence_value_info(name, FLOAT, ["n", 4])
    yes = body([helper.make_node("SequenceErase", ["three"], ["two"])], [], [tensors("two")])
    no = body([helper.make_node("Neg", ["x"], ["negative"]), helper.make_node("SequenceInsert", ["three", "negative"], ["four"])], [], [tensors("four")])
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("SequenceConstruct", ["x", "e", "x"], ["three"]),
             helper.make_node("If", ["c"], ["some"], then_branch=yes, else_branch=no),
             helper.make_node("ConcatFromSequence", ["some"], ["joined"], axis=1), helper.make_node("SequenceAt", ["some", "place"], ["picked"])]
    return model(nodes, [value("c", BOOL, []), value("place", INT64, []), value("x", FLOAT, ["n", 4])],
                 [value("joined", FLOAT, ["n", "m"]), value("picked", FLOAT, ["n", 4])])


CASES = {
    "choice": (choice(), [{"c": yes_no(c), "x": rows(n, 4)} for c in (True, False) for n in (1, 3, 7)]),
    "choice_fp16": (choice(FLOAT16), [{"c": yes_no(c), "x": rows(3, 4, kind=np.float16)} for c in (True, False)]),
    "nested": (nested(), [{"c": yes_no(c), "d": yes_no(d), "x": rows(2, 4)} for c in (True, False) for d in (True, False)]),
    "loop_until": (loop_until(), [{"count": np.array(k, np.int64), "c0": yes_no(c), "limit": np.array(limit, np.float32), "x": rows(n, 4)}
                                  for k, c, limit, n in ((3, True, 9, 2), (0, True, 9, 2), (4, False, 9, 3), (5, True, -9, 1))]),
    "loop_unrolled": (loop_counted(5), [{"x": rows(n, 4)} for n in (1, 6)]),
    "loop_counted": (loop_counted(200), [{"x": rows(n, 4)} for n in (1, 6)]),
    "loop_scanning": (loop_scanning(100), [{"x": rows(n, 4)} for n in (1, 3)]),
    "loop_appending": (loop_appending(), [{"count": np.array(k, np.int64), "place": np.array(at, np.int64), "x": rows(n, 4)}
                                          for k, at, n in ((1, 0, 2), (5, -2, 3), (40, 7, 1))]),
    "loop_rotating": (loop_rotating(), [{"count": np.array(k, np.int64), "place": np.array(at, np.int64), "x": rows(n, 4)}
                                        for k, at, n in ((1, 0, 2), (5, -2, 3), (0, 1, 7))]),
    "choice_of_sequences": (choice_of_sequences(), [{"c": yes_no(c), "place": np.array(at, np.int64), "x": rows(n, 4)}
                                                    for c, at, n in ((True, -1, 2), (False, 3, 3), (False, 0, 1))]),
    "loop_scanning_unrolled": (loop_scanning(4), [{"x": rows(n, 4)} for n in (1, 3)]),
    "loop_growing": (loop_growing(180), [{"x": rows(n, 4)} for n in (1, 3)]),
    "found_sizes": (found_sizes(), [{"c": yes_no(c), "x": rows(n, 4)} for c in (True, False) for n in (3, 9)]),
    "scan": (scan(), [{"h0": rows(n, 4), "x": rows(n, t, 4)} for n, t in ((1, 1), (2, 7), (3, 30))]),
}


# What the log says of a run on a GPU, where it is not one graph without a node that decides.
LAUNCHED = {"choice": "1 conditional", "choice_fp16": "1 conditional", "nested": "1 conditional", "loop_until": "1 conditional",
            "loop_appending": "", "loop_rotating": "", "choice_of_sequences": "", "loop_growing": "because the size of", "found_sizes": "parts, because each needs sizes"} | dict.fromkeys(SEQUENCES, "")


def shapes_flag(name, feeds, pick):
    return f"--{name}=" + ",".join(f"{k}:" + "x".join(str(pick(d, k, i)) for i, d in enumerate(v.shape)) for k, v in feeds.items() if v.ndim)


def with_parts(results):
    """Sequences as a sequence leaves an engine whose tensors differ: all elements, and a row for the shape of each."""
    parts = {}
    for name, result in results.items():
        if isinstance(result, list):
            parts[name] = np.concatenate([tensor.ravel() for tensor in result])
            parts[name + ".shapes"] = np.array([tensor.shape for tensor in result])
        else:
            parts[name] = result
    return parts


def run_case(t, name, proto, inputs, device):
    path = t.folder / f"{name}.onnx"
    onnx.save(proto, path)
    session = onnxruntime.InferenceSession(str(path))
    most = lambda d, k, i: max(f[k].shape[i] for f in inputs)
    least = lambda d, k, i: min(f[k].shape[i] for f in inputs)
    build = t.run(f"--onnx={path}", shapes_flag("minShapes", inputs[0], least), shapes_flag("optShapes", inputs[0], most),
                  shapes_flag("maxShapes", inputs[0], most), "--builderOptimizationLevel=1", f"--saveEngine={name}.engine", "--skipInference", *device)
    if not t.check(build.code == 0, f"{name}: the build", build):
        return
    on_host = [line for line in build.out + build.err if "on the reference" in line and any(op in line for op in ("If", "Loop", "Scan"))]
    t.check(not device or not on_host, f"{name}: {on_host[:1]}", build)
    for feeds in inputs:
        for key, array in feeds.items():
            (t.folder / f"{key}.bin").write_bytes(array.tobytes())
        loads = "--loadInputs=" + ",".join(f"{k}:{k}.bin" for k in feeds)
        # A GPU records one of these runs as a CUDA graph.
        r = t.run(f"--loadEngine={name}.engine", shapes_flag("shapes", feeds, lambda d, k, i: d), loads, "--exportOutput=out.json", "--iterations=5",
                  "--duration=0", "--warmUp=0", *device, *["--useCudaGraph"] * bool(device))
        what = f"{name} {({k: v.tolist() if v.ndim == 0 else v.shape for k, v in feeds.items()})}"
        if not t.check(r.code == 0, f"{what}: exit {r.code}", r):
            continue
        if device:
            launched = next((line for line in r.out + r.err if "launched" in line), "")
            t.check(LAUNCHED.get(name, "as one CUDA graph") in launched, f"{what}: {launched}", r)
        right = with_parts(dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds))))
        tensors = json.loads((t.folder / "out.json").read_text())
        t.check({tensor["name"] for tensor in tensors} == set(right), f"{what}: outputs {[tensor['name'] for tensor in tensors]}", r)
        for tensor in tensors:
            expected = right.get(tensor["name"], np.zeros(0))
            shape = tuple(int(d) for d in tensor["dimensions"].split("x") if d)
            t.check(shape == expected.shape, f"{what}: '{tensor['name']}' is {shape}, ONNX Runtime gives {expected.shape}", r)
            tolerance = 4e-3 if expected.dtype == np.float16 else 1e-5
            t.check(shape == expected.shape and np.allclose(np.reshape(tensor["values"], shape), expected, rtol=tolerance, atol=tolerance),
                    f"{what}: '{tensor['name']}' differs from ONNX Runtime's", r)


def refused(t):
    """What the specification does not allow, or cannot be built: one error that names the node."""
    bad = choice()
    bad.graph.node[1].attribute[0].g.output[0].name = "missing"
    onnx.save(bad, t.folder / "missing.onnx")
    r = t.run("--onnx=missing.onnx", "--skipInference")
    t.check(r.code == 1 and any("'missing' is used before anything produces it" in line for line in r.err), "a branch without its output", r)
    proto = loop_until()
    proto.graph.node[0].attribute[0].g.output.pop()
    onnx.save(proto, t.folder / "short.onnx")
    r = t.run("--onnx=short.onnx", "--skipInference")
    t.check(r.code == 1 and any("node 'outer' (Loop)" in line and "gives at least 2" in line for line in r.err), "a body with too few outputs", r)


def failing(t):
    """What only a run finds to be wrong: an error that names the layer and says what it found."""
    for name, (proto, feeds, says) in FAILING.items():
        onnx.save(proto, t.folder / f"{name}.onnx")
        for key, array in feeds.items():
            (t.folder / f"{key}.bin").write_bytes(array.tobytes())
        r = t.run(f"--onnx={name}.onnx", shapes_flag("shapes", feeds, lambda d, k, i: d), "--loadInputs=" + ",".join(f"{k}:{k}.bin" for k in feeds),
                  "--builderOptimizationLevel=0", "--iterations=1", "--duration=0", "--warmUp=0")
        t.check(r.code == 1 and all(any(part in line for line in r.err) for part in says), f"{name}: {r.err[-2:]}", r)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--device", default="")
    arguments = parser.parse_args()
    quiet_environment()
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(arguments.build, folder)
        for name, (proto, inputs) in (CASES | SEQUENCES).items():
            run_case(t, name, proto, inputs, [f"--device={arguments.device}", "--noTF32"] if arguments.device else [])
        refused(t)
        if not arguments.device:  # a kernel cannot report an index that is outside
            failing(t)
        return t.finish("control flow")


if __name__ == "__main__":
    sys.exit(main())
