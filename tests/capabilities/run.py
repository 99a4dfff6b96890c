#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What users of TensorRT's API find here, by the tests that show it: checks table.tsv, and checks (or writes) docs/capabilities.md.

table.tsv has a row for each capability: id, priority (P0: nothing replaces TensorRT without it; P1: it is missed soon), what it is in our
words, state (works, differs, absent), how, and the tests that show it. A row that works or differs needs a test, and each test must
exist: Suite.Name of GoogleTest, tests/<path>::<function> as <path>::<function>, pass::<name> of tests/passes, or conformance::<operator>,
an operator whose cases pass in docs/operators.md.

usage: run.py [--build build] [--update]
"""
import argparse
import collections
import csv
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/capabilities.md"
STATES = ("works", "differs", "absent")
CHAPTERS = {"BU": "Builder", "BC": "Options of a build", "BF": "Flags of a build", "BM": "Memory pools", "BP": "Previews", "BE": "Enumerated settings",
            "TM": "Types and calibration", "DT": "Element types", "TF": "Memory formats", "OP": "ONNX parser", "NL": "Layers",
            "NC": "Loops and conditionals", "NT": "Networks and tensors", "NE": "Enumerations of the network API", "RT": "Runtime",
            "SE": "Engine files", "PF": "Shapes and profiles", "EN": "Engines", "CX": "Contexts and memory", "RF": "Refit",
            "AL": "Allocators and streams of bytes", "IN": "Inspector", "DB": "Profiling, debugging, errors", "SF": "Products on top",
            "PI": "Plugin interface", "PG": "Plugin registry", "PS": "Plugins by name", "IM": "Front ends and samples"}


def gtests():
    pattern = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
    folders = ("src", "cli", "explorer", "onnxruntime", "tests")
    return {f"{suite}.{name}" for folder in folders for path in (ROOT / folder).rglob("*.cpp") for suite, name in pattern.findall(path.read_text())}


def passing_operators():
    """Operators with a case that passes."""
    rows = re.findall(r"^\| (\S+) \|(.*)\|$", (ROOT / "docs/operators.md").read_text(), re.MULTILINE)
    return {name for name, cells in rows if re.search(r"\b[1-9]\d* of \d+", cells)}


class Tests:
    def __init__(self):
        self.gtests, self.operators = gtests(), passing_operators()

    def missing(self, name):
        """Why there is no such test; empty: there is."""
        if name.startswith("conformance::"):
            return "" if name.removeprefix("conformance::") in self.operators else "docs/operators.md has no case of it that passes"
        if name.startswith("pass::"):
            return "" if (ROOT / f"tests/passes/{name.removeprefix('pass::')}.ir").exists() else "tests/passes has no such file"
        if "/" not in name:
            return "" if name in self.gtests else "no source has this TEST"
        path, _, function = name.partition("::")
        if not (ROOT / "tests" / path).exists():
            return f"tests/{path} does not exist"
        if function and not re.search(rf"^\s*def {function}\(", (ROOT / "tests" / path).read_text(), re.MULTILINE):
            return f"tests/{path} has no function {function}"
        return ""


def problems(rows):
    tests, seen = Tests(), set()
    for row in rows:
        name = row["id"]
        if name in seen:
            yield f"{name} stands there twice"
        seen.add(name)
        if row["state"] not in STATES or row["priority"] not in ("P0", "P1") or name.split("-")[0] not in CHAPTERS:
            yield f"{name}: its state, priority or chapter is unknown"
        if not row["tests"] and row["state"] != "absent":
            yield f"{name} {row['state']}, but no test shows it"
        if row["state"] == "differs" and not row["how"]:
            yield f"{name} differs, but how is not said"
        for test in row["tests"].split():
            if reason := tests.missing(test):
                yield f"{name}: {test}: {reason}"


def totals(rows):
    counts = collections.Counter((row["priority"], row["state"]) for row in rows)
    lines = ["| | rows | works | differs | absent |", "|---|---|---|---|---|"]
    for priority in ("P0", "P1"):
        of = [counts[priority, state] for state in STATES]
        whole = sum(of)
        cells = [f"{n} ({100 * n / whole:.0f} %)" for n in of]
        lines.append(f"| {priority} | {whole} | {' | '.join(cells)} |")
    return lines


def page(rows):
    lines = ["# What TensorRT's API can do, and Lathe", "",
             "Made by `tests/capabilities/run.py --update` from `tests/capabilities/table.tsv`; `make test` fails when a test that is named here does not exist. "
             "The rows are what the builder, network, runtime and plugin interfaces of TensorRT 10 and 11 offer: all that an ordinary program needs (P0) and what "
             "is missed soon (P1); rarer things are not listed. **works**: the capability is there, in C++, C, Python or a command; **differs**: its purpose is "
             "served in another way, or in part, as the row says; **absent**: it is not there.", "", *totals(rows), ""]
    chapter = None
    for row in rows:
        code = row["id"].split("-")[0]
        if code != chapter:
            lines += ["" if chapter else None, f"## {CHAPTERS[code]}", "", "| id | | capability | state | how | shown by |", "|---|---|---|---|---|---|"]
            chapter = code
        tests = ", ".join(f"`{t}`" for t in row["tests"].split())
        lines.append(f"| {row['id']} | {row['priority']} | {row['capability']} | {row['state']} | {row['how']} | {tests} |")
    return "\n".join(line for line in lines if line is not None) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    with open(pathlib.Path(__file__).parent / "table.tsv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    wrong = list(problems(rows))
    for line in wrong:
        print(f"table.tsv: {line}")
    made = page(rows)
    if arguments.update:
        PAGE.write_text(made)
    elif not PAGE.exists() or PAGE.read_text() != made:
        wrong.append("the page")
        print("docs/capabilities.md is not up to date: run tests/capabilities/run.py --update")
    print("\n".join(totals(rows)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
