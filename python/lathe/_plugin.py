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
        """Fills `outputs` in place. Arrays of numpy over the engine's memory, which may not be kept. Called with the GIL. A class that
        has tactics() gets the chosen one as a third argument, 0 where nobody chose."""
        raise NotImplementedError

    # A class may have these, too:
    #
    # attach(self): an instance for one use, which may keep state from run to run: a layer of one context at the shapes that it has
    #     prepared, or the timing of one tactic. None or self: all uses share this one.
    # configure(self, inputs, outputs): tells a use the range of each operand: (dtype, (smallest, tuned-for and largest shape)).
    # tactics(self, inputs, outputs): the ways to compute operands of these types and shapes, each a number above 0. Each is timed.
    # timing_key(self): what decides the time of a run besides types and shapes, as text for timing caches. Without it: all fields.
