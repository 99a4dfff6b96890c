# SPDX-License-Identifier: Apache-2.0
"""Every value of the network API's enumerations, and the layers that check_layers.py has not, against numpy."""
import math
import unittest

import numpy as np

import lathe.tensorrt as trt

from case import RNG, Case

ERF = np.vectorize(math.erf, otypes=[np.float32])
TYPES = {"float32": trt.float32, "int32": trt.int32, "int64": trt.int64, "bool": trt.bool}


def small_floats(mantissa_bits, bias, codes):
    """The numbers that are not negative of a float of few bits, in the order of their codes."""
    steps = 1 << mantissa_bits
    return np.array([code * 2.0 ** (1 - bias) / steps if code < steps else (1 + code % steps / steps) * 2.0 ** (code // steps - bias)
                     for code in range(codes)], np.float32)


E4M3, E2M1 = small_floats(3, 7, 127), small_floats(1, 1, 8)


def nearest(x, numbers):
    """The nearest of the numbers, of two the one of even code; what is beyond the largest becomes it."""
    size = np.minimum(np.abs(x), numbers[-1])
    above = np.clip(np.searchsorted(numbers, size), 1, len(numbers) - 1)
    low, high = size - numbers[above - 1], numbers[above] - size
    return np.sign(x) * numbers[np.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Values(Case):
    X = np.array([[1, -2, 3], [-4, 5, -0.5]], np.float32)

    def run_layer(self, make, *arrays, output=0):
        """What a layer gives for these inputs."""
        self.setUp()
        tensors = [self.input(*a.shape, dtype=TYPES[str(a.dtype)], name=f"x{i}") for i, a in enumerate(arrays)]
        return self.result(make(self.network, *tensors).get_output(output), **{f"x{i}": a for i, a in enumerate(arrays)})

    def check(self, expected, make, *arrays, **more):
        actual = self.run_layer(make, *arrays, **more)
        self.assertEqual(actual.shape, np.shape(expected))
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)

    def each(self, enum, expected):
        """Every member of an enumeration with what is expected of it."""
        self.assertEqual(sorted(m.name for m in enum), sorted(expected))
        return [(member, expected[member.name]) for member in enum]

    def test_activation(self):
        x, a, b = self.X, 0.3, 0.7
        gelu = np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)
        expected = {
            "RELU": np.maximum(x, 0), "SIGMOID": sigmoid(x), "TANH": np.tanh(x), "LEAKY_RELU": np.where(x > 0, x, a * x),
            "ELU": np.where(x > 0, x, a * np.expm1(x)), "SELU": np.where(x > 0, b * x, b * a * np.expm1(x)),
            "SOFTSIGN": x / (1 + abs(x)), "SOFTPLUS": a * np.log1p(np.exp(b * x)), "CLIP": np.clip(x, a, b),
            "HARD_SIGMOID": np.clip(a * x + b, 0, 1), "SCALED_TANH": a * np.tanh(b * x), "THRESHOLDED_RELU": np.where(x > a, x, 0),
            "GELU_ERF": x / 2 * (1 + ERF(x / np.sqrt(2))), "GELU_TANH": x / 2 * (1 + np.tanh(gelu))}
        for kind, values in self.each(trt.ActivationType, expected):
            with self.subTest(str(kind)):
                def make(network, t):
                    layer = network.add_activation(t, kind)
                    layer.alpha, layer.beta = a, b
                    return layer
                self.check(values, make, x)

    def test_unary(self):
        x = self.X
        inside, above = np.array([[-0.9, 0.25, 0.5]], np.float32), np.array([[1.25, 2, 3]], np.float32)
        odd = np.array([[np.inf, -np.inf, np.nan, 1]], np.float32)
        functions = {"EXP": np.exp, "RECIP": np.reciprocal, "ABS": abs, "NEG": np.negative, "SIN": np.sin, "COS": np.cos, "TAN": np.tan,
                     "SINH": np.sinh, "COSH": np.cosh, "ATAN": np.arctan, "ASINH": np.arcsinh, "CEIL": np.ceil, "FLOOR": np.floor,
                     "ERF": ERF, "SIGN": np.sign, "ROUND": np.round}
        of = {name: (f, x) for name, f in functions.items()}
        of.update({"LOG": (np.log, above), "SQRT": (np.sqrt, above), "ACOSH": (np.arccosh, above), "ASIN": (np.arcsin, inside),
                   "ACOS": (np.arccos, inside), "ATANH": (np.arctanh, inside), "ISINF": (np.isinf, odd), "ISNAN": (np.isnan, odd),
                   "NOT": (np.logical_not, x > 0)})
        for op, (function, values) in self.each(trt.UnaryOperation, of):
            with self.subTest(str(op)):
                self.check(function(values), lambda network, t: network.add_unary(t, op), values)

    def test_elementwise(self):
        x, y = self.X, np.array([[2, -2, 0.5]], np.float32)
        of = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum, "SUB": np.subtract, "DIV": np.divide,
              "FLOOR_DIV": np.floor_divide, "EQUAL": np.equal, "GREATER": np.greater, "LESS": np.less}
        of = {name: (f, x, y) for name, f in of.items()}
        of["POW"] = (np.power, abs(x), y)
        of.update({name: (f, x > 0, y > 0) for name, f in
                   {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor}.items()})
        for op, (function, a, b) in self.each(trt.ElementWiseOperation, of):
            with self.subTest(str(op)):
                self.check(function(a, b), lambda network, s, t: network.add_elementwise(s, t, op), a, b)

    def test_reduce(self):
        of = {"SUM": np.sum, "PROD": np.prod, "MAX": np.max, "MIN": np.min, "AVG": np.mean}
        for name, function in of.items():
            for keep in (True, False):
                with self.subTest(name, keep=keep):
                    self.check(function(self.X, axis=1, keepdims=keep),
                               lambda network, t: network.add_reduce(t, trt.ReduceOperation[name], 1 << 1, keep), self.X)

    def test_pooling(self):
        x = RNG.standard_normal((1, 2, 4, 6)).astype(np.float32)
        windows = x.reshape(1, 2, 2, 2, 3, 2)
        largest, mean = windows.max((3, 5)), windows.mean((3, 5))
        of = {"MAX": largest, "AVERAGE": mean, "MAX_AVERAGE_BLEND": 0.75 * largest + 0.25 * mean}
        for kind, values in self.each(trt.PoolingType, of):
            with self.subTest(str(kind)):
                def make(network, t):
                    layer = network.add_pooling_nd(t, kind, (2, 2))
                    layer.stride_nd, layer.blend_factor = (2, 2), 0.25
                    return layer
                self.check(values, make, x)

    def test_padding_modes(self):
        x = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 1, 5)
        of = {"EXPLICIT_ROUND_DOWN": [2, 4], "EXPLICIT_ROUND_UP": [2, 4, 5], "SAME_UPPER": [2, 4, 5], "SAME_LOWER": [1, 3, 5]}
        for mode, values in self.each(trt.PaddingMode, of):
            with self.subTest(str(mode)):
                def make(network, t):
                    layer = network.add_pooling_nd(t, trt.PoolingType.MAX, (1, 2))
                    layer.stride_nd, layer.padding_mode = (1, 2), mode
                    return layer
                self.check(np.array(values, np.float32).reshape(1, 1, 1, -1), make, x)

    def test_scale_modes(self):
        x = RNG.random((1, 2, 2, 3), np.float32) + 1
        shapes = {"UNIFORM": (1,), "CHANNEL": (2,), "ELEMENTWISE": (2, 2, 3)}
        for mode, shape in self.each(trt.ScaleMode, shapes):
            with self.subTest(str(mode)):
                shift, scale, power = (RNG.random(shape, np.float32) + 0.5 for _ in range(3))
                wide = [v.reshape(2, 1, 1) if mode == trt.ScaleMode.CHANNEL else v for v in (shift, scale, power)]
                self.check((x * wide[1] + wide[0]) ** wide[2], lambda network, t: network.add_scale(t, mode, shift, scale, power), x)

    def test_matrix_operations(self):
        a, b = RNG.random((2, 3), np.float32), RNG.random((3, 2), np.float32)
        none, swap, vector = trt.MatrixOperation.NONE, trt.MatrixOperation.TRANSPOSE, trt.MatrixOperation.VECTOR
        for x, p, y, q, expected in ((a, none, b, none, a @ b), (a, swap, b, swap, a.T @ b.T), (a, none, b[:, 0], vector, a @ b[:, 0]),
                                     (a[0], vector, b, none, a[0] @ b)):
            with self.subTest(f"{p.name} {q.name}"):
                self.check(expected, lambda network, s, t: network.add_matrix_multiply(s, p, t, q), x, y)

    def test_topk(self):
        for op, sign in ((trt.TopKOperation.MAX, -1), (trt.TopKOperation.MIN, 1)):
            order = np.argsort(sign * self.X, 1, kind="stable")[:, :2]
            for output, expected in ((0, np.take_along_axis(self.X, order, 1)), (1, order)):
                with self.subTest(op.name, output=output):
                    self.check(expected, lambda network, t: network.add_topk(t, op, 2, 1 << 1), self.X, output=output)

    def test_gather_and_scatter_modes(self):
        index = np.array([[2, 0], [1, 1]], np.int32)
        of = {"DEFAULT": self.X[:, index], "ELEMENT": np.take_along_axis(self.X, index, 1), "ND": self.X[[1, 0], [0, 2]]}
        for mode, values in self.each(trt.GatherMode, of):
            with self.subTest(str(mode)):
                def make(network, t, i):
                    layer = network.add_gather_v2(t, i, mode)
                    layer.axis = 1
                    return layer
                self.check(values, make, self.X, np.array([[1, 0], [0, 2]], np.int32) if mode == trt.GatherMode.ND else index)
        elements, places = self.X.copy(), self.X.copy()
        elements[0, 2], elements[1, 0] = 7, 8
        places[0, 2], places[1, 0] = 7, 8
        of = {"ELEMENT": (elements, [[2], [0]], [[7], [8]]), "ND": (places, [[0, 2], [1, 0]], [7, 8])}
        for mode, (values, indices, updates) in self.each(trt.ScatterMode, of):
            with self.subTest(str(mode)):
                def make(network, t, i, u):
                    layer = network.add_scatter(t, i, u, mode)
                    layer.axis = 1
                    return layer
                self.check(values, make, self.X, np.array(indices, np.int32), np.array(updates, np.float32))

    def test_fill(self):
        for op, mean, spread in ((trt.FillOperation.RANDOM_UNIFORM, 2.0, 2 / 12 ** 0.5), (trt.FillOperation.RANDOM_NORMAL, 1.0, 3.0)):
            def make(network, t):
                layer = network.add_fill((4000,), op, trt.float32)
                layer.alpha, layer.beta = 1.0, 3.0
                network.mark_output(network.add_identity(t).get_output(0))
                return layer
            with self.subTest(op.name):
                values = self.run_layer(make, self.X)
                self.assertAlmostEqual(float(values.mean()), mean, delta=0.25)
                self.assertAlmostEqual(float(values.std()), spread, delta=0.25)

    def test_sample_modes_of_slice(self):
        modes = {"WRAP": "wrap", "CLAMP": "edge", "REFLECT": "reflect", "FILL": "constant"}
        for name, numpy_mode in modes.items():
            def make(network, t):
                layer = network.add_slice(t, (0, -1), (2, 5), (1, 1))
                layer.mode = trt.SampleMode[name]
                return layer
            with self.subTest(name):
                self.check(np.pad(self.X, ((0, 0), (1, 1)), numpy_mode), make, self.X)

    def test_interpolation_and_coordinates(self):
        x = np.array([[[[0, 4, 8, 12]]]], np.float32)
        linear = {"ALIGN_CORNERS": np.linspace(0, 12, 8), "ASYMMETRIC": [0, 2, 4, 6, 8, 10, 12, 12], "HALF_PIXEL": [0, 1, 3, 5, 7, 9, 11, 12]}
        for coordinates, values in self.each(trt.ResizeCoordinateTransformation, linear):
            with self.subTest(str(coordinates)):
                self.check(np.reshape(values, (1, 1, 1, 8)), self.resize((1, 1, 1, 8), trt.InterpolationMode.LINEAR, coordinates), x)
        flat = np.full((1, 1, 4, 4), 3, np.float32)
        for mode in trt.InterpolationMode:
            with self.subTest(mode.name):
                self.check(np.full((1, 1, 8, 8), 3), self.resize((1, 1, 8, 8), mode, trt.ResizeCoordinateTransformation.HALF_PIXEL), flat)
        # Elements 0 and 1 of eight lie at -0.25 and 0.25 of four, element 2 at 0.75.
        nearest = {"HALF_UP": [0, 0, 4], "HALF_DOWN": [0, 0, 4], "FLOOR": [0, 0, 0], "CEIL": [0, 4, 4]}
        for rounding, values in self.each(trt.ResizeRoundMode, nearest):
            with self.subTest(str(rounding)):
                make = self.resize((1, 1, 1, 8), trt.InterpolationMode.NEAREST, trt.ResizeCoordinateTransformation.HALF_PIXEL, rounding)
                self.assertEqual(self.run_layer(make, x)[0, 0, 0, :3].tolist(), values)

    @staticmethod
    def resize(shape, mode, coordinates, rounding=trt.ResizeRoundMode.FLOOR):
        def make(network, t):
            layer = network.add_resize(t)
            layer.shape, layer.resize_mode, layer.coordinate_transformation, layer.nearest_rounding = shape, mode, coordinates, rounding
            return layer
        return make

    def test_box_formats(self):
        corners = np.array([[[0, 0, 2, 2], [0, 0, 2, 2.1], [5, 5, 6, 6]]], np.float32)
        centers = np.concatenate([(corners[..., :2] + corners[..., 2:]) / 2, corners[..., 2:] - corners[..., :2]], -1)
        scores = np.array([[[0.9], [0.8], [0.7]]], np.float32)
        for form, boxes in self.each(trt.BoundingBoxFormat, {"CORNER_PAIRS": corners, "CENTER_SIZES": centers}):
            with self.subTest(str(form)):
                def make(network, t, s):
                    layer = network.add_nms(t, s, self.constant(3, np.int32))
                    layer.bounding_box_format = form
                    layer.set_input(3, self.constant(0.5))
                    return network.add_identity(layer.get_output(1))
                self.check(2, make, boxes, scores)

    def test_loop_outputs_and_trip_limits(self):
        def make(network, t):
            loop = network.add_loop()
            value = loop.add_recurrence(t)
            doubled = network.add_elementwise(value.get_output(0), value.get_output(0), trt.ElementWiseOperation.SUM).get_output(0)
            value.set_input(1, doubled)
            small = network.add_reduce(value.get_output(0), trt.ReduceOperation.SUM, 1, False).get_output(0)
            loop.add_trip_limit(network.add_elementwise(small, self.constant(4), trt.ElementWiseOperation.LESS).get_output(0),
                                trt.TripLimit.WHILE)
            return loop.add_loop_output(value.get_output(0), trt.LoopOutput.LAST_VALUE)
        self.check([4], make, np.array([1], np.float32))

        def reverse(network, t):
            loop = network.add_loop()
            loop.add_trip_limit(self.constant(3, np.int32), trt.TripLimit.COUNT)
            value = loop.add_recurrence(t)
            value.set_input(1, network.add_elementwise(value.get_output(0), t, trt.ElementWiseOperation.SUM).get_output(0))
            return loop.add_loop_output(value.get_output(0), trt.LoopOutput.REVERSE, 0)
        lengths = np.array([1], np.float32)
        actual = self.run_layer(reverse, lengths)
        self.assertEqual(actual.ravel().tolist(), [3, 2, 1])

    # --- layers

    def test_lrn(self):
        x = RNG.random((1, 5, 1, 2), np.float32)
        sums = sum(np.pad(x ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))[:, i:i + 5] for i in range(3))
        self.check(x / (2 + 0.3 / 3 * sums) ** 0.75, lambda network, t: network.add_lrn(t, 3, 0.3, 0.75, 2.0), x)

    def test_one_hot(self):
        self.check(np.eye(4, dtype=np.float32)[[2, 0, 3]] * 5,
                   lambda network, t: network.add_one_hot(t, self.constant([0, 5]), self.constant(4, np.int32), -1), np.array([2, 0, 3], np.int32))

    def test_reverse_sequence(self):
        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        self.check([[2, 5], [0, 3], [4, 1]], lambda network, t: network.add_reverse_sequence(t, self.constant([2, 3], np.int32)), x)

    def test_cumulative(self):
        def make(network, t):
            return network.add_cumulative(t, self.constant(1, np.int32), trt.CumulativeOperation.SUM, True, True)
        self.check(np.cumsum(self.X[:, ::-1], 1)[:, ::-1] - self.X, make, self.X)

    def test_parametric_relu(self):
        self.check(np.where(self.X > 0, self.X, self.X * [0.1, 0.2, 0.3]),
                   lambda network, t: network.add_parametric_relu(t, self.constant([[0.1, 0.2, 0.3]])), self.X)

    def test_grid_sample(self):
        x = RNG.random((1, 1, 2, 2), np.float32)
        grid = np.array([[[[-1, -1], [1, 1], [0, 0]]]], np.float32)
        for mode in (trt.InterpolationMode.NEAREST, trt.InterpolationMode.LINEAR):
            def make(network, t, g):
                layer = network.add_grid_sample(t, g)
                layer.align_corners, layer.interpolation_mode, layer.sample_mode = True, mode, trt.SampleMode.CLAMP
                return layer
            with self.subTest(mode.name):
                got = self.run_layer(make, x, grid).ravel()
                np.testing.assert_allclose(got[:2], [x[0, 0, 0, 0], x[0, 0, 1, 1]], rtol=1e-5)
                if mode == trt.InterpolationMode.LINEAR:
                    self.assertAlmostEqual(got[2], x.mean(), places=5)

    def test_rotary_embedding(self):
        x = RNG.random((1, 2, 3, 4), np.float32)
        angles = RNG.random((1, 3, 2), np.float32)
        cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
        a, b = x[..., :2], x[..., 2:]
        self.check(np.concatenate([a * cos - b * sin, a * sin + b * cos], -1),
                   lambda network, t: network.add_rotary_embedding(t, self.constant(np.cos(angles)), self.constant(np.sin(angles)), False, 0), x)

    def test_kv_cache_update(self):
        cache, update = np.zeros((2, 1, 4, 2), np.float32), RNG.random((2, 1, 1, 2), np.float32)
        expected = cache.copy()
        expected[0, :, 3], expected[1, :, 1] = update[0, :, 0], update[1, :, 0]
        self.check(expected, lambda network, c, u: network.add_kv_cache_update(c, u, self.constant([3, 1], np.int32), trt.KVCacheMode.LINEAR),
                   cache, update)

    def test_normalization_v2_with_groups(self):
        x = RNG.random((1, 4, 2, 2), np.float32)
        parts = x.reshape(1, 2, -1)
        normal = ((parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + 1e-5)).reshape(x.shape)

        def make(network, t):
            layer = network.add_normalization_v2(t, self.constant(np.full((1, 4, 1, 1), 2)), self.constant(np.ones((1, 4, 1, 1))), 0b1100)
            layer.num_groups = 2
            return layer
        self.check(normal * 2 + 1, make, x)

    def test_dynamic_quantize(self):
        x = RNG.standard_normal((4, 6)).astype(np.float32)
        for blocks, shape in (((1, 6), (4, 1, 1, 6)), ((2, 3), (2, 2, 2, 3)), ((-1, -1), (1, 4, 1, 6))):
            largest = abs(x.reshape(shape)).max((1, 3))
            scales = largest / 127
            wide = np.repeat(np.repeat(scales, shape[1], 0), shape[3], 1)
            for output, expected in ((0, np.round(x / wide)), (1, scales)):
                def make(network, t):
                    layer = network.add_dynamic_quantize_v2(t, blocks, trt.int8, trt.float32)
                    return network.add_cast(layer.get_output(output), trt.float32)
                with self.subTest(blocks, output=output):
                    self.check(expected, make, x)

    def test_quantize_to_fp8(self):
        x, scale = 100 * RNG.standard_normal((3, 5)).astype(np.float32), np.float32(0.125)

        def make(network, t):
            q = network.add_quantize(t, self.constant(scale), trt.fp8)
            return network.add_dequantize(q.get_output(0), self.constant(scale), trt.float32)
        self.check(nearest(x / scale, E4M3) * scale, make, x)

    def test_dynamic_quantize_along_an_axis(self):
        x = RNG.standard_normal((4, 64)).astype(np.float32)
        largest = abs(x).reshape(4, 2, 32).max(-1)
        powers = np.repeat(np.exp2(np.ceil(np.log2(largest / 448))), 32, -1)
        there_and_back = nearest(x / powers, E4M3) * powers

        def mxfp8(network, t):
            layer = network.add_dynamic_quantize(t, 1, 32, trt.fp8, trt.DataType.E8M0)
            return network.add_dequantize(layer.get_output(0), layer.get_output(1), trt.float32)
        self.check(there_and_back, mxfp8, x)

        tensor = np.float32(0.01)
        scales = nearest(abs(x).reshape(4, 4, 16).max(-1) / np.float32(6) / tensor, E4M3) * tensor
        wide = np.repeat(scales, 16, -1)

        def nvfp4(network, t):
            layer = network.add_dynamic_quantize_v2(t, (1, 16), trt.fp4, trt.fp8)
            layer.set_input(1, self.constant(tensor))
            scale = network.add_dequantize(layer.get_output(1), self.constant(tensor), trt.float32)
            return network.add_dequantize(layer.get_output(0), scale.get_output(0), trt.float32)
        self.check(nearest(x / wide, E2M1) * wide, nvfp4, x)

    def test_shape_identity_and_constants(self):
        self.check([2, 3], lambda network, t: network.add_shape(t), self.X)
        self.check(self.X, lambda network, t: network.add_identity(t), self.X)
        for dtype in (np.bool_, np.uint8):
            def make(network, t):
                network.mark_output(network.add_identity(t).get_output(0))
                return network.add_cast(self.constant([0, 1], dtype)._layer.get_output(0), trt.float32)
            with self.subTest(dtype.__name__):
                self.check([0, 1], make, self.X)

    def test_convolution_with_dilation_and_groups(self):
        x, w = RNG.random((1, 2, 5, 5), np.float32), RNG.random((4, 1, 2, 2), np.float32)

        def make(network, t):
            layer = network.add_convolution_nd(t, 4, (2, 2), w)
            layer.num_groups, layer.dilation_nd, layer.padding_nd = 2, (2, 2), (1, 1)
            return layer
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        expected = np.stack([sum(w[o, 0, i, j] * padded[0, o // 2, 2 * i:2 * i + 5, 2 * j:2 * j + 5] for i in (0, 1) for j in (0, 1))
                             for o in range(4)])[None]
        self.check(expected, make, x)


if __name__ == "__main__":
    unittest.main(argv=["values"], verbosity=1)
