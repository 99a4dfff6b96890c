# SPDX-License-Identifier: Apache-2.0
"""Lathe under the names of TensorRT's Python API (10 and 11), so that programs run with one changed import:

    import lathe.tensorrt as trt

Engines run on the CPU and addresses are those of host memory: numpy's array.ctypes.data, torch's tensor.data_ptr() of CPU tensors.
What cannot be honoured raises NotImplementedError, naming itself. docs/tensorrt.md lists what is the same, what differs and what is
absent. Engine files are Lathe's own.
"""
from . import _flow, _layers, _layers_attention, _layers_movement
from ._builder import Builder, IBuilderConfig, IOptimizationProfile, IProgressMonitor, ITimingCache, TimingCacheKey, TimingCacheValue
from ._layers import *  # noqa: F403
from ._layers_attention import *  # noqa: F403
from ._layers_movement import *  # noqa: F403
from ._flow import IIfConditional, ILoop
from ._interfaces import IDebugListener, IOutputAllocator, IProfiler, IStreamReader, IStreamReaderV2, IStreamWriter, Profiler
from ._logger import IErrorRecorder, ILogger, Logger
from ._memory import IGpuAllocator, IGpuAsyncAllocator
from ._network import ILayer, INetworkDefinition, ITensor, NotSupported
from ._parser import OnnxParser, ParserError
from ._plugin_v3 import (DimensionOperation, DimsExprs, DynamicPluginTensorDesc, IDimensionExpr, IExprBuilder, IPluginCreatorV3One,
                         IPluginResourceContext, IPluginV3, IPluginV3Layer, IPluginV3OneBuild, IPluginV3OneCore, IPluginV3OneRuntime,
                         PluginCapabilityType, PluginField, PluginFieldCollection, PluginFieldType, PluginTensorDesc, TensorRTPhase)
from ._plugins import IPluginRegistry
from ._plugins import registry as get_plugin_registry
from ._refit import OnnxParserRefitter, Refitter
from ._runtime import EngineInspector, ICudaEngine, IExecutionContext, IRuntimeConfig, ISerializationConfig, Runtime
from ._types import *  # noqa: F403
from ._types import Dims as Dims

__version__ = "10.14.1"
_ABSENT = {"IInt8Calibrator", "IInt8EntropyCalibrator", "IInt8EntropyCalibrator2", "IInt8MinMaxCalibrator", "IInt8LegacyCalibrator",
           "IAlgorithmSelector", "IPluginV2", "IPluginV2Ext", "IPluginV2DynamicExt", "IPluginCreator", "get_builder_plugin_registry"}


def __getattr__(name):
    if name in _ABSENT:
        raise NotSupported(f"tensorrt.{name}")
    raise AttributeError(f"module 'lathe.tensorrt' has no attribute '{name}'")


def init_libnvinfer_plugins(logger, namespace):
    """There is nothing to load; plugins that are known by name are operators of the importer."""
    return True


def get_nv_onnx_parser_version():
    return 101401
