# SPDX-License-Identifier: Apache-2.0
"""What the command line says when something is wrong, and that old files survive it."""
import os
import subprocess

FAILED = "re:&&&& FAILED TensorRT.trtexec \\[Lathe v\\d{6}\\] # .*"
NO_ENGINE = ["[E] Failed to create engine from model or file.", "[E] Engine set up failed"]
NO_NETWORK = ["[E] Network And Config setup failed", "[E] Building engine failed", *NO_ENGINE]
QUICK = ["--iterations=2", "--warmUp=0", "--duration=0"]


def arguments(t):
    help_start = ["re:&&&& RUNNING TensorRT.trtexec .*", "=== Model Options ==="]
    r = t.run()
    t.expect(r, 0, [*help_start, "re:&&&& PASSED TensorRT.trtexec .*"])
    for flag in ("--help", "-h"):
        r = t.run(flag, "--nonsense")
        t.expect(r, 0, help_start)
        t.check(not any("PASSED" in line for line in r.out), "--help prints PASSED", r)
    mistaken(t)
    t.expect(t.run("--onnx=m.onnx", "--iterations=x"), 1, [FAILED], ["re:\\[E\\] stoi.*--iterations=x.*"])
    t.expect(t.run("--onnx=m.onnx", "--percentile=101"), 1, [FAILED], ["[E] Percentile 101.000000is not in [0,100]"])
    for flag, needs in (("--useDLACore=0", "DLA"), ("--batch=4", "--shapes")):
        t.expect(t.run("--onnx=m.onnx", flag), 1, [FAILED], [f"re:\\[E\\] {flag.split('=')[0]}.* .*{needs}.*"])


def mistaken(t):
    """Words that are no flags: no help that hides the error; the error stands last, names the word, and what was meant."""
    where = "re:All options: .*trtexec --help"
    for words, errors in (
            (["--onnx=m.onnx", "--foo=bar", "--quux"], ["[E] Unknown option: --foo bar", "[E] Unknown option: --quux "]),
            (["--onx=a.onnx"], ["[E] Unknown option: --onx a.onnx", "[E]   did you mean --onnx=a.onnx?"]),
            (["--onnx=m.onnx", "--saveEngne=f"], ["[E] Unknown option: --saveEngne f", "[E]   did you mean --saveEngine=f?"]),
            (["--onnx", "m.onnx"], ["[E] Unknown option: m.onnx ", "[E]   values follow an equals sign: write --onnx=m.onnx"]),
            (["--onnx=m.onnx", "--skipInference", "--skipInference"], ["[E] --skipInference is given twice"]),
            (["--onnx=m.onnx", "--device=gpu"],
             ["[E] --device=gpu is no device: write cpu, auto or the number of a GPU, as in --device=0"]),
            (["--verbose"], ["[E] Model missing or format not recognized",
                             "[E]   give --onnx=<file> to build an engine, or --loadEngine=<file> to run one"])):
        r = t.run(*words)
        t.expect(r, 1, [where, FAILED], errors)
        t.check(len(r.out) == 3 and len(r.err) == len(errors), f"trtexec {words} says more than its errors", r)
    r = t.run("--onnx=m.onnx", "--fp16=false")
    t.expect(r, 1, [], ["re:\\[W\\] --fp16=false: the value is ignored.*"])
    for program in ("trtexec", "lathe"):
        r = t.run(*(["trtexec"] if program == "lathe" else []), "--version", program=program)
        t.check(r.code == 0 and len(r.out) == 1 and r.out[0].startswith("lathe trtexec ") and not r.err, "--version", r)


def missing_files(t):
    """One wording for a file that is not there, whatever wants it; trtexec's own phrases follow it."""
    text = "cannot open 'missing.{}': no such file or folder"
    onnx, engine, data = text.format("onnx"), text.format("engine"), text.format("json")
    for words, wording in ((["inspect", "missing.onnx"], onnx), (["inspect", "missing.engine"], engine),
                           (["inspect", "missing.onnx", "--graph"], onnx), (["diff", "missing.onnx", "tiny.engine"], onnx),
                           (["diff", "tiny.onnx", "missing.engine"], engine), (["retune", "missing.engine", "-o", "x"], engine),
                           (["process", "missing.onnx", "no_such_out"], onnx), (["process", "missing.engine", "no_such_out"], engine),
                           (["explore", "missing.json"], data), (["explore", "missing.engine"], engine),
                           (["explore", "tiny.engine", "--onnx=missing.onnx"], onnx),
                           (["explore", "tiny.engine", "--rules=missing.json"], data)):
        r = t.run(*words, program="lathe")
        t.check(r.code == 1 and r.err == ["lathe: " + wording], f"lathe {words}", r)
    t.check(not (t.folder / "no_such_out").exists(), "process left a folder for a missing model")
    r = t.run("process", "tiny.onnx", "out", "--print_only", "--verbose", "verbose", program="lathe")
    t.check(r.code == 1 and "--verbose is given twice" in r.err[0], "a flag given twice to process", r)
    r = t.run("process", "tiny.onnx", "out", "--print_only", "--verbose", "--noDataTransfers", program="lathe")
    t.check(r.code == 0 and all(line.count("--verbose") == 1 and line.count("--noDataTransfers") == 1 for line in r.out[:2]), "flags that process gives itself", r)
    t.expect(t.run("--onnx=missing.onnx"), 1, [FAILED], ["[E] [TRT] " + onnx, "[E] Failed to parse onnx file"])
    t.expect(t.run("--loadEngine=missing.engine"), 1, [FAILED], ["[E] [TRT] " + engine, "[E] Error opening engine file: missing.engine"])
    for words, wording in ((["process", "tiny.onnx", "/dev/null/x"], "cannot create '/dev/null/x': Not a directory"),):
        r = t.run(*words, program="lathe")
        t.check(r.code == 1 and r.err == ["lathe: " + wording], f"lathe {words}", r)
    process = subprocess.run([t.bin / "lathe", "explore", "tiny.engine"], cwd=t.folder, capture_output=True, text=True,
                             env={**os.environ, "TMPDIR": "/nonexist"})
    t.check(process.returncode == 1 and "lathe: no place for temporary files: $TMPDIR" in process.stderr, f"TMPDIR: {process.stderr}")


def models(t):
    finished = "re:\\[I\\] Finished parsing network model. Parse time: .*"
    t.expect(t.run("--onnx=no_such.onnx"), 1, ["[I] Start parsing network model.", finished, FAILED],
             ["re:\\[E\\] \\[TRT\\] .*no_such.onnx.*", "[E] Failed to parse onnx file", "[E] Parsing model failed", *NO_ENGINE])
    (t.folder / "garbage.onnx").write_bytes(b"\x08\x07garbage" * 10)
    t.expect(t.run("--onnx=garbage.onnx"), 1, [FAILED], ["re:\\[E\\] \\[TRT\\] .*garbage.onnx.*", "[E] Failed to parse onnx file"])
    t.expect(t.run("--onnx=static.onnx", "--shapes=input:1x3x64x64"), 1, [FAILED],
             ["[E] Static model does not take explicit shapes since the shape of inference tensors will be determined by the model "
              "itself", *NO_NETWORK])
    t.expect(t.run("--onnx=tiny.onnx", "--shapes=wrong:1x3x224x224"), 1, [FAILED],
             ["re:\\[E\\] Cannot find input tensor with name \"wrong\" in the network inputs! Please make sure the input tensor "
              "names are correct\\..*", *NO_NETWORK])
    t.expect(t.run("--onnx=tiny.onnx", "--minShapes=input:8x3x224x224", "--maxShapes=input:1x3x224x224"), 1, [FAILED],
             ["re:\\[E\\] \\[TRT\\] .*input.*", "[E] Required optimization profile is invalid", *NO_NETWORK])
    t.expect(t.run("--onnx=tiny.onnx", "--shapes=input:1x3"), 1, [FAILED], ["re:\\[E\\] \\[TRT\\] .*input.*"])
    t.expect(t.run("--onnx=tiny.onnx", "--int8"), 1, [FAILED], ["re:\\[E\\] --int8 needs .*QuantizeLinear.*", *NO_NETWORK])
    for formats, text in (("fp32:chw32", "no engine has memory in format chw32"), ("fp32:chw16", "pads channels to a multiple of 16"),
                          ("int4:chw", "types of less than a byte are not cast"), ("fp16:chw,fp16:chw", "The number of inputIOFormats must match")):
        t.expect(t.run("--onnx=tiny.onnx", f"--inputIOFormats={formats}"), 1, [FAILED], [f"re:\\[E\\] .*{text}.*"])
    r = t.run("--onnx=tiny.onnx", "--device=0")
    t.expect(r, 1, [], ["re:Cannot find any available devices \\(GPUs\\)!.*"])
    t.check(not any("FAILED" in line for line in r.out), "a missing device prints FAILED", r)
    t.expect(t.run("diff", "tiny.onnx", "tiny.engine", "--json=d.json", program="lathe"), 1, [], ["lathe: --json takes no value: write --json alone"])
    # Found through PATH the program knows its own folder, too, and what lies there.
    process = subprocess.run(["trtexec", "--onnx=tiny.onnx", "--device=0"], cwd=t.folder, capture_output=True, text=True,
                             env={**os.environ, "PATH": f"{t.bin}:{os.environ['PATH']}"})
    t.check(process.stderr.splitlines() == r.err, f"by its path {r.err}, through PATH {process.stderr}")
    t.expect(t.run("process", "tiny.onnx", "out_gpu", "--device=0", program="lathe"), 1, [],
             ["re:lathe: the build failed; its log is out_gpu/tiny.onnx.engine.build.log: Cannot find any available devices.*"])


def engines(t):
    t.expect(t.run("--loadEngine=no_such.engine"), 1, [FAILED], ["[E] Error opening engine file: no_such.engine", *NO_ENGINE])
    good = (t.folder / "tiny.engine").read_bytes()
    unusable = ["re:\\[E\\] \\[TRT\\] .*broken.engine.*", "[E] Engine deserialization failed", "[E] Got invalid engine!",
                "[E] Inference set up failed"]
    broken = t.folder / "broken.engine"
    for damage in (b"", good[:100], good[: len(good) // 2], b"x" * 4096, good[:-1]):
        broken.write_bytes(damage)
        t.expect(t.run("--loadEngine=broken.engine", *QUICK), 1, [FAILED], unusable)
    run = ["--loadEngine=tiny.engine", *QUICK]
    t.expect(t.run(*run, "--shapes=input:9x3x64x64"), 1, [FAILED], ["re:\\[E\\] \\[TRT\\] .*input.*", "[E] Inference set up failed"])
    t.expect(t.run(*run, "--shapes=x:1x3x64x64"), 1, [FAILED],
             ["re:\\[E\\] Cannot find input tensor with name \"x\" in the engine bindings! .*",
              "[E] Invalid tensor names found in --shapes flag.", "[E] Inference set up failed"])
    t.expect(t.run(*run, "--loadInputs=x:file"), 1, [FAILED], ["[E] Invalid tensor names found in --loadInputs flag."])
    t.expect(t.run(*run, "--useProfile=3"), 1, [FAILED],
             ["[E] Selected profile index 3 exceeds the number of profiles that the engine holds. "])
    t.expect(t.run("--loadEngine=static.engine", "--shapes=input:2x3x64x64", *QUICK), 1, [FAILED],
             ["re:\\[E\\] The engine was built with static shapes for input tensor input but the provided shapes do not match the "
              "static shapes!.*"])
    t.expect(t.run("--loadEngine=static.engine", "--shapes=input:1x3x64x64", *QUICK), 0)
    t.expect(t.run(*run, "--batch=77"), 1, [FAILED], ["re:\\[E\\] --batch=77 .*"])


def files(t):
    run = ["--loadEngine=tiny.engine", "--shapes=input:1x3x64x64", *QUICK]
    t.expect(t.run(*run, "--loadInputs=input:missing.bin"), 1, [FAILED],
             ["[E] Uncaught exception detected: Cannot open file missing.bin!"])
    (t.folder / "short.bin").write_bytes(b"1234")
    t.expect(t.run(*run, "--loadInputs=input:short.bin"), 1, [FAILED],
             ["[E] Uncaught exception detected: Unexpected file size for input file: short.bin. Note: Input binding size is: 49152 "
              "bytes but the file size is 4 bytes. Double check the size and datatype of the provided data."])
    (t.folder / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff{")
    t.expect(t.run(*run, "--loadInputs=input:bad.npy"), 1, [FAILED], ["re:.*bad.npy: not a usable .npy array.*"])
    for flag in ("--exportTimes", "--exportOutput", "--exportProfile", "--exportLayerInfo"):
        t.expect(t.run(*run, "--separateProfileRun", f"{flag}=no_such_folder/x.json"), 1, [FAILED],
                 ["[E] no_such_folder/x.json cannot be written: there is no folder no_such_folder"])
    t.expect(t.run("--onnx=tiny.onnx", "--saveEngine=no_such_folder/x.engine", "--skipInference"), 1, [FAILED],
             ["[E] no_such_folder/x.engine cannot be written: there is no folder no_such_folder", "[E] Saving engine to file failed."])
    for cache, text in (("no_such_folder/c", "there is no folder"), ("/dev/zero", "not a regular file"), ("short.bin", "not a timing cache")):
        t.expect(t.run("--onnx=tiny.onnx", f"--timingCacheFile={cache}", "--skipInference"), 1, [FAILED], [f"re:\\[E\\] .*{cache}.*{text}.*"])
    limits(t)
    with open("/dev/full", "wb") as full:
        r = t.run("--help", stdout=full)
    t.check(r.code == 1 and any("standard output" in line for line in r.err), "a full standard output is not reported", r)


def limits(t):
    """A file size limit that is reached while saving: one error that names the file, and the old file as it was."""
    run = ["--loadEngine=tiny.engine", *QUICK]
    detailed = ["--separateProfileRun", "--profilingVerbosity=detailed"]
    build = ["--onnx=tiny.onnx", "--skipInference", "--optShapes=input:2x3x64x64"]
    for words, errors in (([*build, "--saveEngine=old"], ["re:\\[E\\] \\[TRT\\] .*old.*", "[E] Saving engine to file failed."]),
                          ([*build, "--timingCacheFile=old"], ["re:\\[E\\] .*old.*"]),
                          ([*run, "--exportTimes=old"], ["re:\\[E\\] .*old.*"]),
                          ([*run, "--exportOutput=old"], ["re:\\[E\\] .*old.*"]),
                          ([*run, *detailed, "--exportProfile=old"], ["re:\\[E\\] .*old.*"]),
                          ([*run, *detailed, "--exportLayerInfo=old"], ["re:\\[E\\] .*old.*"])):
        content = b"lathe timing cache 1\n" if "--timingCacheFile=old" in words else b"an old file"
        (t.folder / "old").write_bytes(content)
        r = t.run(*words, limit=64)
        t.expect(r, 1, [FAILED], errors)
        in_place = any(word.startswith("--export") for word in words)  # those go into the file that is there
        t.check(in_place or (t.folder / "old").read_bytes() == content, "a failed save changed the old file", r)
        left = [f for f in os.listdir(t.folder) if f.startswith("old") and f not in ("old", "old.lock")]
        t.check(not left, f"a temporary file is left: {left}", r)
    (t.folder / "old").unlink()
    r = t.run("zoo", "detector", "-o", "zoo.onnx", program="lathe", limit=4096)
    t.check(r.code == 1 and any("zoo.onnx" in line for line in r.err) and not (t.folder / "zoo.onnx").exists(), "zoo within a limit", r)


def commands(t):
    def lathe(*words):
        return t.run(*words, program="lathe")

    for words, text in ((["nonsense"], "no command nonsense: see `lathe help`"), (["serve", "m.onnx"], "no command serve: the Python package has it"), (["inspct"], "no command inspct: did you mean inspect?"),
                        (["help", "exlore"], "no command exlore: did you mean explore?"),
                        (["zoo", "nonsense", "-o", "x.onnx"], "nonsense"), (["inspect", "broken.engine"], "broken.engine"),
                        (["inspect"], "inspect takes one file"), (["inspect", "tiny.onnx", "--jsn"], "unknown option --jsn: did you mean --json?"),
                        (["inspect", "tiny.onnx", "--json", "--json"], "--json is given twice"),
                        (["diff", "tiny.onnx"], "diff takes a model and an engine"),
                        (["diff", "tiny.onnx", "tiny.engine", "--threshold=abc"], "--threshold=abc needs a number, as in --threshold=0.5"),
                        (["diff", "tiny.onnx", "tiny.engine", "--device=gpu"],
                         "--device=gpu is no device: write cpu, auto or the number of a GPU, as in --device=0"),
                        (["explore", "tiny.engine", "--txt"], "unknown option --txt: did you mean --text?"),
                        (["explore", "tiny.engine", "--duration=x"], "--duration=x needs a number"),
                        (["retune", "tiny.engine"], "-o"), (["retune", "tiny.engine", "-o", "x", "--avgTimng=2"], "did you mean --avgTiming=2?"),
                        (["process", "tiny.onnx", "no_such_out", "--bf61"], "did you mean --bf16?"), (["zoo", "--nonsense"], "unknown option --nonsense: `lathe help zoo` lists all"), (["zoo", "detector", "-o"], "-o needs a value: write -o <file>"),
                        (["completion", "bsh"], "no completion for bsh: did you mean bash or zsh?"), (["man", "trtexc"], "no page trtexc: did you mean trtexec?")):
        r = lathe(*words)
        t.check(r.code == 1 and any(text in line for line in r.err) and r.err[0].startswith("lathe: "), f"lathe {words}", r)
    for words in ([], ["help"], ["help", "diff"], ["help", "trtexec"], ["zoo", "--help"], ["--version"]):
        r = lathe(*words)
        t.check(r.code == 0 and r.out and not r.err, f"lathe {words}", r)
    # The table of commands and the programs that run them are one.
    names = [line.split()[0] for line in lathe("help").out if line.startswith("  ") and not line.startswith("  lathe")]
    t.check(len(names) > 8, f"lathe help lists {names}")
    for name in names:
        t.check(not any("no command" in line for line in lathe(name, "--help").err), f"lathe {name} is listed and does not run")
        r = lathe("help", name)
        t.check(r.code == 0 and "Examples" in "".join(r.out), f"lathe help {name}", r)


def run_all(t):
    for group in (arguments, models, engines, files, missing_files, commands):
        group(t)
