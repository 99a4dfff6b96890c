# SPDX-License-Identifier: Apache-2.0
"""torch.compile(model, backend="lathe"): PyTorch captures graphs and exports them to ONNX, and engines run them.

An engine is built at a graph's first call, for the shapes of that call; other shapes get engines of their own. Weights become part of the
engine. When they have changed (their version counters tell), it is built anew. A graph that cannot be one (gradients, mutated inputs, random
numbers, other devices, an operator that is missing) runs in eager mode, with one warning that says why; options={"fallback": False} raises
instead.
"""
import contextlib
import io
import logging
import warnings

import torch

from ._compile import compile as compile_engine
from ._errors import Error, InputError

ENGINES_OF_A_GRAPH = 16  # of different shapes; more of them run in eager mode
TOLERANCE = 0.1  # INT8 and BF16 engines round; a wrong export is farther off

_TENSOR = object()
_OPTIONS = {"precision": "model", "level": 1, "threads": 0, "timing_cache": None, "fallback": True}


class NoEngine(Exception):
    """Why a graph runs in eager mode."""


def lathe_backend(graph, example_inputs, *, options=None):
    """Torch calls this for each graph that it captures. options: precision, level, threads and timing_cache as of lathe.compile; fallback."""
    for name in options or {}:
        if name not in _OPTIONS:
            raise InputError("there is no such option", where=f"options['{name}']", hint="take some of " + ", ".join(_OPTIONS))
    return _Graph(graph, example_inputs, {**_OPTIONS, **(options or {})})


class _Graph:
    """What runs a graph: an engine for each set of shapes."""

    def __init__(self, graph, example_inputs, options):
        self._graph, self._options, self._engines = graph, options, {}
        # Parameters and buffers come as inputs, always the same ones.
        self._weights = [i for i, (node, value) in enumerate(zip(_placeholders(graph), example_inputs)) if _is_weight(node, value)]
        self._others = [i for i in range(len(example_inputs)) if i not in set(self._weights)]
        self._versions = None
        self._reason = None

    def __call__(self, *inputs):
        if self._reason is None:
            try:
                return self._run(inputs)
            except NoEngine as error:
                if not self._options["fallback"]:
                    raise InputError("it has no engine", where="a graph of torch.compile", why=str(error)) from error.__cause__
                self._reason = str(error)
                warnings.warn(f"lathe: a graph runs in eager mode: {error}", stacklevel=2)
        return self._graph(*inputs)

    def _run(self, inputs):
        if torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in inputs):
            raise NoEngine("gradients are wanted: engines have none; call the model under torch.no_grad()")
        versions = [_version(inputs[i]) for i in self._weights]
        if versions != self._versions:
            self._engines, self._versions = {}, versions
        key = tuple(v.shape if isinstance(v, torch.Tensor) else v for v in map(inputs.__getitem__, self._others))  # torch guards the rest
        engine = self._engines.get(key)
        if engine is None:
            if len(self._engines) == ENGINES_OF_A_GRAPH:
                raise NoEngine(f"it was called with more than {ENGINES_OF_A_GRAPH} sets of shapes")
            engine = self._engines[key] = _Exported(self._graph, inputs, set(self._weights), self._options)
        return engine(inputs)


class _Exported:
    """The engine of a graph for some shapes."""

    def __init__(self, graph, inputs, weights, options):
        for value in inputs:
            if isinstance(value, torch.Tensor) and value.device.type != "cpu":
                raise NoEngine(f"a tensor is on {value.device}: the bindings take host memory")
        self._given = [i for i, v in enumerate(inputs) if isinstance(v, torch.Tensor) and i not in weights]
        closed = _Closed(graph, inputs, self._given)
        model, tensors = _export(closed, tuple(inputs[i] for i in self._given))
        try:
            self._engine = compile_engine(model, precision=options["precision"], level=options["level"], threads=options["threads"],
                                          timing_cache=options["timing_cache"], progress=False)
        except Error as error:
            raise NoEngine(str(error)) from error
        self._inputs = [(t.name, self._given[int(t.name.removeprefix("in"))]) for t in self._engine.inputs]
        self._outputs, self._tensors = [t.name for t in self._engine.outputs], tensors
        with torch.no_grad():
            self._eager = graph(*inputs)  # also has what is no tensor
        for one, other in zip(self(inputs), self._eager):
            _check_alike(one, other)
        self._eager = [_TENSOR if isinstance(value, torch.Tensor) else value for value in self._eager]

    def __call__(self, inputs):
        results = self._engine(**{name: inputs[i].detach().contiguous() for name, i in self._inputs})
        arrays = results if isinstance(results, dict) else {self._outputs[0]: results}
        tensors = iter(torch.from_numpy(arrays[name]) for name in self._tensors)
        return tuple(next(tensors) if value is _TENSOR or isinstance(value, torch.Tensor) else value for value in self._eager)


class _Closed(torch.nn.Module):
    """The graph as a function of its tensors alone: weights are buffers, numbers are constants."""

    def __init__(self, graph, inputs, given):
        super().__init__()
        self._graph, self._given = graph, given
        self._constants = {i: v for i, v in enumerate(inputs) if not isinstance(v, torch.Tensor)}
        self._count = len(inputs)
        for i, value in enumerate(inputs):
            if isinstance(value, torch.Tensor) and i not in given:
                self.register_buffer(f"weight{i}", value.detach())

    def forward(self, *tensors):
        given = dict(zip(self._given, tensors))
        values = [given[i] if i in given else self._constants[i] if i in self._constants else getattr(self, f"weight{i}") for i in range(self._count)]
        return tuple(r for r in self._graph(*values) if isinstance(r, torch.Tensor))


def _placeholders(graph):
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def _is_weight(node, value):
    return isinstance(value, torch.nn.Parameter) or bool(node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type"))


def _version(tensor):
    return (tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version)


def _check_alike(one, other):
    """The first results are compared with eager mode's: an export that means something else is no engine."""
    if not isinstance(other, torch.Tensor):
        return
    if one.dtype != other.dtype or one.shape != other.shape:
        raise NoEngine(f"a result is {one.dtype} {tuple(one.shape)} instead of {other.dtype} {tuple(other.shape)}")
    if other.is_floating_point() and bool(other.isfinite().all()):
        error = float((one.double() - other.double()).norm() / (other.double().norm() + 1e-12))
        if not error <= TOLERANCE:
            raise NoEngine(f"a result is {error:.2g} (relative L2) from eager mode's")


def _export(module, inputs):
    """The module as the bytes of an ONNX model with inputs in0, in1, ..., and the names of its results."""
    with torch.no_grad(), _quiet():
        try:
            program = torch.export.export(module, inputs, strict=False)
        except Exception as error:
            raise NoEngine(f"torch.export failed: {_first_line(error)}") from error
        _check_pure(program)
        count = len(program.graph_signature.user_outputs)
        names = [f"out{i}" for i in range(count)]
        try:
            exported = torch.onnx.export(program, inputs, dynamo=True, optimize=True, verbose=False,
                                         input_names=[f"in{i}" for i in range(len(inputs))], output_names=names)
            file = io.BytesIO()
            exported.save(file)
        except ImportError as error:
            raise NoEngine(f"torch.onnx needs a package: {error} (pip install 'lathe[torch]')") from error
        except Exception as error:
            raise NoEngine(f"torch.onnx has no such model: {_first_line(error)}") from error
    return file.getvalue(), names


def _check_pure(program):
    calls = [n for n in program.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    for node in calls:
        names = [a.name for a in node.target._schema.arguments]
        settings = dict(zip(names, node.args)) | node.kwargs
        if settings.get("train") is True or settings.get("training") is True:
            raise NoEngine(f"it trains ({node.target}): call eval() on the model")
        is_off = settings.get("train") is False or ("dropout_p" in names and settings.get("dropout_p", 0.0) == 0.0)
        if torch.Tag.nondeterministic_seeded in node.target.tags and not is_off:
            raise NoEngine(f"it has random numbers ({node.target})")
    # Only a program without writes in place tells what of them is seen outside.
    signature = (program.run_decompositions({}) if any(n.target._schema.is_mutable for n in calls) else program).graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        raise NoEngine("it writes to its inputs or buffers")


@contextlib.contextmanager
def _quiet():
    """torch.onnx prints its progress and logs what it does not register."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _first_line(error):
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}"
