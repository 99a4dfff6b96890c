# SPDX-License-Identifier: Apache-2.0
"""Refitter and OnnxParserRefitter. Every engine can be refitted; contexts that were made before keep the old weights."""
import os

import lathe

from . import _types as t
from ._logger import line_of, told
from ._network import NotSupported
from ._parser import ParserError
from ._plugins import registry


class Refitter:
    def __init__(self, engine, logger):
        self.engine, self.logger, self.error_recorder, self.max_threads, self.weights_validation = engine, logger, None, 1, True
        self._refitter = lathe.Refitter(engine._plan or engine._engine, log=line_of(logger), plugins=registry()._plugins)
        self._known = {w["name"]: w for w in self._refitter.weights}  # only what is missing changes

    def set_named_weights(self, name, weights, location=t.TensorLocation.HOST):
        array = weights.array if isinstance(weights, t.Weights) else t.Weights(weights).array
        known = self._known.get(name)
        if known is not None and tuple(known["shape"]) != array.shape and array.size == t.volume(known["shape"]):
            array = array.reshape(known["shape"])  # TensorRT's weights have no shape
        return self._told(lambda: self._refitter.set(name, array))

    def get_all_weights(self):
        return [w["name"] for w in self._refitter.weights]

    def get_missing_weights(self):
        return [w["name"] for w in self._refitter.weights if w["missing"]]

    def get_weights_prototype(self, weights_name):
        known = self._known.get(weights_name)
        return t.Weights() if known is None else t.Weights(t.from_lathe(known["dtype"]))

    def get_weights_location(self, weights_name):
        return t.TensorLocation.HOST

    def refit_cuda_engine(self):
        """False where weights are missing or lead to other layers, and the log says which."""
        return self._told(lambda: self.engine._set_engine(self._refitter.refit()))

    def refit_cuda_engine_async(self, stream_handle):
        """Returns at once; whoever uses the engine next waits for it, and gets the error where weights lead to other layers. False where
        weights are missing."""
        if missing := self.get_missing_weights():
            told(self.logger, self.error_recorder, "weights are missing: " + ", ".join(missing), t.ErrorCodeTRT.INVALID_ARGUMENT)
            return False
        self.engine._set_pending(self._refitter.refit_async())
        return True

    def set_weights(self, layer_name, role, weights):
        raise NotSupported("Refitter.set_weights", "use set_named_weights with the name of the initializer")

    def get_missing(self):
        raise NotSupported("Refitter.get_missing", "use get_missing_weights")

    def get_all(self):
        raise NotSupported("Refitter.get_all", "use get_all_weights")

    def _told(self, call):
        try:
            call()
            return True
        except lathe.Error as error:
            told(self.logger, self.error_recorder, error)
            return False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class OnnxParserRefitter:
    """Gives a Refitter all weights of a model."""

    def __init__(self, refitter, logger):
        self.refitter, self.logger, self._errors = refitter, logger, []

    num_errors = property(lambda self: len(self._errors))

    def get_error(self, index):
        return self._errors[index]

    def clear_errors(self):
        self._errors = []

    def refit_from_bytes(self, model, path=None):
        folder = os.path.dirname(os.path.abspath(path)) if path else ""  # where external weights lie
        return self._refit(lambda: self.refitter._refitter.set_from_onnx_bytes(bytes(model), folder))

    def refit_from_file(self, model):
        return self._refit(lambda: self.refitter._refitter.set_from_onnx(os.fspath(model)))

    def _refit(self, read):
        try:
            read()
            return True
        except lathe.Error as error:
            self._errors.append(ParserError(error.what, error.node, error.op_type))
            self.logger.log(self.logger.ERROR, str(error))
            return False
