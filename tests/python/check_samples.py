#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python, by what they print. Run by run.py in the environment where the wheel is installed."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "examples/python"
sys.path[:0] = [str(ROOT / "tests/cli"), str(ROOT / "tests/python")]
import tiny_model  # noqa: E402
from check_programs import write_png  # noqa: E402

CORPUS = "the cat sat on the mat and the rat ran to the cat, then the cat ate the rat on the mat. "


class Samples(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        tiny_model.write(self.folder / "model.onnx", size=32)

    def run_sample(self, name, *words):
        done = subprocess.run([sys.executable, SAMPLES / name, *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_all_are_here(self):
        here = re.findall(r'run_sample\("(\w+\.py)"', pathlib.Path(__file__).read_text())
        self.assertEqual(set(here), {path.name for path in SAMPLES.glob("*.py")})

    def test_generates_text(self):
        (self.folder / "corpus.txt").write_text(CORPUS)
        self.assertIn("14 letters", self.run_sample("tiny_decoder.py", "corpus.txt", "model.onnx"))
        printed = self.run_sample("generate_text.py", "model.onnx", "--prompt", "the c", "--tokens", "60", "--letters", "corpus.txt")
        # What the counts say, without a network.
        text = "the c"
        while len(text) < 65:
            behind = [c for a, b, c in zip(CORPUS, CORPUS[1:], CORPUS[2:]) if a + b == text[-2:]]
            text += max(sorted(set(behind)), key=behind.count)
        self.assertEqual(printed.splitlines()[0], text)
        self.assertIn("past.k -> present.k: appended in place", printed)

    def test_classifies_pictures(self):
        write_png(self.folder / "cat.png", np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8))
        (self.folder / "labels.txt").write_text("\n".join(f"class {i}" for i in range(10)))
        first = self.run_sample("classify_picture.py", "model.onnx", "cat.png", "labels.txt")
        self.assertEqual(len(re.findall(r"^ +\S+  class \d$", first, re.MULTILINE)), 5)
        self.assertTrue((self.folder / "model.engine").exists())
        self.assertEqual(self.run_sample("classify_picture.py", "model.onnx", "cat.png", "labels.txt"), first)

    def test_trains_and_deploys(self):
        printed = self.run_sample("train_and_deploy.py", "spirals.onnx")
        before, after, unseen = (float(n) for n in re.findall(r"([\d.]+)%", printed))
        self.assertGreater(after, before)
        self.assertGreater(unseen, 90)
        self.assertTrue((self.folder / "spirals.onnx").exists())

    def test_custom_operators_have_tactics(self):
        printed = self.run_sample("custom_operator.py")
        self.assertEqual(re.findall(r"window (\d+): plugin_MovingAverage_1_tactic_(\d)", printed), [("2", "1"), ("200", "2")])

    def test_follows_and_edits_builds(self):
        printed = self.run_sample("long_build.py", "model.onnx", "model.cache")
        self.assertIn("stopped: the build was cancelled", printed)
        known, changed = (int(n) for n in re.search(r"(\d+) times were known.*\n(?:.*\n)*(\d+) layer\(s\) run with", printed).groups())
        self.assertGreater(known, 0)
        self.assertGreater(changed, 0)

    def test_shares_memory(self):
        printed = self.run_sample("shared_memory.py", "model.onnx")
        weights = int(re.search(r"weights: (\d+)", printed)[1])
        one, most = (int(n) for n in re.search(r"8 contexts of (\d+) bytes each: (\d+) bytes at most", printed).groups())
        self.assertGreater(weights, 0)
        self.assertLess(most, weights + 4 * one + (1 << 20))

    def test_runs_tensorrt_programs(self):
        self.assertRegex(self.run_sample("tensorrt_names.py", "model.onnx", "plan"), r"output \(4, 10\) \[")


if __name__ == "__main__":
    unittest.main(argv=["check_samples"], verbosity=1)
