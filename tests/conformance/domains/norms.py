# SPDX-License-Identifier: Apache-2.0
"""Normalizations with residuals and embeddings, and rotary embeddings."""
import numpy as np

DOMAIN = "com.microsoft"


def silu(x):
    return x / (1 + np.exp(-x))


def skip_norms(add):
    x, skip, gamma, beta, bias = add.floats(2, 5, 8), add.floats(2, 5, 8), add.floats(8), add.floats(8), add.floats(8)
    add("all", "SkipLayerNormalization", [x, skip, gamma, beta, bias])
    add("no_bias", "SkipLayerNormalization", [x, skip, gamma, beta], epsilon=1e-5)
    add("no_beta", "SkipLayerNormalization", [x, skip, gamma, None, bias])
    add("sum", "SkipLayerNormalization", [x, skip, gamma, beta, bias], outputs=[True, False, False, True])
    add("broadcast", "SkipLayerNormalization", [x, add.floats(1, 5, 8), gamma, beta], outputs=[True, False, False, True])
    add("broadcast_2d", "SkipLayerNormalization", [x, add.floats(5, 8), gamma, beta])
    add("plain", "SkipSimplifiedLayerNormalization", [x, skip, gamma], epsilon=1e-6)
    add("bias", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], outputs=[True, False, False, True])
    add("rows", "SkipSimplifiedLayerNormalization", [x[0], skip[0], gamma], outputs=[True, False, False, True])


def embeddings(add):
    ids = add.random.integers(0, 20, (2, 6)).astype(np.int32)
    segments = add.random.integers(0, 2, (2, 6)).astype(np.int32)
    words, positions, types = add.floats(20, 8), add.floats(10, 8), add.floats(2, 8)
    gamma, beta = add.floats(8), add.floats(8)
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    add("all", "EmbedLayerNormalization", [ids, segments, words, positions, types, gamma, beta, mask], outputs=2, epsilon=1e-12)
    add("no_mask", "EmbedLayerNormalization", [ids, segments, words, positions, types, gamma, beta], outputs=2)
    add("no_segments", "EmbedLayerNormalization", [ids, None, words, positions, None, gamma, beta, mask], outputs=2)
    place = np.array([[3, 2, 1, 0, 5, 4]], np.int32)
    add("position_ids", "EmbedLayerNormalization", [ids, segments, words, positions, types, gamma, beta, None, place],
        outputs=[True, False])
    add("sum", "EmbedLayerNormalization", [ids, segments, words, positions, types, gamma, beta, mask], outputs=3)


def group_norm(x, gamma, beta, groups, eps):
    n, h, w, c = x.shape
    g = x.reshape(n, h * w, groups, c // groups)
    mean, var = g.mean(axis=(1, 3), keepdims=True), g.var(axis=(1, 3), keepdims=True)
    return ((g - mean) / np.sqrt(var + eps)).reshape(x.shape) * gamma + beta


def group_norms(add):
    x, gamma, beta = add.floats(2, 3, 4, 8), add.floats(8), add.floats(8)
    y = group_norm(x, gamma, beta, 4, 1e-5)
    first = (0, 3, 1, 2)
    add("last", "GroupNorm", [x, gamma, beta], groups=4, activation=0, expected=[y])
    add("silu", "GroupNorm", [x, gamma, beta], groups=4, activation=1, expected=[silu(y)])
    add("first", "GroupNorm", [x.transpose(first).copy(), gamma, beta], groups=4, activation=0, channels_last=0, expected=[y.transpose(first).copy()])
    skip, bias = add.floats(2, 8), add.floats(8)
    s = x + skip[:, None, None, :] + bias
    y = group_norm(s, gamma, beta, 2, 1e-3)
    add("plain", "SkipGroupNorm", [x, gamma, beta, skip, bias], outputs=2, groups=2, activation=1, epsilon=1e-3, expected=[silu(y), s])
    s = x + x
    add("no_bias", "SkipGroupNorm", [x, gamma, beta, x], outputs=1, groups=2, activation=0, expected=[group_norm(s, gamma, beta, 2, 1e-5)])


def rms_norms(add):
    x, gate = add.floats(2, 3, 8), add.floats(2, 3, 8)
    for activation in ("silu", "sigmoid"):
        add(activation, "GatedRMSNorm", [x, add.floats(8), gate], activation=activation)
    add("heads", "GatedRMSNorm", [x, add.floats(4), gate], epsilon=1e-4)
    add("grouped", "BranchwiseRMSNorm", [add.floats(2, 3, 4, 8), add.floats(4, 8)])
    add("shared", "BranchwiseRMSNorm", [add.floats(2, 3, 4, 8), add.floats(8)])
    add("flat", "BranchwiseRMSNorm", [add.floats(2, 3, 32), add.floats(32)], num_branches=4)
    add("no_scale", "BranchwiseRMSNorm", [add.floats(2, 3, 32)], num_branches=4)


def rotary(add):
    cos, sin = add.floats(16, 4), add.floats(16, 4)
    ids = add.random.integers(0, 16, (2, 5)).astype(np.int64)
    flat, heads = add.floats(2, 5, 24), add.floats(2, 3, 5, 8)
    add("flat", "RotaryEmbedding", [flat, ids, cos, sin])
    add("heads", "RotaryEmbedding", [heads, ids, cos, sin])
    add("offset", "RotaryEmbedding", [flat, np.array([3], np.int64), cos, sin])
    add("interleaved", "RotaryEmbedding", [flat, ids, cos, sin], interleaved=1)
    add("partial", "RotaryEmbedding", [flat, ids, cos[:, :2].copy(), sin[:, :2].copy()], num_heads=3, rotary_embedding_dim=4)
    add("partial_heads", "RotaryEmbedding", [heads, ids, cos[:, :2].copy(), sin[:, :2].copy()], num_heads=3, rotary_embedding_dim=4,
        interleaved=1)
    streams = add.random.integers(0, 16, (3, 2, 5)).astype(np.int64)
    add("sections", "MRotaryEmbedding", [heads, streams, cos, sin], mrope_section=[2, 1, 1])
    add("interleaved_sections", "MRotaryEmbedding", [flat, streams, cos, sin], mrope_section=[2, 1, 1], mrope_layout=1, num_heads=3)
    emb = add.floats(2, 5, 8)
    q, qr, k, kr = (add.floats(2, 3, 5, 8) for _ in range(4))
    s, c = np.sin(emb)[:, None], np.cos(emb)[:, None]
    add("plain", "GemmaRotaryEmbedding", [emb, q, qr, k, kr], outputs=2, expected=[q * c + qr * s, k * c + kr * s])


def cases(add):
    for family in (skip_norms, embeddings, group_norms, rms_norms, rotary):
        family(add)
