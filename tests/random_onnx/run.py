#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs on the oracle and on the CPU backend, against ONNX Runtime.

usage: run.py --build build [--count N] [--seed N [--sequences]] [--all]
Half as many graphs of sequences are made beside them. --seed: one graph, or one of sequences; it is reduced to the first node that differs,
and written to random-SEED.onnx. --all: 20,000 graphs.
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
import sequences

BACKENDS = ("oracle", "cpu")


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--sequences", action="store_true")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    build = args.build.resolve()
    if args.seed is not None:
        return 0 if reduce(build, args.seed, sequences.make if args.sequences else generator.make) else 1
    count, refused, failed = 20_000 if args.all else args.count, 0, {}
    for start in range(0, count, 1000):
        with tempfile.TemporaryDirectory() as folder:
            cases = pathlib.Path(folder)
            for seed in range(start, min(start + 1000, count)):
                refused += not write_case(cases / f"seed_{seed}", *generator.make(seed))
                if seed % 2 == 0:
                    refused += not write_case(cases / f"sequences_{seed}", *sequences.make(seed))
            for backend in BACKENDS:
                for case in run(build, cases, backend):
                    failed.setdefault(case["name"], f"{backend}: {case['result']}: {case['reason'][:300]}")
    print(f"{count} graphs and {(count + 1) // 2} of sequences, {refused} refused by ONNX Runtime, {len(failed)} failed")
    for name, reason in list(failed.items())[:20]:
        kind, seed = name.split("_")
        flag = " --sequences" if kind == "sequences" else ""
        print(f"  {name} {reason}\n    reduce it: tests/random_onnx/run.py --build build --seed {seed}{flag}")
    return 1 if failed or refused > count // 20 else 0


if __name__ == "__main__":
    sys.exit(main())
