# SPDX-License-Identifier: Apache-2.0
"""Random quantised graphs on the oracle and on the CPU backend, against ONNX Runtime without its
optimisations. The CPU backend runs them as it builds them, and once more with every tactic for bytes.

A result agrees when each element is within one step of the grid that it lies on: integers within 1, what a
DequantizeLinear gives within its scale, and floats that no grid rounds within 2e-5 of the largest. One step
is right because a number midway between two steps goes to either with the order of a sum. A grid of 16 bits
is finer than sums in FP32 are exact (2e-5 of the range is 1.3 steps), so integers of 16 bits may be 4 apart.

One step is much where a kernel rounds badly, so a result of which more than a tenth is off by a step differs,
too.

A step in the middle of a graph may become several at its end, through no fault of the layers behind it. A
graph that differs is therefore judged layer by layer: every tensor that a layer rounds is computed by the
graph that ends there (so with all that is fused before it), and must be within one step of what ONNX Runtime
makes of *our* tensors at the inputs of that layer. An engine that ends earlier may fuse otherwise, and its
tensors are then not those inside of the whole one. So where a layer does not agree, ONNX Runtime runs the
graph again with each number that is about to be rounded nudged by a thousandth of a step, and each element
must be within one step of what these runs give, and nine in ten among it. A graph that is right in either
sense is counted apart ("only by steps of earlier layers"), and listed; any other has failed.
"""
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

import judge
import quantized_generator

BACKENDS = ("oracle", "cpu", "cpu-bytes")
ROUNDS = {"QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul", "QLinearMatMul", "QGemm"}
FLOAT_ERROR = 2e-5     # of the largest element
LEAST_ERROR = 1e-6     # as where a norm of equal numbers divides what their difference should be by the epsilon
MOST_OFF = 0.1, 4      # a share of the elements, and so many
NUDGE, RUNS = 1e-3, 100


def rounds(node):
    return node.op_type in ROUNDS or node.op_type.startswith("QLinear")


def bound_of(array, step):
    """How far from it a result may be."""
    if array.dtype.kind in "iu":
        return 4 if array.dtype.itemsize == 2 else 1
    return step * 1.001 + FLOAT_ERROR * float(np.abs(array).max(initial=0)) + LEAST_ERROR


def problem(got, wanted, step):
    """What is wrong with a result; "" for nothing. `step`: of a float result's grid, 0 without one."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
    a, b, bound = got.astype(np.float64), wanted.astype(np.float64), bound_of(wanted, step)
    apart = np.abs(a - b)
    if not np.all(apart <= bound):
        at = np.unravel_index(np.argmax(np.nan_to_num(apart, nan=np.inf)), apart.shape)
        return (f"{np.count_nonzero(~(apart <= bound))} of {a.size} elements differ by more than {bound:.6g}: at {[int(i) for i in at]} "
                f"{a[at]:.9g} instead of {b[at]:.9g}")
    off = apart > 0.5 * bound
    return f"{np.count_nonzero(off)} of {a.size} elements are off by a step" if too_many(off) else ""


def too_many(off):
    return np.count_nonzero(off) > MOST_OFF[0] * off.size + MOST_OFF[1]


def part(model, outputs, given):
    """The nodes that `outputs` need, with the tensors of `given` (arrays by name) as inputs where they are
    needed."""
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
    runner, _, isa = backend.partition(":")
    out = cases / f"{backend}.json"
    command = [build / "bin" / "conformance", cases, "--backend", runner, "--save", "--json", out, *(["--cpuIsa", isa] if isa else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{backend}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
    found = {}
    for case in json.loads(out.read_text()):
        files = sorted((cases / case["name"]).glob(f"{runner}_*.pb"), key=lambda f: int(f.stem.split("_")[1]))
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
        """Which tensor is more than a step from what ONNX Runtime makes of our inputs of its layer, as
        (names, reason, the layer's model, its inputs); None where none is."""
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

    def within_nudges(self, got):
        """Whether each element is within one step of what ONNX Runtime gives when numbers that it rounds are
        moved a little."""
        rounded = [n for n in self.model.graph.node if n.op_type in ("QuantizeLinear", "DynamicQuantizeLinear", "DynamicQuantizeMatMul")]
        scales = {t.name: numpy_helper.to_array(t) for t in self.model.graph.initializer}
        names = list(dict.fromkeys(n.input[0] for n in rounded if n.input[0] not in self.inputs and n.input[0] not in scales))
        before, inputs = part(self.model, names, self.inputs)
        numbers = dict(zip(names, judge.run(before, inputs, threads=1) if names else []))
        amounts = {}
        nudged = onnx.ModelProto()
        nudged.CopyFrom(self.model)
        del nudged.graph.node[:]
        for node in self.model.graph.node:
            copy = nudged.graph.node.add()
            copy.CopyFrom(node)
            x = node.input[0] if node in rounded else None
            if x not in numbers:
                continue
            scale = np.min(scales[node.input[1]]) if node.op_type == "QuantizeLinear" else np.ptp(np.append(numbers[x], 0)) / 255
            amounts[f"nudge_{node.name}"] = (x, NUDGE * scale + 1e-6 * np.abs(numbers[x]).max(initial=0))
            copy.input[0] = f"nudged_{node.name}"
            nudged.graph.node.insert(len(nudged.graph.node) - 1, helper.make_node("Add", [x, f"nudge_{node.name}"], [copy.input[0]]))
        for name, (x, _) in amounts.items():
            nudged.graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, numbers[x].shape))
        session, r = judge.session(nudged, 1), np.random.default_rng(0)
        low, high = [w.astype(np.float64) for w in self.wanted], [w.astype(np.float64) for w in self.wanted]
        for _ in range(RUNS):
            # Each number for itself, or all the same way: up, down, away from zero or towards it (as where a
            # function saturates).
            ways = [lambda x: r.uniform(-1, 1, x.shape), np.ones_like, lambda x: -np.ones_like(x), np.sign, lambda x: -np.sign(x)]
            nudges = {n: (ways[r.integers(len(ways))](numbers[x]) * amount).astype(np.float32) for n, (x, amount) in amounts.items()}
            for i, array in enumerate(session.run(None, {**self.inputs, **nudges})):
                low[i], high[i] = np.minimum(low[i], array), np.maximum(high[i], array)
        bounds = [bound_of(w, self.steps.get(o, 0)) for o, w in zip(self.outputs, self.wanted)]
        outside = [np.maximum(l - g, g - h) / b for g, l, h, b in zip(got, low, high, bounds)]
        return all(np.all(steps <= 1) and not too_many(steps > 0.5) for steps in outside)


def run(build, start, end, backends):
    """Failures by seed, and the seeds that differ only by steps of earlier layers."""
    failed, stepped = {}, set()
    with tempfile.TemporaryDirectory() as folder:
        cases = {}
        for seed in range(start, end):
            cases[str(seed)] = Case(seed)
            write_case(pathlib.Path(folder) / str(seed), cases[str(seed)].model, cases[str(seed)].inputs)
        for backend in backends:
            for seed, got in results(build, pathlib.Path(folder), backend).items():
                problem_of_whole = cases[seed].problems(got)
                if not problem_of_whole:
                    continue
                if isinstance(got, str):
                    failed.setdefault(seed, f"{backend}: {got}")
                elif (wrong := cases[seed].first_wrong_layer(build, backend, got)) and not cases[seed].within_nudges(got):
                    failed.setdefault(seed, f"{backend}: {wrong[0][0]}: {wrong[1]}; of the whole: {problem_of_whole}")
                else:
                    stepped.add(seed)
    return failed, stepped


def reduce(build, seed, backends):
    """Says which layer of a graph is wrong, and writes the graph up to it, and the layer alone with its
    inputs as a test case."""
    case, right = Case(seed), True
    with tempfile.TemporaryDirectory() as folder:
        write_case(pathlib.Path(folder) / "case", case.model, case.inputs)
        for backend in backends:
            got = results(build, pathlib.Path(folder), backend)["case"]
            whole, refused = case.problems(got), isinstance(got, str)
            wrong = whole and case.first_wrong_layer(build, backend, [np.zeros(0)] * len(case.outputs) if refused else got)
            if not wrong or (not refused and case.within_nudges(got)):
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
