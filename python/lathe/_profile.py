# SPDX-License-Identifier: Apache-2.0
"""Where the time of an engine goes."""
from ._core import Profiler


class Profile:
    """The times of an engine's layers in milliseconds, as a table.

    rows: a dict for each layer in order of execution: name, average_ms, median_ms, total_ms, percent (of all layers).
    runs: how many runs were measured.
    """

    def __init__(self, layers, runs):
        whole = sum(layer["average_ms"] for layer in layers)
        self.runs = runs
        self.rows = [{**layer, "percent": 100 * layer["average_ms"] / whole if whole else 0.0} for layer in layers]

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows)

    def slowest(self, count=10):
        """The layers that take most, the slowest first."""
        return sorted(self.rows, key=lambda row: -row["average_ms"])[:count]

    def to_pandas(self):
        """The table as a pandas.DataFrame. Raises ImportError without pandas."""
        import pandas

        return pandas.DataFrame(self.rows)

    def __repr__(self):
        lines = [f"{len(self.rows)} layers, {self.runs} runs, {sum(row['average_ms'] for row in self.rows):.4f} ms a run"]
        lines += [f"{row['average_ms']:10.4f} ms  {row['percent']:5.1f} %  {row['name']}" for row in self.slowest()]
        return "\n".join(lines)


def profile(engine, *inputs, runs=10, **named):
    """Runs once unmeasured and then `runs` times with a time per layer."""
    engine(*inputs, **named)
    profiler = Profiler()
    for _ in range(runs):
        engine.call_profiled(profiler, *inputs, **named)
    return Profile(profiler.layers, profiler.runs)
