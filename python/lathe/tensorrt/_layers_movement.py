# SPDX-License-Identifier: Apache-2.0
"""The layers of INetworkDefinition that move data or select from it: shapes, slices, gathers, fills, samples."""
import numpy as np

import lathe
from lathe import Elementwise, Interpolation, Padding, ScatterMode

from . import _types as t
from ._layers import _L, _Layer, adds, like, listed
from ._network import NotSupported


@adds("add_constant")
class IConstantLayer(_Layer):
    TYPE, _takes, _tensors = _L.CONSTANT, ("shape", "weights"), 0

    @property
    def weights_array(self):
        return t.Weights(self.weights).array.reshape(tuple(self.shape)) if not isinstance(self.weights, t.Weights) \
            else self.weights.array.reshape(tuple(self.shape))

    def _emit(self, nb, inputs):
        return nb.constant(self.weights_array, name=self.name)


@adds("add_shape")
class IShapeLayer(_Layer):
    TYPE, _takes = _L.SHAPE, ("input",)

    def _emit(self, nb, inputs):
        return nb.shape(inputs[0], name=self.name)


@adds("add_shuffle")
class IShuffleLayer(_Layer):
    TYPE, FIELDS = _L.SHUFFLE, dict(first_transpose=None, reshape_dims=None, second_transpose=None, zero_is_placeholder=True)
    _takes = ("input",)

    def _emit(self, nb, inputs):
        y = inputs[0]
        if self.first_transpose is not None:
            y = nb.transpose(y, listed(self.first_transpose)[:len(y.shape)])
        if len(inputs) > 1 and inputs[1] is not None:
            y = nb.op("Reshape", [y, nb.cast(inputs[1], "int64")], allowzero=int(not self.zero_is_placeholder))
        elif self.reshape_dims is not None:
            dims = np.array(listed(self.reshape_dims), np.int64)
            y = nb.op("Reshape", [y, dims], allowzero=int(not self.zero_is_placeholder and -1 not in dims))
        if self.second_transpose is not None:
            y = nb.transpose(y, listed(self.second_transpose)[:len(y.shape)])
        return nb.identity(y, name=self.name)


@adds("add_concatenation")
class IConcatenationLayer(_Layer):
    TYPE, FIELDS, _takes = _L.CONCATENATION, dict(axis=None), ("inputs",)

    def __init__(self, network, inputs, **fields):
        super().__init__(network, inputs[0], **fields)

    def _emit(self, nb, inputs):
        axis = max(0, len(inputs[0].shape) - 3) if self.axis is None else self.axis
        return nb.concatenation(inputs, axis, name=self.name)


@adds("add_slice")
class ISliceLayer(_Layer):
    TYPE, FIELDS = _L.SLICE, dict(mode=t.SampleMode.STRICT_BOUNDS, axes=None)
    _takes = ("input", "start", "shape", "stride")

    def _operand(self, nb, inputs, index, values):
        if len(inputs) > index and inputs[index] is not None:
            return nb.cast(inputs[index], "int64")
        return nb.constant(np.array(listed(values), np.int64))

    def _outside(self, nb, x, start, size):
        """x with what the slice reads outside of it, and the start in that."""
        if any(d < 0 for d in x.shape) or len(start) != len(x.shape):
            raise NotSupported(f"ISliceLayer.mode {self.mode.name} of dynamic dims")
        before = [max(0, -s) for s in start]
        after = [max(0, s + n - d) for s, n, d in zip(start, size, x.shape)]
        modes = {t.SampleMode.FILL: Padding.CONSTANT, t.SampleMode.CLAMP: Padding.EDGE, t.SampleMode.REFLECT: Padding.REFLECT,
                 t.SampleMode.WRAP: Padding.WRAP}
        value = self._constant(4)
        return nb.pad(x, before + after, modes[self.mode], 0.0 if value is None else float(value.reshape(-1)[0])), \
            [s + b for s, b in zip(start, before)]

    def _emit(self, nb, inputs):
        x, start, size, stride = inputs[0], listed(self.start), listed(self.shape), listed(self.stride)
        if self.mode != t.SampleMode.STRICT_BOUNDS:
            if any(s != 1 for s in stride) or len(inputs) > 1 and any(i is not None for i in inputs[1:4]):
                raise NotSupported(f"ISliceLayer.mode {self.mode.name} with strides or tensors")
            x, start = self._outside(nb, x, start, size)
        starts, sizes, steps = (self._operand(nb, inputs, i, v) for i, v in ((1, start), (2, size), (3, stride)))
        # A slice that runs backwards may end before the first element, which is far below 0 in ONNX.
        ends = nb.elementwise(Elementwise.SUM, starts, nb.elementwise(Elementwise.PROD, sizes, steps))
        backwards = nb.elementwise(Elementwise.AND, nb.elementwise(Elementwise.LESS, steps, 0),
                                   nb.elementwise(Elementwise.LESS, ends, 0))
        ends = nb.select(backwards, nb.constant(np.array(-(1 << 31), np.int64)), ends)
        axes = None if self.axes is None else nb.constant(np.array(listed(self.axes), np.int64))
        return nb.slice(x, starts, ends, axes, steps, name=self.name)


@adds("add_padding_nd")
class IPaddingLayer(_Layer):
    TYPE = _L.PADDING
    _takes = ("input", "pre_padding", "post_padding")
    _renamed = {"pre_padding": "pre_padding_nd", "post_padding": "post_padding_nd"}

    def _emit(self, nb, inputs):
        others = [0] * (len(inputs[0].shape) - len(self.pre_padding_nd))
        return nb.pad(inputs[0], others + listed(self.pre_padding_nd) + others + listed(self.post_padding_nd), name=self.name)


@adds("add_resize")
class IResizeLayer(_Layer):
    TYPE = _L.RESIZE
    FIELDS = dict(shape=None, scales=None, resize_mode=t.InterpolationMode.NEAREST, cubic_coeff=-0.75, exclude_outside=False,
                  coordinate_transformation=t.ResizeCoordinateTransformation.ASYMMETRIC, nearest_rounding=t.ResizeRoundMode.FLOOR,
                  selector_for_single_pixel=t.ResizeSelector.FORMULA)
    _takes = ("input",)

    def _emit(self, nb, inputs):
        if self.selector_for_single_pixel == t.ResizeSelector.UPPER:
            raise NotSupported("ResizeSelector.UPPER")
        nearest = {t.ResizeRoundMode.HALF_UP: "round_prefer_ceil", t.ResizeRoundMode.HALF_DOWN: "round_prefer_floor",
                   t.ResizeRoundMode.FLOOR: "floor", t.ResizeRoundMode.CEIL: "ceil"}
        more = dict(mode=like(Interpolation, self.resize_mode), coordinates=self.coordinate_transformation.name.lower(),
                    nearest=nearest[self.nearest_rounding], cubic_coeff=self.cubic_coeff, exclude_outside=self.exclude_outside,
                    name=self.name)
        if len(inputs) > 1:
            return nb.resize(inputs[0], nb.cast(inputs[1], "int64"), **more)
        if self.shape is not None:
            return nb.resize(inputs[0], np.array(listed(self.shape), np.int64), **more)
        return nb.resize(inputs[0], scales=list(self.scales), **more)


@adds("add_gather")
class IGatherLayer(_Layer):
    TYPE, FIELDS = _L.GATHER, dict(axis=0, num_elementwise_dims=0, mode=t.GatherMode.DEFAULT)
    _takes, _tensors = ("input", "indices", "axis"), 2

    def _emit(self, nb, inputs):
        if self.mode == t.GatherMode.ELEMENT:
            return nb.gather_elements(*inputs, self.axis, name=self.name)
        if self.mode == t.GatherMode.ND:
            return nb.gather_nd(inputs[0], nb.cast(inputs[1], "int64"), self.num_elementwise_dims, name=self.name)
        if self.num_elementwise_dims:
            raise NotSupported("IGatherLayer.num_elementwise_dims in the default mode")
        return nb.gather(*inputs, self.axis, name=self.name)


adds("add_gather_v2")(type("IGatherLayer", (IGatherLayer,), {"_takes": ("input", "indices", "mode")}))


@adds("add_scatter")
class IScatterLayer(_Layer):
    TYPE, FIELDS = _L.SCATTER, dict(axis=0)
    _takes, _tensors = ("data", "indices", "updates", "mode"), 3

    def _emit(self, nb, inputs):
        x, indices, updates = inputs
        if self.mode == t.ScatterMode.ND:
            return nb.scatter_nd(x, nb.cast(indices, "int64"), updates, name=self.name)
        return nb.scatter_elements(x, indices, updates, self.axis, ScatterMode.REPLACE, name=self.name)


@adds("add_one_hot")
class IOneHotLayer(_Layer):
    TYPE, _takes, _tensors = _L.ONE_HOT, ("indices", "values", "depth", "axis"), 3

    def _emit(self, nb, inputs):
        indices, values, depth = inputs
        return nb.one_hot(indices, nb.cast(depth, "int64"), values, self.axis, name=self.name)


@adds("add_fill")
class IFillLayer(_Layer):
    TYPE, FIELDS = _L.FILL, dict(alpha=0.0, beta=1.0, to_type=t.DataType.FLOAT)
    _takes, _tensors, _renamed = ("shape", "op", "output_type"), 0, {"output_type": "to_type"}
    operation = property(lambda self: self.op)

    def _emit(self, nb, inputs):
        dtype = t.lathe_name(self.to_type)
        if self.op == t.FillOperation.LINSPACE:
            return self._linspace(nb, inputs, dtype)
        if any(i is not None for i in inputs):
            raise NotSupported(f"IFillLayer {self.op.name} with tensors")
        draw = nb.random_uniform if self.op == t.FillOperation.RANDOM_UNIFORM else nb.random_normal
        return nb.cast(draw(listed(self.shape), float(self.alpha), float(self.beta), name=self.name), dtype)

    def _linspace(self, nb, inputs, dtype):
        shape = inputs[0] if inputs and inputs[0] is not None else None
        given = dict(enumerate(inputs))
        start = given.get(1) if given.get(1) is not None else nb.constant(np.array(self.alpha), dtype)
        delta = given.get(2) if given.get(2) is not None else nb.constant(np.array(self.beta), dtype)
        if shape is None and len(self.shape) != 1 or delta.shape not in ((), (1,)):
            raise NotSupported("IFillLayer LINSPACE of several dims")
        count = nb.reshape(nb.cast(shape, "int64"), []) if shape is not None else int(self.shape[0])
        places = nb.cast(nb.range(0, count, 1), dtype)
        return nb.elementwise(Elementwise.SUM, nb.elementwise(Elementwise.PROD, places, delta), start, name=self.name)


@adds("add_reverse_sequence")
class IReverseSequenceLayer(_Layer):
    TYPE, FIELDS = _L.REVERSE_SEQUENCE, dict(batch_axis=1, sequence_axis=0)
    _takes, _tensors = ("input", "sequence_lens"), 2

    def _emit(self, nb, inputs):
        return nb.reverse_sequence(inputs[0], nb.cast(inputs[1], "int64"), self.batch_axis, self.sequence_axis, name=self.name)


class _AxesLayer(_Layer):
    _takes, _tensors = ("input", "axes"), 2

    def _axes(self):
        axes = self._constant(1)
        if axes is None:
            raise NotSupported(f"{type(self).__name__} with axes that are no constant")
        return listed(axes.reshape(-1))


@adds("add_squeeze")
class ISqueezeLayer(_AxesLayer):
    TYPE = _L.SQUEEZE

    def _emit(self, nb, inputs):
        return nb.squeeze(inputs[0], self._axes(), name=self.name)


@adds("add_unsqueeze")
class IUnsqueezeLayer(_AxesLayer):
    TYPE = _L.UNSQUEEZE

    def _emit(self, nb, inputs):
        return nb.unsqueeze(inputs[0], self._axes(), name=self.name)


@adds("add_assertion")
class IAssertionLayer(_Layer):
    TYPE, OUTPUTS, _takes = _L.ASSERTION, 0, ("condition", "message")

    def _emit(self, nb, inputs):
        known = self._constant(0)
        if known is None:
            raise NotSupported("IAssertionLayer with a condition that is no constant")
        if not known.all():
            raise lathe.InputError(self.message, where=f"assertion '{self.name}'")
        return []


# --- selection and sampling

@adds("add_non_zero")
class INonZeroLayer(_Layer):
    TYPE, FIELDS = _L.NON_ZERO, dict(indices_type=t.DataType.INT32)
    _takes = ("input", "indices_type")

    def _emit(self, nb, inputs):
        return nb.cast(nb.non_zero(inputs[0], name=self.name), t.lathe_name(self.indices_type))


@adds("add_nms")
class INMSLayer(_Layer):
    TYPE, OUTPUTS = _L.NMS, 2
    FIELDS = dict(bounding_box_format=t.BoundingBoxFormat.CORNER_PAIRS, topk_box_limit=2000, indices_type=t.DataType.INT32)
    _takes, _tensors = ("boxes", "scores", "max_output_boxes_per_class", "indices_type"), 3

    def _emit(self, nb, inputs):
        boxes, scores, most = inputs[:3]
        if len(boxes.shape) == 4:
            if boxes.shape[2] != 1:
                raise NotSupported("INMSLayer with boxes of their own for each class")
            boxes = nb.squeeze(boxes, [2])
        iou, score = (nb.reshape(inputs[i], [1]) if len(inputs) > i and inputs[i] is not None else None for i in (3, 4))
        picked = nb.non_max_suppression(boxes, nb.transpose(scores, [0, 2, 1]), nb.reshape(nb.cast(most, "int64"), [1]), iou, score,
                                        self.bounding_box_format == t.BoundingBoxFormat.CENTER_SIZES, name=self.name)
        count = nb.gather(nb.shape(picked), np.array(0, np.int64))
        return [nb.cast(y, t.lathe_name(self.indices_type)) for y in (picked, count)]


@adds("add_grid_sample")
class IGridSampleLayer(_Layer):
    TYPE = _L.GRID_SAMPLE
    FIELDS = dict(interpolation_mode=t.InterpolationMode.LINEAR, align_corners=False, sample_mode=t.SampleMode.FILL)
    _takes, _tensors = ("input", "grid"), 2

    def _emit(self, nb, inputs):
        padding = {t.SampleMode.FILL: "zeros", t.SampleMode.CLAMP: "border", t.SampleMode.REFLECT: "reflection"}
        return nb.grid_sample(*inputs, like(Interpolation, self.interpolation_mode), padding[self.sample_mode], self.align_corners,
                              name=self.name)
