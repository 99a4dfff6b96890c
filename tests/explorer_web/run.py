#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the explorer's page: types, logic, and the page itself in a headless browser. usage: run.py --build build [--all]

Pages are made from generated analyses (generate.py) and from the schema's example; one is written by `lathe explore` for a
model of the zoo. Screenshots and a printed report stay in build/test-artifacts/explorer. The browser is Debian's chromium.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import generate

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEB = ROOT / "explorer/web"
HOSTILE = "</script><img src=x onerror=alert(1)>&amp;\"'`${alert(2)}\u001e\u202e"


def node():
    pinned = ROOT / ".venv-node/bin/node"
    return str(pinned) if pinned.exists() else shutil.which("node") or sys.exit("node is missing: run tools/setup-web.sh test")


def step(name, *command, **variables):
    start = time.monotonic()
    result = subprocess.run([str(part) for part in command], cwd=WEB, env={**os.environ, **variables}, capture_output=True, text=True)
    print(f"{name}: {'ok' if result.returncode == 0 else 'FAILED'}, {time.monotonic() - start:.1f} s", flush=True)
    if result.returncode != 0:
        print(result.stdout[-12000:], result.stderr[-4000:], sep="\n")
    return result.returncode == 0


def write_pages(template, folder):
    two = generate.analysis(generate.engine(166, errors=True), generate.engine(166, "bert-bf16", 2, "BF16", 0.5, errors=True))
    untimed = generate.analysis(generate.engine(40, times=False))
    text = json.dumps(two)
    noisy = generate.analysis(generate.engine(60, usable=False, views=True))
    sweep = generate.analysis(*(generate.engine(40, f"bert {n}x128x768", speed=n ** 0.8, model=False, batch=n) for n in (1, 2, 4, 8)))
    pages = {
        "noisy": noisy, "sweep": sweep,
        "two": two, "untimed": untimed, "fast": generate.analysis(generate.engine(166, speed=0.002, model=False)), "hostile": generate.analysis(generate.engine(60, "<b>bold</b>", hostile=HOSTILE)),
        "example": (ROOT / "explorer/core/testdata/two_engines.analysis.json").read_text(), "cut": text[: len(text) // 2], "other": '{"schema": "other"}',
        "version": text.replace('"schema_version": "1.3"', '"schema_version": "3.1"'), "empty": "",
    }
    for name, data in pages.items():
        (folder / f"{name}.html").write_text(generate.fill(template, data))
    (folder / "two.json").write_text(text)
    big = generate.fill(template, generate.analysis(generate.engine(10000, model=False)), compress=True)
    (folder / "big.html").write_text(big)
    (folder / "truncated.html").write_text(generate.fill(template, two)[: len(template) + len(text) // 3])
    (folder / "broken.html").write_text(big.replace(">H4sI", ">H4sIAAAA", 1))


def write_real_page(build, folder, model):
    """A report of two real engines, written by the binary itself."""
    lathe, trtexec = build / "bin/lathe", build / "bin/trtexec"
    onnx, first, second = folder / f"{model}.onnx", folder / "first.engine", folder / "second.engine"
    start = time.monotonic()
    quick = [f"--onnx={onnx}", "--skipInference", "--builderOptimizationLevel=0"]
    commands = ([lathe, "zoo", model, "-o", onnx, "--force"], [trtexec, *quick, f"--saveEngine={first}"], [trtexec, *quick, "--bf16", f"--saveEngine={second}"],
                [lathe, "explore", first, second, "-o", folder / "real.html", f"--onnx={onnx}", f"--json={folder / 'real.json'}", "--duration=1"])
    for command in commands:
        result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if result.returncode != 0:
            print(f"{' '.join(map(str, command))}:\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
            return False
    for file in (onnx, first, second):
        file.unlink()
    print(f"report of {model}: ok, {time.monotonic() - start:.1f} s", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="the real page is BERT-base instead of MobileNetV2")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    template = build / "explorer/report_template.html"
    if not template.exists():
        sys.exit(f"{template} is missing: run tools/setup-web.sh test and build again")
    folder = build / "test-artifacts/explorer"
    folder.mkdir(parents=True, exist_ok=True)
    tests = build / "explorer/tests"
    good = step("types of the schema", node(), "build.mjs", "types")
    good &= step("type check", node(), "node_modules/typescript/bin/tsc")
    good &= step("bundle of the unit tests", node(), "build.mjs", "tests", tests)
    good &= step("unit tests", node(), "--test", *sorted(tests.glob("*.test.mjs")), LATHE_ROOT=str(ROOT))
    write_pages(template.read_text(), folder)
    good &= write_real_page(build, folder, "bert_base" if arguments.all else "mobilenet_v2")
    good &= step("page in the browser", node(), "--test", ROOT / "tests/explorer_web/page.test.mjs", LATHE_PAGES=str(folder), LATHE_WEB=str(WEB))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
