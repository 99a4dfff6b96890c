# SPDX-License-Identifier: Apache-2.0
"""Output of runs that work: order of lines, banners, JSON files, the engine explorer's rules, the commands of lathe."""
import json
import pathlib
import re
import struct
import subprocess
import sys

import numpy as np
import tiny_model

HERE = pathlib.Path(__file__).parent
QUICK = ["--iterations=5", "--warmUp=0", "--duration=0"]
NUMBER = r"[\d.e+-]+"


def load(t, name):
    return json.loads((t.folder / name).read_text())


def banner(t):
    """The option banner, line by line; what varies with the build is replaced."""
    for name, words in (("build", ["--onnx=tiny.onnx", "--skipInference", "--minShapes=input:1x3x64x64", "--optShapes=input:2x3x64x64",
                                   "--maxShapes=input:4x3x64x64", "--memPoolSize=workspace:512MiB", "--best"]),
                        ("load", ["--loadEngine=tiny.engine", "--shapes=input:1x3x64x64", *QUICK, "--idleTime=1", "--avgRuns=2"])):
        r = t.run(*words)
        lines = r.lines()
        end = next((i for i, line in enumerate(lines) if "=== Device Information" in line), 0)
        found = "\n".join(re.sub(r"Lathe v\d{6}", "Lathe vMMmmpp", line).replace(str(t.bin) + "/", "") for line in lines[:end]) + "\n"
        golden = HERE / "golden" / f"banner_{name}.txt"
        if "--update" in sys.argv:
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(found)
        t.check(golden.read_text() == found, f"the banner differs from {golden.name}:\n{found}")


def build(t):
    r = t.run("--onnx=tiny.onnx", "--saveEngine=tiny.engine", "--minShapes=input:1x3x64x64", "--optShapes=input:2x3x64x64",
              "--maxShapes=input:4x3x64x64", "--profilingVerbosity=detailed", "--verbose", *QUICK)
    t.expect(r, 0, ["re:&&&& RUNNING TensorRT.trtexec \\[Lathe v\\d{6}\\] # .*trtexec --onnx=tiny.onnx .*", "[I] === Model Options ===",
                    "[I] Format: ONNX", "[I] === Build Options ===", "[I] === System Options ===", "[I] === Inference Options ===",
                    "[I] === Reporting Options ===", "[I] === Device Information ===", "re:\\[I\\] Selected Device: .+",
                    "[I] Start parsing network model.", "re:\\[I\\] \\[TRT\\] Input filename:   tiny.onnx",
                    "[I] [TRT] ONNX IR version:  0.0.8", "[I] [TRT] Opset version:    17",
                    "[V] [TRT] Adding network input: input with dtype: float32, dimensions: (-1, 3, -1, -1)",
                    "[V] [TRT] Registering tensor: input for ONNX tensor: input", "[V] [TRT] Importing initializer: w0", "[V] [TRT] Parsing node: Conv_0 [Conv]",
                    "[V] [TRT] Searching for input: input",
                    "[V] [TRT] Conv_0 [Conv] inputs: [input -> (-1, 3, -1, -1)[FLOAT]], [w0 -> (8, 3, 3, 3)[FLOAT]], [b0 -> (8)[FLOAT]], ",
                    "[V] [TRT] Registering layer: Conv_0 for ONNX node: Conv_0", "[V] [TRT] Registering tensor: c0 for ONNX tensor: c0",
                    "[V] [TRT] Conv_0 [Conv] outputs: [c0 -> (-1, 8, -1, -1)[FLOAT]], ", "[V] [TRT] Marking output as output: output",
                    "re:\\[I\\] Finished parsing network model. Parse time: " + NUMBER,
                    "re:\\[I\\] \\[TRT\\] \\[MemUsageChange\\] Import network: CPU [+-]\\d+, GPU \\+0, now: CPU \\d+, GPU 0 \\(MiB\\)",
                    "[I] Set shape of input tensor input for optimization profile 0 to: MIN=1x3x64x64 OPT=2x3x64x64 MAX=4x3x64x64",
                    "re:\\[V\\] \\[TRT\\] After dead-layer removal: \\d+ layers",
                    "re:\\[V\\] \\[TRT\\] Graph construction completed in " + NUMBER + " seconds.",
                    "re:\\[V\\] \\[TRT\\] After Myelin optimization: \\d+ layers", "[V] [TRT] Running: ConvReluFusion on Conv_0", "[V] [TRT] ConvReluFusion: Fusing Conv_0 with Relu_1",
                    "re:\\[V\\] \\[TRT\\] After vertical fusions: \\d+ layers", "re:\\[V\\] \\[TRT\\] =+ Computing costs for .*",
                    "re:\\[V\\] \\[TRT\\] \\*+ Autotuning format combination: Float\\(.*\\) -> Float\\(.*\\) \\*+",
                    "re:\\[V\\] \\[TRT\\] -+ Timing Runner: .* \\(\\w+\\[0x[0-9a-f]{8}\\]\\)",
                    "re:\\[V\\] \\[TRT\\] Tactic Name: .* Tactic: 0x[0-9a-f]{16} Time: .*",
                    "re:\\[V\\] \\[TRT\\] .* profiling completed in .* seconds. Fastest Tactic: 0x.* Time: .*",
                    "re:\\[V\\] \\[TRT\\] >+ Chose Runner Type: .* Tactic: 0x.*",
                    "re:\\[V\\] \\[TRT\\] After slice removal: \\d+ layers", "re:\\[V\\] \\[TRT\\] After concat removal: \\d+ layers",
                    "re:\\[V\\] \\[TRT\\] Layer: .*Gemm_7.* Host Persistent: 360 Device Persistent: 0 Scratch Memory: \\d+",
                    "re:\\[V\\] \\[TRT\\] Skipped printing memory information for \\d+ layers with 0 memory size .*",
                    "re:\\[I\\] \\[TRT\\] Total Host Persistent Memory: [1-9]\\d* bytes", "[I] [TRT] Total Device Persistent Memory: 0 bytes",
                    "re:\\[I\\] \\[TRT\\] Total Scratch Memory: \\d+ bytes", "re:\\[I\\] \\[TRT\\] Total Weights Memory: \\d+ bytes",
                    "re:\\[I\\] \\[TRT\\] Engine generation completed in .* seconds.",
                    "re:\\[I\\] \\[TRT\\] \\[MemUsageStats\\] Peak memory usage of TRT CPU/GPU memory allocators: CPU \\d+ MiB, GPU 0 MiB",
                    "re:\\[I\\] \\[TRT\\] \\[MemUsageChange\\] Build engine: .*", "[V] [TRT] Engine Layer Information:",
                    "re:Layer\\(.*\\): Conv_0.*, Tactic: 0x[0-9a-f]{16}, .*\\(Float\\[2,3,64,64\\]\\) -> .*", "[V] [TRT] Layers:",
                    "re:Name: Conv_0.*, LayerType: .*, TacticName: .*", "re:\\[I\\] Engine built in .* sec.",
                    "re:\\[I\\] Created engine with size: .* MiB", "[I] Set shape of input tensor input to: 2x3x64x64",
                    "re:\\[I\\] Created execution context with device memory size: .* MiB", "[I] Using random values for input input",
                    "[I] Input binding for input with dimensions 2x3x64x64 is created.",
                    "[I] Output binding for output with dimensions 2x10 is created.", "[I] Starting inference",
                    "re:\\[I\\] Warmup completed 0 queries over 0 ms", "re:\\[I\\] Timing trace has \\d+ queries over .* s",
                    "[I] === Trace details ===", "[I] === Performance summary ===", "re:\\[I\\] Throughput: " + NUMBER + " qps",
                    "re:\\[I\\] GPU Compute Time: min = .* ms, max = .* ms, mean = .* ms, median = .* ms, percentile\\(90%\\) = .* ms, "
                    "percentile\\(95%\\) = .* ms, percentile\\(99%\\) = .* ms",
                    "[I] Explanations of the performance metrics are printed in the verbose logs.",
                    "[V] === Explanations of the performance metrics ===", "re:&&&& PASSED TensorRT.trtexec .*"])
    for text in ("Total Weights Memory", "Max Scratch Memory", "Total Host Persistent Memory"):
        t.check(sum(text in line for line in r.out) == 1, f"{text} is not said once", r)
    t.check(not [line for line in r.out if re.search(r"\] \[[WEF]\] ", line)], "warnings or errors on stdout", r)
    t.check(not [line for line in r.err if re.search(r"\] \[[IV]\] ", line)], "information on stderr", r)
    t.expect(t.run("--onnx=static.onnx", "--saveEngine=static.engine", "--skipInference"), 0,
             ["[I] Skipped inference phase since --skipInference is added.", "re:&&&& PASSED .*"])
    t.expect(t.run("--onnx=tiny.onnx", "--skipInference"), 0,
             ["re:\\[I\\] Set shape of input tensor input for optimization profile 0 to: MIN=1x3x1x1 OPT=1x3x1x1 MAX=1x3x1x1"],
             ["[W] Dynamic dimensions required for input: input, but no shapes were provided. Automatically overriding shape to: 1x3x1x1"])


def exports(t):
    r = t.run("--loadEngine=tiny.engine", "--shapes=input:1x3x64x64", *QUICK, "--dumpProfile", "--separateProfileRun", "--dumpLayerInfo",
              "--dumpOutput", "--dumpOptimizationProfile", "--exportTimes=t.json", "--exportProfile=p.json", "--exportLayerInfo=l.json",
              "--exportOutput=o.json", "--profilingVerbosity=detailed")
    t.expect(r, 0, ["re:\\[I\\] Engine deserialized in .* sec.", "[I] Layer Information:", "[I] Layers:",
                    "re:Name: Conv_0.*, LayerType: .*, Inputs: \\[ \\{ Name: .*, Location: Device, Dimensions: .*, Format/Datatype: .* \\}\\], "
                    "Outputs: .*, TacticName: .*, TacticValue: 0x.*, StreamId: 0, Metadata: .*",
                    "[I] Optimization Profile Information:", "[I] Model input input (profile 0): min=1x3x64x64, opt=2x3x64x64, max=4x3x64x64",
                    "[I] Starting inference", "[I] === Performance summary ===", "[I] output: (1x10)", "re:\\[I\\] (" + NUMBER + " ?){10}",
                    "re:\\[I\\] === Profile \\(\\d+ iterations \\) ===", "[I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer",
                    "re:\\[I\\] .* 100.0   Total"])
    (t.folder / "run.log").write_text("\n".join(r.out) + "\n")
    times = load(t, "t.json")
    t.check(len(times) >= 5 and list(times[0]) == ["startEnqMs", "endEnqMs", "startH2dMs", "endH2dMs", "startComputeMs", "endComputeMs",
                                                   "startD2hMs", "endD2hMs", "h2dMs", "computeMs", "d2hMs", "latencyMs"], f"times: {times[:1]}")
    output = load(t, "o.json")
    t.check(len(output) == 1 and output[0]["name"] == "output" and output[0]["dimensions"] == "1x10" and len(output[0]["values"]) == 10,
            f"outputs: {output}")
    rules = subprocess.run([sys.executable, HERE / "trex_rules.py", "--layers", t.folder / "l.json", "--profile", t.folder / "p.json",
                            "--times", t.folder / "t.json", "--log", t.folder / "run.log"], capture_output=True, text=True)
    t.check(rules.returncode == 0, f"the engine explorer's rules:\n{rules.stdout}{rules.stderr}")


def summary(t):
    """--exportSummary: the run's figures are those of the log."""
    r = t.run("--loadEngine=tiny.engine", "--shapes=input:1x3x64x64", *QUICK, "--exportSummary=s.json", "--percentile=50,99.9")
    t.expect(r, 0)
    run = load(t, "s.json")
    logged = dict(line[len("[I] "):].split(": ", 1) for line in r.lines() if line.startswith("[I] ") and ": " in line)
    t.check(f"{run['throughput_qps']:g} qps" == logged["Throughput"], f"throughput {run['throughput_qps']}, in the log {logged['Throughput']}")
    for key, name in (("latency_ms", "Latency"), ("enqueue_ms", "Enqueue Time"), ("h2d_ms", "H2D Latency"), ("compute_ms", "GPU Compute Time"),
                      ("d2h_ms", "D2H Latency")):
        m = run[key]
        text = ", ".join([f"{k} = {m[k]:g} ms" for k in ("min", "max", "mean", "median")] +
                         [f"percentile({k}%) = {v:g} ms" for k, v in m["percentiles"].items()])
        t.check(text == logged[name], f"{name}: {text}, in the log {logged[name]}")
    t.check(run["inputs"] == [{"name": "input", "type": "float32", "dimensions": [1, 3, 64, 64]}] and run["complete"] and run["queries"] >= 5
            and "--exportSummary=s.json" in run["flags"] and run["device"]["Selected Device"] and run["engine"] == "tiny.engine", f"summary: {run}")


def numbers_for_scripts(t):
    """What scripts read as numbers is one with every instruction set; nothing is said twice; no advice that is for GPUs."""
    for isa in ("avx2", "avx512", "avx512_bf16", "amx"):
        r = t.run("--loadEngine=tiny.engine", f"--cpuIsa={isa}", "--shapes=input:1x3x64x64", *QUICK, "--useCudaGraph", "--useSpinWait",
                  "--separateProfileRun", "--dumpProfile")
        t.expect(r, 0, ["[I] === Device Information ===", "[I] Available Devices: ", "re:\\[I\\]   Device cpu: \".*\" UUID: .*",
                        "re:\\[I\\] Compute Capability: \\d\\.\\d", "re:\\[I\\] SMs: \\d+", "re:\\[I\\] Device Global Memory: \\d+ MiB",
                        "re:\\[I\\] Shared Memory per SM: \\d+ KiB", "re:\\[I\\] Memory Bus Width: \\d+ bits.*",
                        "re:\\[I\\] Application Compute Clock Rate: [\\d.]+ GHz", "re:\\[I\\] Application Memory Clock Rate: [\\d.]+ GHz.*", "[I] ",
                        "[I] Note: The application clock rates do not reflect the actual clock rates that the GPU is currently running at.",
                        "re:\\[I\\] \\[TRT\\] \\[MemUsageChange\\] Init CPU: CPU [+-]\\d+, GPU \\+0, now: CPU \\d+, GPU 0 \\(MiB\\)"],
                 ["re:\\[W\\] --useCudaGraph has no effect on a CPU.*"])
        warnings = [line for line in r.lines("err") if line.startswith("[W] ")]
        t.check(len(set(warnings)) == len(warnings), "a warning is said twice", r)
        t.check(not any("GPU clock" in line or "adding --useSpinWait" in line for line in warnings), "advice for a GPU", r)


def several_profiles(t):
    """Layers and bindings of all profiles but the first say whose they are, in every report."""
    shapes = [f"--{bound}Shapes=input:{batch}x3x64x64" for bound, batch in (("min", 1), ("opt", 1), ("max", 2))]
    more = [f"--{bound}Shapes=input:{batch}x3x64x64" for bound, batch in (("min", 2), ("opt", 4), ("max", 4))]
    t.expect(t.run("--onnx=tiny.onnx", "--saveEngine=two.engine", "--skipInference", "--profile=0", *shapes, "--profile=1", *more), 0)
    for index in (0, 1):
        t.expect(t.run("--loadEngine=two.engine", f"--useProfile={index}", "--shapes=input:2x3x64x64", *QUICK, "--separateProfileRun",
                       "--profilingVerbosity=detailed", "--exportProfile=p.json", "--exportLayerInfo=l.json"), 0)
        plan, profile = load(t, "l.json"), load(t, "p.json")
        names = [layer["Name"] for layer in plan["Layers"]]
        first = [name for name in names if "[profile" not in name]
        second = names[len(first):]
        t.check(first and second and all(name.endswith(" [profile 1]") for name in second), f"layers of two profiles: {names}")
        t.check(len(set(names)) == len(names), f"names of layers repeat: {names}")
        t.check(plan["Bindings"] == ["input", "output", "input [profile 1]", "output [profile 1]"], f"bindings: {plan['Bindings']}")
        t.check([record["name"] for record in profile[1:]] == (second if index else first), f"profile {index}: {profile}")
        batches = [plan["Layers"][at]["Inputs"][0]["Dimensions"][0] for at in (0, len(first))]
        t.check(batches == [[2, 4], [1, 2]][index], f"the run's shapes in its own profile, opt in the other: {batches}")
        rules = subprocess.run([sys.executable, HERE / "trex_rules.py", "--layers", t.folder / "l.json", "--shapeProfile", str(index)],
                               capture_output=True, text=True)
        t.check(rules.returncode == 0, f"the engine explorer's rules, profile {index}:\n{rules.stdout}{rules.stderr}")


def names_only(t):
    t.expect(t.run("--onnx=static.onnx", "--skipInference", "--exportLayerInfo=n.json"), 0)
    text = (t.folder / "n.json").read_text()
    t.check(re.match(r'\{"Layers": \["[^"]+"\n(,"[^"]+"\n)*\],\n"Bindings": \["input"\n,"output"\n\]', text), f"names only:\n{text}")
    json.loads(text)


def profile_without_separate_run(t):
    r = t.run("--loadEngine=tiny.engine", *QUICK, "--dumpProfile", "--exportTimes=none.json")
    t.expect(r, 0, ["[I] The e2e network timing is not reported since it is inaccurate due to the extra synchronizations when the profiler "
                    "is enabled.", "re:\\[I\\] To show e2e network timing report, add --separateProfileRun .*", "re:\\[I\\] === Profile .*"])
    t.check(not (t.folder / "none.json").exists(), "times were exported with the profiler on")


def inputs(t):
    values = [i / 1000 for i in range(3 * 64 * 64)]
    data = struct.pack(f"<{len(values)}f", *values)
    (t.folder / "x.bin").write_bytes(data)
    header = str({"descr": "<f4", "fortran_order": False, "shape": (1, 3, 64, 64)}).encode().ljust(117) + b"\n"
    (t.folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
    import zipfile
    with zipfile.ZipFile(t.folder / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(t.folder / "x.npy", "input.npy")
    results = []
    for name in ("x.bin", "x.npy", "x.npz"):
        r = t.run("--loadEngine=tiny.engine", "--shapes=input:1x3x64x64", *QUICK, f"--loadInputs=input:{name}", "--exportOutput=x.json")
        t.expect(r, 0, [f"[I] Using values loaded from {name} for input input"])
        results.append(load(t, "x.json"))
    t.check(results[0] == results[1] == results[2], f"inputs from files give different outputs: {results}")
    numbers = struct.unpack(f"<{3 * 4096}f", data)
    (t.folder / "hwc.bin").write_bytes(struct.pack(f"<{3 * 4096}f", *(numbers[c * 4096 + p] for p in range(4096) for c in range(3))))
    for padded in ("hwc", "hwc8", "hwc16"):
        r = t.run("--onnx=tiny.onnx", "--optShapes=input:1x3x64x64", *QUICK, f"--inputIOFormats=fp32:{padded}", "--saveEngine=padded.engine",
                  "--loadInputs=input:hwc.bin", "--exportOutput=x.json")
        t.expect(r, 0, ["[I] Using values loaded from hwc.bin for input input"])
        differences = [abs(a - b) for a, b in zip(load(t, "x.json")[0]["values"], results[0][0]["values"])]
        t.check(max(differences) < 1e-5, f"{padded} gives different outputs: {differences}")
        t.expect(t.run("diff", "tiny.onnx", "padded.engine", program="lathe"), 0, ["re:PASSED: .*"])
    r = t.run("--loadEngine=tiny.engine", "--shapes=input:1x3x64x64", *QUICK, "--dumpRawBindingsToFile", "--loadInputs=input:x.bin")
    t.expect(r, 0, ["[I] Dumping I/O Bindings to RAW Files:"])
    t.check((t.folder / "input.input.1.3.64.64.fp32.raw").read_bytes() == data, "the raw input differs")
    t.check((t.folder / "output.output.1.10.fp32.raw").stat().st_size == 40, "the raw output has another size")


def loops(t):
    r = t.run("--loadEngine=tiny.engine", "--infStreams=2", "--threads", "--iterations=20", "--warmUp=5", "--duration=0.05", "--useSpinWait",
              "--noDataTransfers", "--useCudaGraph", "--percentile=50,99.9", "--exportTimes=t2.json")
    t.expect(r, 0, ["re:\\[I\\] Latency: .*, percentile\\(50%\\) = .* ms, percentile\\(99.9%\\) = .* ms"],
             ["re:\\[W\\] .*CUDA.*|\\[W\\] --useCudaGraph .*", "re:\\[W\\] \\* Multiple inference streams are used\\. .*"])
    times = load(t, "t2.json")
    t.check(len(times) >= 40 and all(q["startComputeMs"] >= 5 for q in times[:1]), f"{len(times)} queries", r)
    t.check(times == sorted(times, key=lambda q: q["startH2dMs"]), "queries are not sorted")


def cache(t):
    """The same timing cache gives the same bytes."""
    words = ["--onnx=static.onnx", "--timingCacheFile=c.cache", "--skipInference"]
    for name in ("a", "b", "c"):
        t.expect(t.run(*words, f"--saveEngine={name}.engine"), 0)
    t.check((t.folder / "b.engine").read_bytes() == (t.folder / "c.engine").read_bytes(), "the same cache gave other bytes")
    t.expect(t.run("--onnx=static.onnx", "--skipInference", "--errorOnTimingCacheMiss"), 1)
    t.expect(t.run(*words, "--errorOnTimingCacheMiss"), 0)
    t.expect(t.run(*words, "--errorOnTimingCacheMiss", "--noBuilderCache"), 1)  # nothing is looked up
    for seconds in (0.001, 0.3):  # the end of the budget is in the cache, too
        words = ["--onnx=images.onnx", "--shapes=input:4x3x224x224", f"--timingCacheFile=c{seconds}.cache",
                 f"--buildTime={seconds}", "--skipInference"]
        t.expect(t.run(*words, "--saveEngine=a.engine"), 0)
        t.expect(t.run(*words, "--saveEngine=b.engine", "--errorOnTimingCacheMiss"), 0)
        t.check((t.folder / "a.engine").read_bytes() == (t.folder / "b.engine").read_bytes(),
                f"a budget of {seconds} s: the same cache gave other bytes")
    t.check("untimed:0.001" in (t.folder / "c0.001.cache").read_text(), "what there was no time for is not in the cache")


def workspace(t):
    """Tactics that need more scratch memory than the limit are refused, with the reason; the answer stays right."""
    # One timing cache for both builds: only a tactic that would be chosen is asked, and times of its own may choose another.
    words = ["--onnx=images.onnx", "--shapes=input:4x3x224x224", "--skipInference", "--verbose", "--timingCacheFile=scratch.cache", "--batchPart=0"]

    def scratch(result):
        return next(int(line.split()[-2]) for line in result.lines() if "Max Scratch Memory: " in line)

    free = t.run(*words)
    t.expect(free, 0)
    limit = scratch(free) - 1
    t.check(limit > 0, "no layer of this model needs scratch memory here: the limit is not tested", free)
    r = t.run(*words, f"--memPoolSize=workspace:{limit}B", "--saveEngine=lean.engine")
    t.expect(r, 0, [f"re:.*\\(\\w+: it needs {limit + 1} bytes of scratch memory, and the workspace limit is {limit} bytes\\)"])
    t.check(r.code == 0 and scratch(r) <= limit, f"{scratch(r)} bytes of scratch memory within a limit of {limit}")
    t.expect(t.run("diff", "images.onnx", "lean.engine", "--shapes=input:4x3x224x224", program="lathe"), 0, ["re:PASSED: .*"])


def strings(t):
    """Inputs that are strings are bytes with zeros behind each end; outputs are printed as strings."""
    tiny_model.write_strings(t.folder / "strings.onnx")
    (t.folder / "a.raw").write_bytes(b"in\0\0out\0")
    (t.folder / "b.raw").write_bytes(b'"a"side')
    r = t.run("--onnx=strings.onnx", "--shapes=a:2x4,b:2x3", "--loadInputs=a:a.raw,b:b.raw", "--dumpOutput", "--exportOutput=strings.json",
              "--iterations=1", "--duration=0", "--warmUp=0")
    t.check(r.code == 1 and any("b.raw" in line for line in r.lines("err")), "a file that is too long", r)
    (t.folder / "b.raw").write_bytes(b'"a"ide')
    r = t.run("--onnx=strings.onnx", "--shapes=a:2x4,b:2x3", "--loadInputs=a:a.raw,b:b.raw", "--dumpOutput", "--exportOutput=strings.json",
              "--iterations=1", "--duration=0", "--warmUp=0")
    t.expect(r, 0, ["re:.*joined: \\(2\\)", 're:.*"in\\\\"a\\\\"" "outide"'])
    out = load(t, "strings.json")
    joined = [{"name": "joined", "dimensions": "2", "values": ['in"a"', "outide"]}]
    t.check(out == joined, f"exported strings: {out}")
    # As NumPy writes them: strings of any length that has room, of bytes or of characters.
    np.save(t.folder / "a.npy", np.array(["in", "out"]))
    np.savez(t.folder / "b.npz", b=np.array([b'"a"', b"ide"]))
    r = t.run("--onnx=strings.onnx", "--shapes=a:2x4,b:2x3", "--loadInputs=a:a.npy,b:b.npz", "--exportOutput=numpy.json",
              "--iterations=1", "--duration=0", "--warmUp=0")
    t.expect(r, 0, [])
    t.check(load(t, "numpy.json") == joined, f"strings of NumPy: {load(t, 'numpy.json')}")


def passes(t):
    """--disablePass=help lists what --disablePass takes."""
    r = t.run("--disablePass=help")
    t.expect(r, 0, ["re:  fuse_conv_activation +an activation behind a convolution becomes its epilogue", "re:  fuse_depthwise_block .*, where it is faster"])
    names = [line.split()[0] for line in r.out if line.startswith("  ")]
    fused = t.run("--onnx=tiny.onnx", "--builderOptimizationLevel=0", "--skipInference", "--exportLayerInfo=fused.json")
    apart = t.run("--onnx=tiny.onnx", "--builderOptimizationLevel=0", "--skipInference", "--exportLayerInfo=apart.json",
                  "--disablePass=" + ",".join(n for n in names if n.startswith("fuse_")))
    t.expect(fused, 0)
    t.expect(apart, 0)
    layers = [len(load(t, name)["Layers"]) for name in ("fused.json", "apart.json")]
    t.check(layers[1] > layers[0], f"layers with and without fusions: {layers}", apart)


def commands(t):
    def lathe(*words):
        return t.run(*words, program="lathe")

    t.expect(lathe("zoo"), 0, ["re:  resnet50 .*"])
    r = lathe("inspect", "tiny.onnx")
    t.expect(r, 0, ["re:  input .*float32.*\\[batch, 3, height, width\\]", "re:  Conv +2 .*"])
    model = json.loads("\n".join(lathe("inspect", "tiny.onnx", "--json").out))
    t.check(model["nodes"] == 8 and model["inputs"][0]["name"] == "input", f"inspect --json: {model}")
    t.expect(lathe("inspect", "tiny.engine"), 0, ["re:target cpu: .*", "re:.*Conv_0.*"])
    engine = json.loads("\n".join(lathe("inspect", "tiny.engine", "--json").out))
    t.check(engine["kind"] == "engine" and engine["targets"][0]["variants"][0]["layers"], f"inspect --json: {engine}")
    r = lathe("diff", "tiny.onnx", "tiny.engine")
    t.expect(r, 0, ["re:.*Conv_0 Relu_1", "re:.*Conv_2 Add_3 Relu_4", "re:output output: .*", "re:PASSED: .*"])
    difference = json.loads("\n".join(lathe("diff", "tiny.onnx", "tiny.engine", "--shapes=input:1x3x64x64", "--json").out))
    t.check(difference["passed"] and any(layer["local"] for layer in difference["layers"]), f"diff --json: {difference}")
    steps = json.loads("\n".join(lathe("process", "tiny.onnx", "steps", "-b", "--json", "--shapes=input:1x3x64x64").out))
    t.check(steps["commands"][0][0] == "trtexec" and "steps/tiny.onnx.engine" in steps["files"], f"process --json: {steps}")
    t.expect(lathe("retune", "tiny.engine", "-o", "tuned.engine", "--builderOptimizationLevel=1"), 0, ["re:\\[I\\] Wrote tuned.engine, .*"])
    t.expect(t.run("--loadEngine=tuned.engine", *QUICK), 0)
    t.expect(lathe("trtexec", "--loadEngine=tuned.engine", *QUICK), 0, ["re:&&&& PASSED TensorRT.trtexec .* # lathe trtexec .*"])
    t.expect(t.run("--onnx=tiny.onnx", "--cpuIsa=avx2", "--saveEngine=avx2.engine", "--skipInference"), 0)
    r = t.run("--loadEngine=avx2.engine", "--saveEngine=both.engine", "--skipInference")
    t.expect(r, 0, ["[I] Saved engine to both.engine"])
    foreign = any("has no section for this device" in line for line in r.err)  # this CPU has more than AVX2
    targets = json.loads("\n".join(lathe("inspect", "both.engine", "--json").out))["targets"]
    t.check(len(targets) == (2 if foreign else 1), f"targets: {[target['device'] for target in targets]}")
    for words in ([], ["--cpuIsa=avx2"]):
        r = t.run("--loadEngine=both.engine", *words, *QUICK)
        t.expect(r, 0)
        t.check(not any("has no section" in line for line in r.err), "the section that was made is not in the file", r)
    t.expect(t.run("--loadEngine=tiny.engine", "--getPlanVersionOnly"), 0, ["re:\\[I\\] Plan was created with .* version .*"])
    t.expect(t.run("--loadEngine=tiny.engine", "--timeDeserialize"), 0, ["re:\\[I\\] First deserialization time = .* milliseconds"])


def run_all(t):
    for group in (build, banner, exports, summary, numbers_for_scripts, several_profiles, names_only, profile_without_separate_run, inputs, loops, cache, workspace, strings, passes, commands):
        group(t)
