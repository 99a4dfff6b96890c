# SPDX-License-Identifier: Apache-2.0
"""The simple way: a model in, an engine out."""
import os

from ._core import Builder, BuilderConfig, Engine, Network, NetworkBuilder, OptimizationProfile, Refitter, Runtime
from ._errors import InputError
from ._progress import default_progress

_PRECISIONS = ("model", "fp16", "bf16", "best")


def compile(model, shapes=None, precision="model", *, level=3, device="cpu", threads=0, timing_cache=None, time_budget_seconds=-1,
            progress=None, save=None, plugins=None, io=None, lengths=None, layer_precisions=None, fast_load=False):
    """Builds an engine for this machine.

    model: the path of an ONNX file, or its bytes, a Network or a NetworkBuilder.
    shapes: for each dynamic input its shape, or (min, opt, max) of its shapes; unknown dims are 1 without it.
        {"x": (8, 3, 224, 224)} or {"x": ((1, 3, 224, 224), (8, 3, 224, 224), (32, 3, 224, 224))}
    precision: "model": the types of the model. "fp16", "bf16", "best": layers may compute in these types, too (best: all that the
        device has); the faster engine is kept.
    level: 0 (nothing is timed, seconds) to 5 (everything is).
    device: "cpu", the number of a GPU as text, or "auto".
    threads: of the CPU; 0: all that this process may use.
    timing_cache: the path of a file of measured times, which is read and then merged into.
    time_budget_seconds: for tuning; -1: by level.
    progress: None: a bar on a terminal; False: nothing; a function (stage, done, total, remaining_seconds), which ends the build
        with False or an exception.
    save: where the engine file is written, for lathe.load().
    plugins: a PluginRegistry with the custom operators of the model.
    io: for inputs and outputs that differ from the model's a type, a format, or both: {"image": ("uint8", "hwc")}. Another type is a
        cast; "hwc" is memory with channels last (the shape stays logical, N, C, height, width), "hwc8" and "hwc16" with channels padded
        to a multiple.
    lengths: how many tensors an input has that is a sequence, or an optional (0 or 1): {"x": 3}. Those of a sequence are the engine's inputs
        x_0, x_1, x_2, which `shapes` may name; engine(x=[a, b, c]) gives it all three. A sequence that is an output becomes outputs in the
        same way.

    fast_load: the engine file has weights as kernels read them beside those of the model: up to 2.5 times as large, and nothing is packed at
        load. Else each weight is in it once.
    layer_precisions: what single layers compute in, by the names of ONNX nodes; '*' stands for any text, and a whole name counts before a
        pattern: {"*": "float16", "/head/MatMul": "float32"}. It needs no `precision`, which lets the other layers choose. A named layer
        without a tactic of its type is an InputError.

    Raises InputError for a model, shape or option that cannot be, DeviceError for files and devices, Cancelled.
    """
    if precision not in _PRECISIONS:
        raise InputError(f"there is no precision '{precision}'", where="precision", hint="take one of " + ", ".join(_PRECISIONS))
    builder = Builder(device, threads, plugins=plugins)
    if not isinstance(model, (Network, NetworkBuilder)):
        builder.set_open_inputs(lengths or {}, {name: list(given) for name, given in (shapes or {}).items() if _is_shape(given)})
    network = _network(builder, model)
    config = BuilderConfig()
    config.optimization_level = level
    config.time_budget_seconds = time_budget_seconds
    config.fast_load = fast_load
    if precision != "model":
        setattr(config, precision, True)
    for layer, dtype in (layer_precisions or {}).items():
        config.set_layer_precision(layer, dtype)
    for name, given in (io or {}).items():
        config.set_io(name, *_io_type(name, given))
    if shapes:
        config.add_profile(_profile(network, shapes))
    if timing_cache is not None:
        config.timing_cache.load(os.fspath(timing_cache))
    with default_progress(progress) as tell:
        engine = builder.build(network, config, tell)
    if timing_cache is not None:
        config.timing_cache.save(os.fspath(timing_cache))
    if save is not None:
        engine.save(os.fspath(save))
    return engine


def load(engine, *, device="cpu", threads=0, plugins=None):
    """The engine of a file, or of its bytes. Raises InputError when it is damaged, needs plugins that are not in `plugins`, or was made for
    another device only."""
    runtime = Runtime(device, threads, plugins=plugins)
    return runtime.load_bytes(engine) if isinstance(engine, bytes) else runtime.load(os.fspath(engine))


def refit(engine, weights, *, device="cpu", threads=0, plugins=None):
    """The engine with other weights, in a fraction of a build's time: tactics stay, nothing is timed.

    engine: an Engine, or the path or bytes of an engine file, one that save_stripped() wrote, too.
    weights: the path or bytes of an ONNX model with the same layers, or a dict of arrays by the names of initializers; Refitter.weights
        lists them.

    Raises InputError for weights that are unknown, missing, of another shape, or that lead to other layers.
    """
    refitter = Refitter(engine if isinstance(engine, (bytes, Engine)) else os.fspath(engine), device, threads,
                        plugins=plugins)
    if isinstance(weights, bytes):
        refitter.set_from_onnx_bytes(weights)
    elif isinstance(weights, dict):
        for name, values in weights.items():
            refitter.set(name, values)
    else:
        refitter.set_from_onnx(os.fspath(weights))
    return refitter.refit()


def check(model):
    """Whether a model can be imported: a dict of supported, reason and unsupported_nodes (name, op_type and reason of each)."""
    return Builder().check_onnx(os.fspath(model))


_FORMATS = ("chw", "hwc", "dhwc", "hwc8", "hwc16", "dhwc8", "chw16")


def _io_type(name, given):
    """(type or None, format) of "uint8", "hwc" or ("uint8", "hwc")."""
    words = [given] if isinstance(given, str) else list(given)
    formats = [w for w in words if w in _FORMATS]
    types = [w for w in words if w not in _FORMATS]
    if len(formats) > 1 or len(types) > 1:
        raise InputError("it is no type and format", where=f"io['{name}']", why=f"it is {given}", hint='for example ("uint8", "hwc")')
    return (types[0] if types else None), (formats[0] if formats else "chw")


def _network(builder, model):
    if isinstance(model, (Network, NetworkBuilder)):
        return model.finish() if isinstance(model, NetworkBuilder) else model
    return builder.parse_onnx_bytes(model) if isinstance(model, bytes) else builder.parse_onnx(os.fspath(model))


def _profile(network, shapes):
    profile = OptimizationProfile()
    inputs = {t.name: t for t in network.inputs}
    for name, given in shapes.items():
        if name not in inputs:
            raise InputError("the model has no such input", where=f"shapes['{name}']", hint="its inputs are " + ", ".join(inputs))
        low, opt, high = _range(name, given)
        if inputs[name].is_shape_tensor:
            profile.set_values(name, low, opt, high)
        elif -1 in inputs[name].shape or tuple(opt) != inputs[name].shape:
            profile.set_shape(name, low, opt, high)
    return profile


def _is_shape(given):
    return all(isinstance(d, int) for d in given)


def _range(name, given):
    given = list(given)
    if _is_shape(given):
        return given, given, given
    if len(given) == 3 and all(not isinstance(d, int) for d in given):
        return [list(part) for part in given]
    raise InputError("it is neither a shape nor (min, opt, max)", where=f"shapes['{name}']", why=f"it is {given}",
                     hint="for example (8, 224) or ((1, 224), (8, 224), (32, 224))")
