# SPDX-License-Identifier: Apache-2.0
"""Damaged models and engines, and random flags: never a signal, never a hang, always an error line. Seeded."""
import collections
import pathlib
import random
import re
import shutil
import subprocess

import damage
import tiny_model

QUICK = ["--iterations=1", "--warmUp=0", "--duration=0"]
SMALL = pathlib.Path(__file__).resolve().parents[1] / "models" / "small"
VALUES = ["", "0", "1", "-1", "3", "abc", "1e99", "99999999999", "none", "x:1", "input:1x3x64x64", "input:2x3x64x64", "input:0x3x64x64",
          "input:-1x3x64x64", "input:2147483647x3x2147483647x2147483647", "input:1x3", "input:", "*:1x3x64x64", "in*:1x3x32x32",
          "'input':1x3x64x64", "'input:1x3", "a,b,c", ",,,", ":::", "workspace:1G", "workspace:1Q", "+CUDNN", "+x", "fp32:chw", "fp16:chw",
          "detailed", "lean", "cpu", "avx2", "force", "50,90", "101", "input:scalar", "x" * 5000, "\u00ff", "%s%n"]
FILES = ["out.tmp", "no/such", "/", ""]
STAMPED = re.compile(r"^\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] \[[EWIV]\] .")
NAMED = re.compile(r"['\"][^'\"]+['\"]|input \w+|tensor \w+|node \w+")  # an error that speaks of an input, a tensor, a node
SLOW = {"--duration", "--sleepTime", "--idleTime", "--warmUp", "--iterations", "--help", "--infStreams", "--streams", "--verifyPasses"}


def verdict(t, what, *words, keep=None):
    """Runs and checks that it ended by itself, and when it failed with lines that say so and name a thing.

    `keep`: a file that is copied beside the build when something is wrong with it, to look at."""
    before = len(t.failures)
    try:
        r = t.run(*words, timeout=120)
    except subprocess.TimeoutExpired:
        t.check(False, f"{what} hangs: {words}")
        return keep_file(t, keep, before, None)
    errors = [line for line in r.lines("err") if line.startswith(("[E]", "Cannot find any"))]
    t.check(r.code == 0 or (r.code == 1 and errors), f"{what}: exit {r.code}", r)
    # (What a file asks of a backend that cannot do it is the file's fault: "engine file ... is damaged: ... internal error ...".)
    own = [line for line in r.err if "is damaged: " not in line]
    t.check(not any(bug in line for line in own for bug in ("internal error", "runtime error", "Sanitizer", "bad_alloc", "std::")),
            f"{what}: our own bug", r)
    loose = [line for line in r.err if not STAMPED.match(line) and not line.startswith(("Cannot find any", "  "))]  # "  ": a list's entry
    t.check(not loose, f"{what}: an error of more than one line", r)
    if keep and r.code == 1:
        t.check(any(keep in line or NAMED.search(line) for line in errors), f"{what}: no error names a thing", r)
    return keep_file(t, keep, before, r.code)


def keep_file(t, name, before, code):
    if name and len(t.failures) > before:
        kept = t.bin.parent / "kept"
        kept.mkdir(exist_ok=True)
        shutil.copy(t.folder / name, kept / f"{len(t.failures)}.bin")
        t.failures[-1] += f"\nthe file: {kept / f'{len(t.failures)}.bin'}"
    return code


def sources(t):
    """What gets damaged: (flag, kind of damage, bytes, more flags)."""
    level0 = ["--builderOptimizationLevel=0"]
    tiny, engine = (t.folder / "tiny.onnx").read_bytes(), (t.folder / "tiny.engine").read_bytes()
    tiny_model.write(t.folder / "external.onnx", size=64, external="weights.bin")
    found = [("--loadEngine", kind, engine, []) for kind in (damage.damaged_bytes, damage.damaged_engine) * 3]
    models = [(tiny, ["--optShapes=input:1x3x32x32"]), ((t.folder / "external.onnx").read_bytes(), [])]
    models += [((SMALL / f"{name}.onnx").read_bytes(), []) for name in ("opset7", "opset9", "opset11", "opset13")]
    for kind in (damage.damaged_bytes, damage.damaged_message, damage.damaged_message):
        found += [("--onnx", kind, data, level0 + more) for data, more in models]
    return found


def files(t, count, rng):
    codes, every = collections.Counter(), sources(t)
    for i in range(count):
        flag, kind, data, more = rng.choice(every)
        (t.folder / "damaged.bin").write_bytes(kind(data, rng))
        code = verdict(t, f"damaged file {i} ({kind.__name__})", f"{flag}=damaged.bin", *QUICK, *more, keep="damaged.bin")
        codes[kind.__name__, flag, code] += 1
    for kind in ("damaged_bytes", "damaged_message", "damaged_engine"):
        t.check(any(codes[kind, flag, 1] for flag in ("--onnx", "--loadEngine")), f"{kind}: no file was refused: {codes}")
    print("files:", ", ".join(f"{kind} {flag} exit {code}: {n}" for (kind, flag, code), n in sorted(codes.items(), key=str)))


def flags(t, count, rng):
    """Known flags, as the help text lists them, with values that mostly make no sense."""
    names = sorted({name for line in t.run("--help").out for name in re.findall(r"^  (--\w+)", line)} - SLOW)
    for i in range(count):
        words = [rng.choice(["--onnx=tiny.onnx", "--loadEngine=tiny.engine", "--onnx=static.onnx"]), *QUICK]
        for _ in range(rng.randrange(1, 5)):
            name = rng.choice(names)
            is_file = name.startswith("--export") or name in ("--saveEngine", "--timingCacheFile")
            value = rng.choice(FILES if is_file else VALUES)
            words.append(f"{name}={value}" if rng.random() < 0.9 else name)
        verdict(t, f"random flags {i}", *words)


def run_all(t, count):
    rng = random.Random(5)
    files(t, count, rng)
    flags(t, max(count // 4, 20), rng)
