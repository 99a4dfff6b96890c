# SPDX-License-Identifier: Apache-2.0
"""lathe.NetworkBuilder against numpy. Run by run.py in the environment where the wheel is installed."""
import pathlib
import tempfile
import unittest

import numpy as np

import lathe

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def run(net, *inputs):
    """The output y of the network; all outputs must be the same from its ONNX form."""
    network = net.finish()
    engine = lathe.compile(network, level=0, progress=False, threads=1)
    again = lathe.compile(network.to_onnx_bytes(), level=0, progress=False, threads=1)
    y, z = (r if isinstance(r, dict) else {"y": r} for r in (engine(*inputs), again(*inputs)))
    for name in y:
        np.testing.assert_array_equal(y[name], z[name])
    return y["y"]


class Layers(unittest.TestCase):
    def setUp(self):
        self.net = lathe.NetworkBuilder("test")

    def check(self, y, expected, *inputs):
        self.net.output(y, "y")
        np.testing.assert_allclose(run(self.net, *inputs), expected, rtol=1e-5, atol=1e-6)

    def test_tensors_say_what_they_are(self):
        x = self.net.input("x", np.float16, (-1, 3), ["rows"])
        self.assertEqual((x.name, x.dtype, x.shape, x.dim_names), ("x", "float16", (-1, 3), ["rows", "3"]))
        self.assertEqual(repr(x), "<x: float16 [rows, 3]>")

    def test_numbers_and_arrays_are_constants(self):
        x = self.net.input("x", "float32", (2, 3))
        y = self.net.elementwise(lathe.Elementwise.SUM, self.net.elementwise(lathe.Elementwise.PROD, x, 2), np.ones(3, np.float32))
        self.check(self.net.matrix_multiply(y, np.eye(3, dtype=np.float32)), X * 2 + 1, X)

    def test_convolution(self):
        x = self.net.input("x", "float32", (1, 1, 2, 3))
        y = self.net.convolution(x, np.ones((1, 1, 2, 2), np.float32), np.array([5], np.float32), pads_begin=[0, 0], strides=[1, 1])
        self.check(y, [[[[X[:, :2].sum() + 5, X[:, 1:].sum() + 5]]]], X[None, None])

    def test_reductions(self):
        x = self.net.input("x", "float32", (2, 3))
        self.check(self.net.reduce(lathe.Reduction.MEAN, x, [1], False), X.mean(1), X)

    def test_shapes(self):
        x = self.net.input("x", "float32", (2, 3))
        y = self.net.slice(self.net.reshape(self.net.transpose(x, [1, 0]), [6]), [5], [-7], [0], [-2])
        self.check(y, X.T.ravel()[::-2], X)

    def test_operators_by_name(self):
        x = self.net.input("x", "float32", (2, 3))
        first, second = self.net.op("Split", [x], outputs=2, axis=1, num_outputs=2)
        self.assertEqual((first.shape, second.shape), ((2, 2), (2, 1)))
        self.check(self.net.op("Concat", [second, first], axis=1, name="join"), X[:, [2, 0, 1]], X)

    def test_bodies(self):
        x = self.net.input("x", "float32", (2, 3))
        positive = self.net.elementwise(lathe.Elementwise.GREATER, self.net.reduce(lathe.Reduction.SUM, x, keep_dims=False), 0)
        y, = self.net.if_else(positive, lambda body: body.unary(lathe.Unary.NEG, x), lambda body: body.unary(lathe.Unary.ABS, x))
        last, rows = self.net.loop(3, None, [y], lambda body, i, carried: (
            [body.elementwise(lathe.Elementwise.SUM, carried[0], x)], [body.cast(i, "float32")]))
        self.net.output(rows, "rows")
        self.check(last, -X + 3 * X, X)

    def test_errors_have_the_layer(self):
        x = self.net.input("x", "float32", (2, 3))
        with self.assertRaises(lathe.InputError) as caught:
            self.net.matrix_multiply(x, x, name="product")
        self.assertEqual((caught.exception.node, caught.exception.op_type), ("product", "MatMul"))
        self.assertIn("layer 'product' (MatMul)", caught.exception.where)
        with self.assertRaisesRegex(lathe.InputError, "no such type"):
            self.net.cast(x, "float31")
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            self.net.loop(3, None, [x], lambda *_: 1 / 0)

    def test_files(self):
        x = self.net.input("x", "float32", (2, 3))
        self.net.output(self.net.unary(lathe.Unary.NEG, x), "y")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            self.net.finish().to_onnx(str(path))
            np.testing.assert_array_equal(lathe.compile(path, level=0, progress=False)(X), -X)

    def test_constants_outlive_their_arrays(self):
        x = self.net.input("x", "float32", (2, 3))
        weights = np.full((2, 3), 3, np.float32)
        y = self.net.elementwise(lathe.Elementwise.SUM, x, self.net.constant(weights))
        del weights
        self.check(y, X + 3, X)

    def test_parts_of_a_network(self):
        net = lathe.NetworkBuilder()
        x = net.input("x", "float32", [2])
        y = net.unary(lathe.Unary.NEG, x, name="negative")
        net.output(net.unary(lathe.Unary.EXP, y), "y")
        part = lathe.NetworkBuilder(net.finish())
        part.cut_input("negative_output")
        part.rename("negative_output", "z")
        part.rename("y", "result")
        part.fold()
        network = part.finish()
        self.assertEqual([t.name for t in network.inputs][-1], "z")
        self.assertEqual([t.name for t in network.outputs], ["result"])
        with self.assertRaisesRegex(lathe.InputError, "has no tensor 'nothing'"):
            part.cut_input("nothing")

    def test_importing_names_the_node(self):
        bad = lathe.NetworkBuilder()
        x = bad.input("x", "float32", (2,))
        bad.output(bad.unary(lathe.Unary.NEG, x, name="flip"), "y")
        model = bad.finish().to_onnx_bytes().replace(b"Neg", b"Nog")
        with self.assertRaisesRegex(lathe.InputError, "not supported"):
            lathe.compile(model, level=0)


if __name__ == "__main__":
    unittest.main(argv=["check_network"], verbosity=1)
