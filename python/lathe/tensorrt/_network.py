# SPDX-License-Identifier: Apache-2.0
"""INetworkDefinition: layers are recorded, since TensorRT lets their attributes change after they were added, and become layers of
lathe.NetworkBuilder when a shape is asked for or an engine is built."""
import lathe

from . import _types as t
from ._logger import told


class NotSupported(NotImplementedError):
    """A name of TensorRT that lathe.tensorrt has not, or a use of it that it cannot honour."""

    def __init__(self, name, why=""):
        super().__init__(f"{name} is not supported by lathe.tensorrt{': ' + why if why else ''}")


_FORMATS = {t.TensorFormat.LINEAR: "chw", t.TensorFormat.HWC: "hwc", t.TensorFormat.DHWC: "dhwc", t.TensorFormat.HWC8: "hwc8",
            t.TensorFormat.HWC16: "hwc16", t.TensorFormat.DHWC8: "dhwc8", t.TensorFormat.CHW16: "chw16"}


DEBUG = "debug:"  # in front of the name of a marked tensor


class ITensor:
    def __init__(self, network, name, layer=None, dtype=None, shape=None):
        self._network, self._name, self._layer = network, name, layer
        self._dtype, self._shape, self._dim_names = dtype, shape, {}
        self._io_dtype, self._formats = None, 1 << t.TensorFormat.LINEAR

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, name):
        if self._network._is_parsed(self) and name != self._name:
            raise NotSupported("ITensor.name of a parsed tensor", "rename it in the ONNX model")
        self._name = name
        self._network._changed()

    @property
    def shape(self):
        if self._shape is not None:
            return t.Dims(self._shape)
        return t.Dims(self._network._value(self).shape)

    @shape.setter
    def shape(self, shape):
        if not self.is_network_input:
            raise ValueError(f"only the shapes of network inputs can be set, '{self._name}' is none")
        self._shape = tuple(shape)
        self._network._changed()

    @property
    def dtype(self):
        if self._io_dtype is not None:
            return self._io_dtype
        return self._dtype if self._dtype is not None else t.from_lathe(self._network._value(self).dtype)

    @dtype.setter
    def dtype(self, dtype):
        if self._network._is_parsed(self) and (self.is_network_input or self.is_network_output):
            self._io_dtype = dtype  # a cast at the network's edge, when the engine is built
            return
        self._dtype = dtype
        self._network._changed()

    @property
    def is_network_input(self):
        return any(self is i for i in self._network._inputs)

    @property
    def is_network_output(self):
        return any(self is o for o in self._network._outputs)

    @property
    def is_shape_tensor(self):
        return False

    @property
    def is_execution_tensor(self):
        return True

    location = property(lambda self: t.TensorLocation.DEVICE)
    broadcast_across_batch = property(lambda self: False)
    dynamic_range = property(lambda self: None)

    @property
    def allowed_formats(self):
        return self._formats

    @allowed_formats.setter
    def allowed_formats(self, formats):
        if not any(formats & (1 << f) for f in _FORMATS):
            raise NotSupported("ITensor.allowed_formats", "none of these; engines have LINEAR, HWC, HWC8, HWC16, DHWC and DHWC8, and CHW16 "
                               "where no channel is padded")
        self._formats = formats

    def _format(self):
        """The first of the allowed formats that engines have, as lathe calls it."""
        return next(name for f, name in _FORMATS.items() if self._formats & (1 << f))

    def set_dimension_name(self, index, name):
        self._dim_names[index] = name
        self._network._changed()

    def get_dimension_name(self, index):
        if index in self._dim_names:
            return self._dim_names[index]
        text = self._network._value(self).dim_names[index]
        return "" if text.isdigit() else text

    def set_dynamic_range(self, low, high):
        raise NotSupported("ITensor.set_dynamic_range", "put QuantizeLinear and DequantizeLinear into the model")

    def __repr__(self):
        return f"<ITensor {self._name}>"


class ILayer:
    """A recorded layer. Derived classes have TYPE, FIELDS (names of attributes and their defaults) and _emit."""

    TYPE, FIELDS, OUTPUTS = None, {}, 1

    def __init__(self, network, inputs, **fields):
        number = len(network._layers)
        self.__dict__.update(_network=network, _inputs=list(inputs), _number=number, metadata="", _types={})
        self.__dict__.update(self.FIELDS)
        self.__dict__.update(fields)
        self.__dict__["_name"] = f"(Unnamed Layer* {number}) [{self.TYPE.name.title()}]"
        self.__dict__["_results"] = [ITensor(network, f"{self._name}_output" + (f"_{i}" if i else ""), self)
                                     for i in range(self.OUTPUTS)]

    def __setattr__(self, name, value):
        if not name.startswith("_") and name not in self.__dict__ and not hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")
        super().__setattr__(name, value)
        self._network._layer_changed(self)

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, name):
        self.__dict__["_name"] = name

    type = property(lambda self: self.TYPE)
    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self._results))
    precision_is_set = property(lambda self: False)

    @property
    def precision(self):
        return t.DataType.FLOAT

    @precision.setter
    def precision(self, dtype):
        raise NotSupported("ILayer.precision", "types come from the network; add casts where a layer needs another one")

    def get_input(self, index):
        return self._inputs[index] if index < len(self._inputs) else None

    def set_input(self, index, tensor):
        self._inputs.extend([None] * (index + 1 - len(self._inputs)))
        self._inputs[index] = tensor
        self._network._layer_changed(self)

    def get_output(self, index):
        return self._results[index] if index < len(self._results) else None

    def set_output_type(self, index, dtype):
        self._types[index] = dtype
        self._network._layer_changed(self)

    def get_output_type(self, index):
        return self._types.get(index, self.get_output(index).dtype)

    def output_type_is_set(self, index):
        return index in self._types

    def _reads(self):
        """All tensors that the layer depends on."""
        return self._inputs

    def _made_of(self):
        """The tensors whose values _emit gets."""
        return self._inputs

    def _emit(self, nb, inputs):
        raise NotImplementedError

    def _emit_all(self, nb, inputs):
        """Results, as a list, in the types that were set."""
        results = self._emit(nb, inputs)
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        for index, dtype in self._types.items():
            if results[index].dtype != t.lathe_name(dtype):
                results[index] = nb.cast(results[index], t.lathe_name(dtype))
        return results

    def _constant(self, index):
        """The elements of a constant input; None where the input is none or is not one."""
        tensor = self.get_input(index)
        layer = tensor._layer if tensor is not None else None
        return layer.weights_array if layer is not None and layer.TYPE == t.LayerType.CONSTANT else None


class ParsedLayer:
    """A node of a parsed model, to be read. Its types hold in builds with OBEY_PRECISION_CONSTRAINTS or PREFER_PRECISION_CONSTRAINTS."""

    def __init__(self, network, node):
        self._network, self._node = network, node
        self.name, self.metadata = node["name"], f"[ONNX Layer: {node['name']}]"

    @property
    def _demanded(self):
        """[what it computes in or None, types of outputs by index]; kept by the network, as layers are made anew when they are asked for."""
        return self._network._layer_types.setdefault(self._node["name"], [None, {}])

    @property
    def precision(self):
        return t.DataType.FLOAT if self._demanded[0] is None else self._demanded[0]

    @precision.setter
    def precision(self, dtype):
        self._demanded[0] = dtype

    precision_is_set = property(lambda self: self._demanded[0] is not None)

    def reset_precision(self):
        self._demanded[0] = None

    def set_output_type(self, index, dtype):
        self._demanded[1][index] = dtype

    def get_output_type(self, index):
        return self._demanded[1].get(index, self.get_output(index).dtype)

    def output_type_is_set(self, index):
        return index in self._demanded[1]

    def reset_output_type(self, index):
        self._demanded[1].pop(index, None)

    op_type = property(lambda self: self._node["op_type"])
    num_inputs = property(lambda self: len(self._node["inputs"]))
    num_outputs = property(lambda self: len(self._node["outputs"]))
    _LIKE = {"CONV": "CONVOLUTION", "CONVTRANSPOSE": "DECONVOLUTION", "MATMUL": "MATRIX_MULTIPLY", "POOL": "POOLING", "CONCAT":
             "CONCATENATION", "RESHAPE": "SHUFFLE", "TRANSPOSE": "SHUFFLE", "GATHER": "GATHER", "REDUCE": "REDUCE", "RELU": "ACTIVATION",
             "ADD": "ELEMENTWISE", "SUB": "ELEMENTWISE", "MUL": "ELEMENTWISE", "DIV": "ELEMENTWISE", "POW": "ELEMENTWISE",
             "SIGMOID": "ACTIVATION", "TANH": "ACTIVATION", "LAYERNORM": "NORMALIZATION", "GROUPNORM": "NORMALIZATION",
             "BATCHNORM": "SCALE", "QUANTIZELINEAR": "QUANTIZE", "DEQUANTIZELINEAR": "DEQUANTIZE", "WHERE": "SELECT"}

    @property
    def type(self):
        name = self.op_type.upper()
        return getattr(t.LayerType, self._LIKE.get(name, name), t.LayerType.UNARY)

    def get_input(self, index):
        return self._network._parsed_tensor(self._node["inputs"][index])

    def get_output(self, index):
        return self._network._parsed_tensor(self._node["outputs"][index])

    def __getattr__(self, name):
        raise NotSupported(f"{name} of a parsed layer")


class Scope:
    """A body while it is filled: what depends on `sources` is made there, anything else is read from the scope around it."""

    def __init__(self, network, nb, values, sources):
        self.network, self.nb, self.values, self.sources, self.parent = network, nb, values, sources, network._scope

    def value(self, tensor):
        if tensor in self.values:
            return self.values[tensor]
        layer = tensor._layer
        if layer is None or not _depends(layer, self.sources):
            return self.parent.value(tensor) if self.parent is not None else self.network._outside_of_bodies(tensor)
        self.network._layers_made.add(layer)
        inputs = [None if i is None else self.value(i) for i in layer._made_of()]
        around, self.network._scope = self.network._scope, self
        try:
            self.values.update(zip(layer._results, layer._emit_all(self.nb, inputs)))
        finally:
            self.network._scope = around
        return self.values[tensor]


def _depends(layer, sources):
    seen, pending = set(), [layer]
    while pending:
        layer = pending.pop()
        if layer in sources:
            return True
        if layer not in seen:
            seen.add(layer)
            pending += [i._layer for i in layer._reads() if i is not None and i._layer is not None]
    return False


class INetworkDefinition:
    def __init__(self, logger, flags=0, builder=None):
        self.logger, self.flags, self.builder = logger, flags, builder
        self.name, self.error_recorder = "Unnamed Network", None
        self._model, self._nodes, self._parsed_tensors = None, [], {}
        self._inputs, self._outputs, self._layers, self._debug = [], [], [], []
        self._layer_types = {}  # of parsed layers, by name: ParsedLayer._demanded
        self._changed()

    has_implicit_batch_dimension = property(lambda self: False)
    num_inputs = property(lambda self: len(self._inputs))
    num_outputs = property(lambda self: len(self._outputs))

    def get_flag(self, flag):
        return bool(self.flags & (1 << flag))

    def get_input(self, index):
        return self._inputs[index] if index < len(self._inputs) else None

    def get_output(self, index):
        return self._outputs[index] if index < len(self._outputs) else None

    def _demand_types(self, settings):
        """Tells a BuilderConfig the types that were set on parsed layers."""
        outputs = {node["name"]: len(node["outputs"]) for node in self._nodes}
        for name, (compute, types) in self._layer_types.items():
            if types and len(types) < outputs[name]:
                raise NotSupported("ILayer.set_output_type", f"layer {name} has {outputs[name]} outputs; set the types of all")
            if compute is not None or types:
                settings.set_layer_precision(name, None if compute is None else t.lathe_name(compute),
                                             [t.lathe_name(types[i]) for i in sorted(types)])

    # --- layers
    @property
    def num_layers(self):
        return len(self._nodes) + len(self._layers)

    def get_layer(self, index):
        parsed = len(self._nodes)
        return ParsedLayer(self, self._nodes[index]) if index < parsed else self._layers[index - parsed]

    def __len__(self):
        return self.num_layers

    def __getitem__(self, index):
        if index >= self.num_layers:
            raise IndexError(index)
        return self.get_layer(index)

    def __iter__(self):
        return (self.get_layer(i) for i in range(self.num_layers))

    def _add(self, layer_class, inputs=(), /, **fields):
        layer = layer_class(self, inputs, **fields)
        self._layers.append(layer)
        return layer

    # --- inputs and outputs
    def add_input(self, name, dtype, shape):
        if any(i.name == name for i in self._inputs):
            told(self.logger, self.error_recorder, f"there is an input '{name}' already", t.ErrorCodeTRT.INVALID_ARGUMENT)
            return None
        tensor = ITensor(self, name, dtype=dtype, shape=tuple(shape))
        self._inputs.append(tensor)
        self._changed()
        return tensor

    def mark_output(self, tensor):
        if not tensor.is_network_output:
            self._outputs.append(tensor)

    def unmark_output(self, tensor):
        self._outputs = [o for o in self._outputs if o is not tensor]

    def mark_output_for_shapes(self, tensor):
        self.mark_output(tensor)
        return True

    def remove_tensor(self, tensor):
        self._inputs = [i for i in self._inputs if i is not tensor]

    def mark_debug(self, tensor):
        """Keeps the tensor through fusion: it becomes an output with DEBUG in front of its name, which the runtime binds itself."""
        if not any(tensor is d for d in self._debug):
            self._debug.append(tensor)
        return True

    def unmark_debug(self, tensor):
        self._debug = [d for d in self._debug if d is not tensor]
        return True

    def is_debug_tensor(self, tensor):
        return any(tensor is d for d in self._debug)

    def mark_unfused_tensors_as_debug_tensors(self):
        return True  # they are: nothing has to be kept for them

    unmark_unfused_tensors_as_debug_tensors = mark_unfused_tensors_as_debug_tensors

    def set_weights_name(self, weights, name):
        raise NotSupported("INetworkDefinition.set_weights_name", "constants are called as their layers")

    def add_plugin_v2(self, *_):
        raise NotSupported("INetworkDefinition.add_plugin_v2")

    def add_moe(self, *_):
        raise NotSupported("INetworkDefinition.add_moe")

    def add_dist_collective(self, *_):
        raise NotSupported("INetworkDefinition.add_dist_collective")

    # --- a parsed model
    def _set_model(self, model):
        self._model, self._nodes = model, model.layers
        self._inputs += [self._parsed_tensor(i.name) for i in model.inputs]
        self._outputs += [self._parsed_tensor(o.name) for o in model.outputs]
        self._changed()

    def _parsed_tensor(self, name):
        return self._parsed_tensors.setdefault(name, ITensor(self, name))

    def _is_parsed(self, tensor):
        return self._parsed_tensors.get(tensor._name) is tensor

    # --- what it becomes
    def _changed(self):
        self._nb, self._values, self._emitted, self._scope, self._layers_made = None, {}, 0, None, set()

    def _layer_changed(self, layer):
        """What was made of the layers stays, unless the layer is part of it."""
        if layer in self._layers_made:
            self._changed()

    def _begin(self):
        nb = lathe.NetworkBuilder(self._model) if self._model is not None else lathe.NetworkBuilder(self.name)
        for tensor in self._inputs:
            names = [tensor._dim_names.get(i, "") for i in range(len(tensor._shape or ()))]
            if not self._is_parsed(tensor):
                self._values[tensor] = nb.input(tensor.name, t.lathe_name(tensor._dtype), list(tensor._shape), names)
            elif tensor._shape is not None:
                nb.set_input_shape(tensor.name, list(tensor._shape))
        return nb

    def _value(self, tensor):
        """The tensor of lathe.NetworkBuilder that a tensor is, in the body that is being filled; layers up to its own are made."""
        return self._scope.value(tensor) if self._scope is not None else self._outside_of_bodies(tensor)

    def _outside_of_bodies(self, tensor):
        scope, self._scope = self._scope, None
        try:
            return self._made(tensor)
        finally:
            self._scope = scope

    def _made(self, tensor):
        if self._nb is None:
            self._nb = self._begin()
        if tensor in self._values:
            return self._values[tensor]
        if tensor._layer is None:
            return self._nb.find(tensor.name)
        while tensor not in self._values and self._emitted <= tensor._layer._number:
            self._emitted += 1
            self._make(self._layers[self._emitted - 1])
        if tensor not in self._values:
            self._make(tensor._layer)
        return self._values[tensor]

    def _make(self, layer):
        if any(r in self._values for r in layer._results):
            return
        self._layers_made.add(layer)
        inputs = [None if i is None else self._value(i) for i in layer._made_of()]
        for result, value in zip(layer._results, layer._emit_all(self._nb, inputs)):
            self._values[result] = value

    def _finish(self):
        """The lathe.Network of the layers so far."""
        if self._nb is None:
            self._nb = self._begin()
        for layer in self._layers:
            if layer.TYPE == t.LayerType.ASSERTION:  # nothing reads it
                layer._emit(self._nb, [])
        values = [(o, self._value(o)) for o in self._outputs]
        debug = [(DEBUG + d.name, self._value(d)) for d in self._debug]
        self._nb.clear_outputs()
        for name, value in debug:
            self._nb.output(self._nb.identity(value), name)
        for tensor, value in values:
            wanted = t.lathe_name(tensor._dtype) if tensor._dtype is not None else value.dtype
            self._nb.output(value if value.dtype == wanted else self._nb.cast(value, wanted), tensor.name)
        network = self._nb.finish()
        self._changed()  # outputs have taken their names
        return network
