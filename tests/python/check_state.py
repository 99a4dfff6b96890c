#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""State that an ExecutionContext keeps. Run by run.py in the environment where the wheel is installed."""
import unittest

import lathe
import numpy as np

ROW = np.array([[1, 10]], np.float32)


def cache():
    """past [rows, 2] and x [1, 2] give present [rows + 1, 2] and y, the sums of its columns."""
    net = lathe.NetworkBuilder("cache")
    x, past = net.input("x", np.float32, (1, 2)), net.input("past", np.float32, (-1, 2), ["rows"])
    present = net.concatenation([past, x], 0)
    net.output(present, "present")
    net.output(net.reduce(lathe.Reduction.SUM, present, [0], True), "y")
    builder, config = lathe.Builder(threads=1), lathe.BuilderConfig()
    config.optimization_level = 0
    config.add_profile(lathe.OptimizationProfile().set_shape("past", [0, 2], [2, 2], [3, 2]))
    return builder.build(net.finish(), config)


class State(unittest.TestCase):
    def setUp(self):
        self.context = lathe.ExecutionContext(cache())
        self.y = np.empty((1, 2), np.float32)
        self.context.bind_input("x", ROW)
        self.context.bind_output("y", self.y)

    def test_steps(self):
        self.assertEqual(self.context.keep_state(), [("past", "present")])
        for n in range(1, 5):
            self.context.execute()
            np.testing.assert_array_equal(self.y, ROW * n)
            np.testing.assert_array_equal(self.context.state("past"), np.repeat(ROW, n, 0))
        self.assertEqual(self.context.state_notes(), ["past -> present: appended in place along axis 0, room for 4"])
        with self.assertRaisesRegex(lathe.InputError, "state 'past' is full"):
            self.context.execute()
        self.context.reset_state()
        self.context.execute()
        np.testing.assert_array_equal(self.y, ROW)

    def test_first_values(self):
        self.context.keep_state([("past", "present")])
        begin = np.array([[5, 6], [7, 8]], np.float32)
        self.context.set_state("past", begin)
        begin[:] = 0  # it was copied
        for _ in range(2):
            self.context.execute()
            np.testing.assert_array_equal(self.y, [[13, 24]])
            self.context.reset_state()

    def test_errors(self):
        with self.assertRaisesRegex(lathe.InputError, "cannot be state"):
            self.context.keep_state([("x", "present")])
        self.context.keep_state()
        with self.assertRaisesRegex(lathe.InputError, "it is state, which the context keeps"):
            self.context.bind_input("past", ROW)
        with self.assertRaisesRegex(lathe.InputError, "no input that is kept as state"):
            self.context.state("x")
        self.context.drop_state()
        with self.assertRaisesRegex(lathe.InputError, "no memory is bound|no shape"):
            self.context.execute()


if __name__ == "__main__":
    unittest.main(argv=["check_state"], verbosity=1)
