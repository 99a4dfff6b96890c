#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers on one GPU: torch.nn (cuDNN) and Lathe in one run, milliseconds of GPU compute, CUDA-graph replay, medians.

usage: recurrent_gpu.py --build DIR [--kinds LSTM,GRU] [--hidden 256,512] [--batches 1,16] [--steps 100] [--types float32,float16]
                        [--level N] [--flags=--profile,...] [--work DIR]

Each model is one bidirectional layer with as many inputs as hidden values. FP32 is TF32 in cuDNN where it likes, as PyTorch has it
by default. The ratio is PyTorch over Lathe: above 1, Lathe is faster.
"""
import argparse, pathlib, re, subprocess, tempfile

import torch

from torch_gpu import replay_ms


def export(layer, x, path):
    with torch.inference_mode():
        torch.onnx.export(layer, (x,), str(path), input_names=["x"], output_names=["y"], opset_version=17, dynamo=False)


class Layer(torch.nn.Module):
    def __init__(self, kind, hidden):
        super().__init__()
        self.layer = getattr(torch.nn, kind)(hidden, hidden, bidirectional=True)

    def forward(self, x):
        return self.layer(x)[0]


def lathe(o, path, half):
    command = [f"{o.build}/bin/trtexec", f"--onnx={path}", "--device=0", "--useCudaGraph", "--noDataTransfers", "--warmUp=200",
               "--duration=1", f"--builderOptimizationLevel={o.level}", "--useSpinWait", *(["--fp16"] if half else []),
               *[f for f in o.flags.split(",") if f]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=o.limit)
    text = done.stdout + done.stderr
    path.with_suffix(f".{'f16' if half else 'f32'}.log").write_text(text)
    median = re.search(r"GPU Compute Time:.*?median = ([0-9.]+) ms", text)
    return (float(median.group(1)), "") if median else (None, next((l for l in text.splitlines() if "[E]" in l), "no time")[:300])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--kinds", default="LSTM,GRU")
    parser.add_argument("--hidden", default="256,512")
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--types", default="float32,float16")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--level", default="3")
    parser.add_argument("--limit", type=float, default=180)
    parser.add_argument("--flags", default="")
    parser.add_argument("--work", default=tempfile.gettempdir())
    o = parser.parse_args()
    torch.manual_seed(1)
    for kind in o.kinds.split(","):
        for hidden in map(int, o.hidden.split(",")):
            for batch in map(int, o.batches.split(",")):
                layer = Layer(kind, hidden).eval()
                x = torch.randn(o.steps, batch, hidden)
                path = pathlib.Path(o.work) / f"{kind}_{hidden}_{batch}.onnx"
                export(layer, x, path)
                for name in o.types.split(","):
                    dtype = getattr(torch, name)
                    there, data = layer.cuda().to(dtype), x.cuda().to(dtype)
                    there.layer.flatten_parameters()
                    torch_ms = replay_ms(lambda: there(data))
                    ours, problem = lathe(o, path, name == "float16")
                    layer = layer.float()
                    print(f"{kind:4} {name} hidden {hidden} batch {batch:3}  torch {torch_ms:.3f}  lathe " +
                          (f"{ours:.3f}  ratio {torch_ms / ours:.2f}" if ours else problem), flush=True)


if __name__ == "__main__":
    main()
