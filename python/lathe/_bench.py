# SPDX-License-Identifier: Apache-2.0
"""python -m lathe bench: a table of engines, batches and threads. Engines take turns in short bursts, so that a slow phase of the
machine hits all of them; a line has the median time of a call."""
import html
import statistics
import time

from ._compile import compile
from ._core import Builder
from ._errors import InputError
from ._inputs import make_inputs, parse_shapes, shapes_of
from ._peers import make_peer

BURST_SECONDS, PAUSE_SECONDS = 0.25, 0.02


def bench(arguments):
    names = ["lathe", *filter(None, arguments.against.split(","))]
    network = Builder(threads=1).parse_onnx(arguments.model)
    infos = network.inputs
    base = shapes_of(infos, parse_shapes(arguments.shapes))
    rows = []
    for threads in _numbers(arguments.threads, "--threads", 0):
        for batch in _numbers(arguments.batches, "--batches", 1):
            inputs = make_inputs(infos, {n: _with_batch(infos, n, s, batch) for n, s in base.items()}, [])
            calls = {name: _engine(name, network, arguments, inputs, threads) for name in names}
            times = _take_turns(calls, arguments.duration * len(calls))
            rows += [{"engine": n, "batch": batch, "threads": threads, "ms": statistics.median(t), "calls": len(t)} for n, t in times.items()]
            _print_rows(rows[-len(calls):], header=len(rows) == len(calls))
    if arguments.picture:
        with open(arguments.picture, "w") as file:
            file.write(picture(rows, arguments.model))
        print(f"Saved {arguments.picture}")
    return 0


def _numbers(text, flag, least):
    if not all(part.isdigit() and int(part) >= least for part in text.split(",")):
        raise InputError(f"'{text}' is no list of whole numbers from {least}", where=flag, hint="for example 1,8")
    return [int(part) for part in text.split(",")]


def _with_batch(infos, name, shape, batch):
    info = next(t for t in infos if t.name == name)
    if info.shape and info.shape[0] == -1:
        return (batch, *shape[1:])
    if batch != 1 and not any(t.shape and t.shape[0] == -1 for t in infos):
        raise InputError(f"the first dim of '{name}' is {info.shape[0] if info.shape else 'not there'}: there is no batch {batch}",
                         where="--batches")
    return shape


def _engine(name, network, arguments, inputs, threads):
    if name != "lathe":
        peer = make_peer(name, arguments.model, threads)
        return lambda: peer(inputs)
    engine = compile(network, {n: a.shape for n, a in inputs.items()}, arguments.precision, level=arguments.level, threads=threads)
    values = tuple(inputs.values())
    return lambda: engine(*values)


def _take_turns(calls, seconds):
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not all(times.values()):
        for name, call in calls.items():
            time.sleep(PAUSE_SECONDS)  # until the others' threads sleep
            call()
            burst = time.perf_counter() + BURST_SECONDS
            while True:
                start = time.perf_counter()
                call()
                now = time.perf_counter()
                times[name].append(1000 * (now - start))
                if now > burst:
                    break
    return times


def _print_rows(rows, header):
    if header:
        print(f"{'engine':<12} {'batch':>5} {'threads':>7} {'ms':>10} {'items/s':>10} {'lathe is':>9}")
    ours, longest = rows[0]["ms"], max(r["ms"] for r in rows)
    for r in rows:
        ratio = "" if r is rows[0] else f"{r['ms'] / ours:.2f}x"
        print(f"{r['engine']:<12} {r['batch']:>5} {r['threads'] or 'all':>7} {r['ms']:>10.4g} {1000 * r['batch'] / r['ms']:>10.4g} "
              f"{ratio:>9}  {'█' * max(1, round(24 * r['ms'] / longest))}", flush=True)


def picture(rows, title):
    """The table as bars, an SVG: items per second, a group for each batch and number of threads."""
    colors = {"lathe": "#2166ac", "onnxruntime": "#b2abd2", "openvino": "#e08214"}
    most, parts, y = max(1000 * r["batch"] / r["ms"] for r in rows), [], 40
    group = None
    for r in rows:
        if group != (r["batch"], r["threads"]):
            group = (r["batch"], r["threads"])
            y += 12
            parts.append(f'<text x="10" y="{y + 12}" font-weight="bold">batch {r["batch"]}, {r["threads"] or "all"} threads</text>')
            y += 20
        rate = 1000 * r["batch"] / r["ms"]
        parts.append(f'<text x="10" y="{y + 13}">{html.escape(r["engine"])}</text><rect x="110" y="{y}" width="{460 * rate / most:.1f}" '
                     f'height="16" fill="{colors.get(r["engine"], "#888888")}"/><text x="{116 + 460 * rate / most:.1f}" y="{y + 13}">'
                     f'{rate:.4g} items/s, {r["ms"]:.4g} ms</text>')
        y += 20
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{y + 20}" font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="white"/><text x="10" y="24" font-size="15">{html.escape(title)}</text>'
            + "".join(parts) + "</svg>\n")
