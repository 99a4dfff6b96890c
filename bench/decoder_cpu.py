#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One step of a decoder on a CPU: weights of few bits in Lathe, ONNX Runtime (the same file) and llama.cpp (Q4_0, the same shapes).

usage: decoder_cpu.py --build DIR [--past 1024] [--layers 12 --width 2048 --heads 16 --kv-heads 4 --mlp 5632 --words 32000]
                      [--weights int4,int8] [--block 32] [--peers ort,llama] [--threads 2] [--rounds 5] [--work DIR] [--json FILE]

The model is that of decoder_gpu.py, exported by torch.onnx from FP16, with random weights. Engines take turns for --seconds each; medians
of each turn, and of the turns. In each turn the rate at which all threads together read memory is measured, too (bench_problems
--ceilings), because others share the memory; the bytes of the weights and of the cache that a step reads and writes, over the time of the
step, are a share of it. llama.cpp comes from PyPI (llama-cpp-python and gguf).
"""
import argparse, json, pathlib, re, statistics, subprocess, sys, tempfile, time

import numpy as np
import torch
from torch import nn

from decoder_gpu import Decoder


def export(o, path):
    """The step as a model; returns how many weights it reads, and how many numbers of the cache."""
    torch.manual_seed(1)
    model = Decoder(o).half().eval()
    model.frequencies = model.frequencies.float()
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    names = [f"past.{i}.{x}" for i in range(o.layers) for x in "kv"]
    cache = [torch.zeros(1, o.kv_heads, o.past, o.width // o.heads).half() for _ in names]
    outputs = ["logits", *(f"present.{i}.{x}" for i in range(o.layers) for x in "kv")]
    if not path.exists():
        with torch.inference_mode():
            torch.onnx.export(model, (torch.zeros(1, 1, dtype=torch.int64), *cache), str(path), input_names=["input_ids", *names],
                              output_names=outputs, dynamic_axes={name: {2: "past"} for name in names}, opset_version=17, dynamo=False)
    weights = sum(p.numel() for p in model.parameters()) - model.embed.weight.numel()
    return weights, sum(x.numel() for x in cache)


def shapes_of(o):
    size = o.width // o.heads
    return "input_ids:1x1," + ",".join(f"past.{i}.{x}:1x{o.kv_heads}x{o.past}x{size}" for i in range(o.layers) for x in "kv")


class Lathe:
    def __init__(self, o, model):
        self.o, self.engine = o, model.with_suffix(".engine")
        subprocess.run([f"{o.build}/bin/trtexec", f"--onnx={model}", f"--shapes={shapes_of(o)}", f"--saveEngine={self.engine}", "--skipInference",
                        f"--cpuThreads={o.threads}"], check=True, capture_output=True)

    def run(self):
        out = subprocess.run([f"{self.o.build}/bin/trtexec", f"--loadEngine={self.engine}", f"--shapes={shapes_of(self.o)}",
                              f"--cpuThreads={self.o.threads}", "--warmUp=200", f"--duration={self.o.seconds}"],
                             check=True, capture_output=True, text=True).stdout
        return float(re.search(r"GPU Compute Time: .*?median = ([0-9.]+) ms", out)[1])


def memory_read_gbs(o):
    return json.loads(subprocess.run([f"{o.build}/bin/bench_problems", f"--threads={o.threads}", "--ceilings"], check=True,
                                     capture_output=True, text=True).stdout)["memory_read_gbs"]


def median_ms(step, seconds):
    times, end = [], time.perf_counter() + seconds
    step()
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


class OnnxRuntime:
    def __init__(self, o, model):
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads = o.threads
        session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        types = {"tensor(int64)": np.int64, "tensor(float16)": np.float16, "tensor(float)": np.float32}
        extents = {name: [int(d) for d in dims.split("x")] for name, dims in (part.rsplit(":", 1) for part in shapes_of(o).split(","))}
        feeds = {i.name: np.zeros(extents[i.name], types[i.type]) for i in session.get_inputs()}
        self.seconds, self.step = o.seconds, lambda: session.run(None, feeds)

    def run(self):
        return median_ms(self.step, self.seconds)


class LlamaCpp:
    def __init__(self, o, model):
        import llama_cpp
        path = model.with_name("step.q4_0.gguf")
        if not path.exists():
            write_gguf(o, path)
        self.llama = llama_cpp.Llama(str(path), n_ctx=o.past + 64, n_batch=512, n_threads=o.threads, n_threads_batch=o.threads, verbose=False)
        self.llama.eval([1] * o.past)
        self.past, self.seconds = o.past, o.seconds

    def step(self):
        self.llama.n_tokens = self.past  # what is behind is overwritten
        self.llama.eval([2])

    def run(self):
        return median_ms(self.step, self.seconds)


def write_gguf(o, path):
    import gguf
    w = gguf.GGUFWriter(path, "llama")
    size = o.width // o.heads
    w.add_context_length(o.past + 64)
    w.add_embedding_length(o.width)
    w.add_block_count(o.layers)
    w.add_feed_forward_length(o.mlp)
    w.add_head_count(o.heads)
    w.add_head_count_kv(o.kv_heads)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(size)
    w.add_vocab_size(o.words)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_0)
    w.add_tokenizer_model("llama")
    w.add_token_list([f"w{i}" for i in range(o.words)])
    w.add_token_scores([0.0] * o.words)
    w.add_token_types([gguf.TokenType.NORMAL] * o.words)
    rng = np.random.default_rng(1)

    def matrix(name, rows, columns):
        kind = gguf.GGMLQuantizationType.Q4_0
        weights = rng.standard_normal((rows, columns), dtype=np.float32) * 0.02
        w.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)

    def norm(name):
        w.add_tensor(name, np.ones(o.width, np.float32))

    matrix("token_embd.weight", o.words, o.width)
    norm("output_norm.weight")
    matrix("output.weight", o.words, o.width)
    for i in range(o.layers):
        norm(f"blk.{i}.attn_norm.weight")
        norm(f"blk.{i}.ffn_norm.weight")
        for name, rows, columns in (("attn_q", o.width, o.width), ("attn_k", o.kv_heads * size, o.width), ("attn_v", o.kv_heads * size, o.width),
                                    ("attn_output", o.width, o.width), ("ffn_gate", o.mlp, o.width), ("ffn_up", o.mlp, o.width),
                                    ("ffn_down", o.width, o.mlp)):
            matrix(f"blk.{i}.{name}.weight", rows, columns)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    for name, value in {"past": 1024, "layers": 12, "width": 2048, "heads": 16, "kv-heads": 4, "mlp": 5632, "words": 32000,
                        "block": 32, "threads": 2, "rounds": 5, "seconds": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--weights", default="int4")
    parser.add_argument("--peers", default="")
    parser.add_argument("--work", default=tempfile.gettempdir())
    parser.add_argument("--json")
    o = parser.parse_args()
    work = pathlib.Path(o.work)
    weights, cache = export(o, work / "step.onnx")
    rows = []
    for kind in o.weights.split(","):
        model = work / f"step.{kind}.onnx"
        if not model.exists():
            subprocess.run([f"{o.build}/bin/lathe", "quantize", work / "step.onnx", "--weight-only", kind, "--block", str(o.block), "-o", model],
                           check=True, capture_output=True)
        sides = {"lathe": Lathe(o, model)}
        if "ort" in o.peers.split(","):
            sides["ort"] = OnnxRuntime(o, model)
        if "llama" in o.peers.split(",") and kind == "int4":
            sides["llama"] = LlamaCpp(o, model)
        read = weights * (8 if kind == "int8" else 4) / 8 + weights / o.block * 2 + cache * 4
        turns = []
        for _ in range(o.rounds):
            reads = memory_read_gbs(o)
            turns.append({name: side.run() for name, side in sides.items()} | {"reads": reads})
            turns[-1]["share"] = read / turns[-1]["lathe"] / 1e6 / ((reads + memory_read_gbs(o)) / 2)
        middle = {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}
        rows.append({"weights": kind, "bytes": read, "turns": turns, "median": middle})
        print(f"{kind}: " + ", ".join(f"{name} {middle[name]:.3f} ms" for name in sides) + f"; {read / 1e6:.0f} MB, {100 * middle['share']:.0f} % of "
              f"what the machine reads ({middle['reads']:.1f} GB/s); by turn " + " ".join(f"{100 * turn['share']:.0f}" for turn in turns), flush=True)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    sys.exit(main())
