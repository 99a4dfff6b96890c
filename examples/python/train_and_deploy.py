# SPDX-License-Identifier: Apache-2.0
"""A classifier that is trained with numpy, made into a network layer by layer, and run for any number of rows: train_and_deploy.py [MODEL.onnx]

Shows NetworkBuilder, dynamic shapes, a range of batch sizes in one engine, and refit: the weights of further training go into the engine without
another build.
"""
import sys
import time

import numpy as np

import lathe

rng = np.random.default_rng(0)


def spirals(count):
    """Points of two spirals, and which one each is of."""
    kind = rng.integers(0, 2, count)
    angle = rng.uniform(0.5, 3, count)
    points = np.stack([angle * np.cos(2 * angle + np.pi * kind), angle * np.sin(2 * angle + np.pi * kind)], 1)
    return points.astype(np.float32), kind


class Classifier:
    """Two hidden layers, trained by gradient descent."""

    def __init__(self, width=32):
        sizes = [2, width, width, 2]
        self.weights = [rng.normal(0, (2 / a) ** 0.5, (a, b)).astype(np.float32) for a, b in zip(sizes, sizes[1:])]
        self.biases = [np.zeros(b, np.float32) for b in sizes[1:]]

    def train(self, x, kind, steps, rate=0.02):
        for _ in range(steps):
            layers = [x]
            for i, (w, b) in enumerate(zip(self.weights, self.biases)):
                layers.append(layers[-1] @ w + b)
                if i < 2:
                    layers[-1] = np.maximum(layers[-1], 0)
            scores = np.exp(layers[-1] - layers[-1].max(1, keepdims=True))
            slope = (scores / scores.sum(1, keepdims=True) - np.eye(2)[kind]).astype(np.float32) / len(x)
            for i in (2, 1, 0):
                by_weight, by_bias = layers[i].T @ slope, slope.sum(0)
                slope = (slope @ self.weights[i].T) * (layers[i] > 0)
                self.weights[i] -= rate * 10 * by_weight
                self.biases[i] -= rate * 10 * by_bias

    def network(self):
        net = lathe.NetworkBuilder("spirals")
        x = net.input("points", "float32", (-1, 2), ["batch", "2"])
        for i, (w, b) in enumerate(zip(self.weights, self.biases)):
            x = net.elementwise(lathe.Elementwise.SUM, net.matrix_multiply(x, net.constant(w, name=f"w{i}")), net.constant(b, name=f"b{i}"))
            if i < 2:
                x = net.activation(lathe.Activation.RELU, x)
        net.output(net.softmax(x, -1), "classes")
        return net.finish()

    def values(self):
        return {f"{kind}{i}": v for kind, values in (("w", self.weights), ("b", self.biases)) for i, v in enumerate(values)}


def accuracy(engine, points, kind):
    return (engine(points).argmax(1) == kind).mean()


def main():
    points, kind = spirals(600)
    model = Classifier()
    model.train(points, kind, 10)
    network = model.network()
    engine = lathe.compile(network, {"points": ((1, 2), (64, 2), (4096, 2))}, level=1)
    print(f"after 10 steps: {accuracy(engine, points, kind):.1%} of {len(points)} points")
    model.train(points, kind, 200)
    start = time.perf_counter()
    engine = lathe.refit(engine, model.values())
    print(f"refitted in {time.perf_counter() - start:.3f} s: {accuracy(engine, points, kind):.1%}")
    more, of_more = spirals(1000)
    print(f"of points that it never saw: {accuracy(engine, more, of_more):.1%}; one alone is of spiral {engine(more[:1]).argmax()}")
    if len(sys.argv) > 1:
        model.network().to_onnx(sys.argv[1])
        print(f"wrote {sys.argv[1]}")


if __name__ == "__main__":
    main()
