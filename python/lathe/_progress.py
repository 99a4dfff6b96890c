# SPDX-License-Identifier: Apache-2.0
"""A bar while an engine is built: on a terminal, and in a notebook, whose output knows carriage returns, too."""
import contextlib
import sys


class _Bar:
    WIDTH = 24

    def __init__(self, out):
        self.out, self.length = out, 0

    def __call__(self, stage, done, total, remaining_seconds):
        filled = self.WIDTH * done // max(total, 1)
        left = f"  ~{remaining_seconds:.0f} s left" if remaining_seconds >= 0 else ""
        self._write(f"[{'#' * filled}{'-' * (self.WIDTH - filled)}]  {stage}  {done}/{total}{left}")

    def _write(self, line):
        self.out.write("\r" + line.ljust(self.length))
        self.out.flush()
        self.length = len(line)

    def close(self):
        if self.length:
            self._write("")
            self.out.write("\r")
            self.out.flush()


@contextlib.contextmanager
def default_progress(progress):
    """What a build tells: `progress` itself, nothing for False, a bar for None where somebody looks."""
    if progress is not None or not _somebody_looks():
        yield progress or None
        return
    bar = _Bar(sys.stderr)
    try:
        yield bar
    finally:
        bar.close()


def _somebody_looks():
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
