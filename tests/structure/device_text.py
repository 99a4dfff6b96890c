#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cmake/device_text.cmake: a device file's pieces are its text, whatever characters they hold, and a damaged file is refused.

Also, of every device file: its head comment says what the generator writes in front of it, each piece is read by a source, and
no two files have one name.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

FIRST = '''
DEV int f(int (&x)[2]) { return x[0]; }  // [one; two] "three" \\n ${four} @five@ $ENV{SIX} \\
#define TWO_LINES(a) \\
  a; a
asm volatile("{\\n.reg .pred p;\\n}" ::: "memory");
'''
SECOND = "\n// # this begins no piece\n]];]=];;\n"


def make(folder, text):
    """The process, and the header that it wrote."""
    source, header = folder / "x.cuh", folder / "x.h"
    source.write_text(text)
    done = subprocess.run(["cmake", f"-DSOURCE={source}", f"-DHEADER={header}", "-DNAME=x", "-P", ROOT / "cmake/device_text.cmake"],
                          capture_output=True, text=True)
    return done, header.read_text() if done.returncode == 0 else ""


def check_script(problems):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        _, header = make(folder, f"// A comment of the file; it is no piece.\n\n//# kFirst{FIRST}//# kSecond{SECOND}")
        for piece, text in {"kFirst": FIRST, "kSecond": SECOND}.items():
            if f'inline constexpr std::string_view {piece} = R"cuda({text})cuda";\n' not in header:
                problems.append(f"device_text.cmake: piece {piece} is not its text")
        if "it is no piece" in header:
            problems.append("device_text.cmake: the file's comment became text of a kernel")
        for text, wanted in {"int x;\n": "begins a piece", "//# two words\nint x;\n": "names no piece"}.items():
            done, _ = make(folder, text)
            if done.returncode == 0 or wanted not in done.stderr.replace("\n", " "):
                problems.append(f"device_text.cmake: no error with '{wanted}' for {text!r}")


def check_files(problems):
    folder = ROOT / "src/backend/cuda"
    files = sorted(folder.rglob("*.cuh"))
    sources = "\n".join(f.read_text() for f in folder.rglob("*.cpp"))
    for file in files:
        name, text = file.relative_to(ROOT), file.read_text()
        if [f.name for f in files].count(file.name) > 1:
            problems.append(f"{name}: another device file has this name, and headers are made by name")
        head = text.split("\n//# ")[0]
        if head.count("\n//") < 2:
            problems.append(f"{name}: no comment in front of the first piece says what the pieces are and expect")
        for piece in re.findall(r"^//# (\w+)$", text, re.M):
            if f"device_text::{file.stem}::{piece}" not in sources:
                problems.append(f"{name}: no source reads device_text::{file.stem}::{piece}")
    return len(files)


def main():
    problems = []
    check_script(problems)
    count = check_files(problems)
    for problem in problems:
        print(problem)
    print(f"{count} device files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
