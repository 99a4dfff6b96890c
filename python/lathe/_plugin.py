# SPDX-License-Identifier: Apache-2.0
"""Custom operators in Python."""


class Plugin:
    """What a custom operator of Python has; PluginRegistry.add() takes such classes, derived from this one or not.

    A node of a model is run by the class whose name is its operator type, with the version of its attribute plugin_version and the
    namespace of its attribute plugin_namespace (else its domain).

        class Swish(lathe.Plugin):
            def __init__(self, fields):
                self.beta = fields.get("beta", 1.0)
            def infer(self, inputs):
                return [inputs[0]]
            def run(self, inputs, outputs):
                x = inputs[0]
                outputs[0][...] = x / (1 + numpy.exp(-self.beta * x))

        plugins = lathe.PluginRegistry()
        plugins.add(Swish)
        engine = lathe.compile("model.onnx", plugins=plugins)
    """
    name = ""  # the class's own
    version = "1"
    namespace = ""

    def __init__(self, fields):
        """fields: the node's attributes as numbers, texts, lists and arrays."""

    def infer(self, inputs):
        """Type and shape of each output. inputs: (dtype, shape) for each, None for an absent one; dims are int or PluginDim."""
        raise NotImplementedError

    def run(self, inputs, outputs):
        """Fills `outputs` in place. Arrays of numpy over the engine's memory, which may not be kept. Called with the GIL."""
        raise NotImplementedError
