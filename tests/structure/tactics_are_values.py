#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nothing in src/backend reads a tactic's name, and no family knows one device's numbers.

A tactic's parameters are values (backend/tactic.h), its name is printed from them. What a device has is asked of its model.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

READS_TEXT = re.compile(
    r"sscanf|\bstoi\b|\bstol\b|from_chars"
    r"|\bname\w*(?:\(\))?\.(?:find|rfind|substr|starts_with|ends_with|compare|find_\w+)\("
    r"|[tT]actic\w*(?:\.|->)name (?:==|!=)|\bt\.name (?:==|!=)")
# Multiprocessors and bytes of shared memory of GPUs that were measured.
DEVICE_NUMBER = re.compile(r"(?<![\w.])(?:108|114|132|142|144|148|101376|102400|166912|167936|232448|233472)(?![\w.])")

# File, and what it may read: text that is no tactic's name, or the comparison of two tactics.
ALLOWED = {
    "all.cpp": "std::stoi(options.device)",
    "offered.cpp": "t.name != tactic.name",
    "cpu/device/machine.cpp": 'sscanf(line.c_str(), "cpu MHz',
    # The name of a library's implementation becomes a parameter where a tactic is listed.
    "cpu/device/onednn_call.cpp": "name",
    # The emulator has the memory of the GPU that it stands for.
    "cuda/emulator/shim.h": "shared_memories[kMostBlocks]",
}


def code_lines(text):
    """Lines without comments; device code in raw strings counts, too."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, re.sub(r"//.*", "", line)


def main():
    problems = []
    folder = ROOT / "src/backend"
    files = [f for f in sorted(folder.rglob("*")) if f.suffix in (".h", ".cpp", ".inc", ".cuh")]
    unused = set(ALLOWED)
    for file in files:
        name = str(file.relative_to(folder))
        if name.endswith("_test.cpp"):
            continue
        for number, line in code_lines(file.read_text()):
            reads, device = READS_TEXT.search(line), DEVICE_NUMBER.search(line)
            if not reads and not device:
                continue
            if name in ALLOWED and ALLOWED[name] in line:
                unused.discard(name)
            elif reads:
                problems.append(f"src/backend/{name}:{number}: reads text: {line.strip()}\n"
                                "  a tactic's parameters are values (TacticParams); nothing reads its name")
            else:
                problems.append(f"src/backend/{name}:{number}: a device's number: {line.strip()}\n"
                                "  ask the device's model (DeviceProperties, Machine)")
    problems += [f"{name} no longer needs its exception in tests/structure/tactics_are_values.py" for name in sorted(unused)]
    for problem in problems:
        print(problem)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
