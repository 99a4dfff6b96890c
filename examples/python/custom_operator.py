# SPDX-License-Identifier: Apache-2.0
"""An operator of your own with two ways to compute it, of which the tuner takes the faster one: custom_operator.py

Moving averages over the last dim: by a loop over the window, or by the difference of sums, which does not depend on the window's size.
"""
import numpy as np

import lathe

LOOP, SUMS = 1, 2


class MovingAverage(lathe.Plugin):
    def __init__(self, fields):
        self.window = fields.get("window", 3)

    def infer(self, inputs):
        dtype, shape = inputs[0]
        return [(dtype, (*shape[:-1], shape[-1] - (self.window - 1)))]

    def tactics(self, inputs, outputs):
        return [LOOP, SUMS]

    def run(self, inputs, outputs, tactic):
        x, y = inputs[0], outputs[0]
        size = y.shape[-1]
        if tactic == SUMS:
            sums = np.cumsum(x, axis=-1, dtype=np.float64)
            y[...] = (sums[..., self.window - 1:] - np.concatenate([np.zeros((*x.shape[:-1], 1)), sums[..., :size - 1]], -1)) / self.window
        else:
            y[...] = sum(x[..., i:i + size] for i in range(self.window)) / self.window


def main():
    plugins = lathe.PluginRegistry()
    plugins.add(MovingAverage)
    x = np.random.default_rng(1).random((64, 1000), np.float32)
    for window in (2, 200):
        net = lathe.NetworkBuilder("averages")
        net.use_plugins(plugins)
        net.output(net.op("MovingAverage", [net.input("x", "float32", x.shape)], window=window), "y")
        engine = lathe.compile(net, plugins=plugins, level=3, threads=1)
        expected = np.stack([np.convolve(row, np.ones(window) / window, "valid") for row in x])
        error = np.abs(engine(x) - expected).max()
        print(f"window {window}: {engine.layers()[0]['tactic']}, largest difference to numpy {error:.1e}")
        assert error < 1e-5


if __name__ == "__main__":
    main()
