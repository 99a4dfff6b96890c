#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs on the oracle and on the CPU backend, against ONNX Runtime.

usage: run.py --build build [--quantized] [--count N] [--seed N [--sequences | --spellings]] [--all]
Half as many graphs of sequences and of exporters' spellings are made beside them. --seed: one graph, of those or the others; it is reduced
to the first node that differs, and written to random-SEED.onnx. --quantized: quantised graphs alone, which quantized.py judges. --all: 10,000 graphs, and 2,000
quantised ones.
A graph that ONNX Runtime refuses is counted and left out.
"""
import argparse, json, pathlib, subprocess, sys, tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import generator
import judge  # noqa: E402
import quantized  # noqa: E402
import sequences  # noqa: E402
import spellings  # noqa: E402

BACKENDS = ("oracle", "cpu")
KINDS = {"sequences": sequences.make, "spellings": spellings.make}  # beside those of generator.py


def write_value(path, value):
    """A tensor, or the folder of a sequence's."""
    if not isinstance(value, list):
        path.with_name(path.name + ".pb").write_bytes(numpy_helper.from_array(np.asarray(value)).SerializeToString())
        return
    path.mkdir()
    for i, tensor in enumerate(value):
        write_value(path / str(i), tensor)


def write_case(folder, model, inputs):
    """False when ONNX Runtime refuses the model."""
    try:
        session = judge.session(model, threads=1)
        results = session.run(None, {i.name: inputs[i.name] for i in session.get_inputs()})
    except Exception:
        return False
    place = folder / "test_data_set_0"
    place.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for kind, arrays in (("input", inputs.values()), ("output", results)):
        for i, array in enumerate(arrays):
            write_value(place / f"{kind}_{i}", array)
    return True


def run(build, cases, backend):
    out = cases / f"{backend}.json"
    done = subprocess.run([build / "bin" / "conformance", cases, "--backend", backend, "--json", out], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{backend}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    return [c for c in json.loads(out.read_text()) if c["result"] != "passed"]


def reduce(build, seed, make):
    """The smallest part of the graph that differs: all that its first wrong value needs."""
    model, inputs = make(seed)
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {v.name: v for v in [*inferred.graph.value_info, *inferred.graph.output]}
    for node in model.graph.node:
        for name in node.output:
            part = onnx.ModelProto()
            part.CopyFrom(model)
            del part.graph.output[:]
            part.graph.output.append(types.get(name, onnx.helper.make_empty_tensor_value_info(name)))
            with tempfile.TemporaryDirectory() as folder:
                cases = pathlib.Path(folder)
                if not write_case(cases / "case", part, inputs):
                    continue
                for backend in BACKENDS:
                    wrong = run(build, cases, backend)
                    if wrong:
                        onnx.save(part, f"random-{seed}.onnx")
                        print(f"seed {seed}: node {node.name} on {backend}: {wrong[0]['reason']}\nits graph: random-{seed}.onnx")
                        return False
    print(f"seed {seed}: every value agrees")
    return True


def run_float(build, count):
    refused, failed = 0, {}
    for start in range(0, count, 1000):
        with tempfile.TemporaryDirectory() as folder:
            cases = pathlib.Path(folder)
            for seed in range(start, min(start + 1000, count)):
                refused += not write_case(cases / f"seed_{seed}", *generator.make(seed))
                for kind, make in KINDS.items() if seed % 2 == 0 else ():
                    refused += not write_case(cases / f"{kind}_{seed}", *make(seed))
            for backend in BACKENDS:
                for case in run(build, cases, backend):
                    failed.setdefault(case["name"], f"{backend}: {case['result']}: {case['reason'][:300]}")
    print(f"{count} graphs and {(count + 1) // 2} each of {' and '.join(KINDS)}, {refused} refused by ONNX Runtime, {len(failed)} failed")
    for name, reason in list(failed.items())[:20]:
        kind, seed = name.split("_")
        flag = f" --{kind}" if kind in KINDS else ""
        print(f"  {name} {reason}\n    reduce it: tests/random_onnx/run.py --build build --seed {seed}{flag}")
    return not failed and refused <= count // 20


def run_quantized(build, count, first, backends):
    failed, stepped = {}, set()
    for start in range(first, first + count, 1000):
        wrong, moved = quantized.run(build, start, min(start + 1000, first + count), backends)
        failed.update(wrong)
        stepped |= moved
    print(f"{count} quantised graphs: {count - len(failed) - len(stepped)} within one step, {len(stepped)} apart only by steps of "
          f"earlier layers, {len(failed)} failed")
    if stepped:
        print(f"  by steps of earlier layers: {' '.join(sorted(stepped, key=int))}")
    for seed, reason in list(failed.items())[:20]:
        print(f"  {seed} {reason}\n    reduce it: tests/random_onnx/run.py --build build --quantized --seed {seed}")
    return not failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int)
    parser.add_argument("--first", type=int, default=0, help="the first quantised graph")
    parser.add_argument("--backends", help="of quantised graphs, as in cpu,cpu-bytes:avx2")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--quantized", action="store_true")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", action="store_true")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    build = args.build.resolve()
    backends = args.backends.split(",") if args.backends else quantized.BACKENDS
    if args.seed is not None:
        make = next((make for kind, make in KINDS.items() if getattr(args, kind)), generator.make)
        return 0 if (quantized.reduce(build, args.seed, backends) if args.quantized else reduce(build, args.seed, make)) else 1
    right = args.quantized or run_float(build, 10_000 if args.all else args.count or 500)
    if args.quantized or args.count is None:
        right &= run_quantized(build, 2_000 if args.all else args.count or 200, args.first, backends)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
