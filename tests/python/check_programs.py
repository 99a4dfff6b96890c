# SPDX-License-Identifier: Apache-2.0
"""python -m lathe, and pictures as inputs. Run by run.py in the environment where the wheel is installed; ONNX Runtime comes from the
tests' own environment."""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom
import zlib

import numpy as np

import lathe

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))
import tiny_model  # noqa: E402


def write_png(path, pixels):
    """pixels: height x width x 3 of uint8."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Programs(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        tiny_model.write(self.folder / "model.onnx", size=32)
        rng = np.random.default_rng(1)
        self.pixels = rng.integers(0, 256, (32, 32, 3), np.uint8)
        write_png(self.folder / "cat.png", self.pixels)

    def run_program(self, *words, peers=True):
        environment = dict(os.environ)
        peer_packages = list((ROOT / ".venv/lib").glob("python3*/site-packages"))
        if peers and peer_packages:
            environment["PYTHONPATH"] = str(peer_packages[0])
        return subprocess.run([sys.executable, "-m", "lathe", *words], cwd=self.folder, env=environment, capture_output=True, text=True)

    def test_pictures(self):
        path = str(self.folder / "cat.png")
        np.testing.assert_array_equal(lathe.image(path, "pixels", (32, 32, 3), "uint8"), self.pixels)
        planes = self.pixels.transpose(2, 0, 1)[None]
        np.testing.assert_allclose(lathe.image(path, "unit", (1, 3, 32, 32)), planes / 255, atol=1e-6)
        engine = lathe.compile(str(self.folder / "model.onnx"), {"input": (1, 3, 32, 32)}, level=0, threads=1, progress=False)
        self.assertEqual(engine(lathe.image(path, shape=(1, 3, 32, 32))).shape, (1, 10))
        with self.assertRaisesRegex(lathe.InputError, "there is no way to prepare pictures called 'caffe': imagenet"):
            lathe.image(path, "caffe")
        with self.assertRaises(lathe.DeviceError):
            lathe.image(str(self.folder / "dog.png"))

    def test_run(self):
        (self.folder / "labels.txt").write_text("\n".join(f"kind {i}" for i in range(10)))
        done = self.run_program("run", "model.onnx", "--input", "cat.png", "--shapes", "input:1x3x32x32", "--threads", "1", "--labels",
                                "labels.txt", "--compare", "onnxruntime")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertTrue(lines[0].startswith("output: float32 1x10, "), done.stdout)
        self.assertEqual(len([line for line in lines if "% " in line and "kind " in line]), 5)
        self.assertEqual(lines[-1], "The same as onnxruntime.")
        done = self.run_program("run", "model.onnx", "--threads", "1", "--shapes", "input:1x3x32x32", "--compare", "onnxruntime",
                                "--tolerance", "0")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("Not the same as onnxruntime", done.stdout)

    def test_bench(self):
        done = self.run_program("bench", "model.onnx", "--batches", "1,2", "--threads", "1", "--against", "onnxruntime", "--duration", "0.1",
                                "--level", "0", "--shapes", "input:1x3x32x32", "--picture", "b.svg")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual([row[:3] for row in rows[1:5]], [["lathe", "1", "1"], ["onnxruntime", "1", "1"], ["lathe", "2", "1"],
                                                          ["onnxruntime", "2", "1"]])
        self.assertTrue(all(float(row[3]) > 0 for row in rows[1:5]))
        bars = xml.dom.minidom.parse(str(self.folder / "b.svg")).getElementsByTagName("rect")
        self.assertEqual(len(bars), 5)  # and the background

    def test_mistakes(self):
        for words, text in ((("run", "model.onnx", "--input", "x:cat.png"), "the model has no input 'x' (its inputs are input)"),
                            (("run", "model.onnx", "--shapes", "input=3"), "'input=3' is no shape of an input"),
                            (("run", "no.onnx"), "cannot open 'no.onnx'"),
                            (("bench", "model.onnx", "--batches", "0"), "'0' is no list of whole numbers from 1"),
                            (("bench", "model.onnx", "--against", "abacus"), "there is no engine 'abacus'")):
            done = self.run_program(*words)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(text, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        (self.folder / "openvino.py").write_text("raise ImportError('not here')")
        done = self.run_program("run", "model.onnx", "--compare", "openvino", peers=False)
        self.assertIn("openvino is not installed", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=["programs"], verbosity=1)
