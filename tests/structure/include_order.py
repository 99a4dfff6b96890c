#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the include order of docs/architecture.md: a folder includes only what lies below it.

Also: no file over 600 lines (tables excepted), SPDX line first, `#pragma once` in headers, and kernels compiled for
one instruction set include only intrinsics, plain C headers and their own kernel headers.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Each layer may include itself and every layer before it. Folders in one layer do not include each other.
LAYERS = [
    {"base"},
    {"ir"},
    {"ops"},
    {"backend"},
    {"image"},
    {"reference", "plugin", "backend/cpu", "backend/cuda", "memory"},
    {"onnx", "passes", "quant", "tune", "plan"},
    {"backend/all"},
    {"runtime"},
    {"builder"},
    {"report", "explorer/core", "explorer/web", "cli/arguments"},
    {"cli", "python", "onnxruntime", "bench", "examples", "explorer/python"},
]
# The runtime links no ONNX reader, no pass and no tuner, though they lie below it.
FORBIDDEN = {"runtime": {"onnx", "passes", "quant", "tune"}}
# The explorer reads JSON: it stands on base alone. A command line's words are read without the engine library's rest.
# The provider for ONNX Runtime stands on the public API, and writes models in ONNX's wire format.
ONLY = {"explorer/core": {"base"}, "explorer/web": {"base"}, "cli/arguments": {"base", "image", "ir", "plan"},
        "onnxruntime": {"onnx"}}
# The same inside of a backend: its folders, bottom to top. A family's folder includes no other family's.
INSIDE = {
    "backend/cpu": [
        {"kernel", "vector"},
        {"tile"},
        {"device"},
        {"product", "quantized", "conv", "attention", "region", "index", "recurrent", "exact", "select", "pool", "resize", "sample", "signal", "onednn", "plugin", "check"},
        {"run"},
        {"tactics"},
    ],
    "backend/cuda": [
        {"device"},
        {"kernel", "codegen"},
        {"product", "conv", "attention", "region", "index", "select", "recurrent", "sample", "signal", "exact", "library", "emulator"},
        {"run"},
        {"tactics"},
    ],
}
COLUMNS = 110
RAW_STRING = re.compile(r'R"(\w*)\((.*?)\)\1"', re.S)

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def folder_of(path):
    """'backend/cpu/conv/x.h' -> 'backend/cpu'; 'backend/all.cpp' -> 'backend/all'; 'ir/dim.h' -> 'ir'."""
    parts = path.removeprefix("cli/").split("/")
    if len(parts) > 1 and parts[0] == "arguments":
        return "cli/arguments"  # included as "arguments/x.h"
    parts = path.split("/")
    if parts[:2] in (["backend", "cpu"], ["backend", "cuda"]) or parts[0] == "explorer":
        return "/".join(parts[:2])
    if parts[0] == "backend" and parts[1].startswith("all."):
        return "backend/all"
    return parts[0]


def level(folder, layers=LAYERS):
    for i, layer in enumerate(layers):
        if folder in layer:
            return i
    return None


def inside_problem(file, target, backend):
    """What is wrong with an include within a backend, or ''. A file of the backend's own folder counts by its name: kernel.h is 'kernel'."""
    layers = INSIDE[backend]
    here, there = (p.split("/")[2].split(".")[0] for p in (str(file.relative_to(ROOT / "src")), target))
    if here == there:
        return ""
    if level(there, layers) is None:
        return f"{backend}/{there} is not in the include order"
    if level(here, layers) is None:
        return f"{backend}/{here} is not in the include order"
    apart = {"kernel"} & {here, there}  # the one header that others of its layer may include, and that may include them
    if level(there, layers) > level(here, layers) or (level(there, layers) == level(here, layers) and not apart):
        return f"{backend}/{here} must not include {backend}/{there}: include order of the backend's folders"
    return ""


def check_includes(file, folder, problems):
    for number, line in enumerate(file.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        where = f"{file.relative_to(ROOT)}:{number}"
        if target.startswith("lathe/"):
            continue  # the public API
        other = folder_of(target)
        if level(other) is None:
            if not (file.parent / target).exists() and not target.startswith("lathe_"):
                problems.append(f"{where}: \"{target}\" belongs to no folder of src/")
            continue
        if other == folder:
            problem = inside_problem(file, target, folder) if folder in INSIDE else ""
            if problem:
                problems.append(f"{where}: {problem}")
            continue
        if folder in ONLY and other not in ONLY[folder]:
            problems.append(f"{where}: {folder} stands on {', '.join(sorted(ONLY[folder]))} alone, not on {other}")
        elif level(other) >= level(folder):
            problems.append(f"{where}: {folder} must not include {other} (\"{target}\"): include order")
        if other in FORBIDDEN.get(folder, set()):
            problems.append(f"{where}: {folder} must not include {other}: the runtime stays free of it")


def check_form(file, problems):
    name = str(file.relative_to(ROOT))
    lines = file.read_text().splitlines()
    if not lines or "SPDX-License-Identifier: Apache-2.0" not in "\n".join(lines[:2]):
        problems.append(f"{name}: the first line must be the SPDX line")
    if file.suffix == ".h" and "#pragma once" not in lines:
        problems.append(f"{name}: no #pragma once")
    if len(lines) > 600 and "// table" not in "\n".join(lines[:12]):
        problems.append(f"{name}: {len(lines)} lines; split it by purpose (600 at most)")
    text = "\n".join(lines)
    # What stands in strings is as wide as what it shows: code of a GPU, files, help.
    own = RAW_STRING.sub(lambda raw: '""' + "\n" * raw.group(2).count("\n"), text).splitlines()
    for number, line in enumerate(own, 1):
        if len(line) > COLUMNS and '"' not in line:
            problems.append(f"{name}:{number}: {len(line)} columns ({COLUMNS} at most)")
    if re.search(r"\bgetenv\s*\(", text) and name.startswith("src/") and not name.endswith("_test.cpp"):
        problems.append(f"{name}: the library reads no environment variables")


def main():
    problems = []
    files = [f for top in ("src", "cli", "explorer", "onnxruntime", "examples", "bench", "include") if (ROOT / top).exists()
             for f in sorted((ROOT / top).rglob("*")) if f.suffix in (".h", ".cpp", ".inc", ".cu", ".cuh") and "node_modules" not in f.parts]
    for file in files:
        top = file.relative_to(ROOT).parts[0]
        folder = folder_of(str(file.relative_to(ROOT / "src" if top == "src" else ROOT)))
        if level(folder) is None and top != "include":
            problems.append(f"{file.relative_to(ROOT)}: folder {folder} is not in the include order")
        elif top not in ("include", "examples") and not file.name.endswith("_test.cpp"):
            check_includes(file, folder, problems)
        check_form(file, problems)
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
