# SPDX-License-Identifier: Apache-2.0
"""Random quantised graphs on the oracle and on the CPU backend, against ONNX Runtime.

A result agrees when each element is within one step of the grid that it lies on: integers within 1, what a DequantizeLinear gives within
its scale, and floats that no grid rounds within a last place of their largest. One step is right because a number that falls midway
between two steps goes to either with the order of a sum.

Such a step in the middle of a graph may become several at its end, through no fault of the layers behind it. A graph that differs is
therefore judged layer by layer: every tensor that a layer rounds is computed by the graph that ends there (so with all that is fused
before it), and must be within one step of what ONNX Runtime makes of *our* tensors at the inputs of that layer. A graph in which all
layers are right in this sense is counted apart ("only by steps of earlier layers"); one with a layer that is not has failed.
"""
import pathlib
import subprocess
import tempfile
import json

import numpy as np
import onnx
from onnx import helper, numpy_helper

import judge
import quantized_generator

BACKENDS = ("oracle", "cpu")
ROUNDS = {"QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "QLinearMatMul", "QGemm"}
FLOAT_ERROR = 2e-5  # of the largest element


def rounds(node):
    return node.op_type in ROUNDS or node.op_type.startswith("QLinear")


def problem(got, wanted, step):
    """What is wrong with a result; "" for nothing. `step`: of a float result's grid, 0 without one."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    bound = 1 if wanted.dtype.kind in "iu" else step * 1.001 + FLOAT_ERROR * np.abs(b).max(initial=0) + 1e-7
    apart = np.abs(a - b)
    if np.all(apart <= bound):
        return ""
    at = np.unravel_index(np.nanargmax(apart), apart.shape)
    return f"{np.count_nonzero(~(apart <= bound))} of {a.size} elements differ by more than {bound:.6g}: at {[int(i) for i in at]} {a[at]:.9g} instead of {b[at]:.9g}"


def part(model, outputs, given):
    """The nodes that `outputs` need, with the tensors of `given` (arrays by name) as inputs where they are needed."""
    nodes, needed = [], set(outputs)
    for node in reversed(model.graph.node):
        if needed & (set(node.output) - set(given)):
            nodes.insert(0, node)
            needed |= set(node.input)
    made = {o for n in nodes for o in n.output}
    inputs = {n: a for n, a in given.items() if n in needed and n not in made}
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()]
    constants = [t for t in model.graph.initializer if t.name in needed]
    graph = helper.make_graph(nodes, "part", infos, [helper.make_empty_tensor_value_info(o) for o in outputs], constants)
    return helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version), inputs


def write_case(folder, model, inputs):
    place = folder / "test_data_set_0"
    place.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, array in enumerate(inputs.values()):
        (place / f"input_{i}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())


def results(build, cases, backend):
    """What the backend makes of each case: its outputs, or why there are none."""
    out = cases / f"{backend}.json"
    done = subprocess.run([build / "bin" / "conformance", cases, "--backend", backend, "--save", "--json", out], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{backend}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    found = {}
    for case in json.loads(out.read_text()):
        files = sorted((cases / case["name"]).glob(f"{backend}_*.pb"), key=lambda f: int(f.stem.split("_")[1]))
        arrays = [numpy_helper.to_array(onnx.load_tensor(f)) for f in files]
        found[case["name"]] = arrays if case["result"] == "saved" else f"{case['result']}: {case['reason'][:300]}"
    return found


class Case:
    def __init__(self, seed):
        self.model, self.inputs, self.steps = quantized_generator.make(seed)
        self.outputs = [o.name for o in self.model.graph.output]
        self.wanted = judge.run(self.model, self.inputs, threads=1)

    def problems(self, got):
        """Of the graph's outputs."""
        if isinstance(got, str):
            return got
        found = [(o, problem(g, w, self.steps.get(o, 0))) for o, g, w in zip(self.outputs, got, self.wanted)]
        return next((f"{o}: {p}" for o, p in found if p), "")

    def write_layers(self, folder):
        """A case for each tensor that a layer rounds, and one for each output."""
        ends = [list(n.output) for n in self.model.graph.node if rounds(n)] + [[o] for o in self.outputs]
        for i, names in enumerate(ends):
            write_case(folder / str(i), *part(self.model, names, self.inputs))
        return ends

    def first_wrong_layer(self, build, backend, got):
        """Which tensor is more than a step from what ONNX Runtime makes of our inputs of its layer, as (names, reason, the
        layer's model, its inputs); None where none is."""
        with tempfile.TemporaryDirectory() as folder:
            ends = self.write_layers(pathlib.Path(folder))
            ours = results(build, pathlib.Path(folder), backend)
        given = dict(self.inputs)
        for i, names in enumerate(ends):
            arrays = ours[str(i)] if i < len(ends) - len(self.outputs) else [got[i - len(ends) + len(self.outputs)]]
            before = {n: a for n, a in given.items() if n not in names}
            layer, inputs = part(self.model, names, before)
            if isinstance(arrays, str):
                return names, arrays, layer, inputs
            for name, array, wanted in zip(names, arrays, judge.run(layer, inputs, threads=1)):
                found = problem(array, wanted, self.steps.get(name, 0))
                if found:
                    return names, found, layer, inputs
            if i < len(ends) - len(self.outputs):
                given.update(zip(names, arrays))
        return None


def run(build, start, end):
    """Failures by seed, and the seeds that differ only by steps of earlier layers."""
    failed, stepped = {}, set()
    with tempfile.TemporaryDirectory() as folder:
        cases = {}
        for seed in range(start, end):
            cases[str(seed)] = Case(seed)
            write_case(pathlib.Path(folder) / str(seed), cases[str(seed)].model, cases[str(seed)].inputs)
        for backend in BACKENDS:
            for seed, got in results(build, pathlib.Path(folder), backend).items():
                case = cases[seed]
                if not case.problems(got):
                    continue
                wrong = None if isinstance(got, str) else case.first_wrong_layer(build, backend, got)
                if isinstance(got, str) or wrong:
                    failed.setdefault(seed, f"{backend}: {got if isinstance(got, str) else f'{wrong[0][0]}: {wrong[1]}'}")
                else:
                    stepped.add(seed)
    return failed, stepped


def reduce(build, seed):
    """Says which layer of a graph is wrong, and writes the graph up to it, and the layer alone with its inputs as a test case."""
    case, right = Case(seed), True
    with tempfile.TemporaryDirectory() as folder:
        write_case(pathlib.Path(folder) / "case", case.model, case.inputs)
        for backend in BACKENDS:
            got = results(build, pathlib.Path(folder), backend)["case"]
            whole = case.problems(got)
            wrong = whole and case.first_wrong_layer(build, backend, got if not isinstance(got, str) else [np.zeros(0)] * len(case.outputs))
            if not wrong:
                print(f"seed {seed} on {backend}: " + (f"differs only by steps of earlier layers: {whole}" if whole else "agrees"))
                continue
            right = False
            names, reason, layer, inputs = wrong
            onnx.save(part(case.model, names, case.inputs)[0], f"random-{seed}.onnx")
            place = pathlib.Path(f"random-{seed}-layer")
            if not place.exists():
                write_case(place, layer, inputs)
            print(f"seed {seed} on {backend}: {names[0]} {reason}\nthe graph up to it: random-{seed}.onnx; the layer alone: {place}/\n"
                  f"{onnx.printer.to_text(layer.graph)[:3000]}")
    return right
