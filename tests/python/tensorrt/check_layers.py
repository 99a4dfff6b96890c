# SPDX-License-Identifier: Apache-2.0
"""Layers of TensorRT's network API by what they compute, against numpy."""
import unittest

import numpy as np

import lathe.tensorrt as trt

from case import RNG, Case, infer


class Layers(Case):
    """Every layer by what it computes."""

    X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)

    def check(self, make, expected, x=None, **inputs):
        x = self.X if x is None else x
        dtype = {np.float32: trt.float32, np.int32: trt.int32, np.bool_: trt.bool}[x.dtype.type]
        layer = make(self.input(*x.shape, dtype=dtype))
        y = self.result(layer.get_output(0), x=x, **inputs)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)

    def test_activations(self):
        def clip(x):
            layer = self.network.add_activation(x, trt.ActivationType.CLIP)
            layer.alpha, layer.beta = -3, 2
            return layer
        self.check(clip, np.clip(self.X, -3, 2))

    def test_unary(self):
        self.check(lambda x: self.network.add_unary(x, trt.UnaryOperation.ABS), abs(self.X))

    def test_elementwise(self):
        two = np.full((1, 1), 2, np.float32)
        self.check(lambda x: self.network.add_elementwise(x, self.constant(two), trt.ElementWiseOperation.FLOOR_DIV), np.floor(self.X / 2))

    def test_select(self):
        def make(x):
            positive = self.network.add_elementwise(x, self.constant([[0]]), trt.ElementWiseOperation.GREATER).get_output(0)
            return self.network.add_select(positive, x, self.constant([[9]]))
        self.check(make, np.where(self.X > 0, self.X, 9))

    def test_scale(self):
        x = self.X.reshape(1, 2, 3, 1)
        shift, scale = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
        self.check(lambda t: self.network.add_scale(t, trt.ScaleMode.CHANNEL, shift, scale, trt.Weights()),
                   x * scale.reshape(2, 1, 1) + shift.reshape(2, 1, 1), x)

    def test_reduce(self):
        self.check(lambda x: self.network.add_reduce(x, trt.ReduceOperation.AVG, 1 << 1, True), self.X.mean(1, keepdims=True))

    def test_topk(self):
        self.check(lambda x: self.network.add_topk(x, trt.TopKOperation.MIN, 2, 2), np.sort(self.X, 1)[:, :2])

    def test_softmax_over_two_axes(self):
        def make(x):
            layer = self.network.add_softmax(x)
            layer.axes = 3
            return layer
        powers = np.exp(self.X - self.X.max())
        self.check(make, powers / powers.sum())

    def test_concatenation(self):
        def make(x):
            layer = self.network.add_concatenation([x, x])
            layer.axis = 1
            return layer
        self.check(make, np.concatenate([self.X, self.X], 1))

    def test_matrix_times_vector(self):
        self.check(lambda x: self.network.add_matrix_multiply(x, trt.MatrixOperation.NONE, self.constant([1, 2, 3]),
                                                              trt.MatrixOperation.VECTOR), self.X @ [1, 2, 3])

    def test_einsum(self):
        self.check(lambda x: self.network.add_einsum([x, x], "ij, kj -> ik"), self.X @ self.X.T)

    def test_gather_and_scatter(self):
        self.check(lambda x: self.network.add_gather(x, self.constant([2, 0], np.int32), 1), self.X[:, [2, 0]])

    def test_scatter(self):
        index, update = self.constant([[1, 0]], np.int32), self.constant([[8, 9]])
        expected = self.X.copy()
        expected[1, 0], expected[0, 1] = 8, 9
        self.check(lambda x: self.network.add_scatter(x, index, update, trt.ScatterMode.ELEMENT), expected)

    def test_shuffle(self):
        def make(x):
            layer = self.network.add_shuffle(x)
            layer.first_transpose = (1, 0)
            layer.reshape_dims = (3, -1, 1)
            layer.second_transpose = trt.Permutation([2, 0, 1])
            return layer
        self.check(make, self.X.T.reshape(3, -1, 1).transpose(2, 0, 1))

    def test_slice(self):
        self.check(lambda x: self.network.add_slice(x, (1, 2), (2, 2), (-1, -2)), self.X[::-1, ::-2])

    def test_slice_outside(self):
        def make(x):
            layer = self.network.add_slice(x, (-1, 0), (4, 3), (1, 1))
            layer.mode = trt.SampleMode.CLAMP
            return layer
        self.check(make, np.pad(self.X, ((1, 1), (0, 0)), "edge"))

    def test_padding(self):
        x = self.X.reshape(1, 1, 2, 3)
        self.check(lambda t: self.network.add_padding_nd(t, (0, 1), (1, -1)), np.pad(x[..., :2], ((0, 0), (0, 0), (0, 1), (1, 0))), x)

    def test_casts(self):
        self.check(lambda x: self.network.add_cast(x, trt.int32), self.X.astype(np.int32))

    def test_fill(self):
        def make(x):
            layer = self.network.add_fill((4,), trt.FillOperation.LINSPACE, trt.float32)
            layer.alpha, layer.beta = 1.0, 0.5
            self.network.mark_output(self.network.add_identity(x).get_output(0))
            return layer
        self.check(make, [1, 1.5, 2, 2.5])

    def test_fill_with_tensors(self):
        for given, expected in (((), [3, 3.5, 4, 4.5]), ((1,), [7, 7.5, 8, 8.5]), ((2,), [3, 5, 7, 9]), ((1, 2), [7, 9, 11, 13])):
            self.setUp()

            def make(x):
                layer = self.network.add_fill((4,), trt.FillOperation.LINSPACE, trt.float32)
                layer.alpha, layer.beta = 3.0, 0.5
                for index in given:
                    layer.set_input(index, self.constant({1: 7.0, 2: 2.0}[index]))
                self.network.mark_output(self.network.add_identity(x).get_output(0))
                return layer
            with self.subTest(given):
                self.check(make, expected)

    def test_attributes_remake_only_what_they_change(self):
        made = []

        class Counted(trt.IUnaryLayer):
            def _emit(self, nb, inputs):
                made.append(self._number)
                return super()._emit(nb, inputs)
        x = self.input(2, 3)
        for _ in range(5):
            layer = self.network._add(Counted, [x], op=trt.UnaryOperation.NEG)
            layer.name = "negative"  # set before anything was asked of it
            layer.op = trt.UnaryOperation.ABS
            x = layer.get_output(0)
            self.assertEqual(tuple(x.shape), (2, 3))
        self.assertEqual(made, [0, 1, 2, 3, 4])
        self.network.get_layer(1).op = trt.UnaryOperation.NEG  # it is made already
        self.assertEqual(tuple(x.shape), (2, 3))
        self.assertEqual(made[5:], [0, 1, 2, 3, 4])

    def test_normalization(self):
        ones = self.constant(np.ones((1, 3)))
        self.check(lambda x: self.network.add_normalization(x, ones, self.constant(np.zeros((1, 3))), 1 << 1),
                   (self.X - self.X.mean(1, keepdims=True)) / self.X.std(1, keepdims=True))

    def test_quantize(self):
        def make(x):
            scale = self.constant(0.5)
            return self.network.add_dequantize(self.network.add_quantize(x, scale).get_output(0), scale)
        self.check(make, self.X)

    def test_squeeze(self):
        self.check(lambda x: self.network.add_unsqueeze(x, self.constant([0], np.int64)), self.X[None])

    def test_deconvolution(self):
        x = self.X.reshape(1, 1, 2, 3)
        def make(t):
            layer = self.network.add_deconvolution_nd(t, 1, (2, 2), np.ones((1, 1, 2, 2), np.float32))
            layer.stride_nd = (2, 2)
            return layer
        self.check(make, np.kron(x, np.ones((2, 2))), x)

    def test_nms(self):
        boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 1.1], [5, 5, 6, 6]]], np.float32)
        scores = self.constant(np.array([[[0.9], [0.8], [0.7]]]))
        def make(x):
            layer = self.network.add_nms(x, scores, self.constant(3, np.int32))
            layer.set_input(3, self.constant(0.5))
            return self.network.add_identity(layer.get_output(1))
        self.check(make, 2, boxes)

    def test_attention(self):
        q = RNG.standard_normal((1, 2, 4, 8)).astype(np.float32)
        scores = q @ q.swapaxes(-1, -2)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        self.check(lambda x: self.network.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, False),
                   powers / powers.sum(-1, keepdims=True) @ q, q)

    def test_loop_counts(self):
        def make(x):
            loop = self.network.add_loop()
            loop.add_trip_limit(self.constant(3, np.int32), trt.TripLimit.COUNT)
            value = loop.add_recurrence(x)
            total = self.network.add_elementwise(value.get_output(0), x, trt.ElementWiseOperation.SUM)
            self.assertEqual(tuple(total.get_output(0).shape), (2, 3))
            value.set_input(1, total.get_output(0))
            rows = loop.add_loop_output(total.get_output(0), trt.LoopOutput.CONCATENATE, 0)
            last = loop.add_loop_output(value.get_output(0), trt.LoopOutput.LAST_VALUE)
            return self.network.add_concatenation([rows.get_output(0), self.network.add_unsqueeze(
                last.get_output(0), self.constant([0], np.int64)).get_output(0)])
        self.check(make, np.stack([self.X * n for n in (2, 3, 4, 4)]))

    def test_loop_iterates(self):
        def make(x):
            loop = self.network.add_loop()
            row = loop.add_iterator(x, 0, True)
            value = loop.add_recurrence(self.constant([0, 0, 0]))
            following = self.network.add_elementwise(self.network.add_unary(value.get_output(0), trt.UnaryOperation.NEG).get_output(0),
                                                     row.get_output(0), trt.ElementWiseOperation.SUM)
            value.set_input(1, following.get_output(0))
            return loop.add_loop_output(value.get_output(0), trt.LoopOutput.LAST_VALUE)
        self.check(make, self.X[0] - self.X[1])

    def test_nested_loops(self):
        def make(x):
            outer = self.network.add_loop()
            outer.add_trip_limit(self.constant(2, np.int32), trt.TripLimit.COUNT)
            a = outer.add_recurrence(x)
            inner = self.network.add_loop()
            inner.add_trip_limit(self.constant(2, np.int32), trt.TripLimit.COUNT)
            b = inner.add_recurrence(a.get_output(0))
            b.set_input(1, self.network.add_elementwise(b.get_output(0), a.get_output(0), trt.ElementWiseOperation.SUM).get_output(0))
            a.set_input(1, inner.add_loop_output(b.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0))
            return outer.add_loop_output(a.get_output(0), trt.LoopOutput.LAST_VALUE)
        self.check(make, self.X * 9)

    def test_conditional(self):
        def make(x):
            total = self.network.add_reduce(x, trt.ReduceOperation.SUM, 3, False).get_output(0)
            positive = self.network.add_elementwise(total, self.constant(0), trt.ElementWiseOperation.GREATER).get_output(0)
            conditional = self.network.add_if_conditional()
            conditional.set_condition(positive)
            inside = conditional.add_input(x).get_output(0)
            return conditional.add_output(self.network.add_unary(inside, trt.UnaryOperation.NEG).get_output(0),
                                          self.network.add_unary(inside, trt.UnaryOperation.ABS).get_output(0))
        self.check(make, abs(self.X))


if __name__ == "__main__":
    unittest.main(argv=["layers"], verbosity=1)
