# SPDX-License-Identifier: Apache-2.0
"""The layers of INetworkDefinition: one class each, with TensorRT's attributes and what they become, and the add_ call. Those that
move data or select from it are in _layers_movement, those of transformers in _layers_attention."""
import lathe
from lathe import Activation, AutoPadding, Elementwise, Pooling, Reduction, Unary

from . import _types as t
from ._network import ILayer, INetworkDefinition, NotSupported

_L = t.LayerType


def axes_of(mask):
    return [axis for axis in range(t.Dims.MAX_DIMS) if mask >> axis & 1]


def like(enum, member, **other):
    """Lathe's member of the same name, or that of `other`."""
    return getattr(enum, other.get(member.name, member.name))


def listed(values):
    return [] if values is None else [int(v) for v in values]


def adds(name):
    """The class below is made by INetworkDefinition.`name`, which takes tensors and attributes in the order of `_takes`."""
    def register(kind):
        def call(self, *args, **kwargs):
            given = dict(zip(kind._takes, args))
            given.update(kwargs)
            unknown = [k for k in given if k not in kind._takes]
            if unknown or len(args) > len(kind._takes):
                raise TypeError(f"{name}() takes {', '.join(kind._takes)}; it was given {unknown or len(args)}")
            inputs = [given.pop(k, None) for k in kind._takes[:kind._tensors]]
            while inputs and inputs[-1] is None:
                inputs.pop()
            return self._add(kind, inputs, **{kind._renamed.get(k, k): v for k, v in given.items()})
        call.__name__ = name
        setattr(INetworkDefinition, name, call)
        return kind
    return register


class _Layer(ILayer):
    _takes, _tensors, _renamed = (), 1, {}


class _Windowed(_Layer):
    """Strides, pads and the like of convolutions and pooling."""

    WINDOW = dict(stride_nd=None, pre_padding=None, post_padding=None, padding_mode=t.PaddingMode.EXPLICIT_ROUND_DOWN)

    def _set_padding(self, padding):
        self.pre_padding = self.post_padding = padding

    padding_nd = property(lambda self: self.pre_padding, _set_padding)
    padding = property(lambda self: self.pre_padding, _set_padding)
    stride = property(lambda self: self.stride_nd, lambda self, v: setattr(self, "stride_nd", v))

    def _window(self):
        automatic = {t.PaddingMode.SAME_UPPER: AutoPadding.SAME_UPPER, t.PaddingMode.SAME_LOWER: AutoPadding.SAME_LOWER}
        if self.padding_mode in automatic:
            return dict(strides=listed(self.stride_nd), auto_padding=automatic[self.padding_mode])
        begin = listed(self.pre_padding)
        end = listed(self.post_padding) if self.post_padding is not None else [0] * len(begin)
        begin = begin or [0] * len(end)
        return dict(strides=listed(self.stride_nd), pads_begin=begin, pads_end=end)


class _Convolution(_Windowed):
    FIELDS = dict(_Windowed.WINDOW, num_output_maps=0, kernel_size_nd=(), kernel=None, bias=None, num_groups=1, dilation_nd=None)
    _takes = ("input", "num_output_maps", "kernel_shape", "kernel", "bias")
    _renamed = {"kernel_shape": "kernel_size_nd"}
    dilation = property(lambda self: self.dilation_nd, lambda self, v: setattr(self, "dilation_nd", v))
    kernel_size = property(lambda self: self.kernel_size_nd)

    def _weights(self, nb, inputs, channels):
        kernel = t.array_of(self.kernel)
        if len(inputs) > 1 and inputs[1] is not None:
            weights = inputs[1]
        else:
            weights = nb.constant(kernel.reshape(*self._kernel_shape(channels)), name=f"{self.name}.kernel")
        bias = t.array_of(self.bias)
        if len(inputs) > 2 and inputs[2] is not None:
            return weights, inputs[2]
        return weights, None if bias is None else nb.constant(bias.reshape(-1), name=f"{self.name}.bias")


@adds("add_convolution_nd")
class IConvolutionLayer(_Convolution):
    TYPE = _L.CONVOLUTION

    def _kernel_shape(self, channels):
        return self.num_output_maps, channels // self.num_groups, *self.kernel_size_nd

    def _emit(self, nb, inputs):
        weights, bias = self._weights(nb, inputs, inputs[0].shape[1])
        return nb.convolution(inputs[0], weights, bias, groups=self.num_groups, dilations=listed(self.dilation_nd),
                              name=self.name, **self._window())


@adds("add_deconvolution_nd")
class IDeconvolutionLayer(_Convolution):
    TYPE = _L.DECONVOLUTION

    def _kernel_shape(self, channels):
        return channels, self.num_output_maps // self.num_groups, *self.kernel_size_nd

    def _emit(self, nb, inputs):
        weights, bias = self._weights(nb, inputs, inputs[0].shape[1])
        return nb.deconvolution(inputs[0], weights, bias, groups=self.num_groups, dilations=listed(self.dilation_nd),
                                name=self.name, **self._window())


@adds("add_pooling_nd")
class IPoolingLayer(_Windowed):
    TYPE = _L.POOLING
    FIELDS = dict(_Windowed.WINDOW, window_size_nd=(), average_count_excludes_padding=True, blend_factor=0.0)
    _takes, _renamed = ("input", "type", "window_size"), {"type": "_kind", "window_size": "window_size_nd"}

    type = property(lambda self: self._kind, lambda self, kind: setattr(self, "_kind", kind))
    window_size = property(lambda self: self.window_size_nd, lambda self, v: setattr(self, "window_size_nd", v))

    def _emit(self, nb, inputs):
        more = dict(self._window(), round_up=self.padding_mode == t.PaddingMode.EXPLICIT_ROUND_UP,
                    count_padding=not self.average_count_excludes_padding)
        window = listed(self.window_size_nd)
        if self._kind != t.PoolingType.MAX_AVERAGE_BLEND:
            return nb.pooling(like(Pooling, self._kind), inputs[0], window, name=self.name, **more)
        largest, mean = (nb.pooling(k, inputs[0], window, **more) for k in (Pooling.MAX, Pooling.AVERAGE))
        return nb.elementwise(Elementwise.SUM, nb.elementwise(Elementwise.PROD, largest, 1 - self.blend_factor),
                              nb.elementwise(Elementwise.PROD, mean, self.blend_factor), name=self.name)


@adds("add_activation")
class IActivationLayer(_Layer):
    TYPE, FIELDS = _L.ACTIVATION, dict(alpha=None, beta=None)
    _takes, _renamed = ("input", "type"), {"type": "_kind"}
    type = property(lambda self: self._kind, lambda self, kind: setattr(self, "_kind", kind))

    def _emit(self, nb, inputs):
        if self._kind == t.ActivationType.SOFTPLUS and (self.alpha, self.beta) != (None, None):
            return self._scaled_softplus(nb, inputs[0])
        return nb.activation(like(Activation, self._kind), inputs[0], self.alpha, self.beta, name=self.name)

    def _scaled_softplus(self, nb, x):
        """alpha * log(exp(beta * x) + 1)"""
        inside, outside = (1.0 if v is None else float(v) for v in (self.beta, self.alpha))
        y = nb.activation(Activation.SOFTPLUS, nb.elementwise(Elementwise.PROD, x, inside))
        return nb.elementwise(Elementwise.PROD, y, outside, name=self.name)


@adds("add_unary")
class IUnaryLayer(_Layer):
    TYPE, _takes = _L.UNARY, ("input", "op")

    def _emit(self, nb, inputs):
        return nb.unary(like(Unary, self.op, RECIP="RECIPROCAL"), inputs[0], name=self.name)


@adds("add_elementwise")
class IElementWiseLayer(_Layer):
    TYPE, _takes, _tensors = _L.ELEMENTWISE, ("input1", "input2", "op"), 2

    def _emit(self, nb, inputs):
        return nb.elementwise(like(Elementwise, self.op), *inputs[:2], name=self.name)


@adds("add_select")
class ISelectLayer(_Layer):
    TYPE, _takes, _tensors = _L.SELECT, ("condition", "then_input", "else_input"), 3

    def _emit(self, nb, inputs):
        return nb.select(*inputs, name=self.name)


@adds("add_parametric_relu")
class IParametricReLULayer(_Layer):
    TYPE, _takes, _tensors = _L.PARAMETRIC_RELU, ("input", "slopes"), 2

    def _emit(self, nb, inputs):
        return nb.parametric_relu(*inputs, name=self.name)


@adds("add_scale")
class IScaleLayer(_Layer):
    TYPE, FIELDS = _L.SCALE, dict(shift=None, scale=None, power=None, channel_axis=1)
    _takes = ("input", "mode", "shift", "scale", "power")

    def _part(self, nb, x, weights, name):
        array = t.array_of(weights)
        if array is None:
            return None
        if self.mode == t.ScaleMode.UNIFORM:
            array = array.reshape(())
        elif self.mode == t.ScaleMode.ELEMENTWISE:
            array = array.reshape(x.shape[self.channel_axis:])
        return nb.constant(array, name=f"{self.name}.{name}")

    def _emit(self, nb, inputs):
        parts = (self._part(nb, inputs[0], getattr(self, p), p) for p in ("scale", "shift", "power"))
        return nb.scale(inputs[0], *parts, axis=self.channel_axis, name=self.name)


adds("add_scale_nd")(type("IScaleLayer", (IScaleLayer,), {"_takes": (*IScaleLayer._takes, "channel_axis")}))


@adds("add_cast")
class ICastLayer(_Layer):
    TYPE, _takes = _L.CAST, ("input", "to_type")

    def _emit(self, nb, inputs):
        return nb.cast(inputs[0], t.lathe_name(self.to_type), name=self.name)


@adds("add_identity")
class IIdentityLayer(_Layer):
    TYPE, _takes = _L.IDENTITY, ("input",)

    def _emit(self, nb, inputs):
        return nb.identity(inputs[0], name=self.name)


# --- products

@adds("add_matrix_multiply")
class IMatrixMultiplyLayer(_Layer):
    TYPE = _L.MATRIX_MULTIPLY
    _takes, _tensors = ("input0", "input1", "op0", "op1"), 4

    def __init__(self, network, inputs, **fields):
        # The call takes them as tensor, operation, tensor, operation or by name.
        a, op0, b, op1 = inputs if isinstance(inputs[1], t.MatrixOperation) else (inputs[0], inputs[2], inputs[1], inputs[3])
        super().__init__(network, [a, b], op0=op0, op1=op1)

    def _emit(self, nb, inputs):
        vector, swap = t.MatrixOperation.VECTOR, t.MatrixOperation.TRANSPOSE
        a, b = inputs
        if self.op0 == vector:
            a = nb.unsqueeze(a, [-2])
        if self.op1 == vector:
            b = nb.unsqueeze(b, [-1])
        y = nb.matrix_multiply(a, b, self.op0 == swap, self.op1 == swap, name=self.name)
        gone = [-2] * (self.op0 == vector) + [-1] * (self.op1 == vector)
        return nb.squeeze(y, gone) if gone else y


@adds("add_einsum")
class IEinsumLayer(_Layer):
    TYPE, _takes = _L.EINSUM, ("inputs", "equation")

    def __init__(self, network, inputs, **fields):
        super().__init__(network, inputs[0], **fields)

    def _emit(self, nb, inputs):
        return nb.einsum(self.equation.replace(" ", ""), inputs, name=self.name)


# --- reductions and normalization

@adds("add_reduce")
class IReduceLayer(_Layer):
    TYPE, _takes = _L.REDUCE, ("input", "op", "axes", "keep_dims")

    def _emit(self, nb, inputs):
        return nb.reduce(like(Reduction, self.op, AVG="MEAN"), inputs[0], axes_of(self.axes), self.keep_dims, name=self.name)


@adds("add_topk")
class ITopKLayer(_Layer):
    TYPE, OUTPUTS, FIELDS = _L.TOPK, 2, dict(k=0, indices_type=t.DataType.INT32)
    _takes = ("input", "op", "k", "axes", "indices_type")

    def _emit(self, nb, inputs):
        axis, = axes_of(self.axes)
        k = nb.cast(inputs[1], "int64") if len(inputs) > 1 else self.k
        values, indices = nb.top_k(inputs[0], k, axis, self.op == t.TopKOperation.MAX, name=self.name)
        return values, nb.cast(indices, t.lathe_name(self.indices_type))


@adds("add_softmax")
class ISoftMaxLayer(_Layer):
    TYPE, FIELDS, _takes = _L.SOFTMAX, dict(axes=None), ("input",)

    def _emit(self, nb, inputs):
        x = inputs[0]
        axes = [max(0, len(x.shape) - 3)] if self.axes is None else axes_of(self.axes)
        if len(axes) == 1:
            return nb.softmax(x, axes[0], name=self.name)
        powers = nb.unary(Unary.EXP, nb.elementwise(Elementwise.SUB, x, nb.reduce(Reduction.MAX, x, axes)))
        return nb.elementwise(Elementwise.DIV, powers, nb.reduce(Reduction.SUM, powers, axes), name=self.name)


@adds("add_ragged_softmax")
class IRaggedSoftMaxLayer(_Layer):
    TYPE, _takes, _tensors = _L.RAGGED_SOFTMAX, ("input", "bounds"), 2

    def _emit(self, nb, inputs):
        return nb.ragged_softmax(*inputs, name=self.name)


@adds("add_lrn")
class ILRNLayer(_Layer):
    TYPE, _takes = _L.LRN, ("input", "window", "alpha", "beta", "k")
    _renamed = {"window": "window_size"}

    def _emit(self, nb, inputs):
        return nb.lrn(inputs[0], self.window_size, self.alpha, self.beta, self.k, name=self.name)


@adds("add_cumulative")
class ICumulativeLayer(_Layer):
    TYPE, _takes, _tensors = _L.CUMULATIVE, ("input", "axis", "op", "exclusive", "reverse"), 2

    def _emit(self, nb, inputs):
        axis = self._constant(1)
        if axis is None:
            raise NotSupported("ICumulativeLayer with an axis that is no constant")
        return nb.cumulative(inputs[0], int(axis.reshape(-1)[0]), self.exclusive, self.reverse, name=self.name)


@adds("add_normalization")
class INormalizationLayer(_Layer):
    TYPE = _L.NORMALIZATION
    FIELDS = dict(epsilon=1e-5, num_groups=1, compute_precision=t.DataType.FLOAT)
    _takes, _tensors, _renamed = ("input", "scale", "bias", "axesMask"), 3, {"axesMask": "axes"}

    def _emit(self, nb, inputs):
        x, scale, bias = inputs
        axes = axes_of(self.axes)
        if self.num_groups != 1:
            flat = [nb.reshape(v, [-1]) for v in (scale, bias)]
            return nb.group_norm(x, *flat, self.num_groups, self.epsilon, name=self.name)
        centred = nb.elementwise(Elementwise.SUB, x, nb.reduce(Reduction.MEAN, x, axes))
        variance = nb.reduce(Reduction.MEAN, nb.elementwise(Elementwise.PROD, centred, centred), axes)
        deviation = nb.unary(Unary.SQRT, nb.elementwise(Elementwise.SUM, variance, self.epsilon))
        normal = nb.elementwise(Elementwise.DIV, centred, deviation)
        return nb.elementwise(Elementwise.SUM, nb.elementwise(Elementwise.PROD, normal, scale), bias, name=self.name)


adds("add_normalization_v2")(type("INormalizationLayer", (INormalizationLayer,), {}))


# --- quantization

@adds("add_quantize")
class IQuantizeLayer(_Layer):
    TYPE, FIELDS = _L.QUANTIZE, dict(axis=-1, to_type=t.DataType.INT8)
    _takes, _tensors, _renamed = ("input", "scale", "output_type"), 2, {"output_type": "to_type"}

    def _emit(self, nb, inputs):
        zero = inputs[2] if len(inputs) > 2 else None
        axis = self.axis if self.axis >= 0 else 1
        return nb.quantize(inputs[0], inputs[1], zero, t.lathe_name(self.to_type), axis, name=self.name)


# Kinds of blocks along one axis: the operator that makes them, and how many operands it has.
_MICROSCALING = {(t.DataType.FP8, t.DataType.E8M0): ("trt.plugins::TRT_MXFP8DynamicQuantize", 1),
                 (t.DataType.FP4, t.DataType.FP8): ("trt.plugins::TRT_FP4DynamicQuantize", 2)}


@adds("add_dynamic_quantize_v2")
class IDynamicQuantizeLayer(_Layer):
    """Blocks of the tensor by their own largest magnitude: numbers, and the blocks' scales. INT8 with FLOAT scales; along one axis FP8 with
    E8M0 scales (MXFP8), and FP4 with FP8 scales, in units of the scale that set_input(1, scale) gives (NVFP4)."""

    TYPE, OUTPUTS = _L.DYNAMIC_QUANTIZE, 2
    FIELDS = dict(block_shape=(), to_type=t.DataType.INT8, scale_type=t.DataType.FLOAT)
    _takes, _renamed = ("input", "block_shape", "output_type", "scale_type"), {"output_type": "to_type"}

    def _blocks(self, dims):
        return [d if b == -1 else b for b, d in zip(listed(self.block_shape), dims)]

    def _emit(self, nb, inputs):
        x, dims = inputs[0], list(inputs[0].shape)
        where = f"layer '{self.name}' (DynamicQuantize)"
        blocks = self._blocks(dims)
        if len(blocks) != len(dims) or any(b != d and (b < 1 or d < 1 or d % b) for b, d in zip(blocks, dims)):
            raise lathe.InputError(f"blocks of {blocks} do not divide {dims}", where=where)
        kind = (self.to_type, self.scale_type)
        if kind in _MICROSCALING:
            operator, operands = _MICROSCALING[kind]
            axes = [axis for axis, b in enumerate(blocks) if b != 1]
            if len(axes) != 1:
                raise lathe.InputError(f"blocks of {blocks} are not along one axis", where=where)
            if len(inputs) < operands or inputs[operands - 1] is None:
                raise lathe.InputError("the scale of the tensor is missing", where=where, hint="set_input(1, scale)")
            return nb.op(operator, inputs[:operands], outputs=2, name=self.name, axis=axes[0], block_size=blocks[axes[0]])
        if kind != (t.DataType.INT8, t.DataType.FLOAT):
            raise NotSupported(f"IDynamicQuantizeLayer of {self.to_type} with scales of {self.scale_type}", "INT8 with FLOAT, FP8 with E8M0 and FP4 with FP8 are")
        # [d0, d1] as [d0 / b0, b0, d1 / b1, b1]; a dynamic dim is one block or blocks of one element.
        split = [part for d, b in zip(dims, blocks) for part in ((1, d) if b == d else (d // b, b))]
        parts = nb.reshape(x, split)
        inside = list(range(1, 2 * len(dims), 2))
        largest = nb.reduce(Reduction.MAX, nb.unary(Unary.ABS, parts), inside, True)
        scales = nb.elementwise(Elementwise.DIV, nb.elementwise(Elementwise.MAX, largest, 1e-12), 127.0)
        near = nb.unary(Unary.ROUND, nb.elementwise(Elementwise.DIV, parts, scales))
        numbers = nb.cast(nb.activation(Activation.CLIP, near, -128.0, 127.0), "int8")
        return nb.reshape(numbers, dims, name=self.name), nb.squeeze(scales, inside)


@adds("add_dynamic_quantize")
class _DynamicQuantizeAlongAxis(IDynamicQuantizeLayer):
    FIELDS = dict(axis=-1, block_size=16, to_type=t.DataType.FP4, scale_type=t.DataType.FP8)
    _takes = ("input", "axis", "block_size", "output_type", "scale_type")

    def _blocks(self, dims):
        blocks = [1] * len(dims)
        blocks[self.axis] = self.block_size
        return blocks


_DynamicQuantizeAlongAxis.__name__ = "IDynamicQuantizeLayer"


def _blocks_of(x, scale):
    """The axis that has blocks and their extent, where the scale is that of blocks."""
    dims, scales = list(x.shape), list(scale.shape)
    axes = [axis for axis, (d, s) in enumerate(zip(dims, scales)) if d != s]
    if len(dims) < 2 or len(dims) != len(scales) or len(axes) > 1 or 0 in scales:
        return None
    axis = axes[0] if axes else len(dims) - 1
    return axis, -(-dims[axis] // scales[axis])


@adds("add_dequantize")
class IDequantizeLayer(_Layer):
    TYPE, FIELDS = _L.DEQUANTIZE, dict(axis=-1, to_type=t.DataType.FLOAT)
    _takes, _tensors, _renamed = ("input", "scale", "output_type"), 2, {"output_type": "to_type"}

    def _emit(self, nb, inputs):
        zero = inputs[2] if len(inputs) > 2 else None
        axis = self.axis if self.axis >= 0 else 1
        if blocks := _blocks_of(*inputs[:2]):
            operator = "trt.plugins::TRT_MXFP8DequantizeLinear" if inputs[1].dtype == t.lathe_name(t.DataType.E8M0) else "DequantizeLinear"
            y = nb.op(operator, inputs, name=self.name, axis=blocks[0], block_size=blocks[1])
        else:
            y = nb.dequantize(inputs[0], inputs[1], zero, axis, name=self.name)
        wanted = t.lathe_name(self.to_type)
        return y if y.dtype == wanted else nb.cast(y, wanted)
