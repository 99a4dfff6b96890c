# SPDX-License-Identifier: Apache-2.0
"""What of lathe.serve needs no server: batching, and what models are served. Run by run.py in the environment where the wheel is installed."""
import asyncio
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import lathe
from lathe.serve import Batcher, Busy, Closed, Model, Observer, Options, Policy, find, open_model

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import tiny_model  # noqa: E402

LONG = 10  # seconds; a test that waits so long fails


def row(value, columns=2):
    return {"x": np.full((1, columns), value, np.float32)}


class Runner:
    """Doubles x, after `gate` is open. Knows the batches that it ran."""

    def __init__(self):
        self.batches, self.gate = [], threading.Event()
        self.gate.set()

    def __call__(self, inputs):
        self.gate.wait(LONG)
        self.batches.append(len(inputs["x"]))
        if np.any(inputs["x"] < 0):
            raise lathe.InputError("a negative number")
        return {"y": inputs["x"] * 2}


class Seen(Observer):
    def __init__(self):
        self.most_waiting, self.rows = 0, []

    def queued(self, requests):
        self.most_waiting = max(self.most_waiting, requests)

    def ran(self, requests, rows, queue_seconds, run_seconds):
        assert len(queue_seconds) == requests and min(queue_seconds) >= 0 and run_seconds >= 0
        self.rows.append(rows)


class Batching(unittest.TestCase):
    def run_all(self, requests, closed_gate=True, **policy):
        """Submits all at once; with a closed gate a first one keeps the only stream busy meanwhile. Returns answers and batch sizes."""
        runner, seen = Runner(), Seen()

        async def submit_all():
            batcher = Batcher(runner, Policy(**policy), seen)
            first = None
            if closed_gate:
                runner.gate.clear()
                first = asyncio.ensure_future(batcher.submit(row(0)))
                await asyncio.sleep(0)
            tasks = [asyncio.ensure_future(batcher.submit(r)) for r in requests]
            await asyncio.sleep(0)
            runner.gate.set()
            answers = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), LONG)
            if first is not None:
                await first
            await asyncio.wait_for(batcher.drain(), LONG)
            return answers
        answers = asyncio.run(submit_all())
        if "max_batch" in policy:
            self.assertEqual(sum(seen.rows), sum(len(r["x"]) for r in requests) + closed_gate)
        return answers, runner.batches[closed_gate:]

    def check_doubled(self, requests, answers):
        for request, answer in zip(requests, answers):
            np.testing.assert_array_equal(answer["y"], request["x"] * 2)

    def test_what_gathers_while_the_stream_is_busy_runs_together(self):
        requests = [row(i) for i in range(10)]
        answers, batches = self.run_all(requests, max_batch=4)
        self.check_doubled(requests, answers)
        self.assertEqual(batches, [4, 4, 2])

    def test_without_batches_each_runs_as_it_came(self):
        requests = [row(1), {"x": np.ones((3, 2), np.float32)}]
        answers, batches = self.run_all(requests)
        self.check_doubled(requests, answers)
        self.assertEqual(batches, [1, 3])

    def test_requests_of_several_rows_are_not_torn(self):
        requests = [{"x": np.arange(n * 2, dtype=np.float32).reshape(n, 2)} for n in (3, 2, 3, 1)]
        answers, batches = self.run_all(requests, max_batch=5)
        self.check_doubled(requests, answers)
        self.assertEqual(batches, [5, 4])

    def test_other_shapes_and_types_are_not_mixed(self):
        requests = [row(1), row(2, 3), row(3), row(4, 3), {"x": np.full((1, 2), 5, np.int32)}]
        answers, batches = self.run_all(requests, max_batch=8)
        self.check_doubled(requests, answers)
        self.assertEqual(batches, [2, 2, 1])
        self.assertEqual(answers[4]["y"].dtype, np.int32)

    def test_preferred_sizes(self):
        # The one that keeps the stream busy waits for the second; seven others come meanwhile.
        _, batches = self.run_all([row(i) for i in range(8)], max_batch=8, preferred=(2, 4), max_delay=0.01)
        self.assertEqual(batches, [4, 2, 1])

    def test_a_full_batch_does_not_wait(self):
        start = time.monotonic()
        _, batches = self.run_all([row(i) for i in range(4)], closed_gate=False, max_batch=4, max_delay=LONG)
        self.assertEqual(batches, [4])
        self.assertLess(time.monotonic() - start, LONG / 2)

    def test_a_lone_request_waits_until_its_deadline(self):
        start = time.monotonic()
        _, batches = self.run_all([row(1)], closed_gate=False, max_batch=4, max_delay=0.2)
        self.assertGreaterEqual(time.monotonic() - start, 0.2)
        self.assertEqual(batches, [1])

    def test_a_bad_request_fails_alone(self):
        requests = [row(1), row(-1), row(3)]
        answers, _ = self.run_all(requests, max_batch=4)
        self.assertRegex(str(answers[1]), "a negative number")
        self.check_doubled([requests[0], requests[2]], [answers[0], answers[2]])

    def test_outputs_without_rows_fall_back_to_single_runs(self):
        async def submit():
            batcher = Batcher(lambda inputs: {"y": inputs["x"].sum()}, Policy(max_batch=2, max_delay=LONG))
            return await asyncio.gather(batcher.submit(row(1)), batcher.submit(row(2)))
        self.assertEqual([a["y"] for a in asyncio.run(submit())], [2, 4])

    def test_rows_that_are_no_batch(self):
        async def submit(inputs):
            return await Batcher(Runner(), Policy(max_batch=4)).submit(inputs)
        for inputs in ({"x": np.zeros((5, 2))}, {"x": np.zeros((0, 2))}, {"x": np.zeros(())}, {"x": np.zeros((2, 2)), "z": np.zeros((1, 2))}):
            with self.assertRaisesRegex(lathe.InputError, "the first dim is the batch: it is the same in all inputs, and from 1 to 4"):
                asyncio.run(submit(inputs))

    def test_a_full_queue_refuses_and_recovers(self):
        runner = Runner()

        async def fill():
            batcher = Batcher(runner, Policy(max_queue=3))
            runner.gate.clear()
            tasks = [asyncio.ensure_future(batcher.submit(row(i))) for i in range(6)]  # one runs, three wait
            await asyncio.sleep(0)
            refused = [t for t in tasks if t.done()]
            self.assertEqual(len(refused), 2)
            for task in refused:
                with self.assertRaisesRegex(Busy, "the queue is full: 3 requests wait"):
                    await task
            runner.gate.set()
            await asyncio.gather(*(t for t in tasks if t not in refused))
            np.testing.assert_array_equal((await batcher.submit(row(9)))["y"], row(18)["x"])
        asyncio.run(asyncio.wait_for(fill(), LONG))

    def test_a_client_that_went_away_is_not_run(self):
        runner = Runner()

        async def leave():
            batcher = Batcher(runner, Policy(max_batch=1))
            runner.gate.clear()
            tasks = [asyncio.ensure_future(batcher.submit(row(i))) for i in range(3)]
            await asyncio.sleep(0)
            tasks[1].cancel()
            await asyncio.sleep(0)
            runner.gate.set()
            await asyncio.gather(tasks[0], tasks[2])
            await batcher.drain()
        asyncio.run(asyncio.wait_for(leave(), LONG))
        self.assertEqual(runner.batches, [1, 1])

    def test_a_drain_answers_all_that_came(self):
        runner = Runner()

        async def stop():
            batcher = Batcher(runner, Policy(max_batch=2, max_delay=LONG, preferred=(2,)))
            runner.gate.clear()
            tasks = [asyncio.ensure_future(batcher.submit(row(i))) for i in range(5)]
            await asyncio.sleep(0)
            draining = asyncio.ensure_future(batcher.drain())
            await asyncio.sleep(0)
            with self.assertRaisesRegex(Closed, "the server is stopping"):
                await batcher.submit(row(1))
            self.assertFalse(draining.done())
            runner.gate.set()
            await draining
            self.check_doubled([row(i) for i in range(5)], [t.result() for t in tasks])
        asyncio.run(asyncio.wait_for(stop(), LONG / 2))

    def test_streams_run_side_by_side(self):
        both = threading.Barrier(2)

        async def submit():
            batcher = Batcher(lambda inputs: {"y": np.array([both.wait(LONG)])}, Policy(streams=2))
            return await asyncio.gather(batcher.submit(row(1)), batcher.submit(row(2)))
        self.assertEqual(sorted(a["y"][0] for a in asyncio.run(submit())), [0, 1])

    def test_policies_that_cannot_be(self):
        for policy, text in (({"max_batch": 0}, "max_batch: 0 is not at least 1"), ({"max_delay": float("nan")}, "max_delay: nan is not at least 0"),
                             ({"max_batch": 4, "preferred": (8,)}, "a batch of 8 rows is preferred, but none has more than 4")):
            with self.assertRaisesRegex(lathe.InputError, text):
                Policy(**policy)


def network(batch, *, mixes_rows=False, dtype="float32"):
    net = lathe.NetworkBuilder()
    x = net.input("x", dtype, [batch, 4], ["batch"] if batch == -1 else [])
    net.output(net.op("Softmax", [x], axis=0) if mixes_rows else net.activation(lathe.Activation.RELU, x), "y")
    return net.finish()


def engine_of(net, shapes=((1, 4), (8, 4), (8, 4))):
    return lathe.compile(net, {"x": shapes}, level=0, progress=False, threads=1)


class Models(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, path):
        path.parent.mkdir(exist_ok=True)
        tiny_model.write(path, size=32)

    def test_found_in_a_folder(self):
        with self.assertRaisesRegex(lathe.InputError, "it has no model .put NAME.onnx"):
            find(self.folder)
        for file in ("a.onnx", "b/model.onnx", "c/model.onnx", "c/model.engine", "d/other.onnx"):
            self.write(self.folder / file)
        self.assertEqual({n: p.name for n, p in find(self.folder).items()}, {"a": "a.onnx", "b": "model.onnx", "c": "model.engine"})
        self.assertEqual(list(find(self.folder / "b/model.onnx")), ["b"])
        with self.assertRaisesRegex(lathe.InputError, "there is no such file or folder"):
            find(self.folder / "z.onnx")

    def test_a_model_gets_a_profile_for_its_batches(self):
        self.write(self.folder / "m/model.onnx")
        shapes = {"input": (1, 3, 32, 32)}
        model = open_model("m", self.folder / "m/model.onnx", Options(shapes, level=0, threads=1, policy=Policy(max_batch=8, preferred=(4,))))
        self.assertEqual(model.engine.shape_range("input"), ((1, 3, 32, 32), (4, 3, 32, 32), (8, 3, 32, 32)))
        x = np.random.default_rng(0).random((5, 3, 32, 32), np.float32)
        whole = model.run({"input": x})["output"]
        np.testing.assert_allclose(whole[3:4], model.run({"input": x[3:4]})["output"], rtol=1e-5, atol=1e-6)

    def test_settings_of_a_folder(self):
        self.write(self.folder / "m/model.onnx")
        path, settings = self.folder / "m/model.onnx", self.folder / "m/serve.json"
        settings.write_text(json.dumps({"shapes": {"input": [1, 3, 32, 32]}, "level": 0, "max_batch": 2, "preferred": [2], "max_delay": 0.5}))
        model = open_model("m", path, Options(threads=1))
        self.assertEqual((model.policy, model.ranges["input"][1][0]), (Policy(max_batch=2, preferred=(2,), max_delay=0.5), 2))
        for text, error in (('{"max_batches": 2}', "there is no setting 'max_batches'"), ("{", "it is no JSON"), ("[]", "it is no object of settings"),
                            ('{"max_batch": "8"}', "a setting is no number")):
            settings.write_text(text)
            with self.assertRaisesRegex(lathe.InputError, error):
                open_model("m", path, Options())

    def test_dims_are_not_guessed(self):
        net = lathe.NetworkBuilder()
        net.output(net.activation(lathe.Activation.RELU, net.input("ids", "float32", [-1, -1], ["batch", "tokens"])), "y")
        net.finish().to_onnx(str(self.folder / "m.onnx"))
        with self.assertRaisesRegex(lathe.InputError, r"input 'ids': its shape is \[batch, tokens\]: say what the dims are .--shapes=ids:1x1"):
            open_model("m", self.folder / "m.onnx", Options(level=0))
        model = open_model("m", self.folder / "m.onnx", Options({"ids": (1, 8)}, {"ids": (1, 1)}, {"ids": (1, 16)}, level=0, policy=Policy(max_batch=4)))
        self.assertEqual(model.engine.shape_range("ids"), ((1, 1), (4, 8), (4, 16)))
        with self.assertRaisesRegex(lathe.InputError, "shapes.'id'.: the model has no such input"):
            open_model("m", self.folder / "m.onnx", Options({"ids": (1, 8), "id": (1, 8)}, level=0))

    def test_rows_that_know_of_each_other_are_not_batched(self):
        Model("m", engine_of(network(-1, mixes_rows=True)))
        with self.assertRaisesRegex(lathe.InputError, "output 'y' of m: a row of a batch is not what it is alone: its first dim is no batch"):
            Model("m", engine_of(network(-1, mixes_rows=True)), Policy(max_batch=8))
        Model("m", engine_of(network(-1)), Policy(max_batch=8))

    def test_engines_without_room_for_a_batch(self):
        with self.assertRaisesRegex(lathe.InputError, "its first dim is 1 to 8: there are no batches of 1 to 16"):
            Model("m", engine_of(network(-1)), Policy(max_batch=16))
        with self.assertRaisesRegex(lathe.InputError, "its first dim is 2 to 2: there are no batches of 1 to 2"):
            Model("m", engine_of(network(2), (2, 4)), Policy(max_batch=2))

    def test_types_that_the_protocol_lacks(self):
        with self.assertRaisesRegex(lathe.InputError, "the Open Inference Protocol has no type bfloat16"):
            Model("m", engine_of(network(-1, dtype="bfloat16")))

    def test_the_command_says_what_is_missing(self):
        def said(*words):
            done = subprocess.run([sys.executable, "-m", "lathe", "serve", *words], capture_output=True, text=True, cwd=self.folder, timeout=60)
            self.assertEqual(done.returncode, 1)
            return done.stderr
        self.write(self.folder / "model.onnx")
        self.assertIn("there is no such file or folder", said("nothing.onnx"))
        self.assertIn("--preferred: 'four' is no list of sizes", said("model.onnx", "--preferred=four"))
        self.assertIn("max_batch: -1 is not at least 1", said("model.onnx", "--level=0", "--max-batch=-1"))
        if importlib.util.find_spec("kserve") is None:
            self.assertIn("pip install 'lathe[serve]'", said("model.onnx", "--level=0"))


if __name__ == "__main__":
    unittest.main()
