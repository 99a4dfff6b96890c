#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch and Lathe on one GPU in one run: milliseconds of GPU compute, data resident, CUDA-graph replay, medians.

usage: torch_gpu.py --build DIR [--models resnet50,...] [--batches 1,8] [--compile [--prepare | --prepared]] [--level N] [--json FILE]

`--models others` are architectures that are no recipes, exported by torch in FP32 for each batch.
PyTorch runs FP16 and channels-last, eager (recorded as a CUDA graph) and, with --compile, torch.compile in each of --modes.
Compiling takes minutes a model: --prepare only compiles, into PyTorch's cache, so that several processes may do it at once;
--prepared then compares what was compiled in time.
Lathe builds with --fp16 and is timed by its own trtexec. The ratio is the best of PyTorch over Lathe: above 1, Lathe is faster.
"""
import argparse, json, pathlib, re, statistics, subprocess, sys, tempfile, time

import torch


class Model:
    """What PyTorch runs: `make` gives the module, `inputs` its tensors for a batch; images are channels-last. Recipes come from `lathe zoo`,
    the others are exported by torch itself for each batch."""

    def __init__(self, make, inputs, recipe_shapes=None):
        self.make, self.inputs, self.recipe_shapes = make, inputs, recipe_shapes


def images(name, *dims, module=""):
    def make():
        import torchvision
        return getattr(getattr(torchvision.models, module) if module else torchvision.models, name)(weights=None)

    return Model(make, lambda b: (torch.randn(b, 3, *dims, device="cuda", dtype=torch.half),))


def transformer(kind, inputs, part="AutoModel", **options):
    def make():
        import transformers
        config = transformers.AutoConfig.for_model(kind, **options)
        config.use_cache = False
        return getattr(transformers, part).from_config(config)

    return Model(make, inputs)


def words(length):
    return lambda b: (torch.randint(0, 30000, (b, length), device="cuda"),)


def pixels(size):
    return lambda b: (torch.randn(b, 3, size, size, device="cuda", dtype=torch.half),)


RECIPES = {name: images(name, 224, 224) for name in ("resnet50", "mobilenet_v2", "efficientnet_b0", "vit_b_16")}
for recipe in RECIPES.values():
    recipe.recipe_shapes = lambda b: f"input:{b}x3x224x224"
RECIPES["bert_base"] = transformer("bert", words(128))
RECIPES["bert_base"].recipe_shapes = lambda b: f"input_ids:{b}x128,attention_mask:{b}x128"
OTHERS = {name: images(name, 224, 224) for name in ("convnext_tiny", "resnext50_32x4d", "efficientnet_v2_s", "swin_t", "densenet121", "regnet_y_400mf",
                                                    "mobilenet_v3_large", "shufflenet_v2_x1_0", "maxvit_t")}
OTHERS["r3d_18"] = images("r3d_18", 16, 112, 112, module="video")
LARGE = dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
MINI = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
OTHERS |= {"bert_large_s384": transformer("bert", words(384), **LARGE), "bert_base_s2048": transformer("bert", words(2048), max_position_embeddings=2048),
           "distilbert": transformer("distilbert", words(128)), "minilm_l6": transformer("bert", words(128), **MINI), "roberta": transformer("roberta", words(128)),
           "deberta_v2": transformer("deberta-v2", words(128), hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
                                     pos_att_type=["c2p", "p2c"], relative_attention=True, position_buckets=256),
           "dinov2_small": transformer("dinov2", pixels(224), hidden_size=384, num_attention_heads=6), "siglip_vision": transformer("siglip_vision_model", pixels(224)),
           "segformer_b0": transformer("segformer", pixels(512)), "mobilevit_s": transformer("mobilevit", pixels(256)),
           "wav2vec2": transformer("wav2vec2", lambda b: (torch.randn(b, 16000, device="cuda", dtype=torch.half),))}
MODELS = RECIPES | OTHERS


def tensors_of(result):
    """The tensors of an answer, whatever it wraps them in."""
    if isinstance(result, torch.Tensor):
        return [result]
    values = result.values() if isinstance(result, dict) else result if isinstance(result, (list, tuple)) else ()
    return [tensor for value in values for tensor in tensors_of(value)]


class Plain(torch.nn.Module):
    """A model with one argument whose answer is a tuple of tensors."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return tuple(tensors_of(self.model(x)))


def has_images(data):
    return data[0].dim() == 4


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
    torch.manual_seed(7)
    model = Plain(MODELS[name].make()).cuda().half().eval()
    data = MODELS[name].inputs(batch)
    if has_images(data):
        model = model.to(memory_format=torch.channels_last)
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
    command = [f"{options.build}/bin/trtexec", f"--onnx={model}", "--device=0", "--fp16", *([f"--shapes={shapes}"] if shapes else []), "--useCudaGraph",
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


def export(name, batch, path):
    """The model in FP32 as torch writes it, with the batch as it is."""
    torch.manual_seed(7)
    model, data = Plain(MODELS[name].make()).eval(), tuple(x.cpu().float() if x.is_floating_point() else x.cpu() for x in MODELS[name].inputs(batch))
    with torch.no_grad():
        torch.onnx.export(model, data, str(path), dynamo=True, external_data=False, input_names=["x"])


def write_model(options, name, batch):
    recipe = MODELS[name].recipe_shapes
    path = pathlib.Path(options.work) / (f"{name}.onnx" if recipe else f"{name}.b{batch}.onnx")
    if not path.exists():
        if recipe:
            subprocess.run([pathlib.Path(options.build) / "bin" / "lathe", "zoo", name, "-o", path], check=True, capture_output=True)
        else:
            export(name, batch, path)
    return path, recipe(batch) if recipe else ""


def lathe_time(options, name, batch):
    model, shapes = write_model(options, name, batch)
    return trtexec(options, model, shapes, options.work, pathlib.Path(options.work) / f"{name}.b{batch}.log")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--models", default=",".join(RECIPES), help="names, or `others`: " + ", ".join(OTHERS))
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
    for name in OTHERS if options.models == "others" else options.models.split(","):
        for batch in map(int, options.batches.split(",")):
            marker = lambda mode: pathlib.Path(options.work) / f"{name}.b{batch}.{mode}.compiled"
            modes = [m for m in options.modes.split(",") if options.compile and (not options.prepared or marker(m).exists())]
            if options.prepare:
                write_model(options, name, batch)
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
