# SPDX-License-Identifier: Apache-2.0
"""Operators on quantised tensors, as ONNX Runtime's quantiser and optimizer write them. Its kernels of sums, products and averages work
with fixed points that may be one step off, and those of unsigned by signed bytes saturate on CPUs without VNNI; there the expected
results are those of DequantizeLinear, the float operator and QuantizeLinear."""
import pathlib

import ml_dtypes
import numpy as np
from onnx import helper

from domain_cases import make_model, reference

DOMAIN = "com.microsoft"
A = (np.float32(0.03), np.uint8(120))
B = (np.float32(0.05), np.uint8(7))
Y = (np.float32(0.04), np.uint8(99))
POWER = (np.float32(1 / 32), np.uint8(120))  # float sums of such numbers are exact, and so is where a mean is a tie of rounding


def eight(add, *shape, dtype=np.uint8):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return add.random.integers(low, high, shape, dtype, endpoint=True)


def through_floats(op, operands, y, **attributes):
    """`operands`: triples of a tensor, its scale and its zero point, or float arrays; `y`: scale and zero point of the result, or none."""
    inputs, nodes, names = {}, [], []
    for i, operand in enumerate(operands):
        if not isinstance(operand, tuple):
            inputs[f"x{i}"] = operand
            names.append(f"x{i}")
            continue
        for part, value in zip("qsz", operand):
            inputs[f"{part}{i}"] = np.asarray(value)
        nodes.append(helper.make_node("DequantizeLinear", [f"{part}{i}" for part in "qsz"], [f"d{i}"], axis=np.ndim(operand[0]) - 1))
        names.append(f"d{i}")
    nodes.append(helper.make_node(op, names, ["f"], **attributes))
    if y:
        inputs.update(sy=np.asarray(y[0]), zy=np.asarray(y[1]))
        nodes.append(helper.make_node("QuantizeLinear", ["f", "sy", "zy"], ["y"]))
    return reference(make_model(nodes, inputs, ["y" if y else "f"]), inputs)


def pointwise(add):
    x, y = eight(add, 2, 5, 8), eight(add, 2, 5, 8)
    for name, a, b in (("plain", x, y), ("broadcast", x, eight(add, 8))):
        for op in ("Add", "Mul"):
            add(name, f"QLinear{op}", [a, *A, b, *B, *Y], expected=through_floats(op, [(a, *A), (b, *B)], Y))
    signed = eight(add, 2, 5, 8, dtype=np.int8)
    a, b, y = (signed, A[0], np.int8(-3)), (signed[::-1].copy(), B[0], np.int8(5)), (Y[0], np.int8(11))
    add("signed", "QLinearAdd", [*a, *b, *y], expected=through_floats("Add", [a, b], y))
    add("plain", "QLinearSigmoid", [x, *A, np.float32(1 / 256), np.uint8(0)])
    add("plain", "QLinearLeakyRelu", [x, *A, *Y], alpha=0.2)
    add("plain", "QLinearSoftmax", [x, *A, np.float32(1 / 256), np.uint8(0)], axis=-1, opset=13)
    add("flat", "QLinearSoftmax", [x, *A, np.float32(1 / 256), np.uint8(0)], axis=1, opset=11)
    add("plain", "QLinearWhere", [add.random.integers(0, 2, (2, 5, 8)).astype(bool), x, *A, eight(add, 2, 5, 8), *B, *Y])


def windows(add):
    x, last = eight(add, 2, 6, 9, 8), eight(add, 2, 9, 8, 6)
    pool = dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for name, flag in (("plain", 0), ("with_padding", 1)):
        expected = through_floats("AveragePool", [(x, *POWER)], POWER, count_include_pad=flag, **pool)
        add(name, "QLinearAveragePool", [x, *POWER, *POWER], count_include_pad=flag, expected=expected, **pool)
    first = np.ascontiguousarray(np.moveaxis(last, 3, 1))
    expected = [np.ascontiguousarray(np.moveaxis(through_floats("AveragePool", [(first, *POWER)], POWER, **pool)[0], 1, 3))]
    add("channels_last", "QLinearAveragePool", [last, *POWER, *POWER], channels_last=1, expected=expected, **pool)
    add("plain", "QLinearGlobalAveragePool", [x, *A, *Y])
    add("channels_last", "QLinearGlobalAveragePool", [last, *A, *Y], channels_last=1)
    parts = [eight(add, 2, 6, 3), A[0], A[1], eight(add, 2, 4, 3), B[0], B[1]]
    add("plain", "QLinearConcat", [*Y, *parts], axis=1)
    w = eight(add, 7, 6, 3, 3, dtype=np.int8)
    scales, zeros = np.linspace(0.01, 0.02, 7, dtype=np.float32), np.zeros(7, np.int8)
    bias = add.random.integers(-2000, 2000, 7).astype(np.int32)
    small = (last // 2, A[0], np.uint8(60))  # sums of two products within 16 bits on every CPU
    add("channels_last", "QLinearConv", [*small, w, scales, zeros, np.float32(0.5), np.uint8(128), bias],
        frozen=(3, 4, 5, 8), channels_last=1, pads=[1, 1, 1, 1])


def means(add):
    x = eight(add, 2, 5, 8)
    for name, axes, keep in (("last", [-1], 1), ("two", [0, 2], 0)):
        expected = through_floats("ReduceMean", [(x, *POWER), np.array(axes, np.int64)], Y, keepdims=keep)
        add(name, "QLinearReduceMean", [x, *POWER, *Y], axes=axes, keepdims=keep, expected=expected)


def products(add):
    a, b = eight(add, 5, 24) // 2, eight(add, 24, 7, dtype=np.int8)
    zero = np.int8(0)
    scales = np.linspace(0.01, 0.02, 7, dtype=np.float32)
    c = add.random.integers(-2000, 2000, (7,)).astype(np.int32)
    rest = [np.float32(0.2), np.uint8(128)]
    add("plain", "QGemm", [a, A[0], np.uint8(60), b, B[0], zero, c, *rest], frozen=(3, 6))
    add("no_c", "QGemm", [a, A[0], np.uint8(60), b, B[0], zero, None, *rest], frozen=(3,))
    add("float", "QGemm", [a, A[0], np.uint8(60), b, B[0], zero, c], frozen=(3, 6))
    add("transposed", "QGemm", [a, A[0], np.uint8(60), b.T.copy(), scales, np.zeros(7, np.int8), None, *rest],
        frozen=(3,), transB=1, alpha=0.5)
    bias = add.floats(7)
    add("plain", "MatMulIntegerToFloat", [a, b, A[0], B[0], np.uint8(60), zero, bias], frozen=(1,))
    add("columns", "MatMulIntegerToFloat", [a, b, A[0], scales, np.uint8(60), np.zeros(7, np.int8)], frozen=(1,))
    x = add.floats(5, 24)
    low, high = np.float32(min(x.min(), 0)), np.float32(max(x.max(), 0))
    scale = np.float32((high - low) / np.float32(255))
    middle = np.uint8(np.clip(np.rint(-low / scale), 0, 255))
    quantized = np.clip(np.rint(x / scale) + middle, 0, 255).astype(np.uint8)
    product = through_floats("MatMul", [(quantized, scale, middle), (b, np.float32(0.02), zero)], None)[0]
    add("plain", "DynamicQuantizeMatMul", [x, b, np.array([0.02], np.float32), np.array([0], np.int8), bias], frozen=(1,),
        expected=[product + bias])


def few_bits(add):
    k, n, block = 70, 9, 32
    blocks = -(-k // block)
    x, scales = add.floats(3, k), (0.01 + 0.02 * add.random.random((n, blocks))).astype(np.float32)
    bias = add.floats(n)
    for bits in (4, 8):
        w = add.random.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
        zeros = add.random.integers(0, 256, n * ((blocks * bits + 7) // 8)).astype(np.uint8)
        sizes = dict(K=k, N=n, bits=bits, block_size=block)
        add(f"{bits}_bits", "MatMulNBits", [x, w, scales], frozen=(1, 2), **sizes)
        add(f"{bits}_bits_zero_points", "MatMulNBits", [x, w, scales, zeros], frozen=(1, 2, 3), **sizes)
        add(f"{bits}_bits_bias", "MatMulNBits", [x, w, scales, zeros, None, bias], frozen=(1, 2, 3, 5), **sizes)


def conversions(add):
    x = add.floats(2, 6, 5)
    scales, zeros = np.linspace(0.02, 0.05, 6, dtype=np.float32), add.random.integers(0, 255, 6).astype(np.uint8)
    add("tensor", "QuantizeLinear", [x, *A])
    add("axis", "QuantizeLinear", [x, scales, zeros], axis=1)
    add("tensor", "DequantizeLinear", [eight(add, 2, 6, 5), *A])
    add("axis", "DequantizeLinear", [eight(add, 2, 6, 5), scales, zeros], axis=1)


def packed(codes, bits):
    """Codes along the last axis in bytes, lowest bits first."""
    per_byte = 8 // bits
    codes = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, -codes.shape[-1] % per_byte)])
    groups = codes.reshape(*codes.shape[:-1], -1, per_byte).astype(np.uint8)
    return np.bitwise_or.reduce(groups << (np.arange(per_byte, dtype=np.uint8) * bits), axis=-1)


def nibbles(add, dtype, *shape):
    low, high = (0, 16) if dtype == ml_dtypes.uint4 else (-8, 8)
    return add.random.integers(low, high, shape).astype(dtype)


def gathers(add):
    """Tables whose blocks have a scale each; the index 9 is outside, which gives zeros."""
    inside, outside, rows = np.array([[1, 4], [0, -2]], np.int64), np.array([1, 9, -7, 5], np.int32), 6

    def scales(*shape):
        return (0.01 + 0.02 * add.random.random(shape)).astype(np.float32)

    op = "GatherBlockQuantized"
    for bits in (2, 4, 8):
        for name, length, block in (("whole", 64, 32), ("rest", 56, 32), ("one", 32, 64)):
            codes, blocks = add.random.integers(0, 1 << bits, (rows, length)), -(-length // block)
            zeros = packed(add.random.integers(0, 1 << bits, (rows, blocks)), bits)
            attributes = dict(bits=bits, block_size=block, quantize_axis=1)
            add(f"{name}_{bits}", op, [packed(codes, bits), inside, scales(rows, blocks)], frozen=(0, 2), **attributes)
            add(f"{name}_{bits}_zeros", op, [packed(codes, bits), outside, scales(rows, blocks), zeros], frozen=(0, 2, 3), **attributes)
    add("no_constants", op, [eight(add, rows, 32), inside, scales(rows, 2)], bits=8, block_size=16)
    add("known_indices", op, [eight(add, rows, 32), inside, scales(rows, 2)], bits=8, block_size=16, frozen=(0, 1, 2))
    add("halves", op, [eight(add, rows, 32), inside, scales(rows, 2).astype(np.float16)], bits=8, block_size=16, frozen=(0, 2))
    for dtype in (ml_dtypes.uint4, ml_dtypes.int4):
        kind = np.dtype(dtype).name
        for name, length in (("even", 40), ("odd", 33)):
            table, zeros = nibbles(add, dtype, rows, length), nibbles(add, dtype, rows, -(-length // 16))
            add(f"{kind}_{name}", op, [table, outside, scales(rows, -(-length // 16))], frozen=(0, 2), block_size=16)
            add(f"{kind}_{name}_zeros", op, [table, inside, scales(rows, -(-length // 16)), zeros], frozen=(0, 2, 3), block_size=16)
            along = np.array([0, 17, -1, 31], np.int64)
            add(f"{kind}_{name}_along_blocks", op, [table, along, scales(rows, -(-length // 16)), zeros], frozen=(0, 2, 3), block_size=16,
                gather_axis=1)
        deep, zeros = nibbles(add, dtype, 3, 32, 5), nibbles(add, dtype, 3, 2, 5)
        add(f"{kind}_middle", op, [deep, np.array([2, 0], np.int64), scales(3, 2, 5), zeros], frozen=(0, 2, 3), block_size=16)
        add(f"{kind}_last", op, [deep, np.array([[4, 0, -2]], np.int64), scales(3, 2, 5), zeros], frozen=(0, 2, 3), block_size=16,
            gather_axis=2)
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn):
        kind, table = np.dtype(dtype).name, add.floats(rows, 64).astype(dtype)
        add(f"{kind}_blocks", op, [table, outside, scales(rows, 2)], frozen=(0, 2), block_size=32)
        add(f"{kind}_rows", op, [table, inside, scales(rows, 1)], frozen=(0, 2), block_size=0)
        add(f"{kind}_one_scale", op, [table, inside, scales(1, 1)], frozen=(0, 2), block_size=0)


def attention(add):
    heads, depth, x = 3, 4, eight(add, 2, 5, 12) // 2
    width = heads * depth
    for kind, dtype in (("signed", np.int8), ("unsigned", np.uint8)):
        w = eight(add, width, 3 * width, dtype=dtype)
        zero, zeros = dtype(3), eight(add, 3 * width, dtype=dtype) // 8
        one, columns = np.float32(0.01), np.linspace(0.005, 0.01, 3 * width, dtype=np.float32)
        front = [x, w, add.floats(3 * width), np.float32(0.02)]
        add(f"{kind}_plain", "QAttention", [*front, one, None, np.uint8(60), zero], frozen=(1, 2), num_heads=heads)
        add(f"{kind}_columns", "QAttention", [*front, columns, None, np.uint8(60), zeros], frozen=(1, 2, 4, 7), num_heads=heads)
        add(f"{kind}_mask", "QAttention", [*front, one, np.array([3, 5], np.int32), np.uint8(60), zero], frozen=(1,), num_heads=heads)
        past = add.floats(2, 2, heads, 3, depth)
        add(f"{kind}_past", "QAttention", [*front, one, None, np.uint8(60), zero, past], outputs=2, num_heads=heads, unidirectional=1)
        add(f"{kind}_causal", "QAttention", [*front, one, np.array([3, 5, 1, 0], np.int32), np.uint8(60), zero], num_heads=heads,
            unidirectional=1)
    add("no_zero_points", "QAttention", [*front, one], num_heads=heads, frozen=(1,))


def embeddings(add):
    ids = add.random.integers(0, 20, (2, 6)).astype(np.int32)
    segments, mask = add.random.integers(0, 2, (2, 6)).astype(np.int32), np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32)
    for dtype in (np.uint8, np.int8):
        tables = [eight(add, *shape, dtype=dtype) for shape in ((20, 8), (10, 8), (2, 8), (8,), (8,))]
        scales, zeros = [np.float32(0.01 * i) for i in range(1, 6)], [dtype(7 * i) for i in range(5)]
        add(f"all_{np.dtype(dtype).name}", "QEmbedLayerNormalization", [ids, segments, *tables, mask, *scales, *zeros], outputs=2,
            frozen=tuple(range(2, 7)))
    for parts in (tables, scales, zeros):
        parts[2] = None
    add("no_segments", "QEmbedLayerNormalization", [ids, None, *tables, None, *scales, *zeros], outputs=2, epsilon=1e-5)


def recurrent(add):
    """ONNX Runtime quantises inputs and states in each step, too: the results are those of LSTM on the same weights, and near its own where
    its kernel is exact: without VNNI its sums of two products saturate at 16 bits."""
    is_exact = "vnni" in pathlib.Path("/proc/cpuinfo").read_text()
    steps, batch, width, hidden = 5, 2, 6, 4
    for direction, count in (("forward", 1), ("bidirectional", 2)):
        for kind, each, dtype in (("tensor", (count,), np.uint8), ("columns", (count, 4 * hidden), np.int8)):
            x, bias = add.floats(steps, batch, width), add.floats(count, 8 * hidden, scale=0.2)
            lengths, states = np.array([5, 3], np.int32), [add.floats(count, batch, hidden) for _ in range(2)]
            matrices, parameters = [], []
            for rows in (width, hidden):
                low = 0 if dtype == np.int8 else 100
                w, scale = eight(add, count, rows, 4 * hidden, dtype=dtype), (0.002 + 0.002 * add.random.random(each)).astype(np.float32)
                zero = np.full(each, low, dtype)
                matrices.append(w)
                parameters += [scale, zero]
            reals = []
            for w, scale, zero in zip(matrices, parameters[::2], parameters[1::2]):
                scale, zero = (p.reshape(count, 1, -1).astype(np.float32) for p in (scale, zero))
                reals.append(np.ascontiguousarray(((w - zero) * scale).swapaxes(1, 2)))
            attributes = dict(hidden_size=hidden, direction=direction)
            names = ["x", "w", "r", "b", "lengths", "h", "c"]
            inputs = dict(zip(names, [x, *reals, bias, lengths, *states]))
            model = make_model([helper.make_node("LSTM", names, ["y", "yh", "yc"], **attributes)], inputs, ["y", "yh", "yc"])
            expected = reference(model, inputs)
            given = [x, *matrices, bias, lengths, *states, None, *parameters]
            own = add.results("DynamicQuantizeLSTM", given, 3, **attributes, frozen=(1, 2, 8, 9, 10, 11))
            for a, b in zip(own, expected):
                assert not is_exact or np.abs(a - b).max() < 0.02, "the operator's own kernel is near"
            add(f"{direction}_{kind}", "DynamicQuantizeLSTM", given, outputs=3, frozen=(1, 2, 8, 9, 10, 11), expected=expected, **attributes)


def bits_and_bytes(add):
    """Weights of 4 bits that name numbers of a table. With transB 0 ONNX Runtime 1.31 transposes all the same, and reads behind the
    weights: there the results are those of the other form, which gives the weights when its operand is the identity."""
    k, n = 35, 9
    for name, kind in (("fp4", 0), ("nf4", 1)):
        for block in (16, 64):
            codes, factors = eight(add, (n * k + 1) // 2), np.abs(add.floats((n * k - 1) // block + 1))
            sizes = dict(K=k, N=n, block_size=block, quant_type=kind)
            add(f"{name}_{block}", "MatMulBnb4", [add.floats(2, 3, k), codes, factors], frozen=(1, 2), **sizes)
            x, weights = add.floats(3, n), add.results("MatMulBnb4", [np.eye(k, dtype=np.float32), codes, factors], frozen=(1, 2), **sizes)[0].T
            add(f"{name}_{block}_not_transposed", "MatMulBnb4", [x, codes, factors], frozen=(1, 2), transB=0, expected=[x @ weights], **sizes)


def sixteen(add):
    a, b = (add.random.integers(-30000, 30000, s).astype(np.int16) for s in ((2, 3, 8), (8, 5)))
    add("plain", "MatMulInteger16", [a // 8, b // 8])
    add("wraps", "MatMulInteger16", [a, b], expected=[(a.astype(np.int64) @ b).astype(np.int32)])
    a, b = (add.random.integers(0, 60000, s).astype(np.uint16) for s in ((3, 8), (8, 5)))
    add("unsigned", "MatMulInteger16", [a, b], expected=[(a.astype(np.uint64) @ b).astype(np.uint32)])


def experts(add):
    count, tokens, width, inner = 4, 6, 32, 48
    x, router, mixing = add.floats(tokens, width), add.floats(tokens, count), np.abs(add.floats(tokens, count))

    def product(rows, length, bits, block=0, zeros=False):
        codes = add.random.integers(0, 1 << bits, (count, rows, length))
        shape = (count, rows, length // block) if block else (count, rows)
        scales = ((0.02 + 0.02 * add.random.random(shape)) * 2.0 ** (3 - bits)).astype(np.float32)
        points = packed(add.random.integers(0, 1 << bits, shape), bits) if zeros else None
        return [packed(codes, bits), scales, add.floats(count, rows)], points

    constants = (2, 3, 4, 5, 6, 7)
    for bits in (2, 4, 8):
        first, second = product(inner, width, bits)[0], product(width, inner, bits)[0]
        add(f"rows_{bits}", "QMoE", [x, router, *first, *second], frozen=constants, k=2, expert_weight_bits=bits, activation_type="silu")
    first, z1 = product(inner, width, 4, zeros=True)
    second, z2 = product(width, inner, 4, zeros=True)
    add("rows_zeros", "QMoE", [x, router, *first, *second, None, None, None, z1, z2], frozen=(*constants, 11, 12), k=2)
    first, z1 = product(inner, width, 4, 16, True)
    second, z2 = product(width, inner, 4, 16, True)
    blocks = dict(k=2, block_size=16, activation_type="gelu")
    add("blocks", "QMoE", [x.reshape(2, 3, width), router, *first, *second], frozen=constants, **blocks)
    add("blocks_zeros", "QMoE", [x, router, *first, *second, None, None, None, z1, z2], frozen=(*constants, 11, 12), **blocks)
    for flag in (0, 1):
        add(f"mixing_{flag}", "QMoE", [x, router, *first, *second, *[None] * 6, mixing], frozen=constants, normalize_routing_weights=flag,
            **blocks)
    wide = product(2 * inner, width, 4)[0]
    second = product(width, inner, 4)[0]
    add("swiglu", "QMoE", [x, router, *wide, *second], frozen=constants, k=1, activation_type="swiglu", swiglu_fusion=1,
        activation_alpha=1.702, activation_beta=1.0, swiglu_limit=7.0)


def cases(add):
    pointwise(add)
    windows(add)
    means(add)
    products(add)
    few_bits(add)
    conversions(add)
    for family in (gathers, attention, embeddings, recurrent, bits_and_bytes, sixteen, experts):
        family(add)
