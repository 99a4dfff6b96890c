# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX has, too, by now, small ones, and mixtures of experts."""
import numpy as np

DOMAIN = "com.microsoft"


def same_as_onnx(add):
    x = add.floats(2, 4, 5)
    add("upper", "Trilu", [x, np.array(1, np.int64)], upper=1)
    add("lower", "Trilu", [x], upper=0)
    add("plain", "GatherND", [x, np.array([[0, 1], [1, 3]], np.int64)])
    grid = add.random.uniform(-1.2, 1.2, (2, 3, 4, 2)).astype(np.float32)
    for mode in ("bilinear", "nearest", "bicubic"):
        add(mode, "GridSample", [add.floats(2, 3, 5, 6), grid], mode=mode)
    add("border", "GridSample", [add.floats(2, 3, 5, 6), grid], padding_mode="border", align_corners=1)
    pads = np.array([0, 1, 2, 0, 1, 0], np.int64)
    add("plain", "Pad", [x, pads, np.float32([0.5])], frozen=(1,))
    add("two_dims", "Pad", [x, pads[None]], frozen=(1,), mode="edge")
    add("reflect", "Pad", [x, pads], frozen=(1,), mode="reflect")
    add("steps", "Range", [np.int64(2), np.int64(11), np.int64(3)], frozen=(0, 1, 2))
    add("no_step", "Range", [np.array([1], np.int32), np.array([5], np.int32)], frozen=(0, 1))
    add("plain", "Unique", [np.float32([2, 1, 1, 3, 4, 3])], outputs=3)
    add("front", "ExpandDims", [x, np.array(0, np.int32)], frozen=(1,))
    add("back", "ExpandDims", [x, np.array(-1, np.int32)], frozen=(1,))
    add("plain", "SampleOp", [x])
    images = add.random.integers(-100, 100, (1, 6, 7, 3)).astype(np.int8)
    add("plain", "NhwcMaxPool", [images], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def masked_pools(add):
    x, mask = add.floats(2, 3, 7, 9), (add.random.random((1, 1, 7, 9)) > 0.3).astype(np.int32)
    mask[..., 0, 0] = 0  # the first pixel counts all the same
    add("plain", "MaxpoolWithMask", [x, mask], kernel_shape=[3, 3])
    add("steps", "MaxpoolWithMask", [x, mask], kernel_shape=[2, 4], strides=[2, 3], pads=[1, 2, 0, 1])
    add("rows", "MaxpoolWithMask", [x, mask], kernel_shape=[3, 1], strides=[1, 2], auto_pad="VALID")
    line = (add.random.random((1, 1, 20)) > 0.4).astype(np.int32)
    add("line", "MaxpoolWithMask", [add.floats(1, 2, 20), line], kernel_shape=[5], strides=[2], pads=[2, 2])
    box = (add.random.random((1, 1, 4, 5, 6)) > 0.3).astype(np.int32)
    add("box", "MaxpoolWithMask", [add.floats(1, 2, 4, 5, 6), box], kernel_shape=[2, 2, 3], pads=[0, 1, 1, 1, 0, 1])


def states(add):
    x, w = add.floats(2, 6, 8), add.floats(6, 1, 4)
    add("silu", "CausalConvWithState", [x, w, add.floats(6), add.floats(2, 6, 3)], outputs=2, activation="silu")
    add("no_state", "CausalConvWithState", [x, w], outputs=2)
    q, k, v = add.floats(1, 5, 8, scale=0.5), add.floats(1, 5, 8, scale=0.3), add.floats(1, 5, 8)
    decay, beta = -np.abs(add.floats(1, 5, 2)), 1 / (1 + np.exp(-add.floats(1, 5, 2)))
    heads = dict(q_num_heads=2, kv_num_heads=2)
    add("gated_delta", "LinearAttention", [q, k, v, add.floats(1, 2, 4, 4), decay, beta], outputs=2, **heads)
    add("linear", "LinearAttention", [q, k, v], outputs=2, update_rule="linear", **heads)


def arithmetic(add):
    a, b = add.floats(3, 4, 2), add.floats(3, 4, 2)
    a_c, b_c = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
    for op, y in (("ComplexMul", a_c * b_c), ("ComplexMulConj", a_c * b_c.conj())):
        add("plain", op, [a, b], expected=[np.stack([y.real, y.imag], axis=-1).astype(np.float32)])
    square = add.floats(2, 3, 3) + 2 * np.eye(3, dtype=np.float32)
    add("plain", "Inverse", [square])
    for metric in ("euclidean", "sqeuclidean"):
        add(metric, "CDist", [add.floats(5, 6), add.floats(7, 6)], metric=metric)
    add("last", "UnfoldTensor", [add.floats(2, 9)], size=3, step=2)
    add("inner", "UnfoldTensor", [add.floats(2, 7, 3)], size=4, dim=1)
    x, y = add.random.integers(0, 255, (3, 4)).astype(np.uint8), add.random.integers(0, 255, (3, 4)).astype(np.uint8)
    points = np.uint8(100), np.uint8(7)
    product = (x.astype(np.int32) - 100) * (y.astype(np.int32) - 7)
    add("points", "MulInteger", [x, points[0], y, points[1]], expected=[product])
    add("plain", "MulInteger", [x, None, y], expected=[x.astype(np.int32) * y])
    add("plain", "ReduceSumInteger", [x], axes=[1], keepdims=0, expected=[x.astype(np.int32).sum(axis=1, dtype=np.int32)])
    streams, branch = add.floats(2, 3, 4, 8), add.floats(2, 3, 8)
    add("identity", "HyperConnectionPostMix", [streams, branch, add.floats(2, 3, 4)])
    add("mixed", "HyperConnectionPostMix", [streams, branch, add.floats(2, 3, 4, 1), add.floats(2, 3, 4, 4)])
    add("flat", "HyperConnectionPostMix", [streams.reshape(2, 3, 32), branch, add.floats(2, 3, 4)], num_branches=4)


def signals(add):
    for name, x in (("plain", add.floats(3, 8)), ("long", add.floats(2, 2, 30)), ("odd", add.floats(2, 7))):
        y = np.fft.rfft(x)
        add(name, "Rfft", [x], expected=[np.stack([y.real, y.imag], axis=-1).astype(np.float32)])
    for name, bins in (("plain", 5), ("long", 16)):
        y = add.floats(3, bins, 2)
        y[:, [0, -1], 1] = 0  # a transform of reals has no imaginary part there
        add(name, "Irfft", [y], signal_ndim=1, expected=[np.fft.irfft(y[..., 0] + 1j * y[..., 1]).astype(np.float32)])


def finite(add):
    good, nan, infinite = add.floats(3, 4), add.floats(3, 4), add.floats(5)
    nan[1, 2], infinite[3] = np.nan, -np.inf
    for name, inputs, attributes, y in (("finite", [good, infinite[:2].copy()], {}, True), ("nan", [good, nan], {}, False),
                                        ("infinite", [infinite], {}, False), ("only_nan", [infinite], {"isnan_only": 1}, True),
                                        ("only_infinite", [nan, good], {"isinf_only": 1}, True), ("scalar", [np.float32(1)], {}, True)):
        add(name, "IsAllFinite", inputs, expected=[np.array(y)], **attributes)


def images(add):
    x, w, bias = add.floats(2, 4, 5, 6), add.floats(4, 3, 3, 3), add.floats(3)
    pads = np.array([1, 0, 2, 1], np.int64)
    for kind, frozen in (("", (2,)), ("_at_run_time", ())):
        add("plain" + kind, "ConvTransposeWithDynamicPads", [x, w, pads, bias], frozen=frozen)
        add("strides" + kind, "ConvTransposeWithDynamicPads", [x, w, pads], frozen=frozen, strides=[2, 2], output_padding=[1, 0])
    same = add.results("ConvTransposeWithDynamicPads", [x, w, 0 * pads, bias], dilations=[2, 1])  # ONNX Runtime wants them to be there
    add("no_pads", "ConvTransposeWithDynamicPads", [x, w, None, bias], dilations=[2, 1], expected=same)
    boxes = np.float32([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.2, 0.3, 0.8, 1.3], [0.9, 0.8, 0.1, 0.1]])
    at = np.array([1, 0, 1, 0], np.int32)
    for mode in ("bilinear", "nearest"):
        add(mode, "CropAndResize", [x, boxes, at, np.array([4, 3], np.int32)], frozen=(3,), mode=mode, extrapolation_value=-2.0)
    add("one_row", "CropAndResize", [x, boxes, at, np.array([1, 5], np.int32)], frozen=(3,))
    letters = np.array([[3, 1, 4, 0, 0], [2, 0, 0, 0, 0], [5, 5, 1, 2, 3], [1, 2, 0, 0, 0]], np.int32)
    filters = add.floats(6, 1, 2, 4)
    add("plain", "WordConvEmbedding", [letters, filters, add.floats(6), add.floats(7, 4)])
    add("sizes", "WordConvEmbedding", [letters, filters, add.floats(6), add.floats(7, 4)], embedding_size=6, conv_window_size=2,
        char_embedding_size=4)


def gated_mixture(x, router, w1, b1, w2, b2, w3, b3):
    """Two experts of each row, silu(first) times third in front of the second product."""
    weights = np.exp(router - router.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    y = np.zeros_like(x)
    for row in range(len(x)):
        for e in np.argsort(-weights[row])[:2]:
            first = w1[e] @ x[row] + b1[e]
            hidden = first / (1 + np.exp(-first)) * (w3[e] @ x[row] + b3[e])
            y[row] += weights[row, e] * (w2[e] @ hidden + b2[e])
    return y


def mixtures(add):
    tokens, width, inner, experts = 6, 8, 12, 4
    x, router = add.floats(tokens, width), add.floats(tokens, experts)
    w1, w2, w3 = add.floats(experts, inner, width, scale=0.3), add.floats(experts, width, inner, scale=0.3), add.floats(experts, inner, width, scale=0.3)
    b1, b2, b3 = add.floats(experts, inner), add.floats(experts, width), add.floats(experts, inner)
    for activation in ("relu", "gelu", "silu", "identity"):
        add(activation, "MoE", [x, router, w1, b1, w2, b2], activation_type=activation, k=2)
    add("gated", "MoE", [x, router, w1, b1, w2, b2, w3, b3], k=2, activation_type="silu", expected=[gated_mixture(x, router, w1, b1, w2, b2, w3, b3)])
    add("one", "MoE", [x.reshape(2, 3, width), router, w1, None, w2], k=1)
    add("normalized", "MoE", [x, router, w1, b1, w2, b2], k=2, normalize_routing_weights=1, activation_type="silu")
    wide, bias = add.floats(experts, 2 * inner, width, scale=0.3), add.floats(experts, 2 * inner)
    add("swiglu_turns", "MoE", [x, router, wide, bias, w2, b2], k=2, activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.702,
        activation_beta=1.0, swiglu_limit=7.0)


def cases(add):
    for family in (same_as_onnx, masked_pools, states, arithmetic, signals, finite, images, mixtures):
        family(add)
