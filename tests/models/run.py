#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every zoo model through a saved and reloaded engine, against the reference interpreter and ONNX Runtime.

usage: run.py --build build [--all] [--models resnet50,...] [--bf16]
Default: seven models in FP32, batch 1. --all: all nine, batch 1 and 8, a batch in parts, and bfloat16 (against OpenVINO's bfloat16 too, where the CPU has it).
Bfloat16 is held against OpenVINO's over eight inputs in one batch: on a single image either side's error is one draw from a
wide distribution (EfficientNet-B0, OpenVINO, eight images: 1.1e-2 to 3.4e-2), and a ratio of two such draws says little.
For each model: write it, build one engine with a dynamic batch, load it in a second process, run it on seeded inputs,
and compare outputs with ONNX Runtime's and (through `lathe diff`) every output with the oracle: relative L2 error.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
from judge import relative_l2  # noqa: E402

FP32_LIMIT = 1e-5
BF16_LIMIT = {"efficientnet_b0": 6e-2}
BF16_DEFAULT = 2e-2
BF16_INPUTS = 8
SEQUENCE = 128

# Inputs by model: name -> (dims after the batch, kind). Tokens are ids below the vocabulary size.
IMAGE = {"input": ((3, 224, 224), "normal")}
MODELS = {
    "resnet50": IMAGE,
    "alexnet": IMAGE,
    "vgg16": IMAGE,
    "mobilenet_v2": IMAGE,
    "efficientnet_b0": IMAGE,
    "vit_b_16": IMAGE,
    "bert_base": {"input_ids": ((SEQUENCE,), 30000), "attention_mask": ((SEQUENCE,), "ones")},
    "gpt2": {"input_ids": ((SEQUENCE,), 50000), "attention_mask": ((SEQUENCE,), "ones")},
    "detector": {"images": ((3, 320, 320), "normal")},
}
# Large, and of the same layers as another.
ONLY_IN_ALL = {"vgg16", "vit_b_16"}
# Which boxes are left is a matter of comparisons: in lower precision other boxes win, and no error says how good they are.
FP32_ONLY = {"detector"}


def make_inputs(spec, batch, seed=7):
    rng = np.random.default_rng(seed)
    inputs = {}
    for name, (dims, kind) in spec.items():
        shape = (batch, *dims)
        if kind == "normal":
            inputs[name] = rng.standard_normal(shape, dtype=np.float32)
        elif kind == "ones":
            inputs[name] = np.ones(shape, dtype=np.int64)
        else:
            inputs[name] = rng.integers(0, kind, shape, dtype=np.int64)
    return inputs


def by_box(outputs):
    """A detector's rows in the order of image, class and box: two scores within rounding of each other may change places."""
    if "selected" not in outputs:
        return outputs
    order = np.lexsort(outputs["selected"].T[::-1])
    return {name: rows[order] for name, rows in outputs.items()}


def shell(command, **kwargs):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        sys.stdout.write(done.stdout[-3000:] + done.stderr[-3000:])
        raise SystemExit(f"exit {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def shape_flag(flag, spec, batch):
    return f"--{flag}=" + ",".join(f"{n}:{'x'.join(map(str, (batch, *dims)))}" for n, (dims, _) in spec.items())


def read_outputs(path):
    outputs = {}
    for entry in json.loads(path.read_text()):
        dims = [int(d) for d in entry["dimensions"].split("x")]
        outputs[entry["name"]] = np.array(entry["values"], dtype=np.float64).reshape(dims)
    return outputs


class Run:
    def __init__(self, build, work, name, max_batch, build_flags=()):
        self.bin, self.work, self.name, self.build_flags = build / "bin", work, name, build_flags
        self.spec = MODELS[name]
        self.model = work / f"{name}.onnx"
        self.max_batch = max_batch

    def build(self, flags=(), tag="fp32"):
        if not self.model.exists():
            shell([self.bin / "lathe", "zoo", self.name, "-o", self.model])
        self.engine = self.work / f"{self.name}.{tag}.engine"
        return shell([self.bin / "trtexec", f"--onnx={self.model}", f"--saveEngine={self.engine}", "--skipInference",
                      "--failOnFallback", f"--timingCacheFile={self.work / 'timing.cache'}", shape_flag("minShapes", self.spec, 1),
                      shape_flag("optShapes", self.spec, 1), shape_flag("maxShapes", self.spec, self.max_batch),
                      *self.build_flags, *flags])

    def infer(self, inputs):
        files = []
        for name, array in inputs.items():
            path = self.work / f"{self.name}.{name}.bin"
            array.tofile(path)
            files.append(f"{name}:{path}")
        batch = next(iter(inputs.values())).shape[0]
        out = self.work / f"{self.name}.out.json"
        shell([self.bin / "trtexec", f"--loadEngine={self.engine}", shape_flag("shapes", self.spec, batch),
               "--loadInputs=" + ",".join(files), f"--exportOutput={out}", "--warmUp=0", "--duration=0",
               "--iterations=1"])
        return by_box(read_outputs(out))

    def oracle_errors(self, inputs):
        batch = next(iter(inputs.values())).shape[0]
        files = ",".join(f"{n}:{self.work / f'{self.name}.{n}.bin'}" for n in inputs)
        report = json.loads(shell([self.bin / "lathe", "diff", self.model, self.engine, "--json",
                                   shape_flag("shapes", self.spec, batch), f"--loadInputs={files}"]))
        return {o["name"]: o["error"]["relative_l2"] for o in report["outputs"]}


def onnx_runtime(model, inputs):
    import onnxruntime as ort
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return by_box(dict(zip(names, session.run(names, inputs))))


def openvino_bf16(model, inputs):
    import openvino as ov
    core = ov.Core()
    if "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        return None
    compiled = core.compile_model(str(model), "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
    result = compiled(inputs)
    return {key.get_any_name(): result[key] for key in compiled.outputs}


class Report:
    def __init__(self):
        self.failures = 0

    def line(self, name, what, error, limit):
        ok = error <= limit
        self.failures += not ok
        print(f"  {name:<18} {what:<34} {error:9.2e}  limit {limit:7.1e}  {'ok' if ok else 'FAILED'}", flush=True)

    def check(self, name, what, ok):
        self.failures += not ok
        print(f"  {name:<18} {what:<34} {'ok' if ok else 'FAILED'}", flush=True)


def check_fp32(run, batches, report):
    run.build()
    for batch in batches:
        # At batch 8 the oracle looks at two items.
        inputs = make_inputs(run.spec, batch)
        ours, peer = run.infer(inputs), onnx_runtime(run.model, inputs)
        for name, want in peer.items():
            report.line(run.name, f"{name} b{batch} FP32, ONNX Runtime", relative_l2(ours[name], want), FP32_LIMIT)
        few = make_inputs(run.spec, batch) if batch == 1 else {k: v[:2] for k, v in inputs.items()}
        run.infer(few)
        for name, error in run.oracle_errors(few).items():
            report.line(run.name, f"{name} b{batch} FP32, oracle", error, FP32_LIMIT)


def check_batch_in_parts(run, report):
    """Two items at a time, the last part smaller; a network that mixes items is built whole."""
    run.build(["--batchPart=2", "--builderOptimizationLevel=0"], "parts")
    inputs = make_inputs(run.spec, 5)
    ours = run.infer(inputs)
    for name, want in onnx_runtime(run.model, inputs).items():
        report.line(run.name, f"{name} b5 in parts, ONNX Runtime", relative_l2(ours[name], want), FP32_LIMIT)


def cpu_has_bf16():
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


SMALL_LAYERS = ("mobilenet_v2", "efficientnet_b0", "detector")


def check_bf16(run, report):
    log = run.build(["--bf16"], "bf16")
    if not re.search(r"Precision: .*bf16: \d+ of", log):
        # Where the CPU multiplies in BF16, models of large products are clearly faster in it. Those of depthwise and small layers
        # gain little, so that either engine may win the race.
        report.check(run.name, "layers in BF16", not cpu_has_bf16() or run.name in SMALL_LAYERS)
    for batch in (1, BF16_INPUTS):
        inputs = make_inputs(run.spec, batch)
        ours, truth = run.infer(inputs), onnx_runtime(run.model, inputs)
        peer = openvino_bf16(run.model, inputs) if batch == BF16_INPUTS else None
        for name, want in truth.items():
            error = relative_l2(ours[name], want)
            report.line(run.name, f"{name} b{batch} BF16", error, BF16_LIMIT.get(run.name, BF16_DEFAULT))
            if peer:
                report.line(run.name, f"{name} b{batch} BF16 / OpenVINO's error", error / relative_l2(peer[name], want),
                            1.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--models")
    args = parser.parse_args()
    work = args.build / "models"
    work.mkdir(parents=True, exist_ok=True)
    batches = [1, 8] if args.all else [1]
    bf16 = args.all or args.bf16
    report = Report()
    names = args.models.split(",") if args.models else [name for name in MODELS if args.all or name not in ONLY_IN_ALL]
    for name in names:
        start = time.time()
        # Whichever tactic wins has to be right: each is timed once, unless this is the long run.
        run = Run(args.build, work, name, BF16_INPUTS if bf16 else max(batches), () if args.all else ["--avgTiming=1"])
        check_fp32(run, batches, report)
        if args.all:
            check_batch_in_parts(run, report)
        if bf16 and name not in FP32_ONLY:
            check_bf16(run, report)
        print(f"  {name}: {time.time() - start:.0f} s", flush=True)
        if not args.all:
            for big in (run.model, run.engine):
                if big.stat().st_size > 300e6:
                    big.unlink()
    print(f"{report.failures} failures")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
