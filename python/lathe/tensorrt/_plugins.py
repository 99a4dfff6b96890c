# SPDX-License-Identifier: Apache-2.0
"""The plugin registry: libraries of Lathe's plugin interface and classes of Python. As TensorRT's, it is one for the process."""
import os

import lathe


class IPluginRegistry:
    """Libraries are Lathe's (docs/plugins.md); TensorRT's cannot be loaded. Creators of the V3 interface are registered; classes are added
    by `add`, too (see lathe.Plugin)."""

    def __init__(self):
        self.error_recorder, self.parent_search_enabled = None, True
        self._plugins, self._creators = lathe.PluginRegistry(), {}

    def load_library(self, plugin_path):
        self._plugins.load(os.fspath(plugin_path))
        return plugin_path  # the handle

    def add(self, plugin):
        return self._plugins.add(plugin)

    @property
    def all_creators(self):
        """What there is: dicts of name, version and namespace."""
        return self._plugins.plugins


_registry = IPluginRegistry()


def registry():
    return _registry
