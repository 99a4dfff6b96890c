# SPDX-License-Identifier: Apache-2.0
"""Random quantised graphs: 3 to 12 layers, each of which reads quantised tensors and gives some. A seed makes
a graph again.

Here are the layers between DequantizeLinear and QuantizeLinear; operators on integers are in
quantized_operators.py.
"""
import numpy as np

from quantized_graph import TYPES, Graph
from quantized_operators import IntegerOperators

CHANNELS = (1, 3, 5, 7, 8, 16, 17, 33, 64)


class Generator(IntegerOperators, Graph):
    def __init__(self, seed):
        super().__init__(seed)
        self.pool = []    # quantised tensors, all of which a layer may read
        self.floats = []  # results of layers that end without a QuantizeLinear

    # --- what layers read
    def pick(self, ranks=range(1, 6), kinds=TYPES, least=1):
        """Rather one of the last tensors than an early one."""
        found = [q for q in self.pool if len(self.shape(q)) in ranks and q.kind in kinds and min(self.shape(q), default=1) >= least]
        if not found:
            return None
        return found[-1] if self.chance(0.5) else self.one_of(found)

    def fellow(self, x, fits):
        """Another tensor whose shape fits, where there is one."""
        found = [q for q in self.pool if q.name != x.name and fits(self.shape(q))]
        return self.one_of(found) if found and self.chance(0.8) else None

    def constant_tensor(self, shape, kind=None):
        kind = kind or self.kind()
        array = self.r.standard_normal(shape).astype(np.float32)
        scale, zero = self.grid(array, kind)
        q = self.on_grid(None, kind, scale, zero)
        q.name = self.constant(to_integers(array, scale, zero, kind), kind)
        self.known[q.name] = to_integers(array, scale, zero, kind).astype(kind)
        return q

    # --- weights
    def weight_numbers(self, shape, terms):
        array = self.r.standard_normal(shape) / max(1, terms) ** 0.5
        if self.chance(0.1):  # all at the ends of the range, where sums of 16 bits would overflow
            array = np.sign(array) / max(1, terms) ** 0.5
        if self.chance(0.05):  # a channel of zeros, as pruning leaves them
            array[..., :1] = 0
        return array.astype(np.float32)

    def weight(self, shape, axis, terms, along=None):
        """The name of weights behind a DequantizeLinear, and their scales. `axis`: where there is a scale per
        channel; `along`: where there may be one per block."""
        array = self.weight_numbers(shape, terms)
        kind = self.one_of(["int8"] * 12 + ["uint8"] * 4 + ["int4", "uint4", "int16"])
        if along is not None and self.chance(0.2):
            return self.blocked(array, along, kind)
        per_channel = self.chance(0.6)
        scale, zero, flat = self.weight_grid(array, axis, kind, per_channel)
        # Float weights that the graph quantises, as training leaves it.
        if kind in ("int8", "uint8") and self.chance(0.1):
            first = self.add("QuantizeLinear", [self.constant(array), self.constant(scale), self.constant(zero, kind)], axis=axis)
        else:
            first = self.constant(to_integers(array, flat(scale), flat(zero), kind), kind)
        parameters = [self.constant(scale)]
        if np.any(zero) or self.chance(0.5):
            parameters.append(self.constant(zero, kind))
        return self.add("DequantizeLinear", [first, *parameters], axis=axis), scale

    def weight_grid(self, array, axis, kind, per_channel):
        """Scale, zero point, and a function that gives either the shape to compute with."""
        least, most = TYPES[kind]
        rows = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1) if per_channel else array.reshape(1, -1)
        low, high = np.minimum(rows.min(1), 0), np.maximum(rows.max(1), 0)
        if kind.startswith("u"):
            scale = np.maximum((high - low) / (most - least), 1e-4).astype(np.float32)
            zero = np.clip(np.round(least - low / scale), least, most).astype(np.int64)
        else:
            scale, zero = np.maximum(np.maximum(-low, high) / most, 1e-4).astype(np.float32), np.zeros(len(rows), np.int64)
        if not per_channel and self.chance(0.8):
            scale, zero = scale[0], zero[0]
        shape = [1] * array.ndim
        shape[axis] = -1
        return scale, zero, lambda p: np.reshape(p, shape) if np.size(p) > 1 else p

    def blocked(self, array, along, kind):
        size = self.one_of([b for b in (2, 3, 16, 32) if b < 2 * array.shape[along]] or [2])
        count = -(-array.shape[along] // size)
        shape = [count if i == along else d for i, d in enumerate(array.shape)]
        scale = (self.r.uniform(0.5, 1.5, shape) * max(1e-3, np.abs(array).max()) / TYPES[kind][1]).astype(np.float32)
        middle = (TYPES[kind][0] + TYPES[kind][1] + 1) // 2
        zero = np.full(shape, middle) if self.chance(0.5) else self.r.integers(middle - 2, middle + 3, shape)
        spread = lambda p: np.take(p, np.arange(array.shape[along]) // size, along)
        integers = self.constant(to_integers(array, spread(scale), spread(zero), kind), kind)
        return self.add("DequantizeLinear", [integers, self.constant(scale), self.constant(zero, kind)], axis=along, block_size=size), np.max(scale)

    def bias(self, count, x, weight_scale):
        """int32 on the grid of the products, or float."""
        numbers = self.r.standard_normal(count).astype(np.float32) * 0.5
        scale = (x.scale * weight_scale).astype(np.float32)
        if self.chance(0.2):
            return self.constant(numbers)
        integers = self.constant(np.clip(np.round(numbers / scale), -2 ** 31 + 200, 2 ** 31 - 200).astype(np.int32))
        return self.add("DequantizeLinear", [integers, self.constant(scale)], axis=0)

    # --- layers of products
    def window(self, size, most=5):
        """Attributes for these spatial extents, and the extents of the result; None where they do not fit."""
        dims = len(size)
        k = self.one_of((1, 1, 2, 3, 3, 3, most))
        kernel = [k] * dims if self.chance(0.8) else [self.whole(1, 3) for _ in range(dims)]
        strides = [self.one_of((1, 1, 2))] * dims if self.chance(0.8) else [self.whole(1, 3) for _ in range(dims)]
        dilations = [self.one_of((1, 1, 1, 2))] * dims
        if self.chance(0.6):
            pads = [((k - 1) * d) // 2 for k, d in zip(kernel, dilations)] * 2
        else:
            pads = [self.whole(0, k - 1) for k in kernel * 2]
        result = [(s + pads[i] + pads[i + dims] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i, s in enumerate(size)]
        if any(s + pads[i] + pads[i + dims] < dilations[i] * (kernel[i] - 1) + 1 for i, s in enumerate(size)):
            return None
        return dict(kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads), result

    def groups_of(self, channels):
        """Groups and the channels of the result."""
        if channels > 1 and self.chance(0.35):
            groups = channels if self.chance(0.7) else self.one_of([d for d in range(1, channels + 1) if channels % d == 0])
            return groups, groups * self.one_of((1, 1, 1, 2))
        return 1, self.one_of(CHANNELS)

    def filters(self, x, *most):
        """A convolution's attributes, the extents of its result, its groups, and the shape of its weights; None where it does not fit."""
        found = x and self.window(self.shape(x)[2:], *most)
        if not found:
            return None
        (n, channels), (attributes, size) = self.shape(x)[:2], found
        groups, out = self.groups_of(channels)
        shape = (out, channels // groups, *attributes["kernel_shape"])
        return None if self.too_large(n * out * np.prod(size), np.prod(shape[1:])) else (attributes, size, groups, shape)

    def convolution(self):
        x = self.pick((3, 4, 5))
        found = self.filters(x)
        if not found:
            return False
        attributes, size, groups, shape = found
        out = shape[0]
        w, scale = self.weight(shape, 0, np.prod(shape[1:]))
        inputs = [self.dequantise(x), w] + ([self.bias(out, x, scale)] if self.chance(0.7) else [])
        if self.chance(0.1) and max(attributes["pads"]) > 0:  # padded by a layer of its own
            dims = len(size)
            pads = attributes["pads"]
            inputs[0] = self.add("Pad", [inputs[0], self.ints(0, 0, *pads[:dims], 0, 0, *pads[dims:])])
            attributes = {**attributes, "pads": [0] * 2 * dims}
        elif self.chance(0.1):
            attributes = {**attributes, "auto_pad": "SAME_UPPER", "dilations": [1] * len(size)}
            del attributes["pads"]
        y = self.add("Conv", inputs, group=groups, **attributes)
        return self.end(self.residual(y, x) if self.chance(0.2) else self.tail(y))

    def residual(self, y, x):
        """A branch that is added before the result is quantised, where one has its shape."""
        fellow = self.fellow(x, lambda s: s == self.shape(y))
        return self.tail(self.add("Add", self.shuffled([y, self.dequantise(fellow)])) if fellow else y)

    def transposed_convolution(self):
        x = self.pick((3, 4))
        if x is None:
            return False
        n, channels, *size = self.shape(x)
        groups, out = self.groups_of(channels)
        kernel, stride = [self.whole(1, 3) for _ in size], self.whole(1, 2)
        if self.too_large(n * out * np.prod(size) * stride ** len(size), channels // groups * np.prod(kernel)):
            return False
        w, scale = self.weight((channels, out // groups, *kernel), 1, channels // groups * np.prod(kernel))
        # The scales of one group's channels serve all groups: without groups alone are they those of the
        # bias.
        inputs = [self.dequantise(x), w]
        if self.chance(0.7) and (np.size(scale) == 1 or groups == 1):
            inputs.append(self.bias(out, x, scale))
        pads = [self.whole(0, (k - 1) // 2) for k in kernel * 2]
        y = self.add("ConvTranspose", inputs, group=groups, kernel_shape=kernel, strides=[stride] * len(size), pads=pads)
        return self.end(self.tail(y))

    def gemm(self):
        x = self.pick((2,))
        if x is None:
            return False
        (rows, terms), columns, transposed = self.shape(x), self.one_of(CHANNELS), int(self.chance(0.7))
        w, scale = self.weight((columns, terms) if transposed else (terms, columns), 1 - transposed, terms, transposed)
        inputs = [self.dequantise(x), w] + ([self.bias(columns, x, scale)] if self.chance(0.7) else [])
        return self.end(self.tail(self.add("Gemm", inputs, transB=transposed)))

    def product(self):
        x = self.pick((2, 3, 4))
        if x is None:
            return False
        terms, columns = self.shape(x)[-1], self.one_of(CHANNELS)
        if self.too_large(np.prod(self.shape(x)[:-1]) * columns, terms):
            return False
        if self.chance(0.2):  # turned around behind its DequantizeLinear
            w, scale = self.weight((columns, terms), 0, terms, 1)
            w = self.add("Transpose", [w], perm=[1, 0])
        else:
            w, scale = self.weight((terms, columns), 1, terms, 0)
        y = self.add("MatMul", [self.dequantise(x), w])
        if self.chance(0.5):
            y = self.add("Add", self.shuffled([y, self.bias(columns, x, scale)]))
        return self.end(self.residual(y, x) if self.chance(0.3) else self.tail(y))

    def product_of_activations(self):
        x = self.pick((2, 3, 4))
        if x is None:
            return False
        shape = self.shape(x)
        if self.too_large(np.prod(shape) // shape[-1] * 64, shape[-1]):
            return False
        other = self.fellow(x, lambda s: len(s) == len(shape) and s[:-2] == shape[:-2] and s[-2] == shape[-1])
        if other:
            b = self.dequantise(other)
        else:  # with itself, as attention does
            order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            b = self.add("Transpose", [self.dequantise(x)], perm=order)
            if self.chance(0.5):
                b = self.dequantise(self.quantise(b, x))
        y = self.add("MatMul", [self.dequantise(x), b])
        if other is None and self.chance(0.6):
            return self.attention(x, y)
        return self.end(self.tail(y))

    def attention(self, x, scores):
        """Scores of x with itself, of which the probabilities weigh x."""
        scores = self.add("Mul", [scores, self.constant(np.float32(self.shape(x)[-1] ** -0.5))])
        if self.chance(0.7):
            scores = self.dequantise(self.quantise(scores))
        probabilities = self.add("Softmax", [scores], axis=-1)
        if self.chance(0.8):
            probabilities = self.dequantise(self.quantise(probabilities))
        return self.end(self.add("MatMul", [probabilities, self.dequantise(x)]))

    # --- layers of elements
    def tail(self, y):
        """Functions between a layer and its QuantizeLinear."""
        for _ in range(self.one_of((0, 0, 1, 1, 2))):
            y = self.function(y)
        return y

    def function(self, y):
        which = self.one_of(("Relu", "Relu", "Relu", "Clip", "Clip", "LeakyRelu", "Sigmoid", "HardSwish", "HardSigmoid", "Swish", "Tanh", "Elu", "Gelu", "Scale"))
        if which == "Clip":
            low, high = self.one_of(((0, 6), (0, 1), (-1, 1), (-0.3, 2.7)))
            return self.add("Clip", [y, self.constant(np.float32(low)), self.constant(np.float32(high))])
        if which == "LeakyRelu":
            return self.add("LeakyRelu", [y], alpha=self.one_of((0.01, 0.1, 0.25)))
        if which == "Swish":
            return self.add("Mul", self.shuffled([y, self.add("Sigmoid", [y])]))
        if which == "Scale":
            return self.add(self.one_of(("Mul", "Add")), [y, self.constant(np.float32(self.r.uniform(0.3, 2)))])
        return self.add(which, [y])

    def shuffled(self, pair):
        return pair[::-1] if self.chance(0.5) else pair

    def unary(self):
        x = self.pick()
        y = self.function(self.dequantise(x))
        if self.chance(0.2):  # each function between grids of its own
            y = self.function(self.dequantise(self.quantise(y)))
        return self.end(self.tail(y), x)

    def binary(self):
        x = self.pick()
        shape = self.shape(x)
        other = self.fellow(x, lambda s: broadcasts(s, shape))
        if other is None:
            if self.chance(0.5):
                smaller = [1 if self.chance(0.3) else d for d in shape][self.whole(0, len(shape) - 1):]
                other = self.constant_tensor(smaller)
            else:  # a branch of x itself
                other = self.quantise(self.function(self.dequantise(x)), x if self.chance(0.4) else None)
        a, b = self.shuffled([self.dequantise(x), self.dequantise(other)])
        operator = self.one_of(("Add", "Add", "Add", "Mul", "Mul", "Sub", "Max", "Min"))
        return self.end(self.tail(self.add(operator, [a, b])), x)

    def gate(self):
        """Squeeze and excitation: a mean per channel, a small product, and a gate on the whole tensor."""
        x = self.pick((4,))
        if x is None:
            return False
        channels = self.shape(x)[1]
        pooled = self.quantise(self.add("GlobalAveragePool", [self.dequantise(x)]))
        w, scale = self.weight((channels, channels, 1, 1), 0, channels)
        y = self.add("Conv", [self.dequantise(pooled), w, self.bias(channels, pooled, scale)])
        gate = self.quantise(self.add(self.one_of(("Sigmoid", "HardSigmoid")), [y]))
        return self.end(self.add("Mul", self.shuffled([self.dequantise(x), self.dequantise(gate)])))

    def again(self):
        """Rounds twice: a QuantizeLinear behind a pair, of another grid or of the same."""
        x = self.pick()
        if len(self.shape(x)) > 1 and self.shape(x)[1] > 1 and self.chance(0.3):
            return self.end(self.per_channel(self.dequantise(x), self.shape(x)[1]), x)
        return self.end(self.dequantise(x), x)

    def per_channel(self, y, channels):
        """Behind a pair with a scale per channel of the activations."""
        array, kind = self.value(y), self.one_of(("int8", "uint8"))
        middle = (TYPES[kind][0] + TYPES[kind][1] + 1) // 2
        scale = np.full(channels, max(1e-3, np.abs(array).max(initial=0)) / 127) * self.r.uniform(0.7, 1.3, channels)
        zero = np.full(channels, middle) if self.chance(0.5) else self.r.integers(middle - 20, middle + 20, channels)
        grid = [self.constant(scale.astype(np.float32)), self.constant(zero, kind)]
        y = self.add("DequantizeLinear", [self.add("QuantizeLinear", [y, *grid], axis=1), *grid], axis=1)
        self.steps[y] = float(scale.max())
        return y

    # --- layers that look at neighbours
    def pooling(self):
        x = self.pick((3, 4, 5))
        found = x and self.window(self.shape(x)[2:], 3)
        if not found:
            return False
        attributes, result = found
        kernel, dims = attributes["kernel_shape"], len(result)
        half = [min(p, (k - 1) // 2) for p, k in zip(attributes["pads"], kernel * 2)]
        attributes = dict(kernel_shape=kernel, strides=attributes["strides"], pads=half)
        if any(s + half[i] + half[i + dims] < kernel[i] for i, s in enumerate(self.shape(x)[2:])):
            return False
        if self.chance(0.5):
            if x.kind in ("uint8", "int8") and self.chance(0.4):  # of integers
                return self.keep(x.renamed(self.add("MaxPool", [x.name], **attributes)))
            return self.end(self.add("MaxPool", [self.dequantise(x)], **attributes), x)
        count = int(self.chance(0.3))
        return self.end(self.add("AveragePool", [self.dequantise(x)], count_include_pad=count, **attributes), x)

    def reduction(self):
        x = self.pick((2, 3, 4, 5))
        if x is None:
            return False
        rank = len(self.shape(x))
        if rank > 2 and self.chance(0.4):
            y = self.add(self.one_of(("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool")), [self.dequantise(x)])
        else:
            axes = [int(a) for a in self.r.choice(np.arange(1, rank), self.whole(1, rank - 1), replace=False)]
            operator = self.one_of(("ReduceMean", "ReduceMean", "ReduceMean", "ReduceMax", "ReduceSum"))
            y = self.add(operator, [self.dequantise(x), self.ints(*axes)], keepdims=int(self.chance(0.7)))
        return self.end(y, x)

    def softmax(self):
        x = self.pick()
        axis = self.whole(0, len(self.shape(x)) - 1) if self.chance(0.3) else -1
        return self.end(self.add("Softmax", [self.dequantise(x)], axis=axis))

    def norm(self):
        x = self.pick(least=1)
        width = self.shape(x)[-1]
        if width < 2:
            return False
        scale = self.r.uniform(0.5, 1.5, width).astype(np.float32)
        inputs = [self.dequantise(x), self.constant(scale)]
        if self.chance(0.7):
            inputs.append(self.constant(self.r.standard_normal(width).astype(np.float32)))
        return self.end(self.add("LayerNormalization", inputs, axis=-1, epsilon=1e-2))

    def resize(self):
        x = self.pick((4,))
        if x is None or self.too_large(np.prod(self.shape(x)) * 4):
            return False
        factors = self.constant(np.array([1, 1, self.whole(1, 2), self.whole(1, 2)], np.float32))
        attributes = dict(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
        if x.kind in ("uint8", "int8") and self.chance(0.3):
            return self.keep(x.renamed(self.add("Resize", [x.name, "", factors], **attributes)))
        if self.chance(0.3):
            attributes = dict(mode="linear", coordinate_transformation_mode="half_pixel")
        return self.end(self.add("Resize", [self.dequantise(x), "", factors], **attributes), x)

    # --- layers that join and move
    def joining(self):
        x = self.pick()
        shape = self.shape(x)
        axis = self.whole(0, len(shape) - 1) if self.chance(0.3) else min(1, len(shape) - 1)
        parts = [x]
        for _ in range(self.whole(1, 2)):
            parts.append(self.fellow(x, lambda s: len(s) == len(shape) and all(a == b for i, (a, b) in enumerate(zip(s, shape)) if i != axis)) or
                         self.quantise(self.function(self.dequantise(x)), x if self.chance(0.5) else None))
        if self.too_large(sum(np.prod(self.shape(p)) for p in parts)):
            return False
        if all(p.same_grid(x) for p in parts) and self.chance(0.4):
            return self.keep(x.renamed(self.add("Concat", [p.name for p in parts], axis=axis)))
        return self.end(self.add("Concat", [self.dequantise(p) for p in parts], axis=axis), x)

    def movement(self):
        """Of integers, or between a DequantizeLinear and a QuantizeLinear, mostly of the same grid."""
        x = self.pick()
        of_integers = x.kind in ("uint8", "int8") and self.chance(0.4)
        names = self.moved(x.name if of_integers else self.dequantise(x), x, of_integers)
        for name in names:
            self.keep(x.renamed(name)) if of_integers else self.end(name, x, 0.8)
        return bool(names)

    def moved(self, name, x, of_integers):
        shape = self.shape(x)
        rank, axis = len(shape), self.whole(0, len(shape) - 1)
        which = self.one_of(("Transpose", "Transpose", "Reshape", "Slice", "Pad", "Split", "Flatten", "Unsqueeze", "Gather", "Expand"))
        if which == "Transpose":
            return [self.add("Transpose", [name], perm=[int(p) for p in self.r.permutation(rank)])]
        if which == "Reshape":
            keep = self.whole(1, min(3, rank))
            return [self.add("Reshape", [name, self.ints(*shape[:keep - 1], -1, *((shape[-1],) if keep < rank else ()))])]
        if which == "Slice":
            start, step = self.whole(0, shape[axis] - 1), self.one_of((1, 1, 2, -1))
            end = -shape[axis] - 1 if step < 0 else self.whole(start + 1, shape[axis])
            return [self.add("Slice", [name, self.ints(start), self.ints(end), self.ints(axis), self.ints(step)])]
        if which == "Pad":
            pads = [self.whole(0, 2) if i % rank >= min(2, rank - 1) else 0 for i in range(2 * rank)]
            if self.chance(0.3) and min(shape) > 2:
                return [self.add("Pad", [name, self.ints(*pads)], mode=self.one_of(("edge", "reflect")))]
            value = self.constant(np.array(x.zero if of_integers else 0, x.kind if of_integers else np.float32))
            return [self.add("Pad", [name, self.ints(*pads), value])]
        if which == "Split":
            if shape[axis] < 2:
                return []
            first = self.whole(1, shape[axis] - 1)
            return self.add("Split", [name, self.ints(first, shape[axis] - first)], 2, axis=axis)
        if which == "Flatten":
            return [self.add("Flatten", [name], axis=1)]
        if which == "Unsqueeze":
            return [self.add("Unsqueeze", [name, self.ints(axis)])] if rank < 5 else []
        if which == "Gather":
            index = self.r.integers(0, shape[axis], self.whole(1, 4)).astype(np.int64)
            return [self.add("Gather", [name, self.constant(index)], axis=axis)]
        if shape[axis] != 1:
            return []
        return [self.add("Expand", [name, self.ints(*[2 if i == axis else d for i, d in enumerate(shape)])])]

    # --- ends of layers
    def keep(self, q):
        self.pool.append(q)
        return True

    def end(self, y, like=None, same=0.35):
        """Quantises the result, with a chance `same` on the grid of `like`; seldom leaves it as it is."""
        if y not in self.steps and self.chance(0.05):
            self.floats.append(y)
            return True
        return self.keep(self.quantise(y, like if like and self.chance(same) else None))

    def grow(self):
        layers = [self.convolution] * 6 + [self.product, self.gemm] * 2 + [self.binary] * 3 + [self.movement] * 3 + [self.integer_operator] * 6
        layers += [self.transposed_convolution, self.product_of_activations, self.unary, self.gate, self.again, self.pooling, self.pooling,
                   self.reduction, self.softmax, self.norm, self.resize, self.joining, self.joining]
        return self.one_of(layers)()

    def start(self):
        """One or two inputs: numbers behind a QuantizeLinear, or integers."""
        for i in range(self.one_of((1, 1, 2))):
            if i == 0 or self.chance(0.5):
                shape = self.first_shape()
            array = self.r.standard_normal(shape).astype(np.float32)
            kind = self.kind()
            q = self.on_grid(None, kind, *self.grid(array, kind))
            if self.chance(0.3):
                self.keep(q.renamed(self.input(to_integers(array, q.scale, q.zero, kind).astype(kind))))
            else:
                self.keep(self.quantise(self.input(array), q))

    def first_shape(self):
        batch, which = self.whole(1, 3), self.r.random()
        if which < 0.6:
            most = 10 if self.size == 1 else 24
            return (batch, self.one_of(CHANNELS), self.whole(3, most), self.whole(3, most))
        if which < 0.7:
            return (batch, self.one_of(CHANNELS), self.whole(4, 20))
        if which < 0.75:
            return (1, self.one_of(CHANNELS[:5]), self.whole(2, 4), self.whole(2, 5), self.whole(2, 5))
        if which < 0.9:
            return (batch, self.whole(2, 9), self.one_of((*CHANNELS, 32)))
        return (self.whole(1, 5), self.one_of((*CHANNELS, 32)))


def to_integers(array, scale, zero, kind):
    return np.clip(np.round(array / scale) + zero, *TYPES[kind]).astype(np.int32)


def broadcasts(shape, to):
    try:
        return np.broadcast_shapes(shape, to) == tuple(to)
    except ValueError:
        return False


def make(seed):
    """A model, its inputs by name, and the steps of the float values that lie on a grid."""
    g = Generator(seed)
    g.start()
    wanted, layers = g.whole(3, 12), 0
    for _ in range(60):
        layers += bool(g.grow())
        if layers == wanted:
            break
    read = {i for n in g.nodes for i in n.input}
    outputs = [f for f in g.floats if f not in read]
    for q in g.pool:
        if q.name not in g.inputs and (q.name not in read or g.chance(0.05)):
            outputs.append(g.dequantise(q) if g.chance(0.5) else q.name)
    model, inputs = g.finish(dict.fromkeys(outputs))
    return model, inputs, g.steps
