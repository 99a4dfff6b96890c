# SPDX-License-Identifier: Apache-2.0
"""Quantization as NVIDIA's Model Optimizer writes it. NumPy and ml_dtypes say what the formats' papers say (OCP Microscaling Formats 1.0)."""
import ml_dtypes
import numpy as np

DOMAIN = "trt.plugins"
FP8, FP4, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu


def fp8(x):
    return np.clip(x, -448, 448).astype(FP8)


def fp4(x):
    return np.clip(x, -6, 6).astype(FP4)


def by_block(values, scales, block, of):
    """of(value, its scale) along the last axis."""
    return of(values.astype(np.float32), np.repeat(scales.astype(np.float32), block, -1))


def static(add):
    x, scale = add.floats(3, 8, scale=60), np.float32(0.125)
    q = fp8(x / scale)
    add("tensor", "TRT_FP8QuantizeLinear", [x, scale], expected=[q], frozen=(1,))
    add("tensor", "TRT_FP8DequantizeLinear", [q, scale], expected=[q.astype(np.float32) * scale], frozen=(1,))
    add("bytes", "TRT_FP8DequantizeLinear", [q.view(np.uint8), scale], expected=[q.astype(np.float32) * scale], frozen=(0, 1))
    half = np.float16(0.25)
    add("half", "TRT_FP8DequantizeLinear", [q, half], expected=[(q.astype(np.float32) * np.float32(half)).astype(np.float16)], frozen=(1,))
    w, scales = add.random.integers(-8, 8, (6, 8)).astype(np.int8), np.exp2(add.random.integers(-3, 3, (6, 2))).astype(np.float32)
    for name, stored in (("nibbles", w.astype(ml_dtypes.int4)), ("bytes", w)):
        add(name, "TRT_INT4DequantizeLinear", [stored, scales], expected=[by_block(w, scales, 4, np.multiply)], frozen=(0, 1), axis=-1, block_size=4)
    q4 = np.clip(np.rint(x[:, :4] / np.float32(20)), -8, 7).astype(ml_dtypes.int4)
    add("tensor", "TRT_INT4QuantizeLinear", [x[:, :4], np.float32(20)], expected=[q4], frozen=(1,))


def mxfp8(add):
    x = add.floats(2, 64, scale=30)
    x[1, :32] = 0
    largest = np.abs(x).reshape(2, 2, 32).max(-1)
    scales = np.exp2(np.ceil(np.log2(np.maximum(largest, 2.0 ** -118) / 448))).astype(np.float32)
    scales[1, 0] = 2.0 ** -127  # the least that there is, for zeros
    q = by_block(x, np.maximum(scales, np.float32(2.0 ** -126)), 32, lambda v, s: fp8(v / s))
    stored = scales.astype(E8M0)
    add("blocks", "TRT_MXFP8DynamicQuantize", [x], 2, expected=[q, stored], axis=-1, block_size=32)
    back = by_block(q, scales, 32, np.multiply)
    for name, form in (("powers", stored), ("bytes", stored.view(np.uint8))):
        add(name, "TRT_MXFP8DequantizeLinear", [q, form], expected=[back], frozen=(1,), axis=-1, block_size=32, output_dtype=1)
        add(name, "TRT_MXFP8QuantizeLinear", [x, form], expected=[q], frozen=(1,), axis=-1, block_size=32)


def nvfp4(add):
    x = add.floats(2, 3, 32, scale=4)
    x[0, 1, 16:] = 0
    tensor = np.float32(np.abs(x).max() / (6 * 448))
    largest = np.abs(x).reshape(2, 3, 2, 16).max(-1)
    scales = fp8(largest / np.float32(6) / tensor)
    whole = scales.astype(np.float32) * tensor
    q = by_block(x, np.maximum(whole, np.finfo(np.float32).tiny), 16, lambda v, s: fp4(v / s))
    add("blocks", "TRT_FP4DynamicQuantize", [x, tensor], 2, expected=[q, scales], frozen=(1,), axis=-1, block_size=16, scale_type=17)
    back = by_block(q, whole, 16, np.multiply)
    add("weights", "TRT_FP4QDQ", [x], expected=[back], block_size=16)
    node = add.helper.make_node
    chain = [node("TRT_FP4DynamicQuantize", ["x", "s"], ["q", "qs"], domain="trt", axis=-1, block_size=16, scale_type=17),
             node("DequantizeLinear", ["qs", "s"], ["scales"], domain="trt"),
             node("DequantizeLinear", ["q", "scales"], ["y"], domain="trt", axis=-1, block_size=16)]
    add.model("trt_fp4dynamicquantize_there_and_back", add.make_model(chain, {"x": x}, ["y"], {"s": tensor}), {"x": x}, [back])


def cases(add):
    for family in (static, mxfp8, nvfp4):
        family(add)
