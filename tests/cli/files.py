# SPDX-License-Identifier: Apache-2.0
"""Files and ends of runs: what stays open, what is kept, what is left behind; memory of long runs."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

QUICK = ["--iterations=2", "--warmUp=0", "--duration=0"]


def open_handles(t):
    """Reports are written into the file that is there: who opened it before reads them, and hard links stay."""
    for flag, extra in (("--exportTimes", []), ("--exportOutput", []), ("--exportProfile", ["--separateProfileRun"]),
                        ("--exportLayerInfo", []), ("--exportSummary", [])):
        with tempfile.NamedTemporaryFile("w+", dir=t.folder, suffix=".json") as handle:
            handle.write("x" * 100000)
            handle.flush()
            t.expect(t.run("--loadEngine=tiny.engine", *QUICK, *extra, f"{flag}={handle.name}"), 0)
            handle.seek(0)
            try:
                json.load(handle)
            except ValueError as error:
                t.check(False, f"{flag}: the handle that was open before reads no JSON: {error}")
    t.expect(t.run("--loadEngine=tiny.engine", *QUICK, "--dumpRawBindingsToFile"), 0)
    raw = next(t.folder.glob("output.output.*.raw"))
    before = raw.stat().st_ino
    t.expect(t.run("--loadEngine=tiny.engine", *QUICK, "--dumpRawBindingsToFile"), 0)
    t.check(raw.stat().st_ino == before, "--dumpRawBindingsToFile replaced a file")


def targets(t):
    """What cannot be written is said before the work."""
    for words in (["retune", "tiny.engine", "-o", "no_such_folder/x"], ["explore", "tiny.engine", "-o", "no_such_folder/x"],
                  ["explore", "tiny.engine", "--json=no_such_folder/x"], ["explore", "tiny.engine", "--trex=no_such_folder/x"]):
        r = t.run(*words, program="lathe")
        t.expect(r, 1, [], ["re:lathe: no_such_folder/x.* cannot be written: there is no folder no_such_folder"])
        t.check(not any("running" in line or "Timing" in line for line in r.out + r.err), "it worked before it looked", r)


def zoo(t):
    (t.folder / "there.onnx").write_text("mine")
    t.expect(t.run("zoo", "detector", "-o", "there.onnx", program="lathe"), 1, [], ["lathe: there.onnx exists: --force overwrites it"])
    t.check((t.folder / "there.onnx").read_text() == "mine", "zoo overwrote a file without being asked to")
    r = t.run("zoo", "detector", "-o", "there.onnx", "--force", "--json", program="lathe")
    t.expect(r, 0)
    result = json.loads("\n".join(r.out))
    t.check(result == {"model": "detector", "file": "there.onnx", "bytes": (t.folder / "there.onnx").stat().st_size}, f"zoo --json: {result}")
    models = json.loads("\n".join(t.run("zoo", "--json", program="lathe").out))
    t.check({"resnet50", "bert_base"} <= {model["name"] for model in models}, f"zoo --json: {models}")
    (t.folder / "there.onnx").unlink()


def retune(t):
    """The result says which engine was kept, and -o holds it."""
    r = t.run("retune", "tiny.engine", "-o", "again.engine", "--json", "--builderOptimizationLevel=1", program="lathe")
    t.expect(r, 0, [], ["re:\\[I\\] Timed in turns: the old engine takes .* ms, the new one .* ms; kept: the (old|new) one."])
    result = json.loads("\n".join(r.out))
    t.check(result["kept"] == ("new" if result["new_ms"] < result["old_ms"] else "old"), f"retune --json: {result}")
    t.expect(t.run("--loadEngine=again.engine", *QUICK), 0)
    # The very same times, so the very same choices: of two equal engines the faster one by chance may win, but a slower one never does.
    slow = t.run("retune", "tiny.engine", "-o", "slow.engine", "--json", "--builderOptimizationLevel=0", program="lathe")
    result = json.loads("\n".join(slow.out))
    same = (t.folder / "slow.engine").read_bytes() == (t.folder / "tiny.engine").read_bytes()
    t.check(same == (result["kept"] == "old"), f"retune wrote another engine than it says: {result}", slow)


def timing_caches(t):
    build = ["--onnx=tiny.onnx", "--skipInference", "--optShapes=input:2x3x64x64", "--timingCacheFile=sub/c"]
    (t.folder / "sub").mkdir()
    t.expect(t.run(*build), 0)
    t.check(sorted(os.listdir(t.folder / "sub")) == ["c"], f"beside the timing cache lies {os.listdir(t.folder / 'sub')}")
    if os.geteuid() == 0:
        # Root may write everywhere; a lock that cannot be made is the same refusal.
        (t.folder / "sub" / "c.lock").mkdir()
    else:
        (t.folder / "sub").chmod(0o555)
    warning = "re:\\[W\\] \\[TRT\\] The timing cache was only read: .*c.lock.*"
    t.expect(t.run(*build), 0, [], [warning + "This build measured nothing new."])
    if os.geteuid() == 0:
        (t.folder / "sub" / "c.lock").rmdir()
    else:
        t.expect(t.run(*build[:-1], "--optShapes=input:3x3x64x64", build[-1]), 0, [], [warning + "\\d+ new entries of this build are lost."])
        (t.folder / "sub").chmod(0o755)


def start(t, program, *words, **options):
    # Tests that run in the background of a shell inherit SIGINT as ignored, and a program leaves it so.
    return subprocess.Popen([str(t.bin / program), *words], cwd=t.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options)


def wait_for(process, text):
    """Reads lines up to one that holds the text."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            break
    return lines


def interrupts(t):
    run = ["--loadEngine=tiny.engine", "--shapes=input:1x3x64x64", "--warmUp=0"]
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start(t, "trtexec", *run, "--duration=600", "--exportTimes=i.json", "--exportSummary=i.summary.json")
        wait_for(process, "Starting inference")
        time.sleep(0.3)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        t.check(process.returncode == -number, f"after {number.name} the exit status is {process.returncode}")
        t.check("=== Performance summary ===" in out and "Interrupted" in err and "&&&& FAILED" in out, f"an interrupted run says {out[-600:]} {err[-600:]}")
        times = json.loads((t.folder / "i.json").read_text())
        summary = json.loads((t.folder / "i.summary.json").read_text())
        t.check(len(times) == summary["queries"] > 1 and not summary["complete"], f"an interrupted run exports {summary}")
    process = start(t, "trtexec", *run, "--duration=-1")
    wait_for(process, "Starting inference")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    t.check("Throughput:" in out and "&&&& PASSED" in out, f"an endless run ends with {out[-600:]} {err[-600:]}")


def interrupted_build(t):
    """The times that were measured are in the cache, the old engine is there, and nothing else is."""
    (t.folder / "old.engine").write_text("old")
    before = set(os.listdir(t.folder))
    process = start(t, "trtexec", "--onnx=images.onnx", "--verbose", "--optShapes=input:4x3x224x224", "--skipInference", "--timingCacheFile=i.cache",
                    "--saveEngine=old.engine", "--avgTiming=80", "--builderOptimizationLevel=5")
    wait_for(process, "Fastest Tactic")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    t.check(process.returncode == -signal.SIGINT, f"an interrupted build ends with {process.returncode}: {out[-500:]} {err[-500:]}")
    t.check((t.folder / "old.engine").read_text() == "old", "an interrupted build changed the old engine")
    cache = (t.folder / "i.cache").read_text() if (t.folder / "i.cache").exists() else ""
    t.check(len(cache.splitlines()) > 1, f"an interrupted build kept no times: {cache!r} {out[-500:]}")
    t.check(set(os.listdir(t.folder)) == before | {"i.cache"}, f"it left {set(os.listdir(t.folder)) - before}")


def temporary_folders(t):
    place = t.folder / "tmp"
    place.mkdir()
    process = start(t, "lathe", "explore", "tiny.engine", "--json=e.json", "--duration=600", env={**os.environ, "TMPDIR": str(place)})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any((f / "run.log").exists() for f in place.iterdir()):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    t.check(process.returncode == -signal.SIGTERM, f"explore ends with {process.returncode}")
    t.check(not list(place.iterdir()), f"explore left {list(place.iterdir())}")
    r = t.run("explore", "tiny.engine", "--json=e.json", program="lathe", env={**os.environ, "TMPDIR": "/no_such_folder"})
    t.check(r.code == 1 and any("$TMPDIR, or /tmp without it, is no folder" in line for line in r.err), "TMPDIR that is no folder", r)


def closed_pipes(t):
    """`lathe inspect x | head -1` is no error, and a run goes on to its end."""
    for words in (["lathe", "inspect", "tiny.engine", "--json"], ["trtexec", "--loadEngine=tiny.engine", *QUICK, "--exportTimes=pipe.json"]):
        process = subprocess.Popen([str(t.bin / words[0]), *words[1:]], cwd=t.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        t.check(process.wait(timeout=60) == 0 and "standard output" not in err, f"{words} | head -1: {process.returncode} {err}")
    t.check((t.folder / "pipe.json").exists(), "a run whose reader has gone did not finish")


def long_runs(t):
    """A network that does nothing: millions of queries take neither memory nor time besides the run."""
    t.expect(t.run("--onnx=identity.onnx", "--saveEngine=identity.engine", "--skipInference"), 0)
    script = ("import resource, subprocess, sys, time\n"
              "start = time.monotonic()\n"
              "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode\n"
              "print(code, time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)\n")
    out = subprocess.run([sys.executable, "-c", script, t.bin / "trtexec", "--loadEngine=identity.engine", "--duration=2", "--warmUp=0"], cwd=t.folder,
                         capture_output=True, text=True).stdout
    code, seconds, mebibytes = (float(word) for word in out.split())
    t.check(code == 0 and seconds < 4 and mebibytes < 100, f"an identity model, 2 s: {seconds:.1f} s, {mebibytes:.0f} MiB")


def refits(t):
    """An engine that was stripped of its weights gets them back and computes what it did; other models are refused by name."""
    answers = {}
    def outputs(name, *words):
        t.expect(t.run(*words, "--shapes=input:1x3x64x64", "--loadInputs=input:ones.dat", *QUICK, f"--exportOutput={name}.json"), 0)
        answers[name] = json.loads((t.folder / f"{name}.json").read_text())[0]["values"]
    import struct
    (t.folder / "ones.dat").write_bytes(struct.pack("<f", 1.0) * (3 * 64 * 64))
    outputs("whole", "--loadEngine=tiny.engine")
    t.expect(t.run("--onnx=tiny.onnx", "--optShapes=input:2x3x64x64", "--minShapes=input:1x3x64x64", "--maxShapes=input:4x3x64x64",
                   "--builderOptimizationLevel=0", "--stripWeights", "--saveEngine=stripped.engine", "--skipInference"), 0)
    r = t.run("--loadEngine=stripped.engine", *QUICK)
    t.expect(r, 1, [], ["re:.*'stripped.engine' was stripped of its weights: give them back with --refitFromOnnx=model.onnx"])
    outputs("again", "--loadEngine=stripped.engine", "--refitFromOnnx=tiny.onnx")
    close = all(abs(a - b) <= 1e-4 * max(1, abs(b)) for a, b in zip(answers["again"], answers["whole"]))
    t.check(close and len(answers["again"]) == 10, f"a refitted engine gives {answers['again']} instead of {answers['whole']}")
    r = t.run("--loadEngine=stripped.engine", "--refitFromOnnx=identity.onnx", *QUICK)
    t.expect(r, 1, [], ["re:.*the model of the new weights has other inputs than the engine's", "re:.*Engine refit failed"])


def edits(t):
    """The two halves of a model, one after the other, compute what the whole does."""
    import struct
    def lathe_edit(*words):
        return t.run("edit", "static.onnx", *words, program="lathe")
    def values(model, *words):
        t.expect(t.run(f"--onnx={model}", "--builderOptimizationLevel=0", *QUICK, *words, "--exportOutput=o.json"), 0)
        return json.loads((t.folder / "o.json").read_text())[0]["values"]
    t.expect(lathe_edit("--outputs=r1", "-o", "body.onnx"), 0, ["re:wrote body.onnx .*: 5 of .* operators"])
    t.expect(lathe_edit("--inputs=r1", "--rename=r1:features,output:logits", "-o", "head.onnx", "--fold"), 0)
    (t.folder / "image.dat").write_bytes(struct.pack("<f", 0.5) * (3 * 64 * 64))
    whole, features = values("static.onnx", "--loadInputs=input:image.dat"), values("body.onnx", "--loadInputs=input:image.dat")
    (t.folder / "features.dat").write_bytes(struct.pack(f"<{len(features)}f", *features))
    parts = values("head.onnx", "--loadInputs=features:features.dat")
    t.check(len(parts) == 10 and all(abs(a - b) <= 1e-4 * max(1, abs(b)) for a, b in zip(parts, whole)), f"halves give {parts}, not {whole}")
    t.check(json.loads((t.folder / "o.json").read_text())[0]["name"] == "logits", "the output has its old name")
    t.expect(lathe_edit("--outputs=r1", "-o", "body.onnx"), 1, [], ["lathe: body.onnx exists: --force overwrites it"])
    t.expect(lathe_edit("--outputs=nothing", "-o", "x.onnx"), 1, [], ["re:lathe: the network has no tensor 'nothing' .*"])
    r = lathe_edit("--inputs=r1", "--json", "--force", "-o", "head.onnx")
    result = json.loads("\n".join(r.out))
    t.check((result["inputs"], result["outputs"]) == (["r1"], ["output"]) and result["operators"] < result["operators_before"], f"edit --json: {result}")


def run_all(t):
    for group in (edits, refits, open_handles, targets, zoo, retune, timing_caches, interrupts, interrupted_build, temporary_folders, closed_pipes, long_runs):
        group(t)
