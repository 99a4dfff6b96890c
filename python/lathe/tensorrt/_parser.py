# SPDX-License-Identifier: Apache-2.0
"""OnnxParser."""
import ctypes
import os

import lathe

from . import _types as t
from ._logger import line_of
from ._network import NotSupported
from ._onnx_bytes import with_weights
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
        folder = os.path.dirname(os.path.abspath(path)) if path else ""
        return self._parse(lambda builder: builder.parse_onnx_bytes(bytes(model), folder))

    parse_with_weight_descriptors = parse

    def parse_from_file(self, model):
        return self._parse(lambda builder: builder.parse_onnx(os.fspath(model)))

    # --- in two steps: the model, then weights that lie in memory of the caller
    def load_model_proto(self, model, path=None):
        self._loaded, self._weights = (bytes(model), path), {}
        return True

    def load_initializer(self, name, data, size):
        """data: an address, or anything with a buffer. Read by parse_model_proto()."""
        if self._loaded is None:
            return False
        self._weights[name] = (ctypes.c_char * size).from_address(data) if isinstance(data, int) else memoryview(data).cast("B")[:size]
        return True

    def parse_model_proto(self):
        try:
            model, path = self._loaded
            return self.parse(with_weights(model, self._weights), path)
        except (TypeError, ValueError) as error:
            self._errors.append(ParserError("no model was loaded" if self._loaded is None else str(error)))
            self.logger.log(self.logger.ERROR, self._errors[-1].desc())
            return False

    def _parse(self, read):
        try:
            self.network._set_model(read(lathe.Builder(log=line_of(self.logger), plugins=registry()._plugins)))
            return True
        except lathe.Error as error:
            self._errors.append(ParserError(error.what, error.node, error.op_type))
            self.logger.log(self.logger.ERROR, str(error))
            return False

    def supports_operator(self, op_name):
        """Whether there is an operator of this name, in some form."""
        try:
            lathe.NetworkBuilder().op(op_name, [])
        except lathe.InputError as error:
            return "there is no such operator" not in str(error)
        return True

    def supports_model_v2(self, model, path=None):
        builder = lathe.Builder(log=line_of(self.logger), plugins=registry()._plugins)
        try:
            builder.parse_onnx_bytes(bytes(model), os.path.dirname(os.path.abspath(path)) if path else "")
            return True
        except lathe.Error as error:
            self._errors.append(ParserError(error.what, error.node, error.op_type, t.ErrorCode.UNSUPPORTED_NODE))
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
