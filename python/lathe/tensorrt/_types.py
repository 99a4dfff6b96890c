# SPDX-License-Identifier: Apache-2.0
"""Enumerations, dims and element types under TensorRT's Python names."""
import enum
import functools
import operator

import numpy as np


class _Enum(enum.IntEnum):
    __str__ = enum.Enum.__str__  # "DataType.FLOAT", as in TensorRT
    __repr__ = enum.Enum.__repr__


def _names(name, members):
    return _Enum(name, members, start=0)


class DataType(_Enum):
    FLOAT, HALF, INT8, INT32, BOOL, UINT8, FP8, BF16, INT64, INT4, FP4, E8M0 = range(12)

    @property
    def itemsize(self):
        """Bytes of an element; a fraction where several share a byte."""
        return _ITEM_BITS[self] / 8 if _ITEM_BITS[self] < 8 else _ITEM_BITS[self] // 8


float32, float16, bfloat16 = DataType.FLOAT, DataType.HALF, DataType.BF16
int8, int32, int64, uint8, bool = DataType.INT8, DataType.INT32, DataType.INT64, DataType.UINT8, DataType.BOOL  # noqa: A001
fp8, int4, fp4, e8m0 = DataType.FP8, DataType.INT4, DataType.FP4, DataType.E8M0

_ITEM_BITS = {DataType.FLOAT: 32, DataType.HALF: 16, DataType.INT8: 8, DataType.INT32: 32, DataType.BOOL: 8, DataType.UINT8: 8,
              DataType.FP8: 8, DataType.BF16: 16, DataType.INT64: 64, DataType.INT4: 4, DataType.FP4: 4, DataType.E8M0: 8}
_LATHE_NAMES = {DataType.FLOAT: "float32", DataType.HALF: "float16", DataType.INT8: "int8", DataType.INT32: "int32",
                DataType.BOOL: "bool", DataType.UINT8: "uint8", DataType.FP8: "float8e4m3fn", DataType.BF16: "bfloat16",
                DataType.INT64: "int64", DataType.INT4: "int4", DataType.FP4: "float4e2m1", DataType.E8M0: "float8e8m0"}


def lathe_name(dtype):
    """Lathe's name of a type. Raises TypeError for one that it has not."""
    if dtype not in _LATHE_NAMES:
        raise TypeError(f"{DataType(dtype)} is not supported by lathe.tensorrt")
    return _LATHE_NAMES[dtype]


def from_lathe(name):
    """TensorRT's type; a name of Lathe that it has not (float64, ...) raises TypeError."""
    for dtype, ours in _LATHE_NAMES.items():
        if ours == name:
            return dtype
    raise TypeError(f"TensorRT has no type {name}")


def nptype(dtype):
    """The numpy type that holds a TensorRT type. Raises TypeError for one that numpy has not."""
    types = {DataType.FLOAT: np.float32, DataType.HALF: np.float16, DataType.INT8: np.int8, DataType.INT32: np.int32,
             DataType.INT64: np.int64, DataType.BOOL: np.bool_, DataType.UINT8: np.uint8}
    if dtype not in types:
        raise TypeError(f"numpy has no type for {DataType(dtype)}")
    return types[dtype]


def volume(iterable):
    """The product of the entries."""
    return functools.reduce(operator.mul, iterable, 1)


class Dims(tuple):
    """Extents; -1 is dynamic."""

    MAX_DIMS = 8

    def __new__(cls, shape=()):
        return super().__new__(cls, (int(d) for d in shape))

    def __repr__(self):
        return "(" + ", ".join(str(d) for d in self) + ")"

    __str__ = __repr__

    def numel(self):
        return volume(self)


def _sized(name, count, names=None):
    def new(cls, *values):
        values = values[0] if len(values) == 1 and not isinstance(values[0], int) else values
        if len(values) != count:
            raise ValueError(f"{name} has {count} entries, not {len(values)}")
        return Dims.__new__(cls, values)

    members = {"__new__": new}
    for index, member in enumerate(names or ()):
        members[member] = property(lambda self, i=index: self[i])
    return type(name, (Dims,), members)


Dims2, Dims3, Dims4 = _sized("Dims2", 2), _sized("Dims3", 3), _sized("Dims4", 4)
DimsHW, DimsCHW = _sized("DimsHW", 2, "hw"), _sized("DimsCHW", 3, "chw")
DimsNCHW = _sized("DimsNCHW", 4, "nchw")
Permutation = type("Permutation", (Dims,), {})


class Weights:
    """Constants: an array of numpy, or of anything that numpy reads; or an element type alone, which is none."""

    def __init__(self, a=None, ptr=None, count=None):
        if isinstance(a, DataType) and ptr:
            raise NotImplementedError("Weights(type, ptr, count) is not supported by lathe.tensorrt: give an array")
        self.array = np.ascontiguousarray(a) if a is not None and not isinstance(a, DataType) else np.empty(0, np.float32)

    @property
    def dtype(self):
        return from_lathe(str(self.array.dtype))

    @property
    def size(self):
        return self.array.size

    @property
    def nbytes(self):
        return self.array.nbytes

    def numpy(self):
        return self.array

    def __len__(self):
        return self.array.size


def array_of(weights):
    """The array of Weights or of an array; None where there are none."""
    if weights is None:
        return None
    array = weights.array if isinstance(weights, Weights) else np.ascontiguousarray(weights)
    return array if array.size else None


class IHostMemory(bytes):
    """Bytes that the library made."""

    @property
    def nbytes(self):
        return len(self)

    @property
    def dtype(self):
        return DataType.INT8


BuilderFlag = _names("BuilderFlag", "FP16 INT8 DEBUG GPU_FALLBACK REFIT DISABLE_TIMING_CACHE TF32 SPARSE_WEIGHTS SAFETY_SCOPE "
                     "OBEY_PRECISION_CONSTRAINTS PREFER_PRECISION_CONSTRAINTS DIRECT_IO REJECT_EMPTY_ALGORITHMS VERSION_COMPATIBLE "
                     "EXCLUDE_LEAN_RUNTIME FP8 ERROR_ON_TIMING_CACHE_MISS BF16 DISABLE_COMPILATION_CACHE STRIP_PLAN REFIT_IDENTICAL "
                     "WEIGHT_STREAMING INT4 REFIT_INDIVIDUAL STRICT_NANS MONITOR_MEMORY FP4 EDITABLE_TIMING_CACHE "
                     "DISTRIBUTIVE_INDEPENDENCE")
BuilderFlag.WEIGHTLESS = BuilderFlag.STRIP_PLAN
NetworkDefinitionCreationFlag = _names("NetworkDefinitionCreationFlag", "EXPLICIT_BATCH STRONGLY_TYPED PREFER_AOT_PYTHON_PLUGINS "
                                       "PREFER_JIT_PYTHON_PLUGINS")
MemoryPoolType = _names("MemoryPoolType", "WORKSPACE DLA_MANAGED_SRAM DLA_LOCAL_DRAM DLA_GLOBAL_DRAM TACTIC_DRAM TACTIC_SHARED_MEMORY")
ProfilingVerbosity = _names("ProfilingVerbosity", "LAYER_NAMES_ONLY NONE DETAILED")
TacticSource = _names("TacticSource", "CUBLAS CUBLAS_LT CUDNN EDGE_MASK_CONVOLUTIONS JIT_CONVOLUTIONS")
_RUNNERS = {TacticSource.CUBLAS: "CublasLt", TacticSource.CUBLAS_LT: "CublasLt", TacticSource.CUDNN: "CudnnConvolution"}  # of Lathe
PreviewFeature = _names("PreviewFeature", "PROFILE_SHARING_0806 ALIASED_PLUGIN_IO_10_03 RUNTIME_ACTIVATION_RESIZE_10_10")
HardwareCompatibilityLevel = _names("HardwareCompatibilityLevel", "NONE AMPERE_PLUS SAME_COMPUTE_CAPABILITY")
EngineCapability = _names("EngineCapability", "STANDARD SAFETY DLA_STANDALONE")
RuntimePlatform = _names("RuntimePlatform", "SAME_AS_BUILD WINDOWS_AMD64")
TilingOptimizationLevel = _names("TilingOptimizationLevel", "NONE FAST MODERATE FULL")
DeviceType = _names("DeviceType", "GPU DLA")
QuantizationFlag = _names("QuantizationFlag", "CALIBRATE_BEFORE_FUSION")
TensorLocation = _names("TensorLocation", "DEVICE HOST")
TensorIOMode = _names("TensorIOMode", "NONE INPUT OUTPUT")
TensorFormat = _names("TensorFormat", "LINEAR CHW2 HWC8 CHW4 CHW16 CHW32 DHWC8 CDHW32 HWC DLA_LINEAR DLA_HWC4 HWC16 DHWC")
LayerInformationFormat = _names("LayerInformationFormat", "ONELINE JSON")
ExecutionContextAllocationStrategy = _names("ExecutionContextAllocationStrategy", "STATIC ON_PROFILE_CHANGE USER_MANAGED")
SerializationFlag = _names("SerializationFlag", "EXCLUDE_WEIGHTS EXCLUDE_LEAN_RUNTIME INCLUDE_REFIT")
TempfileControlFlag = _names("TempfileControlFlag", "ALLOW_IN_MEMORY_FILES ALLOW_TEMPORARY_FILES")
ErrorCodeTRT = _names("ErrorCodeTRT", "SUCCESS UNSPECIFIED_ERROR INTERNAL_ERROR INVALID_ARGUMENT INVALID_CONFIG FAILED_ALLOCATION "
                      "FAILED_INITIALIZATION FAILED_EXECUTION FAILED_COMPUTATION INVALID_STATE UNSUPPORTED_STATE")
ErrorCode = _names("ErrorCode", "SUCCESS INTERNAL_ERROR MEM_ALLOC_FAILED MODEL_DESERIALIZE_FAILED INVALID_VALUE INVALID_GRAPH "
                   "INVALID_NODE UNSUPPORTED_GRAPH UNSUPPORTED_NODE UNSUPPORTED_NODE_ATTR UNSUPPORTED_NODE_INPUT "
                   "UNSUPPORTED_NODE_DATATYPE UNSUPPORTED_NODE_DYNAMIC UNSUPPORTED_NODE_SHAPE REFIT_FAILED")
OnnxParserFlag = _names("OnnxParserFlag", "NATIVE_INSTANCENORM ENABLE_UINT8_AND_ASYMMETRIC_QUANTIZATION_DLA REPORT_CAPABILITY_DLA "
                        "ENABLE_PLUGIN_OVERRIDE ADJUST_FOR_DLA")
ActivationType = _names("ActivationType", "RELU SIGMOID TANH LEAKY_RELU ELU SELU SOFTSIGN SOFTPLUS CLIP HARD_SIGMOID SCALED_TANH "
                        "THRESHOLDED_RELU GELU_ERF GELU_TANH")
ElementWiseOperation = _names("ElementWiseOperation", "SUM PROD MAX MIN SUB DIV POW FLOOR_DIV AND OR XOR EQUAL GREATER LESS")
UnaryOperation = _names("UnaryOperation", "EXP LOG SQRT RECIP ABS NEG SIN COS TAN SINH COSH ASIN ACOS ATAN ASINH ACOSH ATANH CEIL "
                        "FLOOR ERF NOT SIGN ROUND ISINF ISNAN")
ReduceOperation = _names("ReduceOperation", "SUM PROD MAX MIN AVG NONE")
PoolingType = _names("PoolingType", "MAX AVERAGE MAX_AVERAGE_BLEND")
PaddingMode = _names("PaddingMode", "EXPLICIT_ROUND_DOWN EXPLICIT_ROUND_UP SAME_UPPER SAME_LOWER")
ScaleMode = _names("ScaleMode", "UNIFORM CHANNEL ELEMENTWISE")
MatrixOperation = _names("MatrixOperation", "NONE TRANSPOSE VECTOR")
TopKOperation = _names("TopKOperation", "MAX MIN")
GatherMode = _names("GatherMode", "DEFAULT ELEMENT ND")
ScatterMode = _names("ScatterMode", "ELEMENT ND")
FillOperation = _names("FillOperation", "LINSPACE RANDOM_UNIFORM RANDOM_NORMAL")
SampleMode = _names("SampleMode", "STRICT_BOUNDS WRAP CLAMP FILL REFLECT")
InterpolationMode = _names("InterpolationMode", "NEAREST LINEAR CUBIC")
ResizeCoordinateTransformation = _names("ResizeCoordinateTransformation", "ALIGN_CORNERS ASYMMETRIC HALF_PIXEL")
ResizeSelector = _names("ResizeSelector", "FORMULA UPPER")
ResizeRoundMode = _names("ResizeRoundMode", "HALF_UP HALF_DOWN FLOOR CEIL")
BoundingBoxFormat = _names("BoundingBoxFormat", "CORNER_PAIRS CENTER_SIZES")
LoopOutput = _names("LoopOutput", "LAST_VALUE CONCATENATE REVERSE")
TripLimit = _names("TripLimit", "COUNT WHILE")
CumulativeOperation = _names("CumulativeOperation", "SUM")
AttentionIOForm = _names("AttentionIOForm", "PADDED_BHND PACKED_NHD")
AttentionNormalizationOp = _names("AttentionNormalizationOp", "NONE SOFTMAX")
CausalMaskKind = _names("CausalMaskKind", "NONE UPPER_LEFT LOWER_RIGHT")
KVCacheMode = _names("KVCacheMode", "LINEAR")
WeightsRole = _names("WeightsRole", "KERNEL BIAS SHIFT SCALE CONSTANT ANY")
LayerType = _names("LayerType", "CONVOLUTION CAST ACTIVATION POOLING LRN SCALE SOFTMAX DECONVOLUTION CONCATENATION ELEMENTWISE PLUGIN "
                   "UNARY PADDING SHUFFLE REDUCE TOPK GATHER MATRIX_MULTIPLY RAGGED_SOFTMAX CONSTANT IDENTITY PLUGIN_V2 SLICE SHAPE "
                   "PARAMETRIC_RELU RESIZE TRIP_LIMIT RECURRENCE ITERATOR LOOP_OUTPUT SELECT FILL QUANTIZE DEQUANTIZE CONDITION "
                   "CONDITIONAL_INPUT CONDITIONAL_OUTPUT SCATTER EINSUM ASSERTION ONE_HOT NON_ZERO GRID_SAMPLE NMS REVERSE_SEQUENCE "
                   "NORMALIZATION PLUGIN_V3 SQUEEZE UNSQUEEZE CUMULATIVE DYNAMIC_QUANTIZE ATTENTION_INPUT ATTENTION_OUTPUT "
                   "ROTARY_EMBEDDING KVCACHE_UPDATE MOE DIST_COLLECTIVE")
