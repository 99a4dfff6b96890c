# SPDX-License-Identifier: Apache-2.0
"""Turns ONNX models into the fastest engine for this machine, and runs them.

    engine = lathe.compile("model.onnx", shapes={"x": (8, 3, 224, 224)}, precision="best")
    y = engine(x)

Sizes are in bytes, times in milliseconds unless a name says otherwise. Errors are lathe.Error and its kinds. The log goes to
logging.getLogger("lathe").
"""
from ._compile import check, compile, load, refit
from ._core import (Activation, Allocator, AutoPadding, Builder, BuilderConfig, Elementwise, Engine, ExecutionContext, Interpolation, MemoryPool, Network,
                    NetworkBuilder, NetworkTensor, OptimizationProfile, Padding, PluginDim, PluginRegistry, Pooling, Profiler, Reduction, Refitter, Runtime,
                    ScatterMode,
                    TensorInfo, TimingCache, Unary, device_allocator, image,
                    optimizer_passes, version)
from ._errors import Cancelled, DeviceError, Error, ErrorCode, InputError, InternalError
from ._plugin import Plugin
from ._profile import Profile

__version__ = version()
__all__ = ["Activation", "Allocator", "AutoPadding", "Builder", "BuilderConfig", "Cancelled", "DeviceError", "Elementwise", "Engine", "Error",
           "ErrorCode", "ExecutionContext", "InputError", "InternalError", "Interpolation", "MemoryPool", "Network", "NetworkBuilder", "NetworkTensor",
           "OptimizationProfile", "Padding", "Plugin", "PluginDim", "PluginRegistry", "Pooling", "Profile", "Profiler", "Reduction", "Refitter", "Runtime", "ScatterMode",
           "TensorInfo", "TimingCache", "Unary", "check", "compile", "device_allocator", "image", "load", "optimizer_passes", "refit", "version"]
