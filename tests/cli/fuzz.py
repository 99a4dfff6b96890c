# SPDX-License-Identifier: Apache-2.0
"""Damaged models and engines, and random flags: never a signal, never a hang, always an error line. Seeded."""
import collections
import random
import re
import subprocess

QUICK = ["--iterations=1", "--warmUp=0", "--duration=0"]
HUGE = [b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, (2**63 - 1).to_bytes(8, "little"), (2**31).to_bytes(8, "little")]
VALUES = ["", "0", "1", "-1", "3", "abc", "1e99", "99999999999", "none", "x:1", "input:1x3x64x64", "input:2x3x64x64", "input:0x3x64x64",
          "input:-1x3x64x64", "input:2147483647x3x2147483647x2147483647", "input:1x3", "input:", "*:1x3x64x64", "in*:1x3x32x32",
          "'input':1x3x64x64", "'input:1x3", "a,b,c", ",,,", ":::", "workspace:1G", "workspace:1Q", "+CUDNN", "+x", "fp32:chw", "fp16:chw",
          "detailed", "lean", "cpu", "avx2", "force", "50,90", "101", "input:scalar", "x" * 5000, "\u00ff", "%s%n"]
FILES = ["out.tmp", "no/such", "/", ""]
SLOW = {"--duration", "--sleepTime", "--idleTime", "--warmUp", "--iterations", "--help", "--infStreams", "--streams", "--verifyPasses"}


def damaged(data, rng):
    """Bit flips, truncation, absurd lengths, inserted bytes."""
    data, kind = bytearray(data), rng.random()
    if kind < 0.5:
        for _ in range(rng.choice([1, 1, 2, 8])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind < 0.65:
        del data[rng.randrange(len(data)):]
    elif kind < 0.85:
        at = rng.randrange(len(data) - 8)
        data[at:at + 8] = rng.choice(HUGE)
    else:
        at = rng.randrange(len(data))
        data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice([1, 4, 100])))
    return bytes(data)


def verdict(t, what, *words):
    """Runs and checks that it ended by itself, with an error line when it failed."""
    try:
        r = t.run(*words, timeout=120)
    except subprocess.TimeoutExpired:
        t.check(False, f"{what} hangs: {words}")
        return None
    errors = [line for line in r.err if "[E]" in line or line.startswith("Cannot find any")]
    t.check(r.code == 0 or (r.code == 1 and errors), f"{what}: exit {r.code}", r)
    t.check(not any("internal error" in line or "runtime error" in line for line in r.err), f"{what}: our own bug", r)
    return r.code


def files(t, count, rng):
    sources = {"--onnx": (t.folder / "tiny.onnx").read_bytes(), "--loadEngine": (t.folder / "tiny.engine").read_bytes()}
    codes = collections.Counter()
    for i in range(count):
        flag = rng.choice(sorted(sources))
        (t.folder / "damaged.bin").write_bytes(damaged(sources[flag], rng))
        more = ["--optShapes=input:1x3x32x32", "--builderOptimizationLevel=0"] if flag == "--onnx" else []
        codes[flag, verdict(t, f"damaged file {i}", f"{flag}=damaged.bin", *QUICK, *more)] += 1
    t.check(codes["--onnx", 1] > 0 and codes["--loadEngine", 1] > 0, f"no damaged file was refused: {codes}")


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
