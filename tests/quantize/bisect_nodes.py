# SPDX-License-Identifier: Apache-2.0
"""`lathe diff --bisect`: the first node beyond the budget, and a model of it alone that runs on what it read."""
import json

import numpy as np
import onnx
from onnx import numpy_helper

import judge
from judge import relative_l2


def diff(t, engine, *flags):
    done = t.lathe("diff", "small.onnx", engine, "--bisect=one.onnx", "--json", "--shapes=input:2x3x32x32", *flags)
    return (json.loads("\n".join(done.out)) if t.check(done.code in (0, 1), f"diff {engine}", done) else {}), done


def run(t):
    """After run.py's own checks, which make small.onnx."""
    changed = onnx.load(t.folder / "small.onnx")
    for tensor in changed.graph.initializer:
        if tensor.name == "left.w":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1.5), "left.w"))
    onnx.save(changed, t.folder / "changed.onnx")
    for model, engine in (("small.onnx", "right.engine"), ("changed.onnx", "wrong.engine")):
        built = t.run(f"--onnx={model}", f"--saveEngine={engine}", "--skipInference", "--builderOptimizationLevel=0", "--shapes=input:2x3x32x32")
        t.check(built.code == 0, engine, built)

    result, done = diff(t, "wrong.engine")
    found = result.get("bisection") or {}
    t.check(done.code == 1 and found.get("own_fault") and "left" in found["nodes"] and "stem" not in found["nodes"] and found["error"] > 0.1, f"an engine of other weights: {found}")
    part = onnx.load(t.folder / "one.onnx")
    t.check([n.op_type for n in part.graph.node][0] == "Conv" and len(part.graph.node) <= 2 and part.graph.input[0].name == "sum.relu", f"the part: {part.graph.node}")

    result, done = diff(t, "right.engine", "--threshold=1e-12")
    found = result.get("bisection") or {}
    t.check(done.code == 1 and not found.get("own_fault") and found.get("nodes") == ["stem"] and found["alone"]["stem"] > 1e-12, f"a budget that rounding leaves: {found}")
    part = onnx.load(t.folder / "one.onnx")
    onnx.checker.check_model(part, full_check=True)
    x = np.fromfile(t.folder / "one.onnx.input0.bin", np.float32).reshape(2, 3, 32, 32)
    t.check(len(part.graph.node) == 1 and part.graph.input[0].name == "input", f"one node: {part.graph.node}")
    words = found["command"].replace("'", "").split()[1:]
    done = t.run(*words, "--iterations=1", "--duration=0", "--warmUp=0")
    if t.check(done.code == 0, "the command runs", done):
        ours = json.loads((t.folder / "out.json").read_text())[0]["values"]
        t.check(relative_l2(ours, judge.run(t.folder / "one.onnx", {"input": x})[0]) < 1e-5, "the part has other results")

    result, done = diff(t, "right.engine")
    t.check(done.code == 0 and result["bisection"] is None, "nothing to bisect", done)
    done = t.lathe("diff", "small.onnx", "wrong.engine", "--bisect=one.onnx", "--shapes=input:2x3x32x32")
    t.check("The first to leave the budget: left" in done.log() and "by its own work" in done.log() and "trtexec --onnx=one.onnx" in done.log(), "the text", done)
    done = t.lathe("diff", "small.onnx", "wrong.engine", "--bisect=no/folder.onnx")
    t.check(done.code == 1 and "there is no folder no" in done.log(), "a file that cannot be written", done)
