# SPDX-License-Identifier: Apache-2.0
"""Limits of memory (ulimit -v): a build, a run of a saved engine and a report end with success, or with one line that says how much
was wanted for what; never with a signal."""
import re

QUICK = ["--iterations=1", "--warmUp=0", "--duration=0", "--builderOptimizationLevel=0"]
FIGURE = re.compile(r"(out of memory: .*\d+ (bytes|MiB)|cannot map the \d+ bytes of '|cannot start \d+ threads?)")


def limited(t, mebibytes, *words, program="trtexec"):
    return t.run(*words, program=program, memory=mebibytes << 20)


def judge(t, what, mebibytes, result):
    errors = [line for line in result.err if FIGURE.search(line)]
    t.check(result.code == 0 or (result.code == 1 and errors), f"{what} with {mebibytes} MiB: exit {result.code}, no figures", result)
    return result.code


def run_all(t, model, limits):
    """`limits` in MiB, rising; the last one is enough for everything."""
    t.expect(t.run(f"--onnx={model}", *QUICK, "--saveEngine=whole.engine", "--exportLayerInfo=layers.json"), 0)
    codes = {}
    for limit in limits:
        codes[limit] = [
            judge(t, "a build", limit, limited(t, limit, f"--onnx={model}", *QUICK, "--saveEngine=limited.engine")),
            judge(t, "a run", limit, limited(t, limit, "--loadEngine=whole.engine", *QUICK)),
            judge(t, "a report", limit, limited(t, limit, "explore", "layers.json", "--text", program="lathe")),
        ]
    t.check(1 in codes[limits[0]], f"{limits[0]} MiB limit nothing: {codes}")
    t.check(codes[limits[-1]] == [0, 0, 0], f"{limits[-1]} MiB are not enough: {codes}")
    print("memory:", codes)
