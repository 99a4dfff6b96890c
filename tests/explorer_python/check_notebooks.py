# SPDX-License-Identifier: Apache-2.0
"""Runs our notebooks (explorer/python/notebooks) from their first cell to their last, each in a folder of its own. Cells
check what they show with assert; errors inside drop-down boxes count, too. Runs inside the environment that has the wheel,
with the lathe program on the PATH.
"""
import pathlib
import sys
import tempfile

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = sorted((pathlib.Path(__file__).resolve().parents[2] / "explorer/python/notebooks").glob("*.ipynb"))


def widget_errors(notebook):
    """What drop-down boxes caught."""
    states = notebook.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {}).get("state", {})
    for state in states.values():
        for output in state.get("state", {}).get("outputs") or []:
            if output["output_type"] == "error":
                yield f"{output['ename']}: {output['evalue']}"


def run(path):
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        try:
            NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
        except CellExecutionError as error:
            return [str(error)]
    problems = list(widget_errors(notebook))
    empty = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.execution_count is None]
    return problems + ([f"cells {empty} did not run"] if empty else [])


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
