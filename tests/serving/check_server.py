# SPDX-License-Identifier: Apache-2.0
"""`python -m lathe serve` as clients see it, on loopback: tritonclient over HTTP and gRPC, and requests that no client would make.
Run by slow.py in its environment. usage: check_server.py"""
import concurrent.futures
import contextlib
import json
import pathlib
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

import lathe

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import tiny_model  # noqa: E402

SECONDS = 60  # for anything


class Process:
    """A server of its own process, with its ports."""

    def __init__(self, *words, cwd=None):
        self.process = subprocess.Popen([sys.executable, "-m", "lathe", "serve", *map(str, words), "--http-port=0", "--grpc-port=0", "--level=0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)
        line = self.process.stdout.readline()
        ports = re.search(r"http://127.0.0.1:(\d+), gRPC at 127.0.0.1:(\d+)", line)
        if not ports:
            raise RuntimeError(line + self.process.communicate(timeout=SECONDS)[1])
        self.http, self.grpc = (f"127.0.0.1:{port}" for port in ports.groups())

    def stop(self, number=signal.SIGTERM):
        """The exit code, and all that it said."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS), "".join(self.process.communicate(timeout=SECONDS))


@contextlib.contextmanager
def running(*words, **more):
    server = Process(*words, **more)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate(timeout=SECONDS)


def http_client(server, concurrency=1):
    return triton_http.InferenceServerClient(server.http, concurrency=concurrency, network_timeout=SECONDS, connection_timeout=SECONDS)


def tensor(module, name, array, datatype="FP32", **more):
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, **more)
    return made


def write_types(path):
    """A model of several inputs and outputs, and of other types."""
    net = lathe.NetworkBuilder()
    ids = net.input("ids", "int64", [-1, 4], ["batch"])
    mask = net.input("mask", "bool", [-1, 4], ["batch"])
    half = net.input("half", "float16", [-1, 4], ["batch"])
    net.output(net.elementwise(lathe.Elementwise.SUM, ids, ids), "twice")
    net.output(net.unary(lathe.Unary.NOT, mask), "unmasked")
    net.output(net.unary(lathe.Unary.NEG, half), "negative")
    net.finish().to_onnx(str(path))


def write_table(path):
    """Rows of a table: an index outside of it fails when it runs."""
    net = lathe.NetworkBuilder()
    index = net.input("index", "int64", [-1], ["batch"])
    net.output(net.op("Gather", [np.arange(20, dtype=np.float32).reshape(10, 2), index], axis=0), "row")
    net.finish().to_onnx(str(path))


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        tiny_model.write(cls.folder / "tiny.onnx", size=32)
        write_types(cls.folder / "types.onnx")
        write_table(cls.folder / "table.onnx")
        server = running(cls.folder, "--max-batch=8", "--max-delay-ms=5", "--max-request-mb=1")
        cls.server = server.__enter__()
        cls.addClassCleanup(server.__exit__, None, None, None)
        cls.engine = lathe.compile(str(cls.folder / "tiny.onnx"), {"input": ((1, 3, 32, 32), (8, 3, 32, 32), (8, 3, 32, 32))}, level=0, progress=False)
        cls.rng = np.random.default_rng(1)

    def pictures(self, count):
        return [self.rng.standard_normal((1 + i % 3, 3, 32, 32), np.float32) for i in range(count)]

    def check_close(self, got, x):
        np.testing.assert_allclose(got, self.engine(x), rtol=1e-5, atol=1e-6)

    def test_health_and_metadata(self):
        for client in (http_client(self.server), triton_grpc.InferenceServerClient(self.server.grpc)):
            self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("tiny"))
        metadata = http_client(self.server).get_model_metadata("tiny")
        self.assertEqual(metadata["inputs"], [{"name": "input", "datatype": "FP32", "shape": [-1, 3, 32, 32]}])
        self.assertEqual(metadata["outputs"], [{"name": "output", "datatype": "FP32", "shape": [-1, 10]}])
        metadata = triton_grpc.InferenceServerClient(self.server.grpc).get_model_metadata("types", as_json=True)
        self.assertEqual([i["datatype"] for i in metadata["inputs"]], ["INT64", "BOOL", "FP16"])

    def test_answers_are_the_engines(self):
        http, grpc = http_client(self.server), triton_grpc.InferenceServerClient(self.server.grpc)
        for x in self.pictures(3):
            for binary in (True, False):
                wanted = [triton_http.InferRequestedOutput("output", binary_data=binary)]
                result = http.infer("tiny", [tensor(triton_http, "input", x, binary_data=binary)], outputs=wanted, request_id="7")
                self.check_close(result.as_numpy("output"), x)
                self.assertEqual(result.get_response()["id"], "7")
            self.check_close(http.infer("tiny", [tensor(triton_http, "input", x)]).as_numpy("output"), x)
            self.check_close(grpc.infer("tiny", [tensor(triton_grpc, "input", x)]).as_numpy("output"), x)

    def test_types_and_several_tensors(self):
        ids, mask = np.arange(8).reshape(2, 4) - 2**40, np.arange(8).reshape(2, 4) % 3 == 0
        half = np.linspace(-1, 1, 8, dtype=np.float16).reshape(2, 4)
        for module, client in ((triton_http, http_client(self.server)), (triton_grpc, triton_grpc.InferenceServerClient(self.server.grpc))):
            inputs = [tensor(module, "ids", ids, "INT64"), tensor(module, "mask", mask, "BOOL"), tensor(module, "half", half, "FP16")]
            result = client.infer("types", inputs)
            np.testing.assert_array_equal(result.as_numpy("twice"), 2 * ids)
            np.testing.assert_array_equal(result.as_numpy("unmasked"), ~mask)
            np.testing.assert_array_equal(result.as_numpy("negative"), -half)
            some = client.infer("types", inputs, outputs=[module.InferRequestedOutput("unmasked")])
            self.assertIsNone(some.as_numpy("twice"))
            np.testing.assert_array_equal(some.as_numpy("unmasked"), ~mask)

    def test_requests_run_together(self):
        before = self.metrics()
        pictures = self.pictures(120)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            client = triton_grpc.InferenceServerClient(self.server.grpc)
            answers = list(pool.map(lambda x: client.infer("tiny", [tensor(triton_grpc, "input", x)]).as_numpy("output"), pictures))
        for x, answer in zip(pictures, answers):
            self.check_close(answer, x)
        after = self.metrics()
        requests, batches, rows = (after[key] - before[key] for key in ("lathe_requests_total", "lathe_batch_rows_count", "lathe_batch_rows_sum"))
        self.assertEqual((requests, rows), (120, sum(len(x) for x in pictures)))
        self.assertLess(batches, 80)
        self.assertEqual(after["lathe_queue_requests"], 0)

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.server.http}/metrics", timeout=SECONDS) as response:
            lines = response.read().decode().splitlines()
        found = {line.split("{")[0]: float(line.split()[-1]) for line in lines if 'model="tiny"' in line}
        return {**dict.fromkeys(("lathe_requests_total", "lathe_batch_rows_count", "lathe_batch_rows_sum"), 0), **found}

    # What no client of good will sends. Each gets an error of its own fault, and the server goes on.

    def post(self, body, headers={}, model="tiny"):
        request = urllib.request.Request(f"http://{self.server.http}/v2/models/{model}/infer", body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:
                return response.status, response.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def check_refused(self, status, text, *arguments, **named):
        code, said = self.post(*arguments, **named)
        self.assertEqual(code, status, said)
        self.assertRegex(said, text)

    def json(self, status, text, model="tiny", **changed):
        entry = {"name": "input", "shape": [1, 3, 32, 32], "datatype": "FP32", "data": [0.5] * 3072, **changed}
        self.check_refused(status, text, json.dumps({"inputs": [entry]}).encode(), {"Content-Type": "application/json"}, model)

    def binary(self, status, text, tail=12288, header=None, **changed):
        entry = {"name": "input", "shape": [1, 3, 32, 32], "datatype": "FP32", "parameters": {"binary_data_size": 12288}, **changed}
        described = json.dumps({"inputs": [entry]}).encode()
        self.check_refused(status, text, described + b"\0" * tail, {"Inference-Header-Content-Length": str(len(described) if header is None else header),
                                                                    "Content-Type": "application/octet-stream"})

    def test_bad_json(self):
        self.json(200, '"output"')
        self.json(404, "Model with name none does not exist", model="none")
        self.json(400, "model 'tiny' has no input 'inptu': its inputs are input", name="inptu")
        self.json(400, r"input 'input' has the shape \[1, 3, 32, 31\]; the model takes 1..8 x 3 x 32 x 32", shape=[1, 3, 32, 31])
        self.json(400, "input 'input' has the shape", shape=[])
        self.json(400, "input 'input' has the shape", shape=[-1, 3, 32, 32])
        self.json(400, "input 'input' has the shape", shape=[2**62, 2**62, 2**62, 4])
        self.json(400, "input 'input' has the shape", shape=[9, 3, 32, 32])
        self.json(400, "input 'input' is INT64; the model takes FP32", datatype="INT64")
        self.json(400, "input 'input' is NONSENSE; the model takes FP32", datatype="nonsense")
        self.json(400, "its data are no FP32 of shape", data=[0.5] * 3071)
        self.json(400, "its data are no FP32 of shape", data=["a"] * 3072)
        self.json(400, "its data are no FP32 of shape", data=[[1], 2])
        self.json(400, "shared_memory_region is not served", parameters={"shared_memory_region": "a"})
        self.json(422, "list", data="text")
        for body in (b"", b"{", b"[]", b"\xff\xfe", b'{"inputs": 1}', b'{"inputs": []}', b'{"inputs": [{}]}', b"[" * 100000):
            code, said = self.post(body, {"Content-Type": "application/json"})
            self.assertIn(code, (400, 422), said)
        twice = json.dumps({"inputs": [{"name": "input", "shape": [1], "datatype": "FP32", "data": [1]}] * 2}).encode()
        self.check_refused(400, "input 'input' was given twice", twice, {"Content-Type": "application/json"})

    def test_bad_numbers(self):
        def types(ids):
            names = (("ids", "INT64", ids), ("mask", "BOOL", [True] * 4))
            return json.dumps({"inputs": [{"name": n, "shape": [1, 4], "datatype": d, "data": v} for n, d, v in names]}).encode()
        said = {"Content-Type": "application/json"}
        self.check_refused(400, "input 'half' was not given", types([1, 2, 3, 4]), said, model="types")
        self.check_refused(400, "FP16", json.dumps({"inputs": [{"name": "half", "shape": [1, 4], "datatype": "FP16", "data": [1]}]}).encode(), said, model="types")
        table = lambda values: json.dumps({"inputs": [{"name": "index", "shape": [len(values)], "datatype": "INT64", "data": values}]}).encode()
        self.check_refused(200, r"\[6.0,7.0\]", table([3]), said, model="table")
        self.check_refused(400, "they are float64", table([1.5]), said, model="table")
        self.check_refused(400, "input 'index'", table([2**70]), said, model="table")

    def test_bad_binary(self):
        self.binary(200, '"output"')
        self.binary(400, "input 'input' has 12288 bytes, of which 12287 are there", tail=12287)
        self.binary(400, "1 bytes are left behind the last input", tail=12289)
        self.binary(400, "has 12288 bytes, and binary_data_size is 12284", parameters={"binary_data_size": 12284})
        self.binary(400, "and binary_data_size is -4", parameters={"binary_data_size": -4})
        self.binary(400, "and binary_data_size is None", parameters={})
        self.binary(400, "has 4835703278458516698824704 bytes, and binary_data_size is 12288", shape=[2**40, 2**40])
        self.binary(400, "has the shape", shape=[1, -3, 32, 32])
        self.binary(400, "has the shape", shape=["1", 3])
        self.binary(400, "which no tensor has", datatype="BYTES")
        for header in ("abc", "-1", "99999999", ""):
            self.binary(400, "Inference-Header-Content-Length is", header=header)
        self.binary(400, "the JSON part cannot be read", header=5)
        self.check_refused(400, "the JSON part is no object", b"[1]", {"Inference-Header-Content-Length": "3", "Content-Type": "application/octet-stream"})

    def test_a_body_that_is_too_large(self):
        code, said = self.post(b"\0" * (1 << 20) + b"\0", {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": "1"})
        self.assertEqual(code, 413, said)

    def test_bad_requests_over_grpc(self):
        client = triton_grpc.InferenceServerClient(self.server.grpc)
        x = np.zeros((1, 3, 32, 32), np.float32)
        short = triton_grpc.InferInput("input", [1, 3, 32, 32], "FP32")
        short._raw_content = b"\0" * 7
        huge = triton_grpc.InferInput("input", [2**62, 2**62], "FP32")
        huge._raw_content = b"\0" * 8
        for status, text, model, inputs in (("NOT_FOUND", "does not exist", "none", [tensor(triton_grpc, "input", x)]),
                                            ("INVALID_ARGUMENT", "has no input 'x'", "tiny", [tensor(triton_grpc, "x", x)]),
                                            ("INVALID_ARGUMENT", "takes FP32", "tiny", [tensor(triton_grpc, "input", x.astype(np.int64), "INT64")]),
                                            ("INVALID_ARGUMENT", "has the shape", "tiny", [tensor(triton_grpc, "input", x[:, :2])]),
                                            ("INVALID_ARGUMENT", "its data are no FP32", "tiny", [short]),
                                            ("INVALID_ARGUMENT", "has the shape", "tiny", [huge]),
                                            ("INVALID_ARGUMENT", "was not given", "tiny", []),
                                            ("RESOURCE_EXHAUSTED", "larger than max", "tiny", [tensor(triton_grpc, "input", np.zeros((99, 3, 32, 32), np.float32))])):
            with self.assertRaises(InferenceServerException) as caught:
                client.infer(model, inputs)
            self.assertRegex(str(caught.exception), text)
            self.assertIn(status, caught.exception.status())
        self.check_close(client.infer("tiny", [tensor(triton_grpc, "input", x)]).as_numpy("output"), x)

    def test_noise_on_the_wire(self):
        rng = np.random.default_rng(2)
        for address in (self.server.http, self.server.grpc):
            for _ in range(20):
                host, port = address.split(":")
                with socket.create_connection((host, int(port)), SECONDS) as connection, contextlib.suppress(ConnectionError):
                    connection.sendall(rng.bytes(500))
        self.assertTrue(http_client(self.server).is_server_live())


class Slow:
    """A server whose model takes a while, so that requests wait."""

    @staticmethod
    def write(path):
        net = lathe.NetworkBuilder()
        x = net.input("x", "float32", [-1, 400, 400], ["batch"])
        y = x
        for _ in range(30):
            y = net.op("Softmax", [net.matrix_multiply(y, y)], axis=-1)
        net.output(y, "y")
        net.finish().to_onnx(str(path))


class Pressure(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.model = pathlib.Path(temporary.name) / "slow.onnx"
        Slow.write(self.model)
        self.x = np.zeros((1, 400, 400), np.float32)

    def ask(self, server, count):
        """Status codes of so many requests at once."""
        body = b'{"inputs":[{"name":"x","shape":[1,400,400],"datatype":"FP32","parameters":{"binary_data_size":640000}}],"parameters":{"binary_data_output":true}}'
        headers = {"Inference-Header-Content-Length": str(len(body)), "Content-Type": "application/octet-stream"}
        started = threading.Barrier(count)

        def one(_):
            started.wait(SECONDS)
            request = urllib.request.Request(f"http://{server.http}/v2/models/slow/infer", body + self.x.tobytes(), headers, method="POST")
            try:
                with urllib.request.urlopen(request, timeout=SECONDS) as response:
                    return response.status, len(response.read())
            except urllib.error.HTTPError as error:
                return error.code, error.headers.get("Retry-After")
        pool = concurrent.futures.ThreadPoolExecutor(count)
        return [pool.submit(one, i) for i in range(count)]

    def test_a_full_queue_is_429(self):
        with running(self.model, "--max-queue=2") as server:
            answers = [a.result(SECONDS) for a in self.ask(server, 12)]
            codes = [code for code, _ in answers]
            self.assertEqual(set(codes), {200, 429})
            self.assertGreaterEqual(codes.count(200), 3)
            self.assertTrue(all(rest == "1" for code, rest in answers if code == 429))
            grpc, statuses = triton_grpc.InferenceServerClient(server.grpc), queue.Queue()
            for _ in range(12):
                grpc.async_infer("slow", [tensor(triton_grpc, "x", self.x)], lambda result, error: statuses.put(error and error.status()))
            answered = [statuses.get(timeout=SECONDS) for _ in range(12)]
            self.assertEqual(set(answered), {None, "StatusCode.RESOURCE_EXHAUSTED"})
            self.assertEqual(server.stop()[0], 0)

    def test_sigterm_loses_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with running(self.model, "--max-batch=4", "--max-delay-ms=20") as server:
                answers = self.ask(server, 12)
                deadline = time.monotonic() + SECONDS
                while self.inside(server) < 8 and time.monotonic() < deadline:  # at most four others run
                    time.sleep(0.01)
                time.sleep(0.3)
                code, said = server.stop(number)
                self.assertEqual(code, 0, said)
                self.assertRegex(said, "Stopping: what came is answered first\nStopped\n")
                self.assertEqual({a.result(SECONDS)[0] for a in answers}, {200})
                with self.assertRaises(urllib.error.URLError):
                    urllib.request.urlopen(f"http://{server.http}/v2/health/live", timeout=SECONDS)

    def inside(self, server):
        """Requests that were run, or wait."""
        with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=SECONDS) as response:
            found = re.findall(r'^lathe_(?:queue_requests|requests_total)\{model="slow"\} (\S+)', response.read().decode(), re.M)
        return sum(map(float, found))

    def test_a_port_that_is_taken(self):
        with running(self.model) as server:
            for flag, address in (("--http-port", server.http), ("--grpc-port", server.grpc)):
                done = subprocess.run([sys.executable, "-m", "lathe", "serve", self.model, "--level=0", f"{flag}={address.split(':')[1]}"],
                                      capture_output=True, text=True, timeout=SECONDS)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"lathe serve: {flag}: cannot listen on {address}", done.stderr)


if __name__ == "__main__":
    unittest.main()
