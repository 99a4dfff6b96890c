# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs: operators, types, broadcasts, negative axes, extents 0 and 1, and bodies of If. A seed makes a graph again.

Values carry whether they are exact: sums of quarters, moved about. What jumps (comparisons, rounding, casts to integers, choices of the
largest) reads only those, so that a last place of difference stays one.
"""
import numpy as np
from onnx import TensorProto, helper, numpy_helper

F32, I64, BOOL, I32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.INT32
KINDS = {F32: np.float32, I64: np.int64, BOOL: np.bool_, I32: np.int32}
OPSET = 20
MOST_ELEMENTS = 4096


class Value:
    def __init__(self, name, kind, shape, exact):
        self.name, self.kind, self.shape, self.exact = name, kind, tuple(shape), exact

    @property
    def rank(self):
        return len(self.shape)


class Generator:
    def __init__(self, seed, values=None, prefix=""):
        self.r = np.random.default_rng(seed)
        self.values, self.nodes, self.constants, self.inputs, self.prefix = list(values or []), [], [], {}, prefix

    # --- picks
    def chance(self, p):
        return self.r.random() < p

    def one_of(self, items):
        return items[int(self.r.integers(len(items)))]

    def extent(self):
        return int(self.r.choice([0, 1, 2, 3, 4, 5, 8], p=[0.03, 0.2, 0.2, 0.2, 0.15, 0.12, 0.1]))

    def pick(self, kind=F32, rank=None, exact=None, least=0):
        found = [v for v in self.values if v.kind == kind and (rank is None or v.rank == rank) and (exact is None or v.exact) and v.rank >= least]
        return self.one_of(found) if found else None

    def axis(self, rank):
        """One of the axes, counted from the front or the back."""
        at = int(self.r.integers(rank))
        return at, at - rank if self.chance(0.5) else at

    # --- building
    def array(self, kind, shape):
        if kind == F32:
            return np.asarray(self.r.integers(-12, 13, shape) / 4, np.float32)
        if kind == BOOL:
            return np.asarray(self.r.integers(0, 2, shape), np.bool_)
        return np.asarray(self.r.integers(-9, 10, shape), KINDS[kind])

    def constant(self, array):
        name = f"{self.prefix}c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def input(self, kind, shape):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.array(kind, shape)
        self.values.append(Value(name, kind, shape, True))

    def add(self, operator, inputs, kind, shape, exact=False, **attributes):
        return self.add_many(operator, inputs, [(kind, shape)], exact, **attributes)

    def add_many(self, operator, inputs, results, exact=False, **attributes):
        if any(np.prod(shape) > MOST_ELEMENTS for _, shape in results):
            return False
        number = len(self.nodes)
        names = [f"{self.prefix}v{number}{'' if i == 0 else f'_{i}'}" for i in range(len(results))]
        self.nodes.append(helper.make_node(operator, [i if isinstance(i, str) else i.name for i in inputs], names,
                                           name=f"{self.prefix}{operator}_{number}", **attributes))
        self.values += [Value(n, kind, shape, exact) for n, (kind, shape) in zip(names, results)]
        return True

    def other(self, v, kind=None):
        """A constant or a value that broadcasts with v."""
        shape = [1 if self.chance(0.25) else d for d in v.shape]
        while shape and self.chance(0.3):
            shape = shape[1:]
        fits = [o for o in self.values if o.kind == v.kind and broadcast(o.shape, v.shape) is not None]
        if kind is None and fits and self.chance(0.6):
            return self.one_of(fits)
        array = self.array(v.kind if kind is None else kind, shape)
        return Value(self.constant(array), v.kind if kind is None else kind, shape, True)

    # --- families: each adds a node and says so
    def unary(self):
        v = self.pick()
        smooth = ("Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Mish", "Gelu", "Sin", "Cos", "Atan", "Elu", "Selu", "HardSigmoid", "HardSwish", "LeakyRelu")
        moved = ("Neg", "Abs", "Relu", "Identity")
        return v is not None and self.add(*((self.one_of(smooth), [v], F32, v.shape) if self.chance(0.6) else (self.one_of(moved), [v], F32, v.shape, v.exact)))

    def jump(self):
        v = self.pick(exact=True)
        return v is not None and self.add(self.one_of(("Floor", "Ceil", "Round", "Sign")), [v], F32, v.shape, True)

    def binary(self):
        v = self.pick(self.one_of((F32, F32, F32, I64, I32)))
        if v is None:
            return False
        o = self.other(v)
        operator = self.one_of(("Add", "Sub", "Mul", "Max", "Min"))
        exact = v.exact and o.exact and operator != "Mul"
        return self.add(operator, [v, o] if self.chance(0.5) else [o, v], v.kind, broadcast(v.shape, o.shape), exact)

    def divide(self):
        v = self.pick()
        if v is None:
            return False
        divisor = Value(self.constant(self.r.uniform(0.5, 2, v.shape[-1:]).astype(np.float32)), F32, v.shape[-1:], True)
        return self.add("Div", [v, divisor], F32, broadcast(v.shape, divisor.shape))

    def compare(self):
        v = self.pick(self.one_of((F32, I64)), exact=True)
        if v is None:
            return False
        o = Value(self.constant(self.array(v.kind, v.shape[-1:])), v.kind, v.shape[-1:], True)
        return self.add(self.one_of(("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual")), [v, o], BOOL, broadcast(v.shape, o.shape), True)

    def logic(self):
        v = self.pick(BOOL)
        if v is None:
            return False
        if self.chance(0.3):
            return self.add("Not", [v], BOOL, v.shape, True)
        o = self.other(v)
        return self.add(self.one_of(("And", "Or", "Xor")), [v, o], BOOL, broadcast(v.shape, o.shape), True)

    def where(self):
        c = self.pick(BOOL)
        a = self.pick()
        if c is None or a is None or broadcast(c.shape, a.shape) is None:
            return False
        shape = broadcast(c.shape, a.shape)
        b = Value(self.constant(self.array(F32, shape[-1:])), F32, shape[-1:], True)
        return self.add("Where", [c, a, b], F32, broadcast(shape, b.shape), a.exact)

    def cast(self):
        v = self.pick(self.one_of((F32, I64, BOOL, I32)), exact=True)
        if v is None:
            return False
        to = self.one_of((F32, I64, I32, BOOL))
        return self.add("Cast", [v], to, v.shape, True, to=to)

    def reduce(self):
        v = self.pick(least=1)
        if v is None:
            return False
        operator = self.one_of(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"))
        count = int(self.r.integers(1, v.rank + 1))
        axes = self.r.choice(v.rank, count, replace=False)
        if 0 in v.shape:  # for which ONNX Runtime leaves the reduced dims as they are
            return False
        keep = int(self.chance(0.5))
        shape = [1 if i in axes else d for i, d in enumerate(v.shape) if keep or i not in axes]
        signed = [int(a) - v.rank if self.chance(0.5) else int(a) for a in axes]
        return self.add(operator, [v, self.constant(np.array(signed, np.int64))], F32, shape, keepdims=keep)

    def arg(self):
        v = self.pick(exact=True, least=1)
        if v is None:
            return False
        at, axis = self.axis(v.rank)
        if 0 in v.shape:  # likewise
            return False
        keep = int(self.chance(0.5))
        shape = [1 if i == at else d for i, d in enumerate(v.shape) if keep or i != at]
        return self.add(self.one_of(("ArgMax", "ArgMin")), [v], I64, shape, True, axis=axis, keepdims=keep, select_last_index=int(self.chance(0.3)))

    def softmax(self):
        v = self.pick(least=1)
        if v is None:
            return False
        at, axis = self.axis(v.rank)
        return v.shape[at] > 0 and self.add(self.one_of(("Softmax", "LogSoftmax")), [v], F32, v.shape, axis=axis)

    def norm(self):
        v = self.pick(least=1)
        if v is None or v.shape[-1] < 2:
            return False
        scale = self.constant(self.r.uniform(0.5, 1.5, v.shape[-1:]).astype(np.float32))
        bias = self.constant(self.array(F32, v.shape[-1:]))
        return self.add("LayerNormalization", [v, scale, bias], F32, v.shape, axis=-1, epsilon=0.1)

    def transpose(self):
        v = self.pick(self.one_of((F32, I64, BOOL)))
        if v is None:
            return False
        if v.rank == 0:
            return False
        perm = [int(p) for p in self.r.permutation(v.rank)]
        return self.add("Transpose", [v], v.kind, [v.shape[p] for p in perm], v.exact, perm=perm)

    def reshape(self):
        v = self.pick(self.one_of((F32, I64)))
        if v is None or 0 in v.shape:
            return False
        left, shape = int(np.prod(v.shape)), []
        while left > 1 and len(shape) < 4:
            divisors = [d for d in range(1, left + 1) if left % d == 0]
            shape.append(int(self.one_of(divisors)))
            left //= shape[-1]
        shape.append(left)
        wanted = list(shape)
        if self.chance(0.4):
            wanted[int(self.r.integers(len(wanted)))] = -1
        return self.add("Reshape", [v, self.constant(np.array(wanted, np.int64))], v.kind, shape, v.exact)

    def squeeze(self):
        v = self.pick(self.one_of((F32, I64, BOOL)))
        if v is None or v.rank > 4:
            return False
        if self.chance(0.5):
            at, axis = self.axis(v.rank + 1)
            shape = list(v.shape)
            shape.insert(at, 1)
            return self.add("Unsqueeze", [v, self.constant(np.array([axis], np.int64))], v.kind, shape, v.exact)
        ones = [i for i, d in enumerate(v.shape) if d == 1]
        if not ones:
            return False
        at = self.one_of(ones)
        return self.add("Squeeze", [v, self.constant(np.array([at - v.rank], np.int64))], v.kind, v.shape[:at] + v.shape[at + 1:], v.exact)

    def concat(self):
        v = self.pick(self.one_of((F32, I64)), least=1)
        if v is None:
            return False
        at, axis = self.axis(v.rank)
        fits = [o for o in self.values if o.kind == v.kind and o.rank == v.rank and all(a == b for i, (a, b) in enumerate(zip(o.shape, v.shape)) if i != at)]
        parts = [v] + [self.one_of(fits) for _ in range(int(self.r.integers(1, 3)))]
        shape = list(v.shape)
        shape[at] = sum(p.shape[at] for p in parts)
        return self.add("Concat", parts, v.kind, shape, all(p.exact for p in parts), axis=axis)

    def split(self):
        v = self.pick(least=1)
        if v is None:
            return False
        at, axis = self.axis(v.rank)
        if v.shape[at] < 2:
            return False
        first = int(self.r.integers(1, v.shape[at]))
        shapes = [v.shape[:at] + (n,) + v.shape[at + 1:] for n in (first, v.shape[at] - first)]
        return self.add_many("Split", [v, self.constant(np.array([first, v.shape[at] - first], np.int64))], [(F32, s) for s in shapes], v.exact, axis=axis)

    def slice(self):
        v = self.pick(self.one_of((F32, I64)), least=1)
        if v is None:
            return False
        at, axis = self.axis(v.rank)
        d = v.shape[at]
        step = int(self.one_of((1, 1, 2, 3, -1, -2)))
        start, end = int(self.r.integers(-d - 2, d + 3)), int(self.r.integers(-d - 2, d + 3))
        count = len(range(d)[slice(start, end, step)])
        numbers = [self.constant(np.array([n], np.int64)) for n in (start, end, axis, step)]
        return self.add("Slice", [v, *numbers], v.kind, v.shape[:at] + (count,) + v.shape[at + 1:], v.exact)

    def gather(self):
        v = self.pick(self.one_of((F32, I64)), least=1)
        if v is None:
            return False
        at, axis = self.axis(v.rank)
        if v.shape[at] == 0:
            return False
        shape = [self.extent() for _ in range(int(self.r.integers(0, 3)))]
        index = self.r.integers(-v.shape[at], v.shape[at], shape).astype(np.int64)
        return self.add("Gather", [v, self.constant(index)], v.kind, v.shape[:at] + tuple(shape) + v.shape[at + 1:], v.exact, axis=axis)

    def scatter(self):
        v = self.pick(least=1)
        if v is None:
            return False
        at, axis = self.axis(v.rank)
        if 0 in v.shape:
            return False
        count = int(self.r.integers(1, v.shape[at] + 1))
        shape = v.shape[:at] + (count,) + v.shape[at + 1:]
        line = self.r.permutation(v.shape[at])[:count].reshape([count if i == at else 1 for i in range(v.rank)])
        index = np.broadcast_to(line, shape).astype(np.int64).copy()
        return self.add("ScatterElements", [v, self.constant(index), self.constant(self.array(F32, shape))], F32, v.shape, v.exact, axis=axis)

    def pad(self):
        v = self.pick(least=1)
        if v is None:
            return False
        mode = self.one_of(("constant", "edge", "reflect"))
        if mode != "constant" and min(v.shape) < 3:
            return False
        pads = self.r.integers(0, 3, 2 * v.rank)
        shape = [d + int(pads[i]) + int(pads[i + v.rank]) for i, d in enumerate(v.shape)]
        return self.add("Pad", [v, self.constant(pads.astype(np.int64))], F32, shape, v.exact, mode=mode)

    def spread(self):
        v = self.pick(self.one_of((F32, I64)))
        if v is None:
            return False
        if self.chance(0.5):
            repeats = self.r.integers(1, 3, v.rank)
            return v.rank > 0 and self.add("Tile", [v, self.constant(repeats.astype(np.int64))], v.kind, [d * int(n) for d, n in zip(v.shape, repeats)], v.exact)
        shape = [int(self.r.integers(1, 4))] + [self.extent() if d == 1 else d for d in v.shape]
        return self.add("Expand", [v, self.constant(np.array(shape, np.int64))], v.kind, shape, v.exact)

    def product(self):
        v = self.pick(least=2)
        if v is None:
            return False
        columns = max(1, self.extent())
        w = (self.r.standard_normal((v.shape[-1], columns)) / max(1, v.shape[-1]) ** 0.5).astype(np.float32)
        if v.rank == 2 and self.chance(0.4):
            bias = self.constant(self.array(F32, (columns,)))
            return self.add("Gemm", [v, self.constant(w.T.copy()), bias], F32, (v.shape[0], columns), transB=1)
        return self.add("MatMul", [v, self.constant(w)], F32, v.shape[:-1] + (columns,))

    def convolution(self):
        v = self.pick(rank=4)
        if v is None or min(v.shape[1:]) < 1 or min(v.shape[2:]) < 2:
            return False
        groups = v.shape[1] if self.chance(0.3) else 1
        out, k = groups * int(self.r.integers(1, 4)), int(self.r.integers(1, 3))
        w = (self.r.standard_normal((out, v.shape[1] // groups, k, k)) / (v.shape[1] // groups * k * k) ** 0.5).astype(np.float32)
        pad, stride = int(self.r.integers(0, k)), int(self.r.integers(1, 3))
        shape = v.shape[:1] + (out,) + tuple((d + 2 * pad - k) // stride + 1 for d in v.shape[2:])
        return self.add("Conv", [v, self.constant(w), self.constant(self.array(F32, (out,)))], F32, shape, group=groups, pads=[pad] * 4, strides=[stride] * 2)

    def pool(self):
        v = self.pick(rank=4)
        if v is None or 0 in v.shape or min(v.shape[2:]) < 2:
            return False
        if self.chance(0.3):
            return self.add("GlobalAveragePool", [v], F32, v.shape[:2] + (1, 1))
        shape = v.shape[:2] + tuple((d - 2) // 2 + 1 for d in v.shape[2:])
        return self.add(self.one_of(("MaxPool", "AveragePool")), [v], F32, shape, kernel_shape=[2, 2], strides=[2, 2])

    def other_families(self):
        v = self.pick(exact=True, least=1)
        if v is None:
            return False
        at, axis = self.axis(v.rank)
        which = self.one_of(("CumSum", "TopK", "Clip", "Trilu", "OneHot"))
        if which == "CumSum":
            return self.add("CumSum", [v, self.constant(np.array(axis, np.int64))], F32, v.shape, exclusive=int(self.chance(0.5)), reverse=int(self.chance(0.5)))
        if which == "TopK" and v.shape[at] > 0:
            k = int(self.r.integers(1, v.shape[at] + 1))
            shape = v.shape[:at] + (k,) + v.shape[at + 1:]
            return self.add_many("TopK", [v, self.constant(np.array([k], np.int64))], [(F32, shape), (I64, shape)], True, axis=axis, largest=int(self.chance(0.5)))
        if which == "Clip":
            return self.add("Clip", [v, self.constant(np.float32(-1.25)), self.constant(np.float32(2.0))], F32, v.shape, True)
        if which == "Trilu" and v.rank >= 2:
            return self.add("Trilu", [v, self.constant(np.array(int(self.r.integers(-2, 3)), np.int64))], F32, v.shape, True, upper=int(self.chance(0.5)))
        if which == "OneHot" and v.rank < 4:
            whole = self.pick(I64)
            depth = int(self.r.integers(2, 6))
            if whole is None or whole.rank == 0:
                return False
            inputs = [whole, self.constant(np.array(depth, np.int64)), self.constant(np.float32([0.25, 2.0]))]
            return self.add("OneHot", inputs, F32, whole.shape + (depth,), True, axis=-1)
        return False

    def choice(self):
        """An If whose branches read values around them. Its condition is an input, so that a run decides."""
        v = self.pick(least=1)
        if v is None or self.prefix:
            return False
        condition = f"x{len(self.inputs)}"
        self.inputs[condition] = np.array(self.chance(0.5))
        branches = []
        for name in ("then", "else"):
            inner = Generator(int(self.r.integers(1 << 30)), self.values, f"{self.prefix}{name}{len(self.nodes)}_")
            inner.add(self.one_of(("Relu", "Neg", "Sigmoid")), [v], F32, v.shape)
            last = inner.values[-1]
            inner.add("Add", [last, inner.constant(inner.array(F32, v.shape[-1:]))], F32, broadcast(v.shape, v.shape[-1:]))
            result = inner.values[-1]
            if result.shape != v.shape:
                return False
            branches.append(helper.make_graph(inner.nodes, name, [], [helper.make_tensor_value_info(result.name, F32, result.shape)], inner.constants))
        return self.add("If", [condition], F32, v.shape, then_branch=branches[0], else_branch=branches[1])

    def grow(self):
        families = (self.unary, self.jump, self.binary, self.binary, self.divide, self.compare, self.logic, self.where, self.cast, self.reduce, self.arg, self.softmax, self.norm,
                    self.transpose, self.reshape, self.squeeze, self.concat, self.split, self.slice, self.gather, self.scatter, self.pad, self.spread, self.product,
                    self.convolution, self.pool, self.other_families, self.choice)
        return self.one_of(families)()


def broadcast(a, b):
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def make(seed):
    """A model, and its inputs by name. Every value that nothing reads is an output."""
    g = Generator(seed)
    for _ in range(int(g.r.integers(1, 4))):
        g.input(F32, [g.extent() for _ in range(int(g.r.integers(0, 5)))])
    if g.chance(0.5):
        g.input(g.one_of((I64, I32, BOOL)), [g.extent() for _ in range(int(g.r.integers(0, 4)))])
    wanted, tries = int(g.r.integers(2, 14)), 0
    while len(g.nodes) < wanted and tries < 200:
        g.grow()
        tries += 1
    read = {i for n in g.nodes for i in n.input} | {i for n in g.nodes for a in n.attribute if a.HasField("g") for m in a.g.node for i in m.input}
    outputs = [v for v in g.values if v.name not in read and v.name not in g.inputs]
    return build(g, outputs), g.inputs


def build(g, outputs):
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in g.inputs.items()]
    results = [helper.make_tensor_value_info(v.name, v.kind, v.shape) for v in outputs]
    graph = helper.make_graph(g.nodes, "random", inputs, results, g.constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
