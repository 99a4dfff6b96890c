# SPDX-License-Identifier: Apache-2.0
"""Plugins of TensorRT's V3 interface in Python. A creator becomes a class of Lathe's plugin interface (lathe.Plugin): its instances hold
the plugin that the creator makes, and hand it types, shapes and the addresses of host memory."""
import copy

import numpy as np

import lathe

from . import _types as t
from ._layers import _Layer
from ._network import INetworkDefinition, NotSupported
from ._plugins import IPluginRegistry, registry

PluginFieldType = t._names("PluginFieldType", "FLOAT16 FLOAT32 FLOAT64 INT8 INT16 INT32 CHAR DIMS UNKNOWN BF16 INT64 FP8 INT4 FP4")
PluginCapabilityType = t._names("PluginCapabilityType", "CORE BUILD RUNTIME")
TensorRTPhase = t._names("TensorRTPhase", "BUILD RUNTIME")
DimensionOperation = t._names("DimensionOperation", "SUM PROD MAX MIN SUB EQUAL LESS FLOOR_DIV CEIL_DIV")

_NUMPY_OF_FIELD = {PluginFieldType.FLOAT16: np.float16, PluginFieldType.FLOAT32: np.float32, PluginFieldType.FLOAT64: np.float64,
                   PluginFieldType.INT8: np.int8, PluginFieldType.INT16: np.int16, PluginFieldType.INT32: np.int32,
                   PluginFieldType.DIMS: np.int32, PluginFieldType.INT64: np.int64}


class PluginField:
    """A name and values: an array of numpy, or text as bytes for CHAR."""

    def __init__(self, name="", data=None, type=PluginFieldType.UNKNOWN):  # noqa: A002
        self.name, self.type = name, type
        self.data = np.array([], np.int8) if data is None else np.frombuffer(data, np.int8) if isinstance(data, bytes) else np.asarray(data)

    size = property(lambda self: self.data.size)


class PluginFieldCollection(list):
    """Fields in order."""


class IPluginV3:
    """Derive from it and from the three capabilities, as for TensorRT; get_capability_interface() gives the object that has one."""

    def __init__(self, *_):
        pass

    def get_capability_interface(self, type):  # noqa: A002
        return self

    def clone(self):
        raise NotImplementedError("a plugin needs clone()")


class IPluginV3OneCore:
    """plugin_name, plugin_version, plugin_namespace."""

    def __init__(self, *_):
        pass


class IPluginV3OneBuild:
    """num_outputs, get_output_data_types, get_output_shapes, supports_format_combination; what is below may be left out.

    timing_cache_id: what decides the time of a run besides types and shapes, for timing caches; None: all fields. Tactics are numbers
    above 0."""

    timing_cache_id = None

    def __init__(self, *_):
        pass

    def configure_plugin(self, inp, out):
        pass

    def get_workspace_size(self, inp, out):
        return 0

    def get_valid_tactics(self):
        return []


class IPluginV3OneRuntime:
    """enqueue, attach_to_context, get_fields_to_serialize."""

    def __init__(self, *_):
        pass

    def on_shape_change(self, inp, out):
        pass

    def set_tactic(self, tactic):
        pass

    def attach_to_context(self, context):
        return self.clone()

    def get_fields_to_serialize(self):
        return PluginFieldCollection()


class IPluginCreatorV3One:
    """name, plugin_version, plugin_namespace, field_names, create_plugin(name, fields, phase)."""

    def __init__(self, *_):
        pass


class IDimensionExpr:
    """A dim: a number, or an expression of the dims of a network's inputs."""

    def __init__(self, dim):
        self._dim = dim

    def is_constant(self):
        return isinstance(self._dim, int)

    def get_constant_value(self):
        return self._dim if self.is_constant() else None

    def is_size_tensor(self):
        return False


class DimsExprs(list):
    """The dims of a tensor; from a number: so many, to be filled."""

    def __init__(self, dims=()):
        super().__init__([IDimensionExpr(0) for _ in range(dims)] if isinstance(dims, int) else dims)


class IExprBuilder:
    def constant(self, value):
        return IDimensionExpr(int(value))

    def operation(self, op, first, second):
        a, b = first._dim, second._dim
        of = {DimensionOperation.SUM: lambda: a + b, DimensionOperation.PROD: lambda: a * b, DimensionOperation.SUB: lambda: a - b,
              DimensionOperation.FLOOR_DIV: lambda: a // b, DimensionOperation.CEIL_DIV: lambda: (a + b - 1) // b,
              DimensionOperation.MAX: lambda: _extreme(max, "max", a, b), DimensionOperation.MIN: lambda: _extreme(min, "min", a, b)}
        if op not in of:
            raise NotSupported(f"DimensionOperation.{op.name}")
        return IDimensionExpr(of[op]())

    def declare_size_tensor(self, output_index, opt, upper):
        raise NotSupported("IExprBuilder.declare_size_tensor", "results whose size depends on data need a plugin library (docs/plugins.md)")


def _extreme(of_numbers, name, a, b):
    if isinstance(a, int) and isinstance(b, int):
        return of_numbers(a, b)
    return getattr(b, name)(a) if isinstance(a, int) else getattr(a, name)(b)


class PluginTensorDesc:
    def __init__(self, dtype, dims):
        self.type, self.format, self.dims, self.scale = dtype, t.TensorFormat.LINEAR, t.Dims(dims), 1.0


class DynamicPluginTensorDesc:
    """`desc` has -1 where a dim is dynamic; min, opt and max are told apart in configure_plugin()."""

    def __init__(self, dtype, dims):
        self.desc = PluginTensorDesc(dtype, dims)
        self.min = self.max = self.opt = self.desc.dims

    @classmethod
    def of_range(cls, dtype, low, opt, high):
        made = cls(dtype, [a if a == b else -1 for a, b in zip(low, high)])
        made.min, made.opt, made.max = t.Dims(low), t.Dims(opt), t.Dims(high)
        return made


class IPluginResourceContext:
    gpu_allocator = error_recorder = None


def _field(name, value, declared):
    """A node's attribute as a field of the type that the creator declares."""
    kind = declared.get(name, PluginFieldType.UNKNOWN)
    if isinstance(value, str):
        return PluginField(name, np.frombuffer(value.encode(), np.int8), PluginFieldType.CHAR)
    values = np.atleast_1d(np.asarray(value))
    if kind == PluginFieldType.UNKNOWN:
        kind = PluginFieldType.FLOAT32 if values.dtype.kind == "f" else PluginFieldType.INT32
    if kind not in _NUMPY_OF_FIELD:
        raise NotSupported(f"PluginFieldType.{kind.name}")
    return PluginField(name, values.astype(_NUMPY_OF_FIELD[kind]), kind)


def _attribute(field):
    """A field as an attribute of a node: what _field() reads."""
    if field.type == PluginFieldType.CHAR:
        return np.asarray(field.data).tobytes().decode()
    values = np.asarray(field.data)
    if values.dtype.kind == "f":
        return [float(v) for v in values.ravel()]
    return [int(v) for v in values.ravel()]


def operator_of(creator, namespace):
    """A class of Lathe's plugin interface that runs what the creator makes."""

    class Operator(lathe.Plugin):
        name, version = creator.name, str(creator.plugin_version)

        def __init__(self, fields):
            declared = {f.name: f.type for f in creator.field_names or ()}
            made = PluginFieldCollection(_field(name, value, declared) for name, value in fields.items())
            self.plugin = creator.create_plugin(creator.name, made, TensorRTPhase.BUILD)
            if self.plugin is None:
                raise ValueError(f"the creator of plugin '{creator.name}' made none")
            self.build = self.plugin.get_capability_interface(PluginCapabilityType.BUILD)
            self.running, self.shapes, self.tactic = None, None, 0

        def infer(self, inputs):
            if any(i is None for i in inputs):
                raise ValueError("an input is absent, which TensorRT's plugins do not know")
            types = [t.from_lathe(dtype) for dtype, _ in inputs]
            results = list(self.build.get_output_data_types(types))
            dims = [DimsExprs(IDimensionExpr(d) for d in shape) for _, shape in inputs]
            shapes = [[d._dim for d in shape] for shape in self.build.get_output_shapes(dims, [], IExprBuilder())]
            self._check_types([shape for _, shape in inputs], types, shapes, results)
            return [(t.lathe_name(dtype), tuple(shape)) for dtype, shape in zip(results, shapes)]

        def _check_types(self, in_shapes, in_types, out_shapes, out_types):
            known = [[d if isinstance(d, int) else -1 for d in shape] for shape in (*in_shapes, *out_shapes)]
            descs = [DynamicPluginTensorDesc(dtype, dims) for dtype, dims in zip((*in_types, *out_types), known)]
            for position in range(len(descs)):
                if not self.build.supports_format_combination(position, descs, len(in_types)):
                    raise ValueError(f"plugin '{creator.name}' does not take {descs[position].desc.type} as number {position} of its inputs "
                                     "and outputs, row-major")

        def attach(self):
            use = copy.copy(self)
            use.plugin = self.plugin.clone()
            use.build = use.plugin.get_capability_interface(PluginCapabilityType.BUILD)
            return use

        def configure(self, inputs, outputs):
            self.build.configure_plugin(*([DynamicPluginTensorDesc.of_range(t.from_lathe(dtype), *shapes) for dtype, shapes in operands]
                                          for operands in (inputs, outputs)))

        def tactics(self, inputs, outputs):
            return [int(tactic) for tactic in self.build.get_valid_tactics() or ()]

        def timing_key(self):
            return getattr(self.build, "timing_cache_id", None) or None

        def run(self, inputs, outputs, tactic):
            ins, outs = ([PluginTensorDesc(t.from_lathe(str(a.dtype)), a.shape) for a in arrays] for arrays in (inputs, outputs))
            if self.running is None:
                runtime = self.plugin.get_capability_interface(PluginCapabilityType.RUNTIME)
                self.running = runtime.attach_to_context(IPluginResourceContext()) or runtime
            if tactic and tactic != self.tactic:
                self.running.set_tactic(tactic)
                self.tactic = tactic
            shapes = [d.dims for d in (*ins, *outs)]
            if shapes != self.shapes:
                self.running.on_shape_change(ins, outs)
                self.shapes = shapes
                dynamic = [[DynamicPluginTensorDesc(d.type, d.dims) for d in descs] for descs in (ins, outs)]
                self.workspace = np.empty(max(1, int(self.build.get_workspace_size(*dynamic) or 0)), np.uint8)
            self.running.enqueue(ins, outs, [a.ctypes.data for a in inputs], [a.ctypes.data for a in outputs], self.workspace.ctypes.data, 0)

    Operator.namespace = namespace or creator.plugin_namespace or ""
    Operator.__name__ = creator.name
    return Operator


def register_creator(self, creator, plugin_namespace=""):
    """Makes the creator's plugin known to builders, parsers and runtimes. False where there is one of its name, version and namespace."""
    operator = operator_of(creator, plugin_namespace)
    try:
        self.add(operator)
    except lathe.Error:
        return False
    self._creators[operator.name, operator.version, operator.namespace] = creator
    return True


def get_creator(self, name, version="1", plugin_namespace=""):
    return self._creators.get((name, str(version), plugin_namespace))


IPluginRegistry.register_creator, IPluginRegistry.get_creator = register_creator, get_creator
IPluginRegistry.get_plugin_creator = get_creator


class IPluginV3Layer(_Layer):
    TYPE, FIELDS = t.LayerType.PLUGIN_V3, dict(plugin=None)

    def _emit(self, nb, inputs):
        core = self.plugin.get_capability_interface(PluginCapabilityType.CORE)
        runtime = self.plugin.get_capability_interface(PluginCapabilityType.RUNTIME)
        key = core.plugin_name, str(core.plugin_version), core.plugin_namespace or ""
        if registry().get_creator(*key) is None:
            raise lathe.InputError("no creator of this plugin is registered", where=f"layer '{self.name}' (plugin '{key[0]}')",
                                   hint="call get_plugin_registry().register_creator(creator, namespace) first")
        attributes = {f.name: _attribute(f) for f in runtime.get_fields_to_serialize() or ()}
        if key[2]:
            attributes["plugin_namespace"] = key[2]
        nb.use_plugins(registry()._plugins)
        return nb.op(key[0], inputs, outputs=self.OUTPUTS, name=self.name, plugin_version=key[1], **attributes)


def add_plugin_v3(self, inputs, shape_inputs, plugin):
    if shape_inputs:
        raise NotSupported("INetworkDefinition.add_plugin_v3 with shape inputs")
    count = plugin.get_capability_interface(PluginCapabilityType.BUILD).num_outputs
    return self._add(type("IPluginV3Layer", (IPluginV3Layer,), {"OUTPUTS": count}), list(inputs), plugin=plugin)


INetworkDefinition.add_plugin_v3 = add_plugin_v3
