# SPDX-License-Identifier: Apache-2.0
"""Operators on quantised tensors, as ONNX Runtime's quantiser and optimizer write them. Its kernels of sums, products and averages work
with fixed points that may be one step off, and those of unsigned by signed bytes saturate on CPUs without VNNI; there the expected
results are those of DequantizeLinear, the float operator and QuantizeLinear."""
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


def cases(add):
    pointwise(add)
    windows(add)
    means(add)
    products(add)
    few_bits(add)
    conversions(add)
