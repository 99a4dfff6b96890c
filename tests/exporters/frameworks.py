#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models as Keras, tf2onnx and Paddle write them, against ONNX Runtime.

usage: frameworks.py --build build [--folder DIR]
By hand, because the frameworks are large and want environments of their own: it takes those that the Python at hand has
(pip install tensorflow-cpu keras tf2onnx, or pip install paddlepaddle paddle2onnx; and onnx, onnxruntime) and names the others.
"""
import argparse
import importlib.util
import os
import pathlib
import sys
import tempfile

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

LIMIT = 5e-5  # sums of up to 1,920 numbers in FP32, in orders of their own
RANDOM = np.random.default_rng(1)
IDS = RANDOM.integers(0, 50, (3, 20))
IMAGES = RANDOM.standard_normal((2, 32, 32, 3)).astype(np.float32)


def keras_models():
    import keras
    from keras import layers

    convolutions = keras.Sequential([
        keras.Input((32, 32, 3)), layers.Conv2D(8, 3, activation="relu", padding="same"), layers.DepthwiseConv2D(3),
        layers.BatchNormalization(), layers.MaxPooling2D(), layers.Flatten(), layers.Dense(10, activation="softmax")])
    recurrent = keras.Sequential([
        keras.Input((20,)), layers.Embedding(50, 16), layers.Bidirectional(layers.LSTM(24, return_sequences=True)),
        layers.GRU(8), layers.Dense(3)])
    return {"convolutions": (convolutions, IMAGES), "recurrent": (recurrent, IDS.astype(np.int32))}


def by_keras(folder):
    for name, (model, x) in keras_models().items():
        model(x)
        path = folder / f"keras_{name}.onnx"
        model.export(str(path), format="onnx", verbose=False)
        yield path, [x]


def by_tf2onnx(folder):
    import tensorflow as tf
    import tf2onnx

    @tf.function(input_signature=[tf.TensorSpec((None, 32, 32, 3), tf.float32, name="x")])
    def loop(x):
        y = tf.nn.relu(tf.image.resize(x, (48, 40)) - 0.3)
        _, y = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y * 0.5 + tf.reduce_mean(y, axis=[1, 2], keepdims=True)), [tf.constant(0), y])
        values, places = tf.math.top_k(tf.reshape(y, (-1, 48 * 40 * 3)), 5)
        return values, tf.one_hot(places % 7, 7), tf.einsum("bhwc,bhwd->bcd", y, y)

    recurrent, ids = keras_models()["recurrent"]
    whole = tf.function(lambda ids: recurrent(ids), input_signature=[tf.TensorSpec((None, 20), tf.int32, name="ids")])
    for name, function, x in (("loop", loop, IMAGES), ("recurrent", whole, ids)):
        path = folder / f"tf2onnx_{name}.onnx"
        tf2onnx.convert.from_function(function, input_signature=function.input_signature, opset=17, output_path=str(path))
        yield path, [x]


def by_paddle(folder):
    import paddle

    class Small(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.conv = paddle.nn.Conv2D(3, 8, 3, padding=1)
            self.norm = paddle.nn.BatchNorm2D(8)
            self.lstm = paddle.nn.LSTM(8 * 16, 12, direction="bidirect")
            self.last = paddle.nn.Linear(24, 5)

        def forward(self, x):
            y = paddle.nn.functional.hardswish(self.norm(self.conv(x)))
            y = paddle.nn.functional.adaptive_avg_pool2d(y, [16, 16])
            rows, _ = self.lstm(paddle.reshape(paddle.transpose(y, [0, 2, 1, 3]), [0, 16, -1]))
            return paddle.nn.functional.softmax(self.last(rows[:, -1]), axis=-1)

    model = Small()
    model.eval()
    path = folder / "paddle_small"
    paddle.onnx.export(model, str(path), input_spec=[paddle.static.InputSpec([None, 3, 32, 32], "float32", "x")], opset_version=17)
    yield path.with_suffix(".onnx"), [np.ascontiguousarray(IMAGES.transpose(0, 3, 1, 2))]


WRITERS = {"keras": (by_keras, ("keras", "tensorflow", "tf2onnx")), "tf2onnx": (by_tf2onnx, ("tensorflow", "tf2onnx")),
           "paddle2onnx": (by_paddle, ("paddle", "paddle2onnx"))}


def main():
    from slow import Checker

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the models")
    arguments = parser.parse_args()
    checker = Checker(arguments.build.resolve())
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, (write, packages) in WRITERS.items():
            absent = [package for package in packages if importlib.util.find_spec(package) is None]
            if absent:
                print(f"{name}: not tried, this Python has no {', '.join(absent)}")
                continue
            for path, arrays in write(folder):
                inputs = onnx.load(path, load_external_data=False).graph.input
                kinds = [onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in inputs]
                feeds = {i.name: array.astype(kind) for i, array, kind in zip(inputs, arrays, kinds)}
                checker.compare(path.stem, path, feeds, LIMIT)
    print(f"{checker.passed} agree, {checker.failed} do not")
    return 1 if checker.failed or not checker.passed else 0


if __name__ == "__main__":
    sys.exit(main())
