# SPDX-License-Identifier: Apache-2.0
"""Dynamic batching in front of a pool of threads: requests that arrive close together run as one batch.

A stream is a thread that runs one batch at a time, with an execution context of its own. While all streams are busy, requests wait in a
queue of bounded length. When a stream is free, the batcher takes the requests of one kind (same inputs, types and extents but for the
first dim), oldest first, and runs them together at the latest `max_delay` seconds after the oldest of them came; at once when they fill
a batch, or when their rows are one of the preferred sizes. With max_delay 0 nothing waits for company, and batches are what
gathers while the streams are busy.

A batch that fails is run again request by request, so that a bad request fails alone.
"""
import asyncio
import concurrent.futures
import dataclasses
import time

import numpy as np

from .._errors import Error, InputError, InternalError


class Busy(Error):
    """The queue is full: try again later. 429 and RESOURCE_EXHAUSTED."""


class Closed(Error):
    """The server is stopping: try another one. 503 and UNAVAILABLE."""


@dataclasses.dataclass(frozen=True)
class Policy:
    """max_batch: rows of a batch; 1: each request runs as it came, whatever its first dim. preferred: sizes that are run at once.
    max_delay: seconds. max_queue: requests that wait. streams: batches that run at the same time."""
    max_batch: int = 1
    preferred: tuple = ()
    max_delay: float = 0.0
    max_queue: int = 128
    streams: int = 1

    def __post_init__(self):
        for field, least in (("max_batch", 1), ("max_delay", 0), ("max_queue", 1), ("streams", 1)):
            value = getattr(self, field)
            if not least <= value < float("inf"):
                raise InputError(f"{value} is not at least {least}", where=field)
        for size in self.preferred:
            if not 1 <= size <= self.max_batch:
                raise InputError(f"a batch of {size} rows is preferred, but none has more than {self.max_batch}", where="preferred")


class Observer:
    """What happens in a batcher, for metrics. Called on the event loop."""

    def queued(self, requests):
        """So many requests wait now."""

    def ran(self, requests, rows, queue_seconds, run_seconds):
        """A batch ran; queue_seconds has an entry for each of its requests."""


@dataclasses.dataclass(eq=False)
class _Request:
    inputs: dict
    rows: int
    kind: tuple
    future: asyncio.Future
    arrival: float


class Batcher:
    """run: a function from a dict of arrays to a dict of arrays, called on threads. Everything else is of one event loop."""

    def __init__(self, run, policy, observer=None):
        self._run, self.policy, self._observer = run, policy, observer or Observer()
        self._threads = concurrent.futures.ThreadPoolExecutor(policy.streams, thread_name_prefix="lathe-stream")
        self._free = policy.streams
        self._waiting = []  # by arrival
        self._timer = None
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def submit(self, inputs):
        """The outputs of these inputs, a dict of arrays. Raises Busy, Closed, and what `run` raises."""
        if self._closed:
            raise Closed("the server is stopping")
        if len(self._waiting) >= self.policy.max_queue:
            raise Busy("the queue is full", why=f"{len(self._waiting)} requests wait", hint="try again later")
        request = _Request(inputs, self._rows(inputs), _kind(inputs), asyncio.get_running_loop().create_future(), time.monotonic())
        self._waiting.append(request)
        self._idle.clear()
        self._dispatch()
        return await request.future

    async def drain(self):
        """Takes no more requests, and returns when all that it took are answered."""
        self._closed = True
        self._dispatch()
        await self._idle.wait()
        self._threads.shutdown()

    def _rows(self, inputs):
        if self.policy.max_batch == 1:
            return 1
        rows = {name: array.shape[0] if array.ndim else 0 for name, array in inputs.items()}
        count = next(iter(rows.values()))
        if any(r != count for r in rows.values()) or not 1 <= count <= self.policy.max_batch:
            listed = ", ".join(f"{r} in '{name}'" for name, r in rows.items())
            raise InputError("the first dim is the batch: it is the same in all inputs, and from 1 to "
                             f"{self.policy.max_batch}", why=f"it is {listed}")
        return count

    def _dispatch(self):
        """Starts what can start now, and sets the timer for what has to wait. Called whenever something has changed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting = [r for r in self._waiting if not r.future.done()]  # clients that went away
        while self._free > 0 and self._waiting:
            batch, seconds = self._choose(time.monotonic())
            if not batch:
                self._timer = asyncio.get_running_loop().call_later(seconds, self._dispatch)
                break
            taken = set(map(id, batch))
            self._waiting = [r for r in self._waiting if id(r) not in taken]
            self._start(batch)
        self._observer.queued(len(self._waiting))
        if not self._waiting and self._free == self.policy.streams:
            self._idle.set()

    def _choose(self, now):
        """The batch that runs now, or none and the seconds until one has to."""
        kinds = {}
        for request in self._waiting:
            kinds.setdefault(request.kind, []).append(request)
        shortest = float("inf")
        for requests in kinds.values():
            left = requests[0].arrival + self.policy.max_delay - now
            batch = self._ready(requests, is_due=left <= 0 or self._closed)
            if batch:
                return batch, 0
            shortest = min(shortest, left)
        return [], shortest

    def _ready(self, requests, is_due):
        taken, rows, preferred = 0, 0, 0
        for request in requests:
            if rows + request.rows > self.policy.max_batch:
                return requests[:preferred or taken]  # full
            taken, rows = taken + 1, rows + request.rows
            if rows in self.policy.preferred:
                preferred = taken
        if rows == self.policy.max_batch:
            return requests[:taken]
        return requests[:preferred or (taken if is_due else 0)]

    def _start(self, batch):
        self._free -= 1
        started = time.monotonic()
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._answers, [r.inputs for r in batch], [r.rows for r in batch])
        running.add_done_callback(lambda done: self._finish(batch, started, done))

    def _finish(self, batch, started, done):
        self._free += 1
        self._observer.ran(len(batch), sum(r.rows for r in batch), [started - r.arrival for r in batch], time.monotonic() - started)
        for request, answer in zip(batch, done.result()):
            if request.future.done():
                continue
            if isinstance(answer, Exception):
                request.future.set_exception(answer)
            else:
                request.future.set_result(answer)
        self._dispatch()

    def _answers(self, inputs, rows):
        """An answer or an exception for each request, on a thread."""
        if len(inputs) > 1:
            try:
                return _split(self._run({name: np.concatenate([i[name] for i in inputs]) for name in inputs[0]}), rows)
            except Exception:
                pass  # Which of them it was, their own runs tell.
        return [self._attempt(one) for one in inputs]

    def _attempt(self, inputs):
        try:
            return self._run(inputs)
        except Exception as error:
            return error


def _kind(inputs):
    """What requests of one batch have in common."""
    return tuple(sorted((name, array.dtype.str, array.shape[1:]) for name, array in inputs.items()))


def _split(outputs, rows):
    ends = np.cumsum(rows)
    for name, array in outputs.items():
        if array.ndim == 0 or array.shape[0] != ends[-1]:
            raise InternalError(f"a batch of {ends[-1]} rows gave {array.shape}", where=f"output '{name}'")
    return [{name: array[end - count:end] for name, array in outputs.items()} for end, count in zip(ends, rows)]
