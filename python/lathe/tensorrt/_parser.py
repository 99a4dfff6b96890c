# SPDX-License-Identifier: Apache-2.0
"""OnnxParser."""
import ctypes
import os

import lathe

from . import _types as t
from ._logger import line_of
from ._network import NotSupported
from ._plugins import registry


class ParserError:
    def __init__(self, desc, node="", operator="", code=t.ErrorCode.INVALID_GRAPH):
        self._desc, self._node, self._operator, self._code = desc, node, operator, code

    def code(self):
        return self._code

    def desc(self):
        return self._desc

    def node_name(self):
        return self._node

    def node_operator(self):
        return self._operator

    def node(self):
        return 0

    def file(self):
        return ""

    def line(self):
        return 0

    def func(self):
        return ""

    def local_function_stack(self):
        return []

    def local_function_stack_size(self):
        return 0

    def __str__(self):
        return f"node '{self._node}' ({self._operator}): {self._desc}" if self._node else self._desc

    __repr__ = __str__


def _folder_of(path):
    """Where external weights lie; empty: there are none."""
    return os.path.dirname(os.path.abspath(path)) if path else ""


def _is_model(data):
    """Whether the bytes are a protobuf message with a graph, field 7 of a model."""
    at, has_graph = 0, False
    try:
        while at < len(data):
            key, at = _varint(data, at)
            has_graph |= key == (7 << 3 | 2)
            if key & 7 == 2:
                length, at = _varint(data, at)
            else:
                length = _varint(data, at)[1] - at if key & 7 == 0 else {1: 8, 5: 4}[key & 7]
            at += length
    except (IndexError, KeyError):
        return False
    return has_graph and at == len(data)


def _varint(data, at):
    value = shift = 0
    while True:
        value, shift, at = value | (data[at] & 0x7F) << shift, shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


class OnnxParser:
    def __init__(self, network, logger):
        self.network, self.logger, self._errors, self.flags = network, logger, [], 1
        self._loaded, self._weights = None, {}

    num_errors = property(lambda self: len(self._errors))

    def get_error(self, index):
        return self._errors[index]

    def clear_errors(self):
        self._errors = []

    def parse(self, model, path=None):
        return self._parse(bytes(model), _folder_of(path))

    parse_with_weight_descriptors = parse

    def parse_from_file(self, model):
        builder = self._builder()
        try:
            self.network._set_model(builder.parse_onnx(os.fspath(model)))
            return True
        except lathe.DeviceError as error:
            self._add(ParserError(error.what, code=t.ErrorCode.MODEL_DESERIALIZE_FAILED))
        except lathe.Error as error:
            with open(model, "rb") as file:
                self._explain(error, builder.check_onnx(os.fspath(model)), file.read())
        return False

    # --- in two steps: the model, then weights that lie in memory of the caller
    def load_model_proto(self, model, path=None):
        self._loaded, self._weights = (bytes(model), path), {}
        return True

    def load_initializer(self, name, data, size):
        """data: an address, or anything with a buffer. Read in place by parse_model_proto() and what comes behind it: must not change."""
        if self._loaded is None:
            return False
        self._weights[name] = (ctypes.c_char * size).from_address(data) if isinstance(data, int) else memoryview(data).cast("B")[:size]
        return True

    def parse_model_proto(self):
        try:
            model, path = self._loaded
        except TypeError:
            self._add(ParserError("no model was loaded", code=t.ErrorCode.INVALID_VALUE))
            return False
        return self._parse(model, _folder_of(path), self._weights)

    def _builder(self):
        return lathe.Builder(log=line_of(self.logger), plugins=registry()._plugins)

    def _parse(self, model, folder, weights=None):
        builder = self._builder()
        try:
            self.network._set_model(builder.parse_onnx_bytes(model, folder, weights or {}))
            return True
        except lathe.Error as error:
            self._explain(error, {} if weights else builder.check_onnx_bytes(model, folder), model)
            return False

    def _add(self, error):
        self._errors.append(error)
        self.logger.log(self.logger.ERROR, str(error))

    def _explain(self, error, support, model):
        """An entry for each node that is not supported, or one that says where else it failed."""
        nodes = support.get("unsupported_nodes", ())
        for node in nodes:
            self._add(ParserError(node["reason"], node["name"], node["op_type"], t.ErrorCode.UNSUPPORTED_NODE))
        if not nodes:
            code = t.ErrorCode.INVALID_NODE if error.node else t.ErrorCode.INVALID_GRAPH if _is_model(model) else t.ErrorCode.MODEL_DESERIALIZE_FAILED
            self._add(ParserError(str(error), error.node, error.op_type, code))

    def supports_operator(self, op_name):
        """Whether there is an operator of this name, in some form."""
        try:
            lathe.NetworkBuilder().op(op_name, [])
        except lathe.InputError as error:
            return "there is no such operator" not in str(error)
        return True

    def supports_model_v2(self, model, path=None):
        builder, model = self._builder(), bytes(model)
        try:
            builder.parse_onnx_bytes(model, _folder_of(path))
            return True
        except lathe.Error as error:
            self._explain(error, builder.check_onnx_bytes(model, _folder_of(path)), model)
            return False

    def supports_model(self, model, path=None):
        return self.supports_model_v2(model, path), []

    def get_layer_output_tensor(self, name, i=0):
        for node in self.network._nodes:
            if node["name"] == name and i < len(node["outputs"]):
                return self.network._parsed_tensor(node["outputs"][i])
        return None

    def set_flag(self, flag):
        if "DLA" in flag.name:
            raise NotSupported(f"OnnxParserFlag.{flag.name}", "there is no DLA")
        self.flags |= 1 << flag

    def clear_flag(self, flag):
        self.flags &= ~(1 << flag)

    def get_flag(self, flag):
        return self.flags >> flag & 1 == 1

    def get_used_vc_plugin_libraries(self):
        return []
