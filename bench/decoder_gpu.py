#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A decoder on one GPU: PyTorch and Lathe in one run, a prefill and one step with a cache of keys and values, FP16 and weights of few bits.

usage: decoder_gpu.py --build DIR [--past 1024] [--layers 12 --width 2048 --heads 16 --kv-heads 4 --mlp 5632 --words 32000]
                      [--parts step,prefill] [--weights float,int8,int4] [--compile] [--level N] [--work DIR] [--json FILE]

The model is a gated decoder with rotary positions (as Llama's), random weights in FP16, exported by torch.onnx; its step takes the
keys and values so far and gives them back with one more. Times are milliseconds of GPU compute, data resident, CUDA-graph replay,
medians; PyTorch eager and, with --compile, torch.compile. The floor is the bytes of the weights and of the cache over the
bandwidth of a device-to-device copy, measured here.
"""
import argparse, json, pathlib, subprocess, tempfile

import torch
from torch import nn
from torch.nn import functional as F

from torch_gpu import replay_ms, trtexec


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        f = x.float()
        return self.weight * (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.kv_heads, self.size = o.heads, o.kv_heads, o.width // o.heads
        linear = lambda k, n: nn.Linear(k, n, bias=False)
        self.q, self.k, self.v = linear(o.width, o.width), linear(o.width, o.kv_heads * self.size), linear(o.width, o.kv_heads * self.size)
        self.out, self.gate, self.up, self.down = linear(o.width, o.width), linear(o.width, o.mlp), linear(o.width, o.mlp), linear(o.mlp, o.width)
        self.before_attention, self.before_mlp = Norm(o.width), Norm(o.width)

    def forward(self, x, cos, sin, past):
        batch, length, _ = x.shape
        h = self.before_attention(x)
        split = lambda y, heads: y.view(batch, length, heads, self.size).transpose(1, 2)
        q, k = rotate(split(self.q(h), self.heads), cos, sin), rotate(split(self.k(h), self.kv_heads), cos, sin)
        v = split(self.v(h), self.kv_heads)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        groups = self.heads // self.kv_heads
        repeat = lambda y: y[:, :, None].expand(batch, self.kv_heads, groups, y.shape[2], self.size).reshape(
            batch, self.heads, y.shape[2], self.size)
        y = F.scaled_dot_product_attention(q, repeat(k), repeat(v), is_causal=past is None)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, -1))
        h = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), k, v


class Decoder(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embed = nn.Embedding(o.words, o.width)
        self.layers = nn.ModuleList(Layer(o) for _ in range(o.layers))
        self.norm, self.head = Norm(o.width), nn.Linear(o.width, o.words, bias=False)
        size = o.width // o.heads
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, size, 2).float() / size))

    def forward(self, input_ids, *past):
        x = self.embed(input_ids)
        first = past[0].shape[2] if past else 0
        positions = torch.arange(first, first + input_ids.shape[1], device=x.device).float()
        angles = torch.cat([positions[:, None] * self.frequencies[None]] * 2, -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        present = []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, cos, sin, past[2 * i:2 * i + 2] if past else None)
            present += [k, v]
        return (self.head(self.norm(x[:, -1:])), *present)


def data_of(o, part):
    tokens = 1 if part == "step" else o.past
    ids = torch.randint(0, o.words, (1, tokens), device="cuda")
    if part == "prefill":
        return (ids,)
    cache = lambda: torch.randn(1, o.kv_heads, o.past, o.width // o.heads, device="cuda").half()
    return (ids, *(cache() for _ in range(2 * o.layers)))


def export(o, model, part, data):
    path = pathlib.Path(o.work) / f"{part}.onnx"
    names = [f"past.{i}.{x}" for i in range(o.layers) for x in "kv"] if part == "step" else []
    axes = {name: {2: "past"} for name in names} if names else {"input_ids": {1: "length"}}
    with torch.inference_mode():
        torch.onnx.export(model, data, str(path), input_names=["input_ids", *names],
                          output_names=["logits", *(f"present.{i}.{x}" for i in range(o.layers) for x in "kv")],
                          dynamic_axes=axes, opset_version=17, dynamo=False)
    return path


def copy_bytes_per_ms():
    x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    y = torch.empty_like(x)
    return 2 * x.numel() / replay_ms(lambda: y.copy_(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    for name, value in {"past": 1024, "layers": 12, "width": 2048, "heads": 16, "kv-heads": 4, "mlp": 5632, "words": 32000}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--parts", default="step,prefill")
    parser.add_argument("--weights", default="float,int8,int4")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--level", default="3")
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--work", default=tempfile.gettempdir())
    parser.add_argument("--json")
    o = parser.parse_args()
    torch.manual_seed(1)
    model = Decoder(o).cuda().half().eval()
    model.frequencies = model.frequencies.float()
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    bandwidth = copy_bytes_per_ms()
    rows = []
    for part in o.parts.split(","):
        data = data_of(o, part)
        rivals = {"eager": replay_ms(lambda: model(*data))}
        if o.compile:
            compiled = torch.compile(model)
            rivals["compiled"] = replay_ms(lambda: compiled(*data))
        path = export(o, model, part, data)
        shapes = f"input_ids:1x{data[0].shape[1]}" + "".join(
            f",past.{i}.{x}:1x{o.kv_heads}x{o.past}x{o.width // o.heads}" for i in range(o.layers) for x in "kv") * (part == "step")
        read = sum(p.numel() for p in model.parameters()) - model.embed.weight.numel()  # weights that a token needs
        cache = 2 * sum(x.numel() for x in data[1:])
        for weights in o.weights.split(","):
            file = path
            if weights != "float":
                file = path.with_name(f"{part}.{weights}.onnx")
                subprocess.run([f"{o.build}/bin/lathe", "quantize", path, "--weight-only", weights, "-o", file, "--force"], check=True,
                               capture_output=True)
            bits = {"float": 16, "int8": 8.5, "int4": 4.5}[weights]
            row = {"part": part, "weights": weights, "torch_ms": rivals, "floor_ms": (read * bits / 8 + cache) / bandwidth}
            try:
                row["lathe_ms"], row["problem"], row["seconds"] = trtexec(
                    o, file, shapes, o.work, pathlib.Path(o.work, f"{file.stem}.log"), "--dumpProfile", "--separateProfileRun", "--verbose")
            except subprocess.TimeoutExpired as error:
                row["lathe_ms"], row["problem"] = None, str(error)[:300]
            rows.append(row)
            ours = row["lathe_ms"]
            print(f"{part:8} {weights:6} torch: " + "  ".join(f"{k} {v:.3f}" for k, v in rivals.items()) +
                  (f"  lathe {ours:.3f}  ratio {min(rivals.values()) / ours:.2f}  floor {row['floor_ms']:.3f}  ({row['seconds']:.0f} s)"
                   if ours else f"  lathe: {row['problem']}"), flush=True)
    found = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "copy_bytes_per_ms": bandwidth, "rows": rows}
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(found, indent=1))
    print(f"{found['gpu']}, a copy moves {bandwidth / 1e9:.2f} TB/s")


if __name__ == "__main__":
    main()
