# SPDX-License-Identifier: Apache-2.0
"""lathe.serve.ray_app() on a cluster of two nodes of this machine: requests in an open loop, a replica killed in the middle, and every
request answered once with the engine's answer. Run by slow.py in its environment.

usage: check_ray.py [--requests N] [--rate PER_SECOND]
"""
import argparse
import asyncio
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

# A proxy imports all of Serve before it answers; five seconds, after which Ray ends it, are few beside other work.
os.environ["RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"] = "50"

import aiohttp  # noqa: E402
import numpy as np  # noqa: E402
import psutil  # noqa: E402
import ray  # noqa: E402
from ray import serve  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import lathe  # noqa: E402
from lathe.serve import RAY_GRPC_SERVICER, Options, Policy, ray_app  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import tiny_model  # noqa: E402

KINDS = 64  # pictures that requests have in turn
SECONDS = 60
HEADER = "Inference-Header-Content-Length"


def body_of(picture, number):
    described = json.dumps({"id": str(number), "parameters": {"binary_data_output": True},
                            "inputs": [{"name": "input", "shape": list(picture.shape), "datatype": "FP32",
                                        "parameters": {"binary_data_size": picture.nbytes}}]}).encode()
    return described + picture.tobytes(), {HEADER: str(len(described)), "Content-Type": "application/octet-stream"}


async def ask(session, url, number, picture, seen):
    """Asks until there is an answer: a request that fails has had none, so it may be sent again. Returns seconds and the answer."""
    body, headers = body_of(picture, number)
    start = time.perf_counter()
    while time.perf_counter() < start + SECONDS:
        try:
            async with session.post(url, data=body, headers=headers) as response:
                content = await response.read()
                seen[response.status] += 1
                if response.status == 200:
                    header = int(response.headers[HEADER])
                    assert json.loads(content[:header])["id"] == str(number)
                    return time.perf_counter() - start, np.frombuffer(content[header:], np.float32)
                if response.status == 400:
                    raise AssertionError(content)
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            seen[type(error).__name__] += 1
        await asyncio.sleep(0.05)
    return None


async def open_loop(url, pictures, requests, rate, kill):
    seen, tasks = collections.Counter(), []
    timeout, connector = aiohttp.ClientTimeout(SECONDS), aiohttp.TCPConnector(limit=256)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        start = time.perf_counter()
        for number in range(requests):
            if number == requests // 2:
                kill()
            await asyncio.sleep(max(0, start + number / rate - time.perf_counter()))
            tasks.append(asyncio.create_task(ask(session, url, number, pictures[number % KINDS], seen)))
        answers = await asyncio.gather(*tasks)
        return answers, seen, time.perf_counter() - start


def kill_a_replica():
    """SIGKILL for one replica's process, which is a child of one of this program's nodes."""
    replicas = [p for p in psutil.Process().children(recursive=True) if " ".join(p.cmdline()).startswith("ray::ServeReplica")]
    print(f"{len(replicas)} replicas under {len({p.ppid() for p in replicas})} nodes; killing process {replicas[0].pid}", flush=True)
    assert len(replicas) == 2 == len({p.ppid() for p in replicas})
    replicas[0].send_signal(signal.SIGKILL)


# In a process of its own: Triton's client declares the messages that KServe declares, too.
GRPC_CLIENT = """
import sys
import numpy as np
import tritonclient.grpc as triton

client, to = triton.InferenceServerClient(sys.argv[1]), {"application": "default"}
assert client.is_model_ready("tiny", headers=to)
assert client.get_model_metadata("tiny", headers=to).inputs[0].datatype == "FP32"
picture = np.load("picture.npy")
def ask(array):
    tensor = triton.InferInput("input", list(array.shape), "FP32")
    tensor.set_data_from_numpy(array)
    return client.infer("tiny", [tensor], headers=to).as_numpy("output")
np.save("answer.npy", ask(picture))
try:
    ask(picture[:, :2].copy())
    sys.exit("a wrong shape was answered")
except triton.InferenceServerException as error:
    assert error.status() == "StatusCode.INVALID_ARGUMENT" and "the model takes 1..8 x 3 x 32 x 32" in str(error), error
"""


def check_grpc(folder, port, picture, expected):
    np.save(folder / "picture.npy", picture)
    subprocess.run([sys.executable, "-c", GRPC_CLIENT, f"127.0.0.1:{port}"], cwd=folder, check=True, timeout=SECONDS)
    np.testing.assert_allclose(np.load(folder / "answer.npy").ravel(), expected, rtol=1e-5, atol=1e-6)
    print("gRPC: the engine's answer, and INVALID_ARGUMENT for a wrong shape", flush=True)


def check(folder, requests, rate):
    tiny_model.write(folder / "tiny.onnx", size=32)
    shapes = {"input": ((1, 3, 32, 32), (8, 3, 32, 32), (8, 3, 32, 32))}
    (folder / "models").mkdir()
    engine = lathe.compile(str(folder / "tiny.onnx"), shapes, level=0, progress=False, threads=1, save=str(folder / "models/tiny.engine"))
    pictures = [np.random.default_rng(i).standard_normal((1, 3, 32, 32), np.float32) for i in range(KINDS)]
    expected = [engine(p).ravel() for p in pictures]

    models = folder / "models"
    app = ray_app(models, Options(policy=Policy(max_batch=8, max_delay=0.002, max_queue=2000)), num_replicas=2, health_check_period_s=1,
                  ray_actor_options={"num_cpus": 1, "resources": {"replica": 1}})
    serve.start(http_options={"host": "127.0.0.1", "port": 18734}, grpc_options={"port": 18735, "grpc_servicer_functions": [RAY_GRPC_SERVICER]})
    serve.run(app, route_prefix="/")
    check_grpc(folder, 18735, pictures[0], expected[0])
    url = "http://127.0.0.1:18734/v2/models/tiny/infer"
    answers, seen, seconds = asyncio.run(open_loop(url, pictures, requests, rate, kill_a_replica))

    lost = [n for n, answer in enumerate(answers) if answer is None]
    wrong = [n for n, answer in enumerate(answers) if answer is not None
             and not np.allclose(answer[1], expected[n % KINDS], rtol=1e-5, atol=1e-6)]
    times = np.sort([1000 * answer[0] for answer in answers if answer is not None])
    print(f"{requests} requests in {seconds:.1f} s ({requests / seconds:.0f}/s): {len(lost)} lost, {len(wrong)} wrong, "
          f"{seen[200] - requests + len(lost)} answered twice; answers by status: {dict(seen)}")
    print(f"ms: median {np.median(times):.1f}, p90 {np.percentile(times, 90):.1f}, p99 {np.percentile(times, 99):.1f}, most {times[-1]:.1f}")
    return not lost and not wrong and seen[200] == requests


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--rate", type=float, default=20)
    arguments = parser.parse_args()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "resources": {"replica": 1}, "include_dashboard": False})
    cluster.add_node(num_cpus=1, resources={"replica": 1})
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            passed = check(pathlib.Path(folder), arguments.requests, arguments.rate)
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
