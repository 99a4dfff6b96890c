# SPDX-License-Identifier: Apache-2.0
"""What is served: models and engine files, found, built and checked."""
import dataclasses
import json
import pathlib

import numpy as np

from .._compile import compile, load
from .._core import Builder
from .._errors import InputError
from .._inputs import make_inputs
from ._batcher import Policy

# Element types by their names in the Open Inference Protocol.
DATATYPES = {"bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8", "int16": "INT16",
             "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64"}

SUFFIXES = (".engine", ".plan", ".onnx")
SETTINGS = "serve.json"

# Two rows of random numbers in one batch are this close (relative L2) to the same rows alone, or rows are no items of a batch. An INT8
# or BF16 engine may run a batch with other kernels.
ROW_TOLERANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Options:
    """How a model is built and run. shapes, min_shapes, max_shapes: of dynamic inputs of a model; the first dim does not count where
    batches are made. An engine file has all that already but the policy and threads."""
    shapes: dict = dataclasses.field(default_factory=dict)
    min_shapes: dict = dataclasses.field(default_factory=dict)
    max_shapes: dict = dataclasses.field(default_factory=dict)
    precision: str = "model"
    level: int = 3
    threads: int = 0
    timing_cache: str = None
    policy: Policy = Policy()

    def changed(self, settings, where):
        """These options with a file's. Its keys are the names of both classes."""
        own = {f.name for f in dataclasses.fields(Options)} - {"policy"}
        rules = {f.name for f in dataclasses.fields(Policy)}
        for key in settings:
            if key not in own | rules:
                raise InputError(f"there is no setting '{key}'", where=where, hint="take some of " + ", ".join(sorted(own | rules)))
        try:
            policy = dataclasses.replace(self.policy, **{k: _settled(v) for k, v in settings.items() if k in rules})
        except TypeError as error:
            raise InputError("a setting is no number", where=where, why=str(error)) from None
        return dataclasses.replace(self, **{k: v for k, v in settings.items() if k in own}, policy=policy)


def _settled(value):
    return tuple(value) if isinstance(value, list) else value


class Model:
    """An engine that is ready to serve. run() is called by any number of threads: each has a context of its own."""

    def __init__(self, name, engine, policy=Policy()):
        self.name, self.engine, self.policy = name, engine, policy
        self.inputs, self.outputs = engine.inputs, engine.outputs
        self.ranges = {t.name: (engine.shape_range(t.name)[0], engine.shape_range(t.name)[2]) for t in self.inputs}
        for tensor in [*self.inputs, *self.outputs]:
            if tensor.dtype not in DATATYPES:
                raise InputError(f"the Open Inference Protocol has no type {tensor.dtype}", where=f"'{tensor.name}' of {name}",
                                 hint="cast inside of the model")
        if policy.max_batch > 1:
            self._check_batches()

    def run(self, inputs):
        results = self.engine(**inputs)
        return results if isinstance(results, dict) else {self.outputs[0].name: results}

    def _check_batches(self):
        """Batching is right only where the rows of the first dim do not know of each other. That is tried."""
        most = self.policy.max_batch
        for tensor in self.inputs:
            low, high = self.ranges[tensor.name]
            if not tensor.shape or tensor.shape[0] != -1 or tensor.is_shape_tensor or low[0] > 1 or high[0] < most:
                first = "is not there" if not tensor.shape else f"is {low[0]} to {high[0]}"
                raise InputError(f"its first dim {first}: there are no batches of 1 to {most}", where=f"input '{tensor.name}' of {self.name}",
                                 hint="serve it without max_batch, or build an engine with such a profile")
        both = make_inputs(self.inputs, {t.name: (2, *self.engine.shape_range(t.name)[1][1:]) for t in self.inputs}, [])
        whole = self.run(both)
        for row in range(2):
            for name, alone in self.run({n: a[row:row + 1] for n, a in both.items()}).items():
                together = whole[name]
                is_row = together.ndim == alone.ndim > 0 and together.shape[0] == 2 and together.shape[1:] == alone.shape[1:]
                if not is_row or not _is_close(together[row:row + 1], alone):
                    raise InputError("a row of a batch is not what it is alone: its first dim is no batch", where=f"output '{name}' of {self.name}",
                                     hint="serve it without max_batch")


def _is_close(one, other):
    if one.dtype.kind != "f":
        return True  # An argmax of random numbers may differ by rounding.
    one, other = one.astype(np.float64), other.astype(np.float64)
    return bool(np.linalg.norm(one - other) <= ROW_TOLERANCE * np.linalg.norm(other) + 1e-6)


def find(path):
    """Names and files of models: a file, or a folder of files and of folders that have a model.onnx or model.engine each."""
    path = pathlib.Path(path)
    if path.is_dir():
        found = {p.stem: p for p in sorted(path.iterdir()) if p.suffix in SUFFIXES and p.is_file()}
        for folder in sorted(p for p in path.iterdir() if p.is_dir()):
            for suffix in reversed(SUFFIXES):  # an engine before the model that it was built from
                if (folder / f"model{suffix}").is_file():
                    found[folder.name] = folder / f"model{suffix}"
        if not found:
            raise InputError("it has no model", where=str(path), hint="put NAME.onnx, NAME.engine, NAME/model.onnx or NAME/model.engine there")
        return found
    if not path.is_file():
        raise InputError("there is no such file or folder", where=str(path))
    return {path.stem if path.stem != "model" else path.absolute().parent.name: path}


def open_model(name, path, options):
    """Loads an engine file, or builds an engine. A serve.json beside NAME/model.onnx has settings of its own."""
    path = pathlib.Path(path)
    settings = path.parent / SETTINGS
    if path.stem == "model" and settings.is_file():
        options = options.changed(_read_settings(settings), str(settings))
    if path.suffix != ".onnx":
        return Model(name, load(str(path), threads=options.threads), options.policy)
    network = Builder(threads=1).parse_onnx(str(path))
    engine = compile(network, _profile(network, options), options.precision, level=options.level, threads=options.threads,
                     timing_cache=options.timing_cache)
    return Model(name, engine, options.policy)


def _read_settings(path):
    try:
        settings = json.loads(path.read_text())
    except ValueError as error:
        raise InputError("it is no JSON", where=str(path), why=str(error)) from None
    if not isinstance(settings, dict):
        raise InputError("it is no object of settings", where=str(path))
    return settings


def _profile(network, options):
    """For each dynamic input (min, opt, max). A dim that nobody knows is an error: a server must not guess it."""
    profile, rows = {}, options.policy.max_batch
    for tensor in network.inputs:
        if -1 not in tensor.shape:
            continue
        shape = tuple(options.shapes.get(tensor.name) or (1 if i == 0 else d for i, d in enumerate(tensor.shape)))
        if -1 in shape or len(shape) != len(tensor.shape):
            raise InputError(f"its shape is [{', '.join(tensor.dim_names)}]: say what the dims are", where=f"input '{tensor.name}'",
                             hint=f"--shapes={tensor.name}:{'x'.join('1' if d == -1 else str(d) for d in tensor.shape)}, with your numbers")
        low, high = (tuple(given.get(tensor.name, shape)) for given in (options.min_shapes, options.max_shapes))
        if rows > 1:
            best = max(options.policy.preferred, default=rows)
            low, shape, high = (1, *low[1:]), (best, *shape[1:]), (rows, *high[1:])
        profile[tensor.name] = (low, shape, high)
    for given in (options.shapes, options.min_shapes, options.max_shapes):
        for name in given:
            if name not in {t.name for t in network.inputs}:
                raise InputError("the model has no such input", where=f"shapes['{name}']")
    return profile
