#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our dataframe against that of NVIDIA's engine explorer itself, column by column. By hand: it needs an environment with trex
0.2.1 (removed from github.com/NVIDIA/TensorRT in release 11.1; pandas 1.5.3, numpy 1.24.4) beside ours.

    trex's python    compare_with_trex.py frames trex theirs.json LAYERS PROFILE [LAYERS PROFILE ...]
    ours             compare_with_trex.py frames lathe_explorer.trex ours.json LAYERS PROFILE [...]
    any              compare_with_trex.py compare theirs.json ours.json [--store trex_frames.json]
    any              compare_with_trex.py dialects FOLDER      (writes the files whose frames are stored for check_trex.py)

Every difference must have one of the reasons that `reason_of` knows, which are those of docs/explorer.md; exit 1 otherwise.
"""
import argparse
import importlib
import json
import pathlib
import re
import sys

FILE_COLUMNS = ("Inputs", "Outputs", "Weights", "Bias")


def plain(value):
    """A cell as JSON: numpy's numbers as Python's, NaN as null."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return None if value != value else value


def written_names(layers):
    """Tensors that are no constants: what some layer writes, and the bindings."""
    plan = json.loads(pathlib.Path(layers).read_text())
    return sorted({t["Name"] for layer in plan["Layers"] if layer["LayerType"] != "Constant" for t in layer["Outputs"]} | set(plan["Bindings"]))


def frames(package, output, files):
    module = importlib.import_module(package)
    result = {}
    for layers, profile in zip(files[::2], files[1::2]):
        plan = module.EnginePlan(layers, profile)
        columns = {c: [plain(v) for v in plan.df[c].tolist()] for c in plan.df.columns}
        tables = {}
        for kind in sorted(set(plan.df["type"])):
            try:
                view = plan.get_layers_by_type(kind)
                tables[kind] = {c: [plain(v) for v in view[c].tolist()] for c in view.columns if c.startswith("attr.")}
            except Exception as error:  # whatever it is, it is trex's
                tables[kind] = repr(error)
        sums = {"total_runtime": plain(plan.total_runtime), "total_weights_size": plain(plan.total_weights_size), "total_act_size": plain(plan.total_act_size)}
        name = pathlib.Path(layers).name  # with its folders where another has that name
        result[name if name not in result else "/".join(pathlib.Path(layers).parts[-3:])] = {
            "columns": columns, "views": tables, "sums": sums, "written": written_names(layers)}
    pathlib.Path(output).write_text(json.dumps(result, indent=1))


SIZES = {"FP32": 4, "FLOAT": 4, "INT32": 4, "FP16": 2, "HALF": 2, "BFLOAT16": 2, "INT64": 8, "DOUBLE": 8, "INT8": 1, "UINT8": 1, "BOOL": 1, "FP8": 1}
WIDE = {"Two": 2, "Four": 4, "Sixteen": 16, "Thirty-two": 32}


def type_words(row):
    return " ".join(t.get("Format/Datatype", "") for side in ("Inputs", "Outputs") for t in row[side])


def sizes_of(tensor):
    """Bytes of a tensor as trex counts them, and as they are: with types that it gives no bytes, and with padding."""
    words = tensor["Format/Datatype"].replace(".", "")
    size = next((SIZES[w.upper()] for w in re.findall(r"\w+", words) if w.upper() in SIZES), 0)
    plain_count = stored_count = 1
    layout = words if " " in words else tensor.get("Format", words)  # ours says it apart where trex knows no phrase for it
    wide = re.match(r"([\w-]+) wide channel", layout)
    vector = WIDE[wide.group(1)] if wide else int((re.search(r"channel % (\d+)", layout) or [0, 1])[1])
    for i, dim in enumerate(tensor["Dimensions"]):
        plain_count *= dim
        stored_count *= -(-dim // vector) * vector if i == 1 and len(tensor["Dimensions"]) > 1 else dim
    sized = plain_count * size
    return (0 if re.search("BOOL|Bool|BFloat16 format", words) else sized), sized, stored_count * size


def bytes_reason(column, theirs, ours, row, written):
    """The difference to the byte: what each of trex's three errors adds up to. '' when that is not what differs."""
    operands = 0 if row.get("Weights") else sum(sizes_of(t)[2] for t in row["Inputs"] if t["Name"] not in written)
    constant = sum(sizes_of(t)[0] for t in row["Inputs"] if t["Name"] not in written)
    kept = [sizes_of(t) for side in ("Inputs", "Outputs") for t in row[side] if side == "Outputs" or t["Name"] in written]
    untyped, padding = sum(s[1] - s[0] for s in kept), sum(s[2] - s[1] for s in kept)
    change = {"weights_size": operands, "total_io_size_bytes": untyped + padding - constant, "total_footprint_bytes": untyped + padding - constant + operands}[column]
    if ours - theirs != change:
        return ""
    reasons = [text for amount, text in ((constant, "W7: constant operands count as activations"), (untyped, "W4: types without bytes"),
                                         (padding, "W4: the padding of vectorised layouts has no bytes")) if amount]
    return "; ".join(reasons)


def reason_of(column, theirs, ours, row, written):
    """Why a cell differs; '' when there is no known reason."""
    if column.startswith("latency."):
        return "W3: a layer without a record has no time, not 0" if theirs == 0 and ours is None else ""
    if column in ("precision", "output_precision"):
        if re.search("BFloat16|BOOL|Bool", type_words(row)):
            return "W4: BF16 is shown as FP32, BOOL as Bool"
        return "W5: the first input's type for that of the arithmetic" if column == "precision" else ""
    if column.endswith("_bytes") or column == "weights_size":
        return bytes_reason(column, theirs, ours, row, written)
    return ""


def compare(theirs_file, ours_file, store):
    theirs, ours = (json.loads(pathlib.Path(f).read_text()) for f in (theirs_file, ours_file))
    stored, unexplained = {"columns": {}, "differences": {}}, 0
    for name, them in theirs.items():
        us, counts, differences = ours[name], {}, {}
        columns = us["columns"]
        rows = [{c: columns[c][i] for c in columns if c in FILE_COLUMNS} for i in range(len(columns["Name"]))]
        written = set(us["written"])
        equal = 0
        for column, values in them["columns"].items():
            if column not in columns or len(values) != len(columns[column]):
                print(f"  {name}: {column}: not in our frame, or of another length")
                unexplained += 1
                continue
            for i, (a, b) in enumerate(zip(values, columns[column])):
                if a == b:
                    equal += 1
                    continue
                reason = reason_of(column, a, b, rows[i], written)
                unexplained += not reason
                counts[column, reason or "UNEXPLAINED"] = counts.get((column, reason or "UNEXPLAINED"), 0) + 1
                entry = differences.setdefault(column, {"reason": reason, "ours": {}})
                entry["ours"][str(i)] = b
                if not reason:
                    print(f"  {name}: {column}, {columns['Name'][i]}: theirs {a!r}, ours {b!r}")
        print(f"{name}: {len(them['columns'])} columns, {len(rows)} rows, {equal} cells equal; more in ours: {sorted(set(columns) - set(them['columns']))}")
        for (column, reason), count in sorted(counts.items()):
            print(f"    {column}: {count} cells: {reason}")
        for key, value in them["sums"].items():
            same = "" if value == us["sums"][key] else "  (rounding: theirs is added in binary)" if close(value, us["sums"][key]) else "  (differs by the cells above)"
            print(f"    {key}: theirs {value!r}, ours {us['sums'][key]!r}{same}")
        unexplained += compare_views(name, them["views"], us["views"])
        release = re.match(r"trt(\d+)\.", name)
        if release:
            stored["columns"][release.group(1)] = {c: v for c, v in them["columns"].items() if c not in FILE_COLUMNS}
            stored["differences"][release.group(1)] = differences
    if store:
        pathlib.Path(store).write_text(json.dumps(stored, indent=0, sort_keys=True) + "\n")
    print(f"{unexplained} differences without a reason")
    return 1 if unexplained else 0


def compare_views(name, theirs, ours):
    """Typed views. Rates count the stored bytes, as trex's; K of grouped convolutions is of one group (W6)."""
    unexplained = 0
    for kind, columns in theirs.items():
        if isinstance(columns, str):
            print(f"    view of {kind}: trex raises {columns[:90]}")
            continue
        for column, values in columns.items():
            mine = ours[kind].get(column)
            different = [i for i, v in enumerate(values) if mine is None or not close(v, mine[i])]
            if not different:
                continue
            grouped = column == "attr.K" and all(columns["attr.groups"][i] > 1 for i in different)
            missing = mine is None and all(v in (None, 0) for v in values)
            print(f"    view of {kind}: {column}: {len(different)} cells: " + ("W6: groups are ignored" if grouped else "empty in trex" if missing else f"UNEXPLAINED: {[(values[i], mine and mine[i]) for i in different[:3]]}"))
            unexplained += not grouped and not missing
    return unexplained


def close(a, b):
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-12 * max(abs(a), abs(b))
    return a == b


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("frames")
    make.add_argument("package")
    make.add_argument("output")
    make.add_argument("files", nargs="+")
    check = commands.add_parser("compare")
    check.add_argument("theirs")
    check.add_argument("ours")
    check.add_argument("--store")
    write = commands.add_parser("dialects")
    write.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.command == "frames":
        frames(arguments.package, arguments.output, arguments.files)
    elif arguments.command == "dialects":
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "explorer"))
        import dialects
        dialects.write_all(arguments.folder)
    else:
        return compare(arguments.theirs, arguments.ours, arguments.store)
    return 0


if __name__ == "__main__":
    sys.exit(main())
