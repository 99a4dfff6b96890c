#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No two files define a type of one name in one namespace: the linker would keep one of their destructors for both.

usage: one_definition.py
Reads namespaces and type definitions that begin a line, as the style guide writes them; what is in an unnamed namespace is the
file's own. Nested types belong to their class.
"""
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["src", "cli", "explorer/core", "explorer/web", "bench", "onnxruntime"]
TOKEN = re.compile(
    r"^namespace ?(?P<open>[\w:]*) ?\{"
    r"|^\}  // namespace"
    r"|^(?:template <.*>\s)?(?:struct|class|enum class|union) (?:alignas\(.*\) )?(?P<type>\w+)(?: final)?(?: :(?!:)[^;{]*)? \{", re.M)


def definitions(text):
    spaces = []
    for match in TOKEN.finditer(text):
        if match["type"]:
            if "" not in spaces:
                yield "::".join([*spaces, match["type"]])
        elif match["open"] is not None:
            spaces.append(match["open"])
        elif spaces:
            spaces.pop()


def main():
    places = collections.defaultdict(set)
    files = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cpp") and "node_modules" not in p.parts]
    for path in files:
        for name in definitions(path.read_text()):
            places[name].add(str(path.relative_to(ROOT)))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    for name, where in sorted(twice.items()):
        print(f"{name} is defined in {' and in '.join(sorted(where))}: rename one, or put it into an unnamed namespace")
    print(f"{len(files)} files, {len(places)} types, {len(twice)} problems")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
