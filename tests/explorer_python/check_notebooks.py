# SPDX-License-Identifier: Apache-2.0
"""Runs our notebooks (explorer/python/notebooks) from their first cell to their last, each in a folder of its own. Cells
check what they show with assert; errors inside drop-down boxes count, too. Runs inside the environment that has the wheel,
with the lathe program on the PATH.

The kernel is asked through jupyter_client's blocking client: nbclient's, which waits asynchronously, now and then overlooks a
reply until its time limit is over.
"""
import pathlib
import sys
import tempfile

import nbformat
from jupyter_client.manager import start_new_kernel

NOTEBOOKS = sorted((pathlib.Path(__file__).resolve().parents[2] / "explorer/python/notebooks").glob("*.ipynb"))


SECONDS_PER_CELL = 120


def run(path):
    """The errors of the first cell that has any; a drop-down box shows an error and goes on, but it is told like any other."""
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    with tempfile.TemporaryDirectory() as folder:
        manager, client = start_new_kernel(cwd=folder)
        try:
            for number, source in enumerate(cells, 1):
                errors = []

                def told(message):
                    if message["msg_type"] == "error":
                        errors.append("\n".join(message["content"]["traceback"]))

                reply = client.execute_interactive(source, timeout=SECONDS_PER_CELL, output_hook=told, allow_stdin=False)
                if errors or reply["content"]["status"] != "ok":
                    return [f"code cell {number}:"] + errors
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
    return [] if cells else ["no code cells"]


def main():
    failed = 0
    for path in NOTEBOOKS:
        problems = run(path)
        failed += bool(problems)
        print(f"{path.name}: {'ok' if not problems else 'FAILED'}")
        for problem in problems:
            print(problem)
    if len(NOTEBOOKS) < 5:
        print(f"FAILED only {len(NOTEBOOKS)} notebooks")
    return 1 if failed or len(NOTEBOOKS) < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
