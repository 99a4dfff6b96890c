#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints which tests a program skipped, and why; fails when a reason is not in tests/skips.txt. usage: tools/skips.py LOG

GoogleTest prints `FILE:LINE: Skipped`, the reason on the next line, and later `[  SKIPPED ] NAME`.
"""
import collections
import pathlib
import re
import sys

LIST = pathlib.Path(__file__).resolve().parents[1] / "tests" / "skips.txt"


def allowed_reasons():
    lines = LIST.read_text().splitlines()
    return [line.split(":", 1)[0] for line in lines if line and not line.startswith("#")]


def reasons(text):
    """The reason of each skip."""
    return re.findall(r"^\S+:\d+: Skipped\n(.*)$", text, re.MULTILINE)


def main():
    text = pathlib.Path(sys.argv[1]).read_text(errors="replace")
    allowed, found = allowed_reasons(), collections.Counter(reasons(text))
    for reason, count in found.items():
        print(f"{count} skipped: {reason}")
    unknown = [reason for reason in found if reason not in allowed]
    if unknown or sum(found.values()) != len(set(re.findall(r"^\[  SKIPPED \] (\S+\.\S+)", text, re.MULTILINE))):
        sys.exit(f"a test was skipped for a reason that is not in tests/skips.txt: {unknown or 'none was given'}")


if __name__ == "__main__":
    main()
