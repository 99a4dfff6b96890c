#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks our JSON and logs against the rules that TensorRT's engine explorer (trex) has for its input files.

    trex_rules.py --layers l.json [--profile p.json] [--times t.json] [--log trtexec.log ...] [--release11]

With --release11 the file is in the words of TensorRT 11, which the explorer cannot read: "I/O Tensors" stand for Bindings
(rule 2) and Format with Datatype for Format/Datatype (rules 4, 13, 16); all other rules are as they are.

The numbers are those of the contract for foreign tools: 1-10 must hold or the explorer does not load the files, 11-23 or
some report of it fails. Each broken rule is one line; exit 1 when there is any. Rule 18 (characters in names) follows the
model's own names, so it is a warning there.
"""
import argparse
import json
import re
import sys

# Format/Datatype strings that the explorer knows, with bytes per element (dots removed).
FORMATS = {
    "Float": 4, "Half": 2, "Double": 8, "BFloat16": 2, "FP8": 1, "FP4": 0.5, "FP4E2M1": 0.5, "Int4": 0.5, "Int8": 1,
    "Int16": 2, "Int32": 4, "Int64": 8, "UInt8": 1, "UInt16": 2, "UInt32": 4, "UInt64": 8, "Bool": 0,
    "Row major linear FP32": 4, "Row major linear FP16 format": 2, "Row major Int8 format": 1, "Row major linear Int32": 4,
    "Row major linear Int64 format": 8, "Row major linear UInt8 format": 1, "Row major linear FP8 format": 1,
    "Row major linear BFloat16 format": 0, "Row major linear BOOL": 0, "Channel major FP32 format": 4,
    "Channel major FP16 format": 2, "Channel major Int8 format": 1, "Channel major UInt8 format": 1,
    "Channel major FP32 format where channel % 4 == 0": 4, "Channel major FP16 format where channel % 4 == 0": 2,
    "Channel major FP16 format where channel % 8 == 0": 2, "Channel major Int8 format where channel % 4 == 0": 1,
    "Two wide channel vectorized row major FP16 format": 2, "Four wide channel vectorized row major Int8 format": 1,
    "Thirty-two wide channel vectorized row major Int8 format": 1, "Sixteen wide channel vectorized row major FP16 format": 2, "Thirty-two wide channel vectorized row major FP32 format": 4,
}
INTEGER_COLUMNS = ("Groups", "OutMaps", "HasBias", "HasReLU", "AllowSparse", "NbInputArgs", "NbOutputVars", "NbParams",
                   "NbLiterals")
WEIGHT_TYPES = {"Int8", "Half", "FP16", "Float", "FP32", "Int32"}
SPECIAL = {"Constant", "NoOp"}
UNSAFE = set('&<>{}|"\\')


class Report:
    def __init__(self):
        self.problems, self.warnings = [], []

    def require(self, rule, condition, text):
        if not condition:
            self.problems.append(f"rule {rule}: {text}")
        return condition

    def advise(self, rule, condition, text):
        if not condition:
            self.warnings.append(f"rule {rule}: {text}")


def load(path, report):
    """Rule 8: strict JSON in UTF-8, control characters escaped."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8")
        return json.loads(text, parse_constant=lambda c: (_ for _ in ()).throw(ValueError(f"constant {c}")))
    except (OSError, ValueError) as error:
        report.require(8, False, f"{path}: {error}")
        return None


def is_number_list(value):
    return isinstance(value, list) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value)


def layer_type(layer):
    return layer.get("ParameterType", layer["LayerType"])


def check_tensor(report, layer, tensor):
    name = layer["Name"]
    for key in ("Name", "Dimensions", "Format/Datatype"):
        report.require(4, key in tensor, f"a tensor of {name} has no {key}")
    report.require(4, isinstance(tensor.get("Name"), str), f"a tensor name of {name} is not a string")
    report.require(4, is_number_list(tensor.get("Dimensions")), f"{name}: {tensor.get('Name')} has dims {tensor.get('Dimensions')}")
    known = str(tensor.get("Format/Datatype", "")).replace(".", "") in FORMATS
    report.require(13 if layer_type(layer) == "Convolution" else 16, known,
                   f"{name}: format '{tensor.get('Format/Datatype')}' is not known")


def check_convolution(report, layer):
    name = layer["Name"]
    report.require(13, is_number_list(layer.get("Kernel")) and len(layer["Kernel"]) == 2, f"{name}: Kernel {layer.get('Kernel')}")
    report.require(13, layer.get("Groups", 0) >= 1, f"{name}: Groups {layer.get('Groups')}")
    for side in ("Inputs", "Outputs"):
        report.require(13, layer[side] and len(layer[side][0]["Dimensions"]) == 4, f"{name}: first of {side} is not 4-D")


def check_layer(report, layer):
    """Rules 3-7 and 11-21 on one layer."""
    if not report.require(3, all(k in layer for k in ("Name", "LayerType", "Inputs", "Outputs")), f"keys missing in {layer}"):
        return
    name, kind = layer["Name"], layer_type(layer)
    for tensor in layer["Inputs"] + layer["Outputs"]:
        check_tensor(report, layer, tensor)
    report.require(5, isinstance(layer.get("Metadata", ""), str), f"{name}: Metadata is not a string")
    for key in ("Weights", "Bias"):
        if key in layer and report.require(5, isinstance(layer[key], dict), f"{name}: {key} is not an object"):
            fine = layer[key].get("Type") in WEIGHT_TYPES or layer[key].get("Count") == 0 or layer[key].get("Type") == "BFloat16"
            report.require(21, fine, f"{name}: {key} has type {layer[key].get('Type')}")
    for key in INTEGER_COLUMNS:
        value = layer.get(key, 0)
        report.require(6, isinstance(value, (int, bool)) or str(value).isdigit(), f"{name}: {key} is {value!r}")
    if layer["LayerType"] in SPECIAL or kind in SPECIAL:
        report.require(7, layer["LayerType"] == kind, f"{name}: LayerType {layer['LayerType']} but ParameterType {kind}")
    if kind == "NoOp":
        report.require(7, len(layer["Inputs"]) == 1 and len(layer["Outputs"]) == 1, f"{name}: a NoOp has one input and output")
    if kind not in SPECIAL:
        report.require(11, layer["Inputs"] and layer["Outputs"], f"{name}: no inputs or no outputs")
    if kind == "Reformat":
        report.require(12, "Origin" in layer, f"{name}: a Reformat without Origin")
    if kind == "Convolution":
        check_convolution(report, layer)
    if kind == "PointWise":
        report.require(14, layer["LayerType"] in ("PointWise", "PointWiseV2"), f"{name}: LayerType {layer['LayerType']}")
    if kind == "Pooling":
        report.require(15, layer.get("PoolingType") in ("AVERAGE", "Max"), f"{name}: PoolingType {layer.get('PoolingType')}")
    metadata = layer.get("Metadata") if isinstance(layer.get("Metadata"), str) else ""
    texts = [name, metadata] + [t.get("Name", "") for t in layer["Inputs"] + layer["Outputs"]]
    report.require(18, not any("[profile " in t for t in texts), f"{name}: a profile suffix in a name")
    report.advise(18, not any(UNSAFE & set(t.replace("[ONNX Layer: ", "")) or ":" in t.replace("[ONNX Layer: ", "") for t in texts),
                  f"{name}: characters that Graphviz minds")
    origins = [part for part in metadata.split("\x1e") if part]
    report.require(20, all(re.fullmatch(r"\[ONNX Layer: .*\]", part, re.S) for part in origins), f"{name}: Metadata {origins}")
    if kind not in SPECIAL and " + " in name:
        report.require(19, not name.startswith(" + ") and not name.endswith(" + "), f"{name}: an empty part between ' + '")
    tactic = layer.get("TacticName", "")
    if "wgmma" in tactic or "tensorop" in tactic:
        report.require(23, re.search("imma|hmma|xmma|i88|884", tactic), f"{name}: tactic {tactic} names no matrix instruction")


def check_order(report, layers, bindings):
    """Rule 22: a layer reads what earlier layers wrote, or a binding."""
    known = set(bindings)
    written = {t["Name"] for layer in layers for t in layer["Outputs"]}
    for layer in layers:
        for tensor in layer["Inputs"]:
            if tensor["Name"] in written:
                report.require(22, tensor["Name"] in known, f"{layer['Name']} reads {tensor['Name']} before it is written")
        known.update(t["Name"] for t in layer["Outputs"])


def check_bindings(report, plan, rows):
    bindings = plan["Bindings"]
    touched = {t["Name"]: t for layer in rows for t in layer["Inputs"] + layer["Outputs"]}
    for name in bindings:
        if not report.require(17, name in touched, f"binding {name} is of no layer"):
            continue
        text = touched[name]["Format/Datatype"].lower()
        report.require(16, any(t in text for t in ("fp32", "fp16", "int8", "int32", "int64", "bool", "bfloat16", "uint8", "double")),
                       f"binding {name} has format {text}")
    first = touched.get(bindings[0])
    report.require(17, first is None or len(first["Dimensions"]) >= 1, f"binding {bindings[0]} has no batch dimension")
    for info in plan.get("I/O Tensors", []):
        report.require(17, info["Name"] in bindings and info["IOMode"] in ("Input", "Output"), f"I/O tensor {info}")


def one_shape_profile(plan, index):
    """As the explorer does with several optimization profiles: the layers and bindings of one, told by the suffix of their names."""
    suffix = f" [profile {index}]" if index else ""

    def belongs(name):
        return name.endswith(suffix) if suffix else "[profile " not in name

    def plain(tensor):
        return {**tensor, "Name": tensor["Name"].removesuffix(suffix)}

    layers = [{**plain(layer), "Inputs": [plain(t) for t in layer["Inputs"]], "Outputs": [plain(t) for t in layer["Outputs"]]}
              for layer in plan["Layers"] if belongs(layer["Name"])]
    return {**plan, "Layers": layers, "Bindings": [b.removesuffix(suffix) for b in plan["Bindings"] if belongs(b)]}


def as_before_11(plan, report):
    """The file in the words of release 10. What 11 demands of its own words is checked here."""
    io_tensors = plan.get("I/O Tensors")
    fine = isinstance(io_tensors, list) and io_tensors and all(isinstance(t, dict) and isinstance(t.get("Name"), str) for t in io_tensors)
    report.require(2, fine, "no I/O Tensors")
    report.require(2, "Bindings" not in plan, "Bindings beside I/O Tensors")
    words = {"Float": "FP32", "Half": "FP16 format", "Int8": "Int8 format", "Int32": "Int32", "Int64": "Int64 format", "Bool": "BOOL", "BFloat16": "BFloat16 format"}

    def joined(layer, tensor):
        for key in ("Format", "Datatype"):
            report.require(4, isinstance(tensor.get(key), str), f"{layer['Name']}: {tensor.get('Name')} has no {key}")
        report.require(4, "Format/Datatype" not in tensor, f"{layer['Name']}: {tensor.get('Name')} has Format/Datatype")
        phrase = str(tensor.get("Format", "")).removesuffix(" (kLINEAR)")
        if phrase not in FORMATS:  # words for the layout alone
            phrase = f"{phrase} {words.get(tensor.get('Datatype'), '?')}"
        return {**{k: v for k, v in tensor.items() if k not in ("Format", "Datatype")}, "Format/Datatype": phrase}

    layers = [{**layer, **{side: [joined(layer, t) for t in layer[side]] for side in ("Inputs", "Outputs")}} for layer in plan["Layers"]]
    return {**plan, "Layers": layers, "Bindings": [t["Name"] for t in io_tensors] if fine else []}


def check_layers(plan, report):
    """Rules 1-7 and 11-23; returns the layers that have a row in the explorer's table."""
    if not report.require(1, isinstance(plan, dict) and isinstance(plan.get("Layers"), list) and plan["Layers"], "no Layers"):
        return []
    if not report.require(1, all(isinstance(layer, dict) for layer in plan["Layers"]), "Layers are not objects (detailed)"):
        return []
    bindings = plan.get("Bindings")
    if not report.require(2, isinstance(bindings, list) and bindings and all(isinstance(b, str) for b in bindings), "no Bindings"):
        return []
    report.require(2, not any("[profile" in b for b in bindings), "a binding has a profile suffix")
    for layer in plan["Layers"]:
        check_layer(report, layer)
    if any(p.startswith(("rule 3:", "rule 4:")) for p in report.problems):
        return []  # the rules below look at what is missing
    names = [layer["Name"] for layer in plan["Layers"]]
    report.require(3, len(set(names)) == len(names), "layer names are not unique")
    rows = [layer for layer in plan["Layers"] if layer["LayerType"] not in SPECIAL]
    check_order(report, plan["Layers"], bindings)
    check_bindings(report, plan, rows)
    return rows


def check_profile(profile, rows, all_layers, report):
    """Rule 9: records of 4 or 5 keys, one per row, same order, same names."""
    if not report.require(9, isinstance(profile, list), "the profile is not a list"):
        return
    records = [r for r in profile if len(r) in (4, 5)]
    others = [r for r in profile if len(r) not in (4, 5)]
    report.require(9, len(others) == 1 and list(others[0]) == ["count"], f"records with other keys: {others[:3]}")
    report.require(9, records, "no records")
    dropped = {layer["Name"] for layer in all_layers if layer["LayerType"] in SPECIAL}
    names = [r["name"] for r in records if r["name"] not in dropped]
    report.require(9, names == [row["Name"] for row in rows], "records and layers are not the same names in the same order")
    for record in records:
        fine = {"name", "averageMs", "percentage"} <= set(record) and all(isinstance(record[k], (int, float)) for k in record if k != "name")
        report.require(9, fine, f"record {record}")


def check_times(times, report):
    fine = isinstance(times, list) and times and all(isinstance(t.get("latencyMs"), (int, float)) for t in times)
    report.require(10, fine, "times are not a list of objects with latencyMs")


STAMP = re.compile(r"\[\d+/\d+/\d+-\d+:\d+:\d+\] \[I\] (.+)")


def log_sections(lines):
    """The explorer's scanner: key: value lines below a title; the first other line ends the section."""
    titles = ("Model Options", "Build Options", "Inference Options", "Device Information", "Performance summary")
    sections, current = {}, None
    for line in lines:
        match = STAMP.search(line)
        if current is not None and match and ":" in match.group(1):
            parts = match.group(1).split(":")
            sections[current][parts[0].lstrip()] = parts[1][1:]
            continue
        current = next((t for t in titles if f"=== {t} ===" in line), None)
        if current is not None:
            sections[current] = {}
    return sections


def check_log(path, report):
    """Rule 10: the metadata that the explorer makes from a log is complete."""
    with open(path, encoding="utf-8") as file:
        sections = log_sections(file.read().splitlines())
    needed = {"Model Options": ["Format", "Model"], "Device Information": ["Selected Device"]}
    if "Performance summary" in sections:
        needed["Inference Options"] = ["Iterations", "Duration", "Data transfers"]
        needed["Performance summary"] = ["Throughput", "Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency",
                                         "Total Host Walltime", "Total GPU Compute Time"]
    else:
        needed["Build Options"] = ["Precision", "Refit", "Sparsity", "Save engine", "Profiling verbosity", "timingCacheMode"]
    for title, keys in needed.items():
        for key in keys:
            report.require(10, key in sections.get(title, {}), f"{path}: section {title} has no {key}")
    for key in ("Latency", "GPU Compute Time"):
        if "Performance summary" in sections and key in sections["Performance summary"]:
            pieces = sections["Performance summary"][key].split(",")  # 5: one percentile, as 8.4 and older print
            fine = len(pieces) in (5, 7) and all(re.search(r"= [\d.e+-]+ ms", p) for p in pieces)
            report.require(10, fine, f"{path}: {key} is {pieces}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", required=True)
    parser.add_argument("--profile")
    parser.add_argument("--times")
    parser.add_argument("--shapeProfile", type=int, help="look at the layers of this optimization profile of several")
    parser.add_argument("--release11", action="store_true", help="the file is in the words of TensorRT 11")
    parser.add_argument("--log", action="append", default=[])
    arguments = parser.parse_args()
    report = Report()
    plan = load(arguments.layers, report)
    if arguments.shapeProfile is not None:
        plan = one_shape_profile(plan, arguments.shapeProfile)
    if arguments.release11 and plan is not None:
        plan = as_before_11(plan, report)
    rows = check_layers(plan, report) if plan is not None else []
    if arguments.profile and (profile := load(arguments.profile, report)) is not None:
        check_profile(profile, rows, plan["Layers"], report)
    if arguments.times and (times := load(arguments.times, report)) is not None:
        check_times(times, report)
    for path in arguments.log:
        check_log(path, report)
    for line in report.problems:
        print(line)
    for line in report.warnings:
        print(f"warning, {line}")
    print(f"{len(rows)} layers, {len(report.problems)} problems, {len(report.warnings)} warnings")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
