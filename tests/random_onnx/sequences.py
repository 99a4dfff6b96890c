# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs of sequences whose tensors differ in shape, with bodies of If, Loop and SequenceMap. A seed makes a graph again.

Every value is computed here, too, so that positions and sizes that a run brings are right ones. All tensors of a graph have one rank.
"""
import random

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
MOST_ELEMENTS = 3000


def tensor_info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def sequence_info(name):
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


class Sight:
    """What the nodes of a graph or body may read: tensors and sequences by name, with their values."""

    def __init__(self, tensors=(), sequences=(), depth=0):
        self.tensors, self.sequences, self.nodes, self.depth = dict(tensors), dict(sequences), [], depth

    def inner(self):
        return Sight(self.tensors, self.sequences, self.depth + 1)


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.values = np.random.default_rng(seed)
        self.rank = self.r.choice([1, 2, 2, 2, 3])
        self.fixed = [self.r.choice([None, None, 3, 4]) for _ in range(self.rank)]  # dims that all tensors have
        self.inputs, self.infos, self.constants, self.lengths, self.count = {}, [], [], [], 0

    # --- values
    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def input(self, prefix, array, kind, shape):
        name = self.name(prefix)
        self.inputs[name] = array
        self.infos.append(tensor_info(name, kind, [f"{name}_{i}" if d is None else d for i, d in enumerate(shape)]))
        return name

    def constant(self, number):
        name = self.name("k")
        self.constants.append(numpy_helper.from_array(np.array(number, np.int64), name))
        return name

    def number(self, number):
        """What a run brings, mostly."""
        if self.r.random() < 0.2:
            return self.constant(number)
        array = np.array(number, np.int64)
        return self.input("i", array, INT64, [self.r.choice([None, d]) for d in array.shape])

    def tensor(self, sight):
        if sight.tensors and self.r.random() < 0.9:
            return self.r.choice(list(sight.tensors))
        extents = [d if d else self.r.choice([0, 1, 2, 3, 5]) for d in self.fixed]
        name = self.input("x", self.values.integers(-9, 9, extents).astype(np.float32), FLOAT, self.fixed)
        sight.tensors[name] = self.inputs[name]
        return name

    def sequence(self, sight, least=0):
        fitting = [name for name, parts in sight.sequences.items() if len(parts) >= least]
        return self.r.choice(fitting) if fitting else None

    def free_axis(self):
        return self.r.choice([a for a, d in enumerate(self.fixed) if d is None] or [None])

    # --- operators: each adds nodes, or nothing where it finds no operand
    def add(self, sight, operator, inputs, **attributes):
        name = self.name("v")
        sight.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def construct(self, sight):
        tensors = [self.tensor(sight) for _ in range(self.r.randint(1, 3))]
        sight.sequences[self.add(sight, "SequenceConstruct", tensors)] = [sight.tensors[t] for t in tensors]

    def split(self, sight):
        x = self.tensor(sight)
        whole, axis = sight.tensors[x], self.r.randrange(self.rank)
        extent, kind = whole.shape[axis], self.r.choice(["list", "size", "ones"])
        if kind == "list":
            sizes = []
            while sum(sizes) < extent or not sizes:
                sizes.append(self.r.randint(0, extent - sum(sizes)))
            parts, inputs = np.split(whole, np.cumsum(sizes)[:-1], axis), [x, self.number(sizes)]
        elif extent == 0:
            return
        elif kind == "size":
            size = self.r.randint(1, extent + 2)
            parts, inputs = np.split(whole, range(size, extent, size), axis), [x, self.number(size)]
        else:
            parts, inputs = np.split(whole, extent, axis), [x]
        name = self.add(sight, "SplitToSequence", inputs, axis=axis - self.r.choice([0, self.rank]))
        sight.sequences[name] = list(parts)

    def insert(self, sight):
        sequence = self.sequence(sight)
        if sequence is None:
            return
        x, parts = self.tensor(sight), list(sight.sequences[sequence])
        if self.r.random() < 0.4:
            name = self.add(sight, "SequenceInsert", [sequence, x])
            parts.append(sight.tensors[x])
        else:
            at = self.r.randint(-len(parts), len(parts))
            name = self.add(sight, "SequenceInsert", [sequence, x, self.number(at)])
            parts.insert(at, sight.tensors[x])
        sight.sequences[name] = parts

    def erase(self, sight):
        sequence = self.sequence(sight, least=1)
        if sequence is None:
            return
        parts = list(sight.sequences[sequence])
        at = None if self.r.random() < 0.4 else self.r.randint(-len(parts), len(parts) - 1)
        name = self.add(sight, "SequenceErase", [sequence] if at is None else [sequence, self.number(at)])
        parts.pop(-1 if at is None else at)
        sight.sequences[name] = parts

    def at(self, sight):
        sequence = self.sequence(sight, least=1)
        if sequence is None:
            return
        parts = sight.sequences[sequence]
        at = self.r.randint(-len(parts), len(parts) - 1)
        sight.tensors[self.add(sight, "SequenceAt", [sequence, self.number(at)])] = parts[at]

    def join(self, sight):
        sequence, axis = self.sequence(sight, least=1), self.r.randrange(self.rank)
        parts = sight.sequences.get(sequence, [])
        others = {part.shape[:axis] + part.shape[axis + 1:] for part in parts}
        if len(others) == 1 and sum(part.size for part in parts) <= MOST_ELEMENTS:
            sight.tensors[self.add(sight, "ConcatFromSequence", [sequence], axis=axis)] = np.concatenate(parts, axis)

    def length(self, sight):
        sequence = self.sequence(sight)
        if sequence is not None:
            name = self.add(sight, "SequenceLength", [sequence])
            self.lengths += [name] * (sight.depth == 0)

    def negative(self, sight):
        x = self.tensor(sight)
        sight.tensors[self.add(sight, "Neg", [x])] = -sight.tensors[x]

    def twice(self, sight):
        x, axis = self.tensor(sight), self.free_axis()
        if axis is not None and sight.tensors[x].size <= 500:
            sight.tensors[self.add(sight, "Concat", [x, x], axis=axis)] = np.concatenate([sight.tensors[x]] * 2, axis)

    def shorter(self, sight):
        x, axis = self.tensor(sight), self.free_axis()
        if axis is None:
            return
        end = self.r.randint(0, sight.tensors[x].shape[axis])
        ends = self.input("i", np.array([end]), INT64, [1])
        name = self.add(sight, "Slice", [x, self.constant([0]), ends, self.constant([axis])])
        sight.tensors[name] = sight.tensors[x].take(range(end), axis)

    # --- bodies
    def choice(self, sight):
        sequence = self.sequence(sight)
        if sequence is None:
            return
        chosen, branches, parts = self.r.random() < 0.5, {}, []
        for branch in ("else_branch", "then_branch"):
            inner = sight.inner()
            for _ in range(self.r.randint(1, 3)):
                self.step(inner)
            result = self.r.choice([name for name in inner.sequences if name not in sight.sequences] or [sequence])
            given = self.add(inner, "Identity", [result])
            parts.append(inner.sequences[result])
            branches[branch] = helper.make_graph(inner.nodes, self.name("body"), [], [sequence_info(given)])
        condition = self.input("c", np.array(chosen), BOOL, [])
        sight.sequences[self.add(sight, "If", [condition], **branches)] = parts[chosen]

    def loop(self, sight):
        """Iterations put a tensor, or a part of it that is longer from one to the next, in some place of what they carry."""
        sequence = self.sequence(sight) if self.r.random() < 0.6 else None
        parts, trips = list(sight.sequences.get(sequence, [])), self.r.randint(0, 3)
        if sequence is None:
            sequence = self.add(sight, "SequenceEmpty", [], dtype=FLOAT)
        x, axis, place = self.tensor(sight), self.free_axis(), self.r.choice(["end", "front", "twice", "turned"])
        iteration, on, carried, inner = self.name("v"), self.name("v"), self.name("v"), sight.inner()
        go_on = self.add(inner, "Identity", [on])
        zero, one = self.constant(0), self.constant([1])
        grows = axis is not None and self.r.random() < 0.7
        if grows:
            more = self.add(inner, "Add", [self.add(inner, "Reshape", [iteration, one]), one])
            part = self.add(inner, "Slice", [x, self.constant([0]), more, self.constant([axis])])
        else:
            part = self.add(inner, "Neg", [x])
        longer = self.add(inner, "SequenceInsert", [carried, part, zero] if place == "front" else [carried, part])
        if place == "twice":
            longer = self.add(inner, "SequenceInsert", [longer, x])
        if place == "turned":
            first = self.add(inner, "SequenceAt", [longer, zero])
            longer = self.add(inner, "SequenceErase", [self.add(inner, "SequenceInsert", [longer, first]), zero])
        whole = sight.tensors[x]
        for i in range(trips):
            new = whole.take(range(min(i + 1, whole.shape[axis])), axis) if grows else -whole
            parts = [new, *parts] if place == "front" else [*parts, new]
            if place == "twice":
                parts.append(whole)
            if place == "turned":
                parts = [*parts[1:], parts[0]]
        body = helper.make_graph(inner.nodes, self.name("body"), [tensor_info(iteration, INT64, []), tensor_info(on, BOOL, []), sequence_info(carried)],
                                 [tensor_info(go_on, BOOL, []), sequence_info(longer)])
        count = self.input("n", np.array(trips), INT64, [])
        sight.sequences[self.add(sight, "Loop", [count, "", sequence], body=body)] = parts

    def map(self, sight):
        sequence, axis = self.sequence(sight), self.free_axis()
        if sequence is None or axis is None or sum(part.size for part in sight.sequences[sequence]) > 500:
            return
        given, inner = self.name("v"), sight.inner()
        result = self.add(inner, "Concat", [given, given], axis=axis)
        any_shape = [None] * self.rank
        body = helper.make_graph(inner.nodes, self.name("body"), [tensor_info(given, FLOAT, any_shape)], [tensor_info(result, FLOAT, any_shape)])
        name = self.add(sight, "SequenceMap", [sequence], body=body)
        sight.sequences[name] = [np.concatenate([part] * 2, axis) for part in sight.sequences[sequence]]

    def step(self, sight):
        operators = [self.construct, self.split, self.insert, self.insert, self.erase, self.at, self.at, self.join, self.twice, self.shorter,
                     self.length, self.negative]
        bodies = [self.choice, self.choice, self.loop, self.loop, self.map] if sight.depth < 2 else []
        self.r.choice(operators + bodies)(sight)


def make(seed):
    """A model, and its inputs by name."""
    generator, sight = Generator(seed), Sight()
    generator.construct(sight)
    for _ in range(generator.r.randint(4, 12)):
        generator.step(sight)
    outputs = [sequence_info(name) for name in list(sight.sequences)[-2:]]
    outputs += [tensor_info(name, FLOAT, [None] * generator.rank) for name in [x for x in sight.tensors if x not in generator.inputs][-2:]]
    outputs += [tensor_info(name, INT64, []) for name in generator.lengths[-1:]]
    graph = helper.make_graph(sight.nodes, "g", generator.infos, outputs, generator.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), generator.inputs
