#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch and Lathe on one GPU in one run: milliseconds of GPU compute, data resident, CUDA-graph replay, medians.

usage: torch_gpu.py --build DIR [--models resnet50,...] [--batches 1,8] [--compile [--prepare | --prepared]] [--level N] [--json FILE]

PyTorch runs FP16 and channels-last, eager (recorded as a CUDA graph) and, with --compile, torch.compile in each of --modes.
Compiling takes minutes a model: --prepare only compiles, into PyTorch's cache, so that several processes may do it at once;
--prepared then compares what was compiled in time.
Lathe builds with --fp16 and is timed by its own trtexec. The ratio is the best of PyTorch over Lathe: above 1, Lathe is faster.
"""
import argparse, json, pathlib, re, statistics, subprocess, sys, tempfile, time

import torch


def vision(name):
    import torchvision

    return lambda: getattr(torchvision.models, name)(), lambda b: (torch.randn(b, 3, 224, 224, device="cuda", dtype=torch.half),)


def bert():
    import transformers

    def make():
        return transformers.BertModel(transformers.BertConfig(), add_pooling_layer=True)

    return make, lambda b: (torch.randint(0, 30000, (b, 128), device="cuda"),)


MODELS = {name: vision(name) for name in ("resnet50", "mobilenet_v2", "efficientnet_b0", "vit_b_16")}
MODELS["bert_base"] = bert()
SHAPES = {"bert_base": lambda b: f"input_ids:{b}x128,attention_mask:{b}x128"}


def replay_ms(run):
    """Median milliseconds of a function recorded as a CUDA graph; replays are grouped so that a group takes about 20 ms."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.inference_mode():
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.inference_mode():
        run()
    times = []
    group = 1
    for i in range(24):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(group):
            graph.replay()
        end.record()
        end.synchronize()
        ms = start.elapsed_time(end) / group
        if i < 3:
            group = max(1, min(100, int(20 / max(ms, 0.01))))
        else:
            times.append(ms)
    return statistics.median(times)


def torch_times(name, batch, modes, done=lambda mode: None):
    make, inputs = MODELS[name]
    model = make().cuda().half().eval()
    if name != "bert_base":
        model = model.to(memory_format=torch.channels_last)
    data = inputs(batch)
    if name != "bert_base":
        data = tuple(x.contiguous(memory_format=torch.channels_last) for x in data)
    result = {"eager": replay_ms(lambda: model(*data))}
    for mode in modes:
        try:
            torch._dynamo.reset()
            compiled = torch.compile(model, mode=mode)
            result[mode] = replay_ms(lambda: compiled(*data))
            done(mode)
        except Exception as error:  # a compiler that fails on this model is one rival less
            print(f"# torch.compile ({mode}) failed on {name}: {str(error)[:200]}", file=sys.stderr)
    return result


def trtexec(options, model, shapes, folder, log, *flags):
    """Median milliseconds of GPU compute of an FP16 engine, or None; why there are none; and seconds of it all."""
    command = [f"{options.build}/bin/trtexec", f"--onnx={model}", "--device=0", "--fp16", f"--shapes={shapes}", "--useCudaGraph",
               "--noDataTransfers", "--warmUp=200", "--duration=2", f"--builderOptimizationLevel={options.level}",
               f"--timingCacheFile={folder}/timing.cache", "--useSpinWait", *flags]
    start = time.time()
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
    text = done.stdout + done.stderr
    pathlib.Path(log).write_text(text)
    median = re.search(r"GPU Compute Time:.*?median = ([0-9.]+) ms", text)
    if not median:
        return None, next((l for l in text.splitlines() if "[E]" in l), "no time")[:300], time.time() - start
    return float(median.group(1)), "", time.time() - start


def lathe_time(options, name, batch):
    folder = pathlib.Path(options.work)
    model = folder / f"{name}.onnx"
    program = pathlib.Path(options.build) / "bin"
    if not model.exists():
        subprocess.run([program / "lathe", "zoo", name, "-o", model], check=True, capture_output=True)
    shapes = SHAPES.get(name, lambda b: f"input:{b}x3x224x224")(batch)
    log = folder / f"{name}.b{batch}.log"
    return trtexec(options, model, shapes, folder, log)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--models", default="resnet50,mobilenet_v2,efficientnet_b0,vit_b_16,bert_base")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--modes", default="default,max-autotune-no-cudagraphs")
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--prepared", action="store_true")
    parser.add_argument("--level", default="3")
    parser.add_argument("--limit", type=float, default=180)
    parser.add_argument("--work", default=tempfile.gettempdir())
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for name in options.models.split(","):
        for batch in map(int, options.batches.split(",")):
            marker = lambda mode: pathlib.Path(options.work) / f"{name}.b{batch}.{mode}.compiled"
            modes = [m for m in options.modes.split(",") if options.compile and (not options.prepared or marker(m).exists())]
            if options.prepare:
                torch_times(name, batch, modes, lambda mode: marker(mode).touch())
                continue
            rivals = torch_times(name, batch, modes)
            ours, problem, seconds = lathe_time(options, name, batch)
            best = min(rivals.values())
            rows.append({"model": name, "batch": batch, "torch_ms": rivals, "lathe_ms": ours, "lathe_seconds": seconds,
                         "ratio": best / ours if ours else None, "problem": problem})
            shown = "  ".join(f"{k} {v:.3f}" for k, v in rivals.items())
            print(f"{name:16} b{batch:<4} torch: {shown}  lathe {ours if ours else problem}  "
                  f"ratio {best / ours:.2f}  ({seconds:.0f} s)" if ours else f"{name:16} b{batch:<4} torch: {shown}  lathe: {problem}",
                  flush=True)
            if options.json:
                found = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
                pathlib.Path(options.json).write_text(json.dumps(found, indent=1))
    ratios = [r["ratio"] for r in rows if r["ratio"]]
    if ratios:
        print(f"geometric mean of ratios {statistics.geometric_mean(ratios):.2f} over {len(ratios)}")


if __name__ == "__main__":
    main()
