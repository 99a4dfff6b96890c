# SPDX-License-Identifier: Apache-2.0
"""`lathe why`: every layer in a higher precision than its model allows has its reason, in the command, the log and the explorer."""
import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def kept_nodes(path):
    """Q and DQ that stay layers, each for another reason."""
    node, info = helper.make_node, helper.make_tensor_value_info
    constants = {"s": np.float32(0.05), "z": np.uint8(128), "s2": np.float32(0.07), "z16": np.uint16(100), "tiny": np.float32(1e-3)}
    nodes = [node("QuantizeLinear", ["input", "s", "z"], ["q"], "shown"), node("ReduceMax", ["input"], ["most"], "most", keepdims=0),
             node("Abs", ["most"], ["size"], "size"), node("Add", ["size", "tiny"], ["scale"], "scale"),
             node("QuantizeLinear", ["input", "scale", "z"], ["q2"], "computed"), node("DequantizeLinear", ["q2", "scale", "z"], ["y"], "computed_back"),
             node("QuantizeLinear", ["y", "s", "z16"], ["q3"], "wide"), node("DequantizeLinear", ["q3", "s", "z16"], ["output"], "wide_back")]
    graph = helper.make_graph(nodes, "kept", [info("input", TensorProto.FLOAT, [4, 8])],
                              [info("output", TensorProto.FLOAT, [4, 8]), info("q", TensorProto.UINT8, [4, 8])],
                              [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def answer(t, *words):
    done = t.lathe("why", *words, "--json")
    if not t.check(done.code == 0, f"why {words}", done):
        return {}
    return json.loads("\n".join(done.out))


def by_node(found):
    return {node: row for row in found.get("found", []) for node in row["onnx_nodes"]}


def run(t):
    """After run.py's own checks, which make small.onnx and the samples."""
    t.lathe("quantize", "small.onnx", "--calib", "samples", "--exclude=left,stem", "-o", "why.onnx")
    built = t.run("--onnx=why.onnx", "--saveEngine=why.engine", "--skipInference", "--builderOptimizationLevel=2", "--verbose")
    t.check(built.code == 0, "a quantised engine", built)
    found = answer(t, "why.engine")
    rows = by_node(found)
    t.check(found.get("total_ms", 0) > 0 and all(row["ms"] >= 0 and row["reason"] for row in found["found"]), f"times: {found}")
    t.check(rows.get("left", {}).get("reason") == "its input 'sum.relu' is not quantised" and "--exclude" in rows["left"]["hint"], f"left: {rows.get('left')}")
    t.check(rows.get("stem", {}).get("reason") == "its input 'input' is not quantised", f"stem: {rows.get('stem')}")
    integers = [row for row in found["found"] if row["reads"] in ("uint8", "int8") and row["what"] == "higher precision"]
    t.check(not integers, f"a layer that reads integers has a reason: {integers}")
    text = t.lathe("why", "why.engine")
    t.check(text.code == 0 and "would help: lathe quantize lists it under 'stays float'" in text.log() and "could be faster" in text.log(), "the table", text)
    explored = t.lathe("explore", "why.engine", "--json=-", "--iterations=2", "--duration=0", "--warmUp=0", "--peaks=estimate")
    findings = {f["id"]: f for f in json.loads("\n".join(explored.out))["engines"][0]["findings"]} if explored.code == 0 else {}
    t.check(any("is not quantised" in line for line in findings.get("higher-precision", {}).get("evidence", [])), f"the explorer's finding: {sorted(findings)}", explored)

    kept_nodes(t.folder / "kept.onnx")
    built = t.run("--onnx=kept.onnx", "--saveEngine=kept.engine", "--skipInference", "--builderOptimizationLevel=1", "--verbose")
    t.check(built.code == 0, "an engine whose Q and DQ stay", built)
    reasons = {"shown": "its integers are an output of the network", "computed": "its scale or zero point is computed",
               "computed_back": "its scale or zero point is computed", "wide": "'computed_back' takes no rounding in"}
    rows = by_node(answer(t, "kept.onnx", "kept.engine"))
    for node, reason in reasons.items():
        t.check(rows.get(node, {}).get("reason") == reason and (rows[node]["hint"] or node == "wide"), f"{node}: {rows.get(node)}")
        t.check(any(f"'{node}" in line and reason in line for line in built.lines()), f"the log says of {node}: {reason}", built)
    done = t.lathe("why", "small.onnx", "--builderOptimizationLevel=0", "--skipInference")
    t.check(done.code == 0 and "nothing narrower was asked for" in done.log() or "no layer can compute in" in done.log(), "a float model", done)
    for words, text in ((("kept.engine", "kept.onnx"), "why takes the model first"), ((), "why takes a model, an engine, or both"), (("nowhere.engine",), "nowhere.engine")):
        done = t.lathe("why", *words)
        t.check(done.code == 1 and text in done.log(), f"why {words}", done)
