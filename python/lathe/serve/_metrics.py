# SPDX-License-Identifier: Apache-2.0
"""What /metrics tells of batchers, beside KServe's times of a request."""
from prometheus_client import Counter, Gauge, Histogram

from ._batcher import Observer

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_REQUESTS = Counter("lathe_requests", "requests that ran", ["model"])
_WAITING = Gauge("lathe_queue_requests", "requests that wait", ["model"])
_ROWS = Histogram("lathe_batch_rows", "rows of a batch", ["model"], buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256))
_QUEUE = Histogram("lathe_queue_seconds", "from a request's arrival to the start of its batch", ["model"], buckets=_SECONDS)
_RUN = Histogram("lathe_run_seconds", "a batch's run", ["model"], buckets=_SECONDS)


class BatchMetrics(Observer):
    def __init__(self, name):
        self._requests, self._waiting, self._rows, self._queue, self._run = (m.labels(name) for m in (_REQUESTS, _WAITING, _ROWS, _QUEUE, _RUN))

    def queued(self, requests):
        self._waiting.set(requests)

    def ran(self, requests, rows, queue_seconds, run_seconds):
        self._requests.inc(requests)
        self._rows.observe(rows)
        self._run.observe(run_seconds)
        for seconds in queue_seconds:
            self._queue.observe(seconds)
