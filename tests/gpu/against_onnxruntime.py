#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX models on a GPU against ONNX Runtime on the CPU, node by node without its optimisations: relative L2 error of each output, which
operators are left to the host, build time and latency.

usage: against_onnxruntime.py --build build [--device 0] [--level 0] [--flags=--fp16] [--shapes 1] [--limit 1e-5] [--json FILE] MODEL.onnx...

Dims with a name get values by --dims (default batch=2,seq=48,past=40,width=160,samples=16000; others 8); --shapes N adds N - 1 others by
scaling batch and lengths. Integers of rank 2 and more are ids below --ids, masks (by name) ones with a padded end. A FP32 build runs without TF32.
Exit code 1 when an output is further off than --limit, or a model does not build.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
from judge import relative_l2, session  # noqa: E402

DIMS = {"batch": 2, "seq": 48, "past": 40, "width": 160, "samples": 16000}
KINDS = {1: np.float32, 7: np.int64, 6: np.int32, 9: np.bool_, 10: np.float16, 11: np.float64}


def inputs_of(model):
    constants = {i.name for i in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in constants]


def make_input(info, dims, ids, random):
    shape = [d.dim_value or dims.get(d.dim_param, 8) for d in info.type.tensor_type.shape.dim]
    kind = KINDS[info.type.tensor_type.elem_type]
    if kind == np.bool_:
        return random.integers(0, 2, shape).astype(kind) if shape else np.array(True)
    if np.issubdtype(kind, np.integer):
        if "mask" in info.name:
            mask = np.ones(shape, kind)
            mask[..., shape[-1] - shape[-1] // 4:] = 0
            return mask
        return random.integers(0, ids, shape).astype(kind) if shape else np.array(5, kind)
    return random.standard_normal(shape).astype(kind)


def engine_run(arguments, path, inputs, dynamic, folder):
    """trtexec's outputs by name, its log, and seconds of the whole call. `dynamic`: the inputs with named dims, whose shapes it is told."""
    flags = ["--loadInputs=" + ",".join(f"{n}:{folder}/{i}.raw" for i, n in enumerate(inputs))]
    if dynamic:
        flags.append("--shapes=" + ",".join(f"{n}:{'x'.join(map(str, inputs[n].shape))}" for n in dynamic))
    for i, array in enumerate(inputs.values()):
        array.tofile(folder / f"{i}.raw")
    out = folder / "outputs.json"
    command = [arguments.build / "bin/trtexec", f"--onnx={path}", f"--device={arguments.device}", f"--builderOptimizationLevel={arguments.level}", *flags,
               f"--exportOutput={out}", "--iterations=20", "--duration=0.5", "--warmUp=50", *arguments.flags]
    if not any(f in ("--fp16", "--bf16", "--best") for f in arguments.flags):
        command.append("--noTF32")
    begin = time.time()
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=arguments.timeout)
    if done.returncode:
        return None, done.stdout + done.stderr, time.time() - begin
    outputs = {o["name"]: np.array(o["values"], dtype=np.float64) for o in json.loads(out.read_text())}
    return outputs, done.stdout + done.stderr, time.time() - begin


def check(arguments, path, dims):
    model = onnx.load(path, load_external_data=False)
    random = np.random.default_rng(7)
    inputs = {i.name: make_input(i, dims, arguments.ids, random) for i in inputs_of(model)}
    dynamic = [i.name for i in inputs_of(model) if any(not d.HasField("dim_value") for d in i.type.tensor_type.shape.dim)]
    row = {"model": path.stem, "shapes": {n: list(a.shape) for n, a in inputs.items()}}
    judge = session(path)
    wanted = dict(zip((o.name for o in judge.get_outputs()), judge.run(None, inputs)))
    with tempfile.TemporaryDirectory() as name:
        got, log, row["seconds"] = engine_run(arguments, path, inputs, dynamic, pathlib.Path(name))
    row["host"] = sorted(set(re.findall(r"\d+ (\w+) layers? runs? on the reference", log)))
    launch = re.search(r"launched .*", log)
    row["launch"] = launch.group(0)[:200] if launch else ""
    times = re.search(r"GPU Compute Time: .*?median = ([\d.]+) ms", log)
    row["ms"] = float(times.group(1)) if times else None
    if got is None:
        row["error"] = "\n".join(line for line in log.splitlines() if "[E]" in line or "rror" in line)[-600:]
        return row
    row["errors"] = {}
    for output, array in wanted.items():
        other = got[output]
        row["errors"][output] = relative_l2(other, array) if other.size == array.size else f"{other.size} elements, not {array.size}"
    return row


def is_good(row, limit):
    return "error" not in row and all(isinstance(e, float) and e <= limit for e in row["errors"].values())


def scaled(dims, step):
    return {name: max(1, value * (step + 1) // (1 if name == "batch" else 2) + (step % 2 if name in ("seq", "past") else 0))
            if step else value for name, value in dims.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="0")
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--flags", type=lambda text: text.split(), default=[])
    parser.add_argument("--shapes", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1e-5)
    parser.add_argument("--ids", type=int, default=500)
    parser.add_argument("--dims", default="")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    dims = DIMS | {n: int(v) for n, v in (d.split("=") for d in arguments.dims.split(",") if d)}
    rows = []
    for path in arguments.models:
        for step in range(arguments.shapes):
            try:
                row = check(arguments, path, scaled(dims, step))
            except Exception as error:  # of the judge, or a time limit: the next model goes on
                row = {"model": path.stem, "error": f"{type(error).__name__}: {error}"[-400:]}
            row["good"] = is_good(row, arguments.limit)
            rows.append(row)
            worst = max((e for e in row.get("errors", {}).values() if isinstance(e, float)), default=float("nan"))
            print(f"{'ok ' if row['good'] else 'BAD'} {row['model']:24} error {worst:.1e}  {row.get('ms') or 0:9.3f} ms  "
                  f"{row.get('seconds', 0):6.1f} s  on the host: {', '.join(row.get('host', [])) or '-'}  {row.get('error', '')}", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1))
    return 0 if all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
