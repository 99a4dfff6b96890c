#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests in an open loop to one server over HTTP on loopback, with Lathe's engine and with others' behind the same batcher.

usage: load.py --build build [--model mobilenet_v2] [--rates 20,40] [--seconds 20] [--engines lathe,onnxruntime,openvino]
Prints a table of median, p99, throughput and rows of a batch. Engines take turns at each rate. Run it with the Python of
BUILD/serving-venv; engines of others come from the tests' own environment, .venv.
"""
import argparse
import asyncio
import json
import multiprocessing
import pathlib
import subprocess
import tempfile
import time

import aiohttp
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = "Inference-Header-Content-Length"


class Peer:
    """Another engine, as lathe.serve.Server takes models."""

    def __init__(self, name, engine, model, like, threads):
        import sys

        packages, = (ROOT / ".venv/lib").glob("python3*/site-packages")
        sys.path.append(str(packages))
        from lathe._peers import make_peer

        self.name, self.policy, self.inputs, self.outputs, self.ranges = name, like.policy, like.inputs, like.outputs, like.ranges
        self.run = make_peer(engine, model, threads)


def serve(engine, path, batch, threads, port):
    import lathe.serve as serving

    policy = serving.Policy(max_batch=batch, max_queue=1000)
    model = serving.open_model("m", path, serving.Options(level=3 if engine == "lathe" else 0, threads=threads, policy=policy))
    if engine != "lathe":
        model = Peer("m", engine, str(path), model, threads)

    async def run():
        async with serving.Server([model], http_port=0, grpc_port=0) as server:
            port.put(server.http_port)
            await asyncio.Event().wait()
    asyncio.run(run())


async def drive(port, body, header, rate, seconds):
    times, failed, tasks = [], 0, []
    url = f"http://127.0.0.1:{port}/v2/models/m/infer"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(60)) as session:
        async def one(arrival):
            nonlocal failed
            async with session.post(url, data=body, headers={HEADER: str(header), "Content-Type": "application/octet-stream"}) as response:
                await response.read()
                failed += response.status != 200
                times.append(1000 * (time.perf_counter() - arrival))
        start, gaps = time.perf_counter() + 0.1, np.random.default_rng(0).exponential(1 / rate, int(rate * seconds))
        for arrival in start + np.cumsum(gaps):
            await asyncio.sleep(max(0, arrival - time.perf_counter()))
            tasks.append(asyncio.create_task(one(arrival)))
        await asyncio.gather(*tasks)
        duration = time.perf_counter() - start
        async with session.get(f"http://127.0.0.1:{port}/metrics") as response:
            lines = (await response.text()).splitlines()
    found = {line.split("{")[0]: float(line.split()[-1]) for line in lines if line.startswith("lathe_batch_rows_")}
    return np.sort(times), failed, len(times) / duration, found["lathe_batch_rows_sum"] / found["lathe_batch_rows_count"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--model", default="mobilenet_v2")
    parser.add_argument("--engines", default="lathe,onnxruntime,openvino")
    parser.add_argument("--rates", default="50,100")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{arguments.model}.onnx"
        subprocess.run([arguments.build / "bin/lathe", "zoo", arguments.model, "-o", path], check=True, stdout=subprocess.DEVNULL)
        measure(arguments, path)


def measure(arguments, path):
    import lathe

    tensor, = lathe.Builder(threads=1).parse_onnx(str(path)).inputs
    picture = np.random.default_rng(0).standard_normal((1, *tensor.shape[1:]), np.float32)
    described = json.dumps({"parameters": {"binary_data_output": True},
                            "inputs": [{"name": tensor.name, "shape": list(picture.shape), "datatype": "FP32",
                                        "parameters": {"binary_data_size": picture.nbytes}}]}).encode()
    print(f"{'engine':<12} {'asked/s':>8} {'done/s':>8} {'median ms':>10} {'p99 ms':>9} {'rows':>6} {'failed':>7}")
    context = multiprocessing.get_context("spawn")
    for rate in map(float, arguments.rates.split(",")):
        for engine in arguments.engines.split(","):
            ports = context.Queue()
            server = context.Process(target=serve, args=(engine, path, arguments.batch, arguments.threads, ports), daemon=True)
            server.start()
            try:
                port = ports.get(timeout=300)
                asyncio.run(drive(port, described + picture.tobytes(), len(described), rate, 2))
                times, failed, done, rows = asyncio.run(drive(port, described + picture.tobytes(), len(described), rate, arguments.seconds))
            finally:
                server.kill()
                server.join()
            print(f"{engine:<12} {rate:>8g} {done:>8.1f} {np.median(times):>10.2f} {np.percentile(times, 99):>9.2f} {rows:>6.2f} {failed:>7}", flush=True)


if __name__ == "__main__":
    main()
