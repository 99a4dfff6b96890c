# SPDX-License-Identifier: Apache-2.0
"""Layers of random quantised graphs that are operators on integers: ONNX's own and ONNX Runtime's.

A layer is first measured in float, which chooses the grid of its result. ONNX Runtime's kernels do not take
all types that ONNX allows; the limits stand where they apply.
"""
import numpy as np
from onnx import TensorProto

from quantized_graph import MICROSOFT, TYPES

BYTES = ("uint8", "int8")


class IntegerOperators:
    def integer_operator(self):
        layers = [self.qlinear_conv] * 3 + [self.qlinear_binary] * 2
        layers += [self.qlinear_matmul, self.matmul_integer, self.conv_integer, self.dynamic, self.qlinear_function, self.qlinear_pool,
                   self.qlinear_concat, self.qlinear_softmax, self.qgemm, self.dynamic_matmul, self.matmul_to_float, self.matmul_bits]
        return self.one_of(layers)()

    def grid_of(self, build, kind):
        """A grid for the numbers of a float form. Its scale is odd: these kernels of ONNX Runtime do not compute
        with one scale after the other, so a sum exactly between two steps falls to either. On twice the scale of
        two equal ones every other sum is one."""
        scale, zero = self.grid(self.measured(build), kind)
        return self.on_grid(None, kind, np.float32(scale * self.r.uniform(1.0, 1.01)), zero)

    # --- weights as integers
    def integers(self, shape, axis, terms, kind, per_channel, one_zero=True):
        """Weights, their scale and their zero point as names of constants, and the scale's numbers.
        `one_zero`: a zero point for all channels."""
        array = self.weight_numbers(shape, terms)
        scale, zero, flat = self.weight_grid(array, axis, kind, per_channel)
        if one_zero and np.size(zero) > 1:
            zero = np.full(np.shape(zero), zero[0])
        numbers = np.clip(np.round(array / flat(scale)) + flat(zero), *TYPES[kind])
        return [self.constant(numbers, kind), self.constant(scale), self.constant(zero, kind)], scale

    def weight_kind(self, x):
        """ONNX Runtime has no kernels for products of int8 activations with uint8 weights, but for those in
        int32."""
        return self.one_of(("int8", "int8", "uint8")) if x.kind == "uint8" else "int8"

    def weights(self, w, axis):
        return self.add("DequantizeLinear", w, axis=axis)

    def bias_integers(self, count, scale):
        numbers = np.round(self.r.standard_normal(count) * 0.5 / scale)
        return self.constant(np.clip(numbers, -2 ** 30, 2 ** 30).astype(np.int32))

    # --- ONNX's own
    def qlinear_conv(self):
        x = self.pick((3, 4), BYTES)
        found = self.filters(x)
        if not found:
            return False
        attributes, _, groups, shape = found
        out, terms = shape[0], np.prod(shape[1:])
        w, scale = self.integers(shape, 0, terms, self.weight_kind(x), self.chance(0.6))
        unit = (x.scale * scale).astype(np.float32)
        bias = [self.bias_integers(out, unit)] if self.chance(0.7) else []

        def form():
            parts = [self.dequantise(x), self.weights(w, 0)] + [self.add("DequantizeLinear", [b, self.constant(unit)], axis=0) for b in bias]
            return self.add("Conv", parts, group=groups, **attributes)
        y = self.grid_of(form, x.kind)
        return self.keep(y.renamed(self.add("QLinearConv", [x.name, *x.parameters, *w, *y.parameters, *bias], group=groups, **attributes)))

    def qlinear_matmul(self):
        x = self.pick((2, 3, 4), BYTES)
        if x is None:
            return False
        terms, columns = self.shape(x)[-1], self.one_of((1, 3, 8, 17, 33))
        w, _ = self.integers((terms, columns), 1, terms, self.weight_kind(x), self.chance(0.4))
        y = self.grid_of(lambda: self.add("MatMul", [self.dequantise(x), self.weights(w, 1)]), x.kind)
        return self.keep(y.renamed(self.add("QLinearMatMul", [x.name, *x.parameters, *w, *y.parameters])))

    def matmul_integer(self):
        x = self.pick((2, 3, 4), BYTES)
        if x is None:
            return False
        terms, columns = self.shape(x)[-1], self.one_of((1, 3, 8, 17, 33))
        kind = self.one_of(BYTES)
        (w, _, zero), scale = self.integers((terms, columns), 1, terms, kind, self.chance(0.5), False)
        inputs = [x.name, w, x.zero_name] + ([zero] if kind == "uint8" or self.chance(0.5) else [])
        return self.scaled(self.add("MatMulInteger", inputs), x.scale * scale)

    def conv_integer(self):
        x = self.pick((3, 4), BYTES)
        found = self.filters(x, 3)
        if not found:
            return False
        attributes, _, groups, shape = found
        (w, _, zero), scale = self.integers(shape, 0, np.prod(shape[1:]), self.one_of(BYTES), False)
        y = self.add("ConvInteger", [x.name, w, x.zero_name, self.single(zero, scale)], group=groups, **attributes)
        return self.scaled(y, x.scale * np.max(scale))

    def single(self, zero, scale):
        """A zero point without dims."""
        return zero if np.ndim(scale) == 0 else self.add("Squeeze", [zero])

    def scaled(self, sums, scale):
        """Sums in int32 as numbers, on a grid of their own."""
        y = self.add("Cast", [sums], to=TensorProto.FLOAT)
        return self.end(self.tail(self.add("Mul", self.shuffled([y, self.constant(np.asarray(scale, np.float32))]))))

    def dynamic(self):
        """A grid that a run chooses, read by a product of integers or by a DequantizeLinear."""
        x = self.pick((2, 3, 4))
        if x is None:
            return False
        y, scale, zero = self.add("DynamicQuantizeLinear", [self.dequantise(x)], 3)
        if self.chance(0.5):
            numbers = self.add("DequantizeLinear", [y, scale, zero])
            self.steps[numbers] = float(self.value(scale))
            return self.end(self.tail(numbers))
        terms, columns = self.shape(x)[-1], self.one_of((1, 3, 8, 17, 33))
        (w, unit, _), _ = self.integers((terms, columns), 1, terms, "int8", self.chance(0.5))
        sums = self.add("Cast", [self.add("MatMulInteger", [y, w, zero])], to=TensorProto.FLOAT)
        return self.end(self.tail(self.add("Mul", [sums, self.add("Mul", [scale, unit])])))

    # --- ONNX Runtime's
    def microsoft(self, operator, inputs, **attributes):
        return self.add(operator, inputs, domain=MICROSOFT, **attributes)

    def qlinear_binary(self):
        x = self.pick(kinds=BYTES)
        if x is None:
            return False
        shape = self.shape(x)
        other = self.fellow(x, lambda s: s == shape)
        if other is None or other.kind != x.kind:
            other = self.constant_tensor([1 if self.chance(0.2) else d for d in shape][self.whole(0, len(shape) - 1):], x.kind)
        name, (a, b) = self.one_of(("Add", "Add", "Mul")), self.shuffled([x, other])
        y = self.grid_of(lambda: self.add(name, [self.dequantise(a), self.dequantise(b)]), x.kind)
        y = y.renamed(self.microsoft("QLinear" + name, [a.name, *a.parameters, b.name, *b.parameters, *y.parameters]))
        return self.keep(y)

    def qlinear_function(self):
        x = self.pick(kinds=BYTES)
        if x is None:
            return False
        name = self.one_of(("Sigmoid", "LeakyRelu"))
        attributes = dict(alpha=self.one_of((0.01, 0.1, 0.3))) if name == "LeakyRelu" else {}
        y = self.grid_of(lambda: self.add(name, [self.dequantise(x)], **attributes), x.kind)
        return self.keep(y.renamed(self.microsoft("QLinear" + name, [x.name, *x.parameters, *y.parameters], **attributes)))

    def qlinear_pool(self):
        x = self.pick((4,), BYTES)
        if x is None or min(self.shape(x)[2:]) < 2:
            return False
        name, attributes = "GlobalAveragePool", {}
        if self.chance(0.5):
            kernel = [self.whole(1, 2), self.whole(1, 2)]
            strides = [self.whole(1, 2), self.whole(1, 2)]
            name, attributes = "AveragePool", dict(kernel_shape=kernel, strides=strides, pads=[0, 0, kernel[0] // 2, 0])
        y = self.grid_of(lambda: self.add(name, [self.dequantise(x)], **attributes), x.kind)
        last = {"channels_last": 0} if name == "GlobalAveragePool" else {}
        return self.keep(y.renamed(self.microsoft("QLinear" + name, [x.name, *x.parameters, *y.parameters], **attributes, **last)))

    def qlinear_concat(self):
        x = self.pick(kinds=BYTES)
        if x is None:
            return False
        shape = self.shape(x)
        axis = min(1, len(shape) - 1)
        other = self.fellow(x, lambda s: len(s) == len(shape) and all(a == b for i, (a, b) in enumerate(zip(s, shape)) if i != axis))
        if other is None or other.kind != x.kind:
            other = self.constant_tensor(shape, x.kind)
        if self.too_large(np.prod(shape) + np.prod(self.shape(other))):
            return False
        y = self.grid_of(lambda: self.add("Concat", [self.dequantise(x), self.dequantise(other)], axis=axis), x.kind)
        parts = [p for q in (x, other) for p in (q.name, *q.parameters)]
        return self.keep(y.renamed(self.microsoft("QLinearConcat", [*y.parameters, *parts], axis=axis)))

    def qlinear_softmax(self):
        x = self.pick(kinds=BYTES)
        if x is None:
            return False
        axis = self.whole(0, len(self.shape(x)) - 1) if self.chance(0.3) else -1
        # ONNX Runtime's kernel computes with integers: it rounds the inverse of the scale, a probability
        # beyond the range wraps instead of saturating, and the one of a single element is 0 in uint8. On the
        # grid that its quantiser writes it is right.
        if self.shape(x)[axis] < 2:
            return False
        y = self.on_grid(None, x.kind, np.float32(1 / 256), TYPES[x.kind][0])
        return self.keep(y.renamed(self.microsoft("QLinearSoftmax", [x.name, *x.parameters, *y.parameters], axis=axis, opset=13)))

    def qgemm(self):
        x = self.pick((2,), BYTES)
        if x is None:
            return False
        (rows, terms), columns, transposed = self.shape(x), self.one_of((1, 3, 8, 17, 33)), int(self.chance(0.5))
        shape = (columns, terms) if transposed else (terms, columns)
        w, scale = self.integers(shape, 1 - transposed, terms, self.weight_kind(x), self.chance(0.4))
        alpha = self.one_of((1.0, 1.0, 0.5))
        unit = (x.scale * scale).astype(np.float32)
        bias = self.bias_integers(columns, unit) if self.chance(0.7) else ""

        def form():
            parts = [self.dequantise(x), self.weights(w, 1 - transposed)]
            return self.add("Gemm", parts + ([self.add("DequantizeLinear", [bias, self.constant(unit)], axis=0)] if bias else []),
                            transB=transposed, alpha=alpha)
        inputs = [x.name, *x.parameters, *w, bias]
        if self.chance(0.2):
            return self.end(self.microsoft("QGemm", inputs, transB=transposed, alpha=alpha))
        y = self.grid_of(form, x.kind)
        return self.keep(y.renamed(self.microsoft("QGemm", inputs + y.parameters, transB=transposed, alpha=alpha)))

    def dynamic_matmul(self):
        x = self.pick((2, 3, 4))
        if x is None:
            return False
        terms, columns = self.shape(x)[-1], self.one_of((1, 3, 8, 17, 33))
        (w, unit, zero), scale = self.integers((terms, columns), 1, terms, self.one_of(BYTES), self.chance(0.5), False)
        bias = self.constant(self.r.standard_normal(columns).astype(np.float32)) if self.chance(0.5) else ""
        y = self.microsoft("DynamicQuantizeMatMul", [self.dequantise(x), w, unit, zero, bias])
        # An activation that falls to another step of its own grid moves the product by that step (the range
        # over 255) times a weight (255 of its steps at most).
        self.steps[y] = float(np.ptp(np.append(self.value(self.dequantise(x)), 0)) * np.max(scale))
        return self.end(self.tail(y))

    def matmul_to_float(self):
        x = self.pick((2, 3, 4), BYTES)
        if x is None:
            return False
        terms, columns = self.shape(x)[-1], self.one_of((1, 3, 8, 17, 33))
        w, _ = self.integers((terms, columns), 1, terms, self.weight_kind(x), self.chance(0.5), False)
        bias = self.constant(self.r.standard_normal(columns).astype(np.float32)) if self.chance(0.5) else ""
        y = self.microsoft("MatMulIntegerToFloat", [x.name, w[0], x.scale_name, w[1], x.zero_name, w[2], bias])
        return self.end(self.tail(y))

    def matmul_bits(self):
        x = self.pick((2, 3, 4))
        if x is None:
            return False
        terms, columns, block, bits = self.shape(x)[-1], self.one_of((1, 3, 8, 17, 33)), self.one_of((16, 32)), self.one_of((4, 4, 8))
        blocks = -(-terms // block)
        packed = self.constant(self.r.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8))
        scale = self.constant((self.r.uniform(0.5, 1.5, columns * blocks) * 2.0 ** (1 - bits) / max(1, terms) ** 0.5).astype(np.float32))
        zeros = [self.constant(self.r.integers(0, 256, columns * ((blocks * bits + 7) // 8)).astype(np.uint8))] if self.chance(0.5) else []
        y = self.microsoft("MatMulNBits", [self.dequantise(x), packed, scale, *zeros], K=terms, N=columns, bits=bits, block_size=block)
        return self.end(self.tail(y))
