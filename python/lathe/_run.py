# SPDX-License-Identifier: Apache-2.0
"""python -m lathe run: what comes out of a model, and whether another engine says the same."""
import pathlib

import numpy as np

from ._compile import compile, load
from ._core import Builder
from ._errors import InputError
from ._inputs import make_inputs, parse_shapes, shapes_of
from ._peers import make_peer


def run(arguments):
    is_engine = not arguments.model.endswith(".onnx")
    if is_engine and arguments.compare:
        raise InputError(f"{arguments.compare} reads models, no engine files", where="--compare", hint="run the ONNX model")
    engine = load(arguments.model, threads=arguments.threads) if is_engine else None
    network = None if is_engine else Builder(threads=1).parse_onnx(arguments.model)
    infos = engine.inputs if is_engine else network.inputs
    inputs = make_inputs(infos, shapes_of(infos, parse_shapes(arguments.shapes)), arguments.input, arguments.preprocess)
    if engine is None:
        engine = compile(network, {n: a.shape for n, a in inputs.items()}, arguments.precision, level=arguments.level,
                         threads=arguments.threads)
    results = engine(*inputs.values())
    names = [t.name for t in engine.outputs]
    outputs = dict(zip(names, results if isinstance(results, (tuple, list)) else [results]))
    labels = pathlib.Path(arguments.labels).read_text().splitlines() if arguments.labels else None
    for name, values in outputs.items():
        print(_described(name, np.asarray(values)))
        if is_scores(values):
            print_best(np.asarray(values), arguments.top, labels)
    return compare(outputs, make_peer(arguments.compare, arguments.model, arguments.threads)(inputs), arguments) if arguments.compare else 0


def _described(name, values):
    text = f"{name}: {values.dtype} {'x'.join(map(str, values.shape)) or 'scalar'}"
    if values.size and values.dtype.kind in "fiu":
        text += f", {values.min():.6g} to {values.max():.6g}, mean {values.mean():.6g}"
    return text


def is_scores(values):
    """A row of scores for each item: what classification networks give."""
    return values.ndim == 2 and values.shape[1] >= 10 and values.dtype.kind == "f"


def print_best(values, count, labels):
    rows = values.astype(np.float64)
    normal = (rows >= 0).all() and np.allclose(rows.sum(1), 1, atol=1e-3)
    if not normal:
        rows = np.exp(rows - rows.max(1, keepdims=True))
        rows /= rows.sum(1, keepdims=True)
    for item, row in enumerate(rows):
        for place in np.argsort(-row, kind="stable")[:count]:
            label = labels[place] if labels and place < len(labels) else f"class {place}"
            print(f"  {f'[{item}] ' if len(rows) > 1 else ''}{100 * row[place]:6.2f} %  {label}")


def compare(ours, theirs, arguments):
    worst = 0.0
    for name, expected in theirs.items():
        got, expected = np.asarray(ours[name], np.float64), np.asarray(expected, np.float64)
        if got.shape != expected.shape:
            print(f"{name}: {got.shape} here, {expected.shape} from {arguments.compare}")
            return 1
        error = float(np.linalg.norm(got - expected) / max(np.linalg.norm(expected), 1e-30))
        worst = max(worst, error if np.isfinite(error) else np.inf)
        largest = float(np.abs(got - expected).max()) if got.size else 0.0
        print(f"{name}: relative L2 error {error:.2e}, largest difference {largest:.2e} against {arguments.compare}")
    same = worst <= arguments.tolerance
    print(f"The same as {arguments.compare}." if same else f"Not the same as {arguments.compare}: {worst:.2e} is more than "
          f"--tolerance={arguments.tolerance:g}.")
    return 0 if same else 1
