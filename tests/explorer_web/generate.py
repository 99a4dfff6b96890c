# SPDX-License-Identifier: Apache-2.0
"""Analyses for tests of the page: transformers of any depth, consistent in themselves, the same for the same arguments.

Times are whole multiples of 0.0001 ms, so sums are exact when made with integers; that is how the page's sums are judged.
"""
import base64
import gzip
import json
import random

TICK = 0.0001

# name, type, kind, ONNX nodes (name suffix, operator), inputs, ticks, flops, precision matters
BLOCK = [
    ("attention/query", "MatrixMultiply", "compute", [("MatMul", "MatMul"), ("Add", "Add")], ["in"], 900, 151e6),
    ("attention/key", "MatrixMultiply", "compute", [("MatMul", "MatMul"), ("Add", "Add")], ["in"], 880, 151e6),
    ("attention/value", "MatrixMultiply", "compute", [("MatMul", "MatMul"), ("Add", "Add")], ["in"], 910, 151e6),
    ("attention/self/Reshape", "Shuffle", "shape", [("Reshape", "Reshape"), ("Transpose", "Transpose")], ["attention/query"], 3, 0),
    ("attention/self", "Attention", "compute", [("MatMul", "MatMul"), ("Softmax", "Softmax"), ("MatMul_1", "MatMul")],
     ["attention/self/Reshape", "attention/key", "attention/value"], 640, 50e6),
    ("reformat", "Reformat", "reformat", [], ["attention/self"], 60, 0),
    ("attention/output", "MatrixMultiply", "compute", [("MatMul", "MatMul"), ("Add", "Add"), ("Add_1", "Add")], ["reformat", "in"], 870, 151e6),
    ("attention/LayerNorm", "LayerNorm", "compute", [("LayerNormalization", "LayerNormalization")], ["attention/output"], 40, 1e6),
    ("intermediate", "MatrixMultiply", "compute", [("MatMul", "MatMul"), ("Div", "Div"), ("Erf", "Erf"), ("Mul", "Mul")],
     ["attention/LayerNorm"], 3300, 604e6),
    ("output", "MatrixMultiply", "compute", [("MatMul", "MatMul"), ("Add", "Add")], ["intermediate", "attention/LayerNorm"], 3250, 604e6),
    ("LayerNorm", "LayerNorm", "compute", [("LayerNormalization", "LayerNormalization")], ["output"], 40, 1e6),
]
PEAK = {"FP32": 3e12, "BF16": 6e12, "INT8": 12e12}
BANDWIDTH = 150e9
# As TensorRT names them: nowhere a space.
LONG = "sm80_xmma_fprop_implicit_gemm_indexed_wo_smem_interleaved_f16f16_f16f16_f16_nhwckrsc_nhwc_tilesize128x16x64_stage1_warpsize4x1x1_g1_tensor16x8x16"


def engine(count, name="bert", seed=1, precision="FP32", speed=1.0, times=True, errors=False, hostile=None, model=True, usable=True, batch=1, views=False):
    """One engine of `count` layers. `hostile`: a text put into every tenth layer name. `model`: with its ONNX model beside it.
    `usable`: others left the machine alone. `views`: reshapes are views that take no time."""
    rng = random.Random(seed)
    layers, tensors, edges = [], [], []
    tensors.append(tensor("input_ids", [batch, 128, 768], "FP32", "input"))
    last, made, ticks_before = 0, {}, 0
    for i in range(count):
        block, step = divmod(i, len(BLOCK))
        if step == 0:
            made = {"in": last}
        local, family, kind, nodes, reads, ticks, flops = BLOCK[step]
        path = f"/encoder/layer.{block}/{local}"
        origins = [{"name": f"{path}/{n}", "op_type": op, "flops": flops / len(nodes), "bytes": 400000.0, "saved_bytes": 0.0 if k + 1 == len(nodes) else 393216.0}
                   for k, (n, op) in enumerate(nodes)]
        label = " + ".join(o["name"] for o in origins) or f"Reformatting CopyNode for Input Tensor 0 to /encoder/layer.{block}/attention/output/MatMul"
        if hostile and i % 10 == 3:
            label += hostile
        ticks = max(1, round(ticks * speed * rng.uniform(0.9, 1.1)))
        if views and kind == "shape":
            kind, ticks = "view", 0
        type_ = "FP32" if kind != "compute" or family == "LayerNorm" else precision
        inputs = [made[r] for r in reads]
        out = len(tensors)
        tensors.append(tensor(f"{path}_output_0", [1, 128, 3072 if local == "intermediate" else 768], "FP32", "activation"))
        made[local] = last = out
        weights = int(flops / 256 * 4) if family == "MatrixMultiply" else 0
        layers.append(layer(i, label, family, kind, type_, origins, inputs, out, tensors, ticks, ticks_before, flops, weights, times, rng if errors else None))
        ticks_before += ticks
        for t in inputs:
            tensors[t]["consumers"].append(i)
            tensors[t]["last"] = i
            edges.append({"from": tensors[t]["producers"][0] if tensors[t]["producers"] else None, "to": i, "tensor": t})
        tensors[out].update(producers=[i], first=i, last=i)
    tensors[last]["role"] = "output"
    edges.append({"from": count - 1, "to": None, "tensor": last})
    return {**assemble(name, layers, tensors, edges, precision, times, rng), "onnx": onnx_model(layers) if model else None, **since_1_3(layers, times, usable, batch)}


def since_1_3(layers, times, usable, batch):
    reasons = [] if usable else ["other programs had 66 % of the processors", "a tenth of the runs took at least 40 % longer than the typical one"]
    rng = random.Random(len(layers))
    runs = [[round(ticks(one) * TICK * rng.uniform(0.95, 1.3), 5) for one in layers] for _ in range(12)]
    return {"measurement": {"usable": usable, "reasons": reasons, "text": "" if usable else f"These times are not usable: {', and '.join(reasons)}. Measure again when the machine is quiet."},
            "context": {"device": "Test device", "threads": "2 threads", "shapes": f"{batch}x128x768", "precision": "FP32", "date": "2026-11-24 21:03", "version": "Lathe 0.2.0"},
            "layer_runs": {"count": 100, "numbers": list(range(0, 96, 8)), "times_ms": runs} if times else None}


def short(name):
    """The rule of explorer/core/text_parts.cpp for the names that are made here."""
    before = "reformat for " if name.startswith("Reformatting") else ""
    parts = (name.split(" to ", 1)[1] if before else name).split(" + ")
    path = [p for p in parts[0].split("/") if p]
    if len(path) > 3:
        tail, numbered = path[-3:], [i for i, p in enumerate(path[:-3]) if p[-1].isdigit()]
        path = tail if not numbered else [path[numbered[-1]]] + ([] if numbered[-1] == len(path) - 4 else ["\u2026"]) + tail
    return before + "/".join(path) + (f" +{len(parts) - 1}" if len(parts) > 1 else "")


def tried(tactic, ms):
    return {"timed": [{"name": tactic, "runner": "OnednnMatMul", "types": "float32:linear -> float32:linear", "ms": ms, "chosen": True},
                      {"name": "lathe_gemm_avx2", "runner": "LatheMatMul", "types": "float32:linear -> float32:linear", "ms": round(ms * 1.4, 4), "chosen": False},
                      {"name": "strassen_1", "runner": "LatheMatMul", "types": "float32:linear -> float32:linear", "ms": None, "chosen": False}],
            "refused": [{"name": "amx_bf16x3", "runner": "Amx", "reason": "this CPU has no AMX"}], "left_out": 2}


def readings():
    return [{"at_ms": 100.0 * i, "core_mhz": 1980.0 - 15 * (i % 3), "memory_mhz": 3201.0, "temperature_c": 49.0 + i // 4, "power_w": 437.7 - 9.5 * i, "others_percent": None, "throttled": i == 5}
            for i in range(12)]


def onnx_model(layers):
    """A chain of the layers' nodes, and one each of a constant, an Identity and a node that nothing needs."""
    tensors = [onnx_tensor("x", ["batch", 128, 768], "FP32", None, "input"), onnx_tensor("w", [768, 768], "FP32", 4 * 768 * 768, "initializer")]
    nodes = []

    def add(name, op, reads, fate, why, where):
        tensors.append(onnx_tensor(f"{name}_out", None if op == "Erf" else ["batch", 128, 768], "FP32", None, "value"))
        nodes.append({"name": name, "op_type": op, "domain": "", "inputs": reads, "outputs": [len(tensors) - 1], "layers": where, "fate": fate, "why": why, "attributes": {"axis": -1}})
        return len(tensors) - 1

    scaled = add("scale", "Mul", [1, 1], "constant", "all that it reads is constant: computed when the engine was built", [])
    last = 0
    for one in layers:
        for k, origin in enumerate(one["origins"]):
            weights = [scaled if k else 1, -1] if origin["op_type"] == "MatMul" else []
            last = add(one["name"] if len(one["origins"]) == 1 else origin["name"], origin["op_type"], [last, *weights], "layer" if len(one["origins"]) == 1 else "fused", "", [one["index"]])
    last = add("same", "Identity", [last], "no_op", "it changes nothing when a model runs", [])
    tensors[last]["role"] = "output"
    add("lost", "Relu", [0], "unused", "no output of the model depends on it", [])
    fates = {}
    for node in nodes:
        fates[node["fate"]] = fates.get(node["fate"], 0) + 1
    own = [one["index"] for one in layers if not one["origins"]]
    return {"file": "models/bert.onnx", "name": "bert", "producer": "pytorch 2.9", "opset": 17, "note": "", "text": f"{len(nodes)} nodes.", "fates": fates, "own_layers": own,
            "nodes": nodes, "tensors": tensors}


def onnx_tensor(name, shape, type_, size, role):
    return {"name": name, "shape": shape, "type": type_, "bytes": size, "role": role}


def tensor(name, shape, type_, role):
    size = 4
    for dim in shape:
        size *= dim
    return {"name": name, "shape": shape, "type": type_, "format": "Row major linear FP32", "bytes": size, "role": role, "producers": [], "consumers": [],
            "first": 0, "last": 0, "alias_of": None}


def use(index, tensors):
    t = tensors[index]
    return {"tensor": index, "shape": t["shape"], "type": t["type"], "format": t["format"], "bytes": t["bytes"], "role": "activation"}


def layer(index, name, family, kind, precision, origins, inputs, out, tensors, ticks, before, flops, weights, times, rng):
    read = sum(tensors[t]["bytes"] for t in inputs) + weights
    written = tensors[out]["bytes"]
    ms = round(ticks * TICK, 4) or 1e-6  # what a profile says of a view
    roof = max(flops / PEAK[precision], (read + written) / BANDWIDTH) * 1e3
    verdict = "launch" if ms < 0.005 else "compute" if flops / PEAK[precision] * BANDWIDTH > read + written else "memory"
    line = {"verdict": verdict, "precision": precision, "roof_ms": roof, "percent_of_roof": 100 * roof / ms if ms else None, "flops_per_s": flops / ms * 1e3 if ms else None,
            "bytes_per_s": (read + written) / ms * 1e3 if ms else None, "recoverable_ms": max(0.0, ms - roof / 0.8)}
    if not times:
        line = {"verdict": "unknown", "precision": "", "roof_ms": None, "percent_of_roof": None, "flops_per_s": None, "bytes_per_s": None, "recoverable_ms": None}
    error = None
    if rng:
        local = 10 ** rng.uniform(-8, -3)
        error = {"local": local, "accumulated": local * 3, "limit": 1e-4, "text": f"largest relative error {local:.1e}"}
    return {
        "index": index, "name": name, "label": short(name), "fallback": "", "tuning": tried(f"onednn_{family.lower()}_avx512", ms) if family == "MatrixMultiply" else None, "type": family, "runner": family, "tactic": f"onednn_{family.lower()}_avx512" if family != "Attention" else LONG, "tactic_id": f"0x{index:08x}",
        "precision": precision, "input_precision": "FP32", "output_precision": "FP32", "kind": kind, "origins": origins,
        "inputs": [use(t, tensors) for t in inputs], "outputs": [use(out, tensors)],
        "time": {"average_ms": ms, "median_ms": ms, "total_ms": round(ms * 100, 4), "percent": None, "start_ms": round(before * TICK, 4), "noise_percent": 2.0} if times else None,
        "flops": float(flops), "flops_source": "counted", "bytes_read": float(read), "bytes_written": float(written), "weights_bytes": weights,
        "intensity": flops / (read + written), "roofline": line, "stream": 0, "error": error, "attributes": {"ParameterType": family, "NbRuns": index}}


def groups(layers, key):
    found = {}
    for one in layers:
        found.setdefault(str(one[key]), []).append(one)
    total = sum(ticks(one) for one in layers) or 1
    result = [{"key": k, "count": len(g), "time_ms": round(sum(map(ticks, g)) * TICK, 4), "percent": 100 * sum(map(ticks, g)) / total,
               "flops": sum(one["flops"] for one in g), "bytes": sum(one["bytes_read"] + one["bytes_written"] for one in g),
               "layers": [one["index"] for one in g]} for k, g in found.items()]
    return sorted(result, key=lambda g: -g["time_ms"])


def ticks(one):
    return round(one["time"]["average_ms"] / TICK) if one["time"] else 0


def series(values):
    ordered = sorted(values)
    pick = lambda q: ordered[min(len(ordered) - 1, int(q * len(ordered)))]
    mean = sum(values) / len(values)
    return {"count": len(values), "min_ms": ordered[0], "max_ms": ordered[-1], "mean_ms": mean, "median_ms": pick(0.5), "p90_ms": pick(0.9),
            "p95_ms": pick(0.95), "p99_ms": pick(0.99), "variation_percent": 1.5}


def assemble(name, layers, tensors, edges, precision, times, rng):
    total = sum(map(ticks, layers)) * TICK
    steps = [sum(tensors[u["tensor"]]["bytes"] for u in one["inputs"] + one["outputs"]) for one in layers]
    peak = max(range(len(steps)), key=steps.__getitem__)
    runs = [round(total * rng.uniform(0.93, 0.99), 4) for _ in range(200)] if times else []
    for i in range(120, 124):
        if times:
            runs[i] = round(total * 1.2, 4)
    latency = series(runs) if times else None
    mean = latency["mean_ms"] if times else None
    reformats = [one["index"] for one in layers if one["kind"] == "reformat"]
    slow = max(layers, key=ticks)["index"]
    findings = [
        {"id": "reformats", "title": f"{len(reformats)} reformats between layers", "severity": "high", "confidence": "medium",
         "evidence": [f"{len(reformats)} layers only change the layout of a tensor."], "layers": reformats,
         "gain_ms": round(sum(ticks(layers[i]) for i in reformats) * TICK, 4), "gain_basis": "all of their time", "action": "Let the tuner try more formats.",
         "command": "trtexec --onnx=model.onnx --builderOptimizationLevel=5"},
        {"id": "slow-layer", "title": "One layer takes more than its neighbours", "severity": "medium", "confidence": "low",
         "evidence": [f"{layers[slow]['name']}, tactic {LONG}"], "layers": [slow], "gain_ms": None, "gain_basis": "", "action": "Look at its roofline.", "command": ""},
    ]
    return {
        "name": name, "sources": [{"role": "layers", "file": f"{name}.layers.json", "dialect": "lathe"}],
        "notes": [{"severity": "info", "text": "Generated for a test."}], "model": {"name": name, "file": f"{name}.onnx", "options": {"Format": "ONNX"}},
        "build_options": {"Precision": precision}, "inference_options": {"Iterations": "200"},
        "device": {"name": "Test device", "kind": "cpu", "properties": {"Threads": "2"}},
        "hardware_state": {"text": "12 readings of the GPU in 1.1 s." if times else "No clocks were recorded.", "samples": readings() if times else []},
        "peaks": {"source": "measured", "flops_per_s": PEAK, "bytes_per_s": BANDWIDTH, "launch_ms": 0.005, "unstable": []},
        "statistics": {
            "layer_count": len(layers), "profile_iterations": 100 if times else None, "layer_sum_ms": round(total, 4) if times else None,
            "layer_median_sum_ms": round(total, 4) if times else None, "engine_latency_ms": mean, "engine_latency_source": "mean of the times file" if times else "",
            "gap_ms": mean - round(total, 4) if times else None,
            "gap_median_ms": latency["median_ms"] - round(total, 4) if times else None,
            "gap_text": "The engine takes less than its layers, timed one by one: reading a clock between layers takes time." if times else "",
            "gap_parts": [{"name": "timing_overhead", "ms": mean - round(total, 4), "text": "Reading a clock between layers lengthens the profiled run."}] if times else [],
            "latency": latency, "compute": latency, "h2d": None, "d2h": None, "enqueue": None, "throughput_qps": 1000 / mean if times else None,
            "flops": sum(one["flops"] for one in layers), "bytes": sum(one["bytes_read"] + one["bytes_written"] for one in layers),
            "weights_bytes": sum(one["weights_bytes"] for one in layers), "activation_bytes": sum(steps), "peak_memory_bytes": steps[peak],
            "overhead_ms": round(sum(ticks(layers[i]) for i in reformats) * TICK, 4) if times else None, "summary": {}},
        "bindings": [{"name": "input_ids", "io": "input", "tensor": 0, "shape": [1, 128, 768], "type": "FP32", "format": "linear", "bytes": tensors[0]["bytes"], "profiles": []}],
        "layers": layers, "tensors": tensors, "edges": edges,
        "groups": {"by_type": groups(layers, "type"), "by_precision": groups(layers, "precision"), "by_output_precision": groups(layers, "output_precision"),
                   "by_tactic": groups(layers, "tactic"), "by_stream": groups(layers, "stream")},
        "memory": {"steps": steps, "peak_bytes": steps[peak], "peak_layer": peak,
                   "peak_tensors": sorted({u["tensor"] for u in layers[peak]["inputs"] + layers[peak]["outputs"]}, key=lambda t: -tensors[t]["bytes"]),
                   "weights_bytes": sum(one["weights_bytes"] for one in layers), "note": "Counted from lifetimes of tensors."},
        "iterations": {"latency_ms": runs, "compute_ms": runs, "start_ms": [round(i * total, 4) for i in range(len(runs))]} if times else None,
        "findings": findings}


def pair(a, b, candidate=1):
    """Layer against layer; the waterfall names the two largest changes."""
    rows = []
    for x, y in zip(a["layers"], b["layers"]):
        delta = round((ticks(y) - ticks(x)) * TICK, 4)
        rows.append({"id": len(rows), "match": "origins", "label": x["name"].split(" + ")[0], "origins": [o["name"] for o in x["origins"]],
                     "baseline_layers": [x["index"]], "candidate_layers": [y["index"]], "baseline_ms": x["time"]["average_ms"], "candidate_ms": y["time"]["average_ms"],
                     "delta_ms": delta, "status": "same" if abs(delta) < 0.0005 else "faster" if delta < 0 else "slower", "fusion": "same",
                     "baseline_precision": x["precision"], "candidate_precision": y["precision"], "precision_changed": x["precision"] != y["precision"], "tactic_changed": False})
    order = sorted(rows, key=lambda r: -abs(r["delta_ms"]))
    total = round(sum(round(r["delta_ms"] / TICK) for r in rows) * TICK, 4)
    top = order[:8]
    rest = round(total - sum(r["delta_ms"] for r in top), 4)
    by_type = {}
    for r in rows:
        by_type.setdefault(a["layers"][r["baseline_layers"][0]]["type"], []).append(r)
    interval = {"metric": "compute_ms", "baseline_ms": a["statistics"]["engine_latency_ms"], "candidate_ms": b["statistics"]["engine_latency_ms"],
                "change_percent": 100 * (b["statistics"]["engine_latency_ms"] / a["statistics"]["engine_latency_ms"] - 1), "low_percent": -52.0, "high_percent": -48.0,
                "samples": [200, 200], "significant": True, "method": "bootstrap of medians"}
    return {"baseline": 0, "candidate": candidate, "rows": rows, "baseline_sum_ms": a["statistics"]["layer_sum_ms"], "candidate_sum_ms": b["statistics"]["layer_sum_ms"],
            "delta_ms": total,
            "waterfall": [{"label": r["label"], "delta_ms": r["delta_ms"], "rows": [r["id"]]} for r in top] +
                         [{"label": f"{len(rows) - len(top)} smaller changes", "delta_ms": rest, "rows": [r["id"] for r in order[8:]]}],
            "waterfall_by_type": [{"label": k, "delta_ms": round(sum(round(r["delta_ms"] / TICK) for r in g) * TICK, 4), "rows": [r["id"] for r in g]} for k, g in by_type.items()],
            "latency": interval, "fusions_lost": [{"row": 0, "nodes": ["/encoder/layer.0/attention/query/MatMul", "/encoder/layer.0/attention/query/Add"], "layers": [0],
                                                   "text": "query/MatMul and query/Add were one layer."}],
            "fusions_new": [], "precision_changes": [r["id"] for r in rows if r["precision_changed"]], "tactic_changes": [], "noise_percent": 2.0, "notes": []}


def analysis(*engines):
    comparison = None
    if len(engines) > 1:
        comparison = {"pairs": [pair(engines[0], other, i + 1) for i, other in enumerate(engines[1:])], "failed": True,
                      "checks": [{"expression": "fusion lost", "failed": True, "text": "1 fusion lost", "pair": 0}]}
    return {"schema": "lathe-analysis", "schema_version": "1.3", "generator": "tests/explorer_web/generate.py", "engines": list(engines), "comparison": comparison}


def fill(template, data, compress=False):
    """The page as `lathe explore` writes it (docs/schema/README.md); it compresses what is larger than 4 MB."""
    text = data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))
    text = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode() if compress else text.replace("<", "\\u003c")
    assert template.count("@ANALYSIS_JSON@") == 1
    return template.replace("@ANALYSIS_JSON@", text)
