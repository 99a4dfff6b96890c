#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The explorer through its command line: every dialect, our own dumps, sums, comparison, exit codes, damaged files.

    run.py --build build [--all]

The dialect files come from dialects.py; the 23 rules for files that the old explorer reads are those of tests/cli/trex_rules.py,
checked on the generated files of TensorRT 8 to 11 and on ours. Sums are compared as exact decimals.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from decimal import Decimal

import jsonschema

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import dialects  # noqa: E402
from broken_rules import broken_rules  # noqa: E402

SCHEMA = json.loads((ROOT / "docs/schema/analysis.schema.json").read_text())


class Checks:
    def __init__(self, build, folder):
        self.lathe, self.folder = pathlib.Path(build).resolve() / "bin/lathe", pathlib.Path(folder)
        self.count, self.failures = 0, []

    def check(self, condition, text):
        self.count += 1
        if not condition:
            self.failures.append(text)
            print("FAILED", text)
        return condition

    def run(self, *words, code=0):
        process = subprocess.run([str(self.lathe), *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.check(process.returncode == code, f"{' '.join(map(str, words))}: exit {process.returncode}, not {code}\n{process.stderr[-1500:]}")
        return process

    def analyse(self, *words, code=0):
        """The analysis of `words`, which must satisfy the schema."""
        self.run("explore", *words, "--json", "analysis.json", code=code)
        analysis = json.loads((self.folder / "analysis.json").read_text())
        errors = [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in jsonschema.Draft202012Validator(SCHEMA).iter_errors(analysis)]
        self.check(not errors, f"{words}: not as the schema says: {errors[:3]}")
        return analysis


def decimal(value):
    return Decimal(repr(value))


def exact_sum(values):
    return float(sum((decimal(v) for v in values), Decimal(0)))


def check_sums(t, engine, profile, what):
    """The report's numbers are the file's, to the last digit."""
    records = {r["name"]: r for r in profile if "name" in r}
    timed = [layer for layer in engine["layers"] if layer["time"]]
    t.check(len(timed) == len([r for r in records.values()]) or not [n for n in engine["notes"] if n["severity"] == "error"], f"{what}: records lost")
    for layer in timed:
        record = records[layer["name"]]
        same = layer["time"]["average_ms"] == record["averageMs"] and layer["time"]["median_ms"] == record.get("medianMs")
        t.check(same and layer["time"]["percent"] == record["percentage"], f"{what}: {layer['name']} has other times than the file")
    total = exact_sum(r["averageMs"] for r in records.values())
    t.check(engine["statistics"]["layer_sum_ms"] == total, f"{what}: sum {engine['statistics']['layer_sum_ms']} is not {total}")
    for by, groups in engine["groups"].items():
        t.check(exact_sum(g["time_ms"] for g in groups if g["time_ms"] is not None) == total, f"{what}: groups {by} do not add up")
        members = sorted(i for g in groups for i in g["layers"])
        t.check(members == list(range(len(engine["layers"]))), f"{what}: groups {by} do not cover the layers once")


def check_graph(t, engine, what):
    """Indexes point to each other, lifetimes cover uses."""
    for i, tensor in enumerate(engine["tensors"]):
        for reader in tensor["consumers"]:
            t.check(any(u["tensor"] == i for u in engine["layers"][reader]["inputs"]), f"{what}: {tensor['name']} and its reader disagree")
            t.check(tensor["first"] <= reader <= tensor["last"] or tensor["role"] == "weights", f"{what}: {tensor['name']} is read outside of its life")
    for edge in engine["edges"]:
        t.check(edge["from"] is None or edge["to"] is None or edge["from"] < edge["to"], f"{what}: edge {edge} goes backwards")
    alive = [sum(x["bytes"] or 0 for x in engine["tensors"] if x["role"] != "weights" and x["alias_of"] is None and x["first"] <= i <= x["last"]) for i in range(len(engine["layers"]))]
    t.check(alive == engine["memory"]["steps"], f"{what}: memory steps are not the sum of lifetimes")
    t.check(max(alive, default=0) == engine["memory"]["peak_bytes"], f"{what}: the peak is not the largest step")


def rules(t, layers, profile, what, *more):
    process = subprocess.run([sys.executable, str(ROOT / "tests/cli/trex_rules.py"), "--layers", str(layers), "--profile", str(profile), *more],
                             capture_output=True, text=True)
    t.check(process.returncode == 0, f"{what}: breaks rules of the old explorer's files:\n{process.stdout[-800:]}")


def all_dialects(t):
    """TensorRT 8 to 11 tell the same network, so everything but the words must come out the same."""
    paths = dialects.write_all(t.folder)
    engines = {}
    for release, files in paths.items():
        what = f"TensorRT {release}"
        analysis = t.analyse(files["layers"], files["profile"], files["times"], files["log"])
        engine = engines[release] = analysis["engines"][0]
        t.check(engine["sources"][0]["dialect"] == f"tensorrt-{release}", f"{what}: taken for {engine['sources'][0]['dialect']}")
        check_sums(t, engine, dialects.profile(release), what)
        check_graph(t, engine, what)
        write_foreign(t, files, release)
        rules(t, files["layers"], files["profile"], what, "--times", str(files["times"]), "--log", str(files["log"]), *(["--release11"] if release == 11 else []))
        names = [layer["name"] for layer in engine["layers"]]
        t.check(names == [n for n, _, _ in dialects.TIMES], f"{what}: layers {names}")
        t.check(engine["device"]["properties"]["Device 0"].endswith("GPU-12:34"), f"{what}: a value is cut at its colon")
        t.check(engine["model"]["options"]["Model"] == "C:\\models\\m.onnx", f"{what}: {engine['model']}")
        t.check(engine["statistics"]["throughput_qps"] == 5405.4, f"{what}: throughput")
        t.check([b["io"] for b in engine["bindings"]] == ["input", "output"], f"{what}: bindings {engine['bindings']}")
    for release, engine in engines.items():
        for key in ("flops", "bytes_read", "bytes_written", "weights_bytes", "precision", "kind"):
            first, other = ([layer[key] for layer in e["layers"]] for e in (engines[8], engine))
            t.check(first == other, f"{key} differs between TensorRT 8 and {release}: {first} {other}")
        origins = [[o["name"] for o in layer["origins"]] for layer in engine["layers"]]
        t.check(origins[1:5] == [["conv1", "relu1"], ["conv2", "add1", "relu2"], ["sigmoid1", "mul1"], ["pool1"]], f"TensorRT {release}: origins {origins}")
    conv2 = engines[10]["layers"][2]
    t.check(conv2["flops"] == 2 * 16 * 256 * 16 * 9 + 16 * 256, f"flops of conv2: {conv2['flops']}")
    t.check(conv2["weights_bytes"] == (16 * 16 * 9 + 16) * 2, "weights of conv2")
    t.check(engines[10]["layers"][5]["flops"] == 2 * 10 * 16, "flops of a generated product")
    t.check(engines[10]["layers"][5]["weights_bytes"] == 320, "constant operands are weights")
    comparison = t.analyse(paths[8]["layers"], paths[8]["profile"], paths[11]["layers"], paths[11]["profile"])["comparison"]["pairs"][0]
    t.check(comparison["delta_ms"] == 0 and all(r["match"] != "none" for r in comparison["rows"]), "TensorRT 8 against 11: not the same rows")
    for release, files in paths.items():
        engine = t.analyse(files["names"], files["profile"])["engines"][0]
        t.check(engine["statistics"]["layer_sum_ms"] is not None and engine["layers"][1]["origins"], f"TensorRT {release}, names only: no table")
        t.check(any("names only" in n["text"] for n in engine["notes"]), f"TensorRT {release}, names only: not said")


def write_foreign(t, files, release):
    """Written for other tools, every release's files satisfy the old explorer's rules, and read again they tell the same."""
    t.run("explore", files["layers"], files["profile"], "--trex=again", "--perf-analysis=again")
    rules(t, t.folder / "again.graph.json", t.folder / "again.profile.json", f"TensorRT {release}, written for trex")
    first = t.analyse(files["layers"], files["profile"])["engines"][0]
    for layers, profile in (("again.graph.json", "again.profile.json"), ("layers_again.json", "profile_again.json")):
        again = t.analyse(layers, profile)["engines"][0]
        for key in ("name", "type", "time", "origins", "flops", "bytes_read", "bytes_written", "precision", "kind", "stream", "tactic"):
            t.check([x[key] for x in again["layers"]] == [x[key] for x in first["layers"]], f"TensorRT {release}, {layers}: another {key}")
    bare = json.loads((t.folder / "layers_again.json").read_text())
    names = [layer["Name"] for layer in bare]
    t.check(isinstance(bare, list) and len(set(names)) == len(names), f"TensorRT {release}: trt-perf-analysis wants a bare list of unique names")
    t.check([r["name"] for r in json.loads((t.folder / "profile_again.json").read_text())[1:]] == names, f"TensorRT {release}: names of the profile")
    written = [x["Name"] for layer in bare for x in layer["Outputs"]]
    t.check(len(set(written)) == len(written), f"TensorRT {release}: a tensor is written twice")


def shuffled_profile(t):
    """Order does not matter; what does not fit is said; nothing in common is refused."""
    plan, records = dialects.layer_information(9), dialects.profile(9)
    (t.folder / "plan.json").write_text(json.dumps(plan))
    (t.folder / "back.json").write_text(json.dumps([records[0]] + records[:0:-1]))
    (t.folder / "front.json").write_text(json.dumps(records))
    a, b = (t.analyse("plan.json", f)["engines"][0] for f in ("back.json", "front.json"))
    t.check([x["time"]["average_ms"] for x in a["layers"]] == [x["time"]["average_ms"] for x in b["layers"]], "the order of records matters")
    records[3]["name"] = "somebody else"
    (t.folder / "other.json").write_text(json.dumps(records))
    engine = t.analyse("plan.json", "other.json")["engines"][0]
    said = [n["text"] for n in engine["notes"] if n["severity"] == "error"]
    t.check(said and "somebody else" in said[0], f"a mismatch is not reported: {engine['notes']}")
    t.check(engine["layers"][2]["time"] is None, "a layer without a record has a time")
    (t.folder / "strange.json").write_text('[{"name": "q", "averageMs": 1}]')
    t.check("not of one engine" in t.run("explore", "plan.json", "strange.json", code=1).stderr, "files of two engines are accepted")


def damaged(t):
    """Every cut of every file is read or refused with one line that names the file."""
    paths = dialects.write_all(t.folder)[10]
    for role in ("layers", "profile", "times"):
        text = paths[role].read_text()
        for i in range(1, 12):
            (t.folder / "cut.json").write_text(text[:len(text) * i // 12])
            words = ["cut.json"] if role == "layers" else [paths["layers"], "cut.json"]
            process = t.run("explore", *words, code=1)
            t.check(process.stderr.startswith("lathe: ") and "cut.json" in process.stderr and process.stderr.count("\n") == 1, f"cut {role}: {process.stderr}")
    wrong_fields(t, paths)
    for text in ("{}", "[]", "3", '"layers"', '{"name": "package", "version": "1.0"}', '[{"type": "Feature"}]', '{"Layers": {}}', '{"Layers": [3]}', "\x00\x01", ""):
        (t.folder / "foreign.json").write_text(text)
        process = t.run("explore", "foreign.json", code=1)
        told = [line for line in process.stderr.splitlines() if not line.startswith("running ")]  # bytes with a zero are taken for an engine
        t.check(len(told) == 1 and "foreign.json" in told[0], f"{text!r}: {process.stderr}")


def wrong_fields(t, paths):
    """A field of another type than it should be: read, or one line with file and field."""
    plan = json.loads(paths["layers"].read_text())
    layer = plan["Layers"][1]
    layer.update({"Flops": 1, "BytesRead": 1, "BytesWritten": 1, "OnnxNodes": [{"Name": "n"}], "Fallback": "no kernel",
                  "Tuning": {"Timed": [{"Name": "a", "Ms": 1}], "Refused": [{"Name": "b"}], "LeftOut": 0}})
    layer["Outputs"][0].update({"ArenaOffset": 0})
    layer["Inputs"][0].update({"AliasOf": "x", "AliasOffset": 0})
    plan.update({"ArenaBytes": 1, "BuildSettings": "level 0, fp32"})
    refused = 0
    tried = layer["Tuning"]
    for holder in (plan, layer, layer["Inputs"][0], layer["Outputs"][0], layer["OnnxNodes"][0], tried, tried["Timed"][0], tried["Refused"][0]):
        for key in list(holder):
            kept = holder[key]
            for value in ({}, "x", -1.5, None):
                holder[key] = value
                (t.folder / "wrong.json").write_text(json.dumps(plan))
                process = subprocess.run([str(t.lathe), "explore", "wrong.json", "--json", "-"], cwd=t.folder, capture_output=True, text=True)
                named = process.returncode == 1 and "wrong.json" in process.stderr and key in process.stderr and process.stderr.count("\n") == 1
                refused += named
                t.check(process.returncode == 0 or named, f"{key} = {value!r}: exit {process.returncode}, {process.stderr}")
            holder[key] = kept
    t.check(refused > 30, f"only {refused} wrong fields were refused")


def own_engines(t):
    """Our dumps, an engine profiled in process, comparison, exit codes and files for a build server."""
    t.run("zoo", "mobilenet_v2", "-o", "m.onnx")
    for name, flags in (("fp32", []), ("bf16", ["--bf16"])):
        t.run("trtexec", "--onnx=m.onnx", f"--saveEngine={name}.engine", "--skipInference", "--builderOptimizationLevel=0", *flags)
    run = ["--iterations=4", "--warmUp=0", "--duration=0"]
    files = {}
    for name in ("fp32", "bf16"):
        files[name] = [f"{name}.layers.json", f"{name}.profile.json", f"{name}.times.json"]
        t.run("trtexec", f"--loadEngine={name}.engine", "--profilingVerbosity=detailed", "--separateProfileRun", *run,
              *(f"--export{k}={f}" for k, f in zip(("LayerInfo", "Profile", "Times"), files[name])))
        rules(t, t.folder / files[name][0], t.folder / files[name][1], f"our {name}")
        engine = t.analyse(*files[name])["engines"][0]
        t.check(engine["sources"][0]["dialect"] == "lathe", f"our own file is taken for {engine['sources'][0]['dialect']}")
        check_sums(t, engine, json.loads((t.folder / files[name][1]).read_text()), name)
        check_graph(t, engine, name)
        check_counts(t, engine, files[name][0])
    files["bf16"][0] = in_bfloat16(t, files["bf16"][0])
    check_comparison(t, files)
    engine = t.analyse("fp32.engine", *run)["engines"][0]
    t.check(engine["device"]["name"] != "" and engine["statistics"]["compute"]["count"] >= 4, "an engine explored in process has no device or no times")
    context = engine["context"]
    t.check(context["device"] == engine["device"]["name"] and context["shapes"] == "1x3x224x224" and context["precision"] == "FP32", f"context: {context}")
    t.check(context["version"].startswith("Lathe ") and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", context["date"]) and context["threads"].split()[0].isdigit(), f"context: {context}")
    t.check(engine["measurement"]["usable"] == (not engine["measurement"]["reasons"]), f"measurement: {engine['measurement']}")
    t.check(engine["measurement"]["usable"] or all(f["gain_ms"] is None for f in engine["findings"]), "gains of times that cannot be used")
    tuned(t)
    peaks = engine["peaks"]
    t.check(peaks["source"] == "measured" and peaks["flops_per_s"]["FP32"] > 1e9 and peaks["bytes_per_s"] > 1e8, f"measured peaks: {peaks}")
    given = t.analyse(*files["fp32"], "--peaks=FP32=1.5T,memory=40G,launch=3us")["engines"][0]
    t.check(given["peaks"] == {"source": "given", "flops_per_s": {"FP32": 1.5e12}, "bytes_per_s": 4e10, "launch_ms": 0.003, "unstable": []}, f"given peaks: {given['peaks']}")
    for layer in given["layers"]:
        if layer["flops"] and layer["bytes_read"] is not None:
            roof = max(layer["flops"] / 1.5e12, (layer["bytes_read"] + layer["bytes_written"]) / 4e10) * 1e3
            t.check(abs(layer["roofline"]["roof_ms"] - roof) <= 1e-12 * roof, f"{layer['name']}: roof {layer['roofline']['roof_ms']}, by hand {roof}")
    t.check("--peaks" in t.run("explore", *files["fp32"], "--peaks=FP32=fast", code=1).stderr, "a wrong peak is not explained")
    check_page(t)
    check_model(t, files["fp32"])
    text = t.run("explore", "fp32.engine", *run, "--peaks=estimate", "--text", "--trace=trace.json").stdout
    t.check(all(len(line) <= 80 for line in text.splitlines()) and "The ten slowest layers" in text, "the text is too wide")
    t.check("\x1b" not in text, "colour without a terminal")
    spans = [e for e in json.loads((t.folder / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    t.check(len(spans) > 40 and all(a["ts"] <= b["ts"] for a, b in zip(spans, spans[1:])), "the trace is not in order")
    check_memory(t, engine)
    sweep = t.analyse("fp32.engine", *run, "--peaks=estimate", "--sweep=input:1x3x224x224;input:1x3x224x224")
    t.check([e["name"] for e in sweep["engines"]] == ["fp32 1x3x224x224", "fp32 1x3x224x224 (2)"] and sweep["comparison"], f"sweep: {[e['name'] for e in sweep['engines']]}")


def tuned(t):
    """An engine keeps what its tuner timed and refused for every layer that computes; a build from its timing cache the same."""
    build = ["--onnx=m.onnx", "--skipInference", "--builderOptimizationLevel=1", "--timingCacheFile=m.cache", "--profilingVerbosity=detailed"]
    t.run("trtexec", *build, "--saveEngine=tuned.engine", "--exportLayerInfo=tuned.layers.json")
    t.run("trtexec", *build, "--saveEngine=again.engine")
    t.check((t.folder / "tuned.engine").read_bytes() == (t.folder / "again.engine").read_bytes(), "a build from the timing cache has other bytes")
    # Which of the 52 convolutions run as one block is a measured choice; 19 layers are left where all 17 blocks are fused.
    layers = t.analyse("tuned.layers.json")["engines"][0]["layers"]
    layers = [layer for layer in layers if layer["type"] in ("Convolution", "DepthwiseBlock")]
    t.check(len(layers) >= 19, f"{len(layers)} convolutions and blocks")
    for layer in layers:
        tuning = layer["tuning"]
        if t.check(tuning is not None, f"{layer['name']}: nothing was tried"):
            chosen = [x for x in tuning["timed"] if x["chosen"]]
            t.check(len(chosen) == 1 and chosen[0]["name"] == layer["tactic"] and chosen[0]["ms"] > 0, f"{layer['name']}: chosen {chosen}, {layer['tactic']} runs")
            known = [x["ms"] for x in tuning["timed"] if x["ms"] is not None]
            t.check(known == sorted(known) and all(x["reason"] for x in tuning["refused"]), f"{layer['name']}: {tuning}")
    t.check(any(layer["tuning"]["refused"] for layer in layers), "no tactic was refused")


def check_model(t, files):
    """Every node of the model is in the layers that name it, or says why it is in none; read from ONNX and from its JSON alike."""
    engine = t.analyse(*files, "--onnx=m.onnx")["engines"][0]
    model = engine["onnx"]
    (t.folder / "model.json").write_text(t.run("inspect", "--graph", "m.onnx").stdout)
    again = t.analyse(*files, "model.json")["engines"][0]
    t.check(again["onnx"] == model and again["layers"] == engine["layers"], "the model's JSON tells something else than the model")
    t.check(model["note"] == "" and all(model["tensors"][o]["shape"] is not None for n in model["nodes"] if n["layers"] for o in n["outputs"]), f"shapes are missing: {model['note']}")
    for i, layer in enumerate(engine["layers"]):
        named = {o["name"] for o in layer["origins"]}
        t.check(named == {n["name"] for n in model["nodes"] if i in n["layers"]}, f"{layer['name']}: its nodes are others in the model")
        t.check(bool(named) != (i in model["own_layers"]), f"{layer['name']} is the engine's own, or not")
    t.check(all(n["layers"] or n["why"] for n in model["nodes"]), "a node vanished without a reason")
    t.check("unknown" not in model["fates"] and sum(model["fates"].values()) == len(model["nodes"]), f"fates: {model['fates']}")
    weights = sum(x["bytes"] for x in model["tensors"] if x["role"] == "initializer")
    t.check(abs(engine["statistics"]["weights_bytes"] - weights) < 0.1 * weights, f"{weights} bytes of initializers, {engine['statistics']['weights_bytes']} of weights")
    both = t.analyse(*files, *files, "m.onnx")["engines"]
    t.check(both[0]["onnx"] == both[1]["onnx"] == model, "one model is not that of both engines")
    t.check("is a model, which has no times" in t.run("explore", "m.onnx", code=1).stderr, "a model alone is not explained")
    other = json.loads((t.folder / "model.json").read_text())
    for node in other["nodes"]:
        node["name"] += "x"
    (t.folder / "other.json").write_text(json.dumps({**other, "nodes": other["nodes"][:3], "inputs": ["p"], "outputs": ["q"], "tensors": []}))
    t.check("the engine is not of this model" in t.run("explore", *files, "other.json", code=1).stderr, "another model is accepted")


def check_memory(t, engine):
    """What our file says of the arena: nothing in it overlaps what is alive with it, views lie inside, and all fits."""
    owners = [x for x in engine["tensors"] if x["alias_of"] is None and x["offset"] is not None]
    arena = engine["memory"]["arena_bytes"]
    t.check(len(owners) > 20 and any(x["alias_of"] is not None for x in engine["tensors"]), "places of tensors are not known")
    for i, a in enumerate(owners):
        t.check(a["offset"] + a["bytes"] <= arena, f"{a['name']} ends outside of the arena")
        for b in owners[:i]:
            together = a["first"] <= b["last"] and b["first"] <= a["last"]
            apart = a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
            t.check(apart or not together, f"{a['name']} and {b['name']} lie over each other")
    for x in engine["tensors"]:
        if x["alias_of"] is not None and x["offset"] is not None:
            t.check(x["offset"] + x["bytes"] <= engine["tensors"][x["alias_of"]]["bytes"], f"{x['name']} is larger than what it lies in")
    caller = sum(x["bytes"] for x in engine["tensors"] if x["role"] in ("input", "output"))
    t.check(engine["memory"]["peak_bytes"] <= arena + caller, f"peak {engine['memory']['peak_bytes']}, arena {arena}")
    t.check(any(s["others_percent"] is not None for s in engine["hardware_state"]["samples"]) or not engine["hardware_state"]["samples"], "no load was read")
    t.check(all(layer["roofline"]["verdict"] == "none" and layer["bytes_read"] in (0, None) for layer in engine["layers"] if layer["kind"] == "view"), "views move bytes")


def check_counts(t, engine, layer_file):
    """What we count from shapes is what the builder knows, for the layers that do nearly all the work."""
    plan = json.loads((t.folder / layer_file).read_text())
    for layer in plan["Layers"]:
        for key in ("Flops", "BytesRead", "BytesWritten"):
            layer.pop(key, None)
    (t.folder / "counted.json").write_text(json.dumps(plan))
    counted = t.analyse("counted.json")["engines"][0]
    compared = 0
    for given, other in zip(engine["layers"], counted["layers"]):
        if given["type"] in ("Convolution", "MatrixMultiply"):
            compared += 1
            t.check(given["flops"] == other["flops"], f"{given['name']}: {given['flops']} flops given, {other['flops']} counted")
    t.check(compared > 20, "no layers compared")
    for layer in engine["layers"]:
        if layer["kind"] == "compute" and layer["origins"] and layer["type"] == "Convolution":
            t.check(abs(sum(o["flops"] for o in layer["origins"]) - layer["flops"]) <= 0.02 * layer["flops"], f"{layer['name']}: its nodes' flops do not add up")


def in_bfloat16(t, layer_file):
    """A copy that says BF16 for FP32: an untimed build keeps FP32 where that is the first choice."""
    plan = json.loads((t.folder / layer_file).read_text())
    for layer in plan["Layers"]:
        for tensor in layer["Inputs"] + layer["Outputs"]:
            if tensor["Datatype"] == "Float":
                tensor.update({"Datatype": "BFloat16", "Format/Datatype": "BFloat16"})
    (t.folder / "narrow.layers.json").write_text(json.dumps(plan))
    return "narrow.layers.json"


def check_waterfall(t, pair, what):
    """From one sum of layers to the other, exactly."""
    for steps in ("rows", "waterfall", "waterfall_by_type"):
        t.check(exact_sum(i["delta_ms"] for i in pair[steps]) == pair["delta_ms"], f"{what}: {steps} do not add up to {pair['delta_ms']}")
    t.check(exact_sum([pair["baseline_sum_ms"], pair["delta_ms"]]) == pair["candidate_sum_ms"], f"{what}: baseline and difference are not the candidate")


def check_comparison(t, files):
    words = [*files["fp32"], *files["bf16"]]
    analysis = t.analyse(*words, "--name=fp32,bf16", "--fail-if=layers>1000", "--junit=d.xml", "--markdown=d.md")
    pair = analysis["comparison"]["pairs"][0]
    check_waterfall(t, pair, "fp32 against bf16")
    for side, engine in (("baseline_layers", 0), ("candidate_layers", 1)):
        covered = sorted(i for r in pair["rows"] for i in r[side])
        t.check(covered == list(range(len(analysis["engines"][engine]["layers"]))), f"{side} are not covered once")
    t.check(pair["precision_changes"] and pair["latency"]["low_percent"] is None, "no precision changes, or an interval from 4 queries")
    t.check(not analysis["comparison"]["failed"], "fails without a reason")
    suite = xml.etree.ElementTree.parse(t.folder / "d.xml").getroot().find("testsuite")
    t.check(suite.get("tests") == "1" and suite.get("failures") == "0", "JUnit")
    t.check("| layers>1000 | passed |" in (t.folder / "d.md").read_text(), "Markdown")
    failed = t.analyse(*words, "--fail-if=precision changed or layers>1000", "--junit=d.xml", code=3)
    t.check([c["failed"] for c in failed["comparison"]["checks"]] == [True, False], "checks")
    t.check("understood are" in t.run("explore", *words, "--fail-if=faster", code=1).stderr, "a wrong condition is not explained")
    same = t.analyse(*files["fp32"], *files["fp32"], "--fail-if=latency>0% or fusion lost or precision changed or layer added")
    t.check(same["comparison"]["pairs"][0]["delta_ms"] == 0, "an engine differs from itself")


def check_page(t):
    process = subprocess.run([str(t.lathe), "explore", "fp32.layers.json", "fp32.profile.json", "-o", "r.html"], cwd=t.folder, capture_output=True, text=True)
    if "carries no report page" in process.stderr:
        print("this build carries no page: not checked")
        return
    t.check(process.returncode == 0 and process.stderr.startswith("wrote r.html ("), f"no page: {process.stderr}")
    page = (t.folder / "r.html").read_text()
    data = page.split('id="analysis">', 1)[1].split("</script>", 1)[0]
    t.check(json.loads(data)["schema"] == "lathe-analysis", "the page holds no analysis")


def process(t):
    """The workflow from model to report, its files, its steps alone, and its commands without running them."""
    words = ["m.onnx", "out", "--builderOptimizationLevel=0", "--iterations=2", "--warmUp=0", "--duration=0"]
    printed = t.run("process", *words, "--print_only").stdout
    t.check(printed.count("trtexec ") == 2 and not (t.folder / "out").exists(), f"--print_only: {printed}")
    told = t.run("process", *words, "--fp16").stdout.splitlines()
    base = t.folder / "out/m.onnx.engine"
    listed = [line.strip() for line in told if line.startswith("  out/")]
    t.check(listed == sorted(listed) and len(listed) == 14, f"process lists {listed}")
    t.check([line for line in told if "--fp16 has no effect" in line] and not [line for line in told if "--useCudaGraph has" in line], f"warnings: {told}")
    for part in ("", ".build.log", ".build.metadata.json", ".model.json", ".graph.json", ".profile.json", ".timing.json", ".profile.log", ".profile.metadata.json",
                 ".hardware.json", ".graph.json.svg", ".graph.json.dot", ".analysis.json"):
        t.check(pathlib.Path(f"{base}{part}").exists(), f"process wrote no {part or 'engine'}")
    svg = xml.etree.ElementTree.parse(f"{base}.graph.json.svg").getroot()
    engine = json.loads(pathlib.Path(f"{base}.analysis.json").read_text())["engines"][0]
    t.check(len(svg.findall("{*}g/{*}rect")) == len(engine["layers"]), "the picture has another number of layers")
    t.check(engine["build_options"]["Save engine"].endswith("m.onnx.engine") and engine["model"]["name"] == "m", f"metadata: {engine['model']}")
    metadata = json.loads(pathlib.Path(f"{base}.profile.metadata.json").read_text())
    t.check(len(metadata["performance_summary"]["Latency"]) == 7 and metadata["performance_summary"]["Throughput"] > 0, f"summary: {metadata}")
    rules(t, f"{base}.graph.json", f"{base}.profile.json", "process")
    check_hardware(t, engine, json.loads(pathlib.Path(f"{base}.hardware.json").read_text()))
    t.check(engine["onnx"]["nodes"] and "unknown" not in engine["onnx"]["fates"], "the report knows no model")
    t.check(not [f["command"] for f in engine["findings"] if "model.engine" in f["command"]], "a command names another engine than the one that was built")
    t.run("process", "m.onnx", "out", "-d", "--archive")
    archived = t.analyse(f"{base}.tea")["engines"][0]
    told = [{k: v for k, v in e["statistics"].items() if k != "engine_latency_source"} for e in (archived, engine)]  # that names the file
    t.check(told[0] == told[1] and archived["hardware_state"] == engine["hardware_state"], "the archive tells something else")
    for flags, words in ((["--power-limit", "300"], "are for NVIDIA GPUs"), (["--compute-clk-freq"], "needs a value")):
        t.check(words in t.run("process", "m.onnx", "out", "-p", "--device=cpu", *flags, code=1).stderr, f"{flags} on a CPU")
    pathlib.Path(f"{base}.graph.json.svg").unlink()
    t.run("process", "m.onnx", "out", "-d")
    t.check(pathlib.Path(f"{base}.graph.json.svg").exists(), "-d alone draws nothing")
    t.check("its log is" in t.run("process", "m.onnx", "out", "-b", "--shapes=noSuchInput:1", code=1).stderr, "a failed build does not name its log")
    t.check("--noSuchFlag" in t.run("process", "m.onnx", "none", "-b", "--noSuchFlag", code=1).stderr, "a wrong flag is not named")
    t.check(not pathlib.Path("none").exists(), "a wrong flag leaves a folder")


def check_hardware(t, engine, file):
    """What the machine tells is in the report as read; what it does not tell is named."""
    state = engine["hardware_state"]
    t.check(state["text"] == file["text"] and state["samples"] == file["samples"], f"hardware: {state['text']}")
    t.check({"role": "hardware", "dialect": "lathe"}.items() <= {k: v for s in engine["sources"] if s["role"] == "hardware" for k, v in s.items()}.items(), "no source")
    silent = [key for key in ("core_mhz", "power_w", "temperature_c") if all(s[key] is None for s in state["samples"])]
    words = {"core_mhz": "clock (", "power_w": "power (", "temperature_c": "temperature ("}
    t.check(all(words[key] in state["text"] for key in silent), f"{silent} are missing and not named: {state['text']}")
    t.check(all(a["at_ms"] < b["at_ms"] for a, b in zip(state["samples"], state["samples"][1:])), "readings out of order")


def given_hardware(t):
    """Readings of a GPU: in the analysis, in the text, and errors with file and field."""
    paths = dialects.write_all(t.folder)[10]
    samples = [{"at_ms": 100.0 * i, "core_mhz": 1410 - 15 * i, "memory_mhz": 1215, "temperature_c": 40 + i, "power_w": 250.5, "others_percent": 12.5, "throttled": i == 2} for i in range(3)]
    (t.folder / "h.json").write_text(json.dumps({"schema": "lathe-hardware", "text": "3 readings of the GPU in 0.2 s.", "samples": samples}))
    engine = t.analyse(paths["layers"], paths["profile"], "h.json")["engines"][0]
    t.check(engine["hardware_state"]["samples"] == samples, "samples are changed")
    text = " ".join(t.run("explore", paths["layers"], paths["profile"], "h.json", "--text").stdout.split())
    t.check("core 1380 to 1410 MHz, memory 1215 MHz, power 250 W" in text and "throttled in 1 reading" in text, f"text: {text[:600]}")
    samples[1]["power_w"] = "much"
    (t.folder / "h.json").write_text(json.dumps({"schema": "lathe-hardware", "text": "", "samples": samples}))
    t.check("h.json: samples[1].power_w" in t.run("explore", paths["layers"], "h.json", code=1).stderr, "a wrong reading is not named")


# Products of known extents, by hand: (layer whose name begins so, flops, bytes read, bytes written).
HAND = {
    "resnet50": ([], [
        ("/conv1/Conv", 2 * 64 * 112**2 * 3 * 49 + 64 * 112**2, 4 * (3 * 224**2 + 64 * 3 * 49 + 64), 4 * 64 * 112**2),
        ("/maxpool", 64 * 56**2 * 9, 4 * 64 * 112**2, 4 * 64 * 56**2),
        ("/layer1/layer1.0/conv3", 2 * 256 * 56**2 * 64 + 2 * 256 * 56**2, 4 * (64 * 56**2 + 256 * 56**2 + 64 * 256 + 256), 4 * 256 * 56**2),
        ("/layer3/layer3.0/conv2", 2 * 256 * 14**2 * 256 * 9 + 256 * 14**2, 4 * (256 * 28**2 + 256 * 256 * 9 + 256), 4 * 256 * 14**2),
        ("/fc", 2 * 2048 * 1000 + 1000, 4 * (2048 + 2048 * 1000 + 1000), 4 * 1000)]),
    "efficientnet_b0": ([], [
        ("/features/features.0/", 2 * 32 * 112**2 * 27 + 32 * 112**2, 4 * (3 * 224**2 + 32 * 27 + 32), 4 * 32 * 112**2),
        ("/features/features.1/features.1.0/block/block.0/", 2 * 32 * 112**2 * 9 + 32 * 112**2, 4 * (32 * 112**2 + 32 * 9 + 32), 4 * 32 * 112**2),
        ("/features/features.1/features.1.0/block/block.1/avgpool", 2 * 32 * 112**2 + 2 * 2 * 32 * 8 + 8 + 32, 4 * (32 * 112**2 + 2 * 32 * 8 + 8 + 32), 4 * 32 * 112**2),
        ("/classifier", 2 * 1280 * 1000 + 1000, 4 * (1280 + 1280 * 1000 + 1000), 4 * 1000),
        ("/features/features.1/features.1.0/block/block.2/", 2 * 32 * 16 * 112**2, 4 * (32 * 112**2 + 32 * 16 + 16), 4 * 16 * 112**2)]),
    "bert_base": (["--shapes=input_ids:1x128,attention_mask:1x128"], [
        ("/m/encoder/layer.0/attention/self/query", 3 * (2 * 128 * 768**2 + 128 * 768), 4 * (128 * 768 + 3 * (768**2 + 768)), 4 * 3 * 128 * 768),
        ("/m/encoder/layer.0/attention/self/MatMul", 12 * 128**2 * (2 * (64 + 64) + 5), 4 * (3 * 128 * 768 + 128**2), 4 * 128 * 768),
        ("/m/encoder/layer.0/attention/output/dense", 2 * 128 * 768**2 + 2 * 128 * 768, 4 * (2 * 128 * 768 + 768**2 + 768), 4 * 128 * 768),
        ("/m/embeddings/LayerNorm", 7 * 128 * 768, 4 * (128 * 768 + 2 * 768), 4 * 128 * 768),
        ("/m/encoder/layer.0/intermediate", 2 * 128 * 768 * 3072 + 2 * 128 * 3072, 4 * (128 * 768 + 768 * 3072 + 3072), 4 * 128 * 3072)]),
}


def hand_counts(t):
    """Flops and bytes of five layers of three models against a count by hand, and the sums of their reports."""
    for model, (flags, expected) in HAND.items():
        t.run("zoo", model, "-o", "h.onnx", "--force")
        t.run("trtexec", "--onnx=h.onnx", "--saveEngine=h.engine", "--skipInference", "--builderOptimizationLevel=0", *flags)
        t.run("trtexec", "--loadEngine=h.engine", "--profilingVerbosity=detailed", "--separateProfileRun", "--iterations=2", "--warmUp=0", "--duration=0",
              "--exportLayerInfo=h.layers.json", "--exportProfile=h.profile.json")
        engine = t.analyse("h.layers.json", "h.profile.json")["engines"][0]
        check_sums(t, engine, json.loads((t.folder / "h.profile.json").read_text()), model)
        for start, flops, read, written in expected:
            layer = next((x for x in engine["layers"] if x["name"].startswith(start) and x["kind"] == "compute"), None)
            if t.check(layer is not None, f"{model}: no layer {start}"):
                found = (layer["flops"], layer["bytes_read"], layer["bytes_written"])
                t.check(found == (flops, read, written), f"{model}, {start}: {found}, by hand {(flops, read, written)}")


def bf16_waterfalls(t):
    """The same models with their layers in BF16 against FP32: other types, other fusions, and the sums still exact."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    if "avx512_bf16" not in info and "amx_bf16" not in info:
        return print("FP32 against BF16: skipped, this CPU does not compute in BF16")
    bf16 = ["--layerPrecisions=*:bf16", "--precisionConstraints=obey"]
    for model, (flags, _) in HAND.items():
        t.run("zoo", model, "-o", "h.onnx", "--force")
        for name, build in (("h", []), ("b", bf16)):
            t.run("trtexec", "--onnx=h.onnx", f"--saveEngine={name}.engine", "--skipInference", "--builderOptimizationLevel=0", *build, *flags)
            t.run("trtexec", f"--loadEngine={name}.engine", "--profilingVerbosity=detailed", "--separateProfileRun", "--iterations=2", "--warmUp=0",
                  "--duration=0", f"--exportLayerInfo={name}.layers.json", f"--exportProfile={name}.profile.json")
        analysis = t.analyse("h.layers.json", "h.profile.json", "b.layers.json", "b.profile.json", "--name=fp32,bf16")
        pair, engine = analysis["comparison"]["pairs"][0], analysis["engines"][1]
        check_waterfall(t, pair, f"{model}, FP32 against BF16")
        narrow = [layer for layer in engine["layers"] if layer["precision"] == "BF16" and layer["flops"]]
        t.check(min(len(pair["precision_changes"]), len(narrow)) > 40, f"{model}: {len(pair['precision_changes'])} rows changed, {len(narrow)} layers in BF16")


def example(t):
    analysis = json.loads((ROOT / "explorer/core/testdata/two_engines.analysis.json").read_text())
    t.check(not list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(analysis)), "the example is not as the schema says")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        t = Checks(arguments.build, folder)
        for part in (example, all_dialects, broken_rules, shuffled_profile, damaged, given_hardware, own_engines, process, hand_counts, *([bf16_waterfalls] if arguments.all else [])):
            part(t)
    print(f"explorer: {t.count} checks, {len(t.failures)} failed")
    return 1 if t.failures else 0


if __name__ == "__main__":
    sys.exit(main())
