# SPDX-License-Identifier: Apache-2.0
"""Attention as ONNX Runtime's optimizer and its tools for decoders write it."""
import numpy as np

DOMAIN = "com.microsoft"
B, S, H, D = 2, 5, 3, 4
W = H * D


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(add):
    x, w, b = add.floats(B, S, W), add.floats(W, 3 * W, scale=0.3), add.floats(3 * W)
    ends, starts = np.array([3, 5], np.int32), np.array([1, 2], np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    rows = add.random.integers(0, 2, (B, S, S)).astype(np.int32)
    rows[:, :, 0] = 1  # where a row masks all keys, only the rounding of -10000 decides
    add("plain", "Attention", [x, w, b], num_heads=H)
    without = add.results("Attention", [x, w, 0 * b], num_heads=H)  # ONNX Runtime 1.31 crashes when the bias is absent
    add("no_bias", "Attention", [x, w], num_heads=H, expected=without)
    add("frozen", "Attention", [x, w, b], num_heads=H, frozen=(1, 2))
    add("causal", "Attention", [x, w, b], num_heads=H, unidirectional=1)
    add("scale", "Attention", [x, w, b], num_heads=H, scale=0.2)
    add("mask_2d", "Attention", [x, w, b, mask], num_heads=H)
    add("mask_ends", "Attention", [x, w, b, ends], num_heads=H)
    add("mask_starts", "Attention", [x, w, b, np.concatenate([ends, starts])], num_heads=H)
    add("mask_3d", "Attention", [x, w, b, rows], num_heads=H)
    add("mask_causal", "Attention", [x, w, b, mask], num_heads=H, unidirectional=1)
    add("mask_filter", "Attention", [x, w, b, mask], num_heads=H, mask_filter_value=-3.0)
    add("bias", "Attention", [x, w, b, None, None, add.floats(1, H, S, S)], num_heads=H)
    add("bias_mask", "Attention", [x, w, b, mask, None, add.floats(B, H, S, S)], num_heads=H)
    past = add.floats(2, B, H, 3, D)
    add("past", "Attention", [x, w, b, None, past], outputs=2, num_heads=H, unidirectional=1)
    add("past_one", "Attention", [x[:, :1].copy(), w, b, np.ones((B, 4), np.int32), past], outputs=2, num_heads=H, unidirectional=1)
    add("present", "Attention", [x, w, b], outputs=2, num_heads=H)
    add("sizes", "Attention", [x, add.floats(W, 2 * W + 2 * W, scale=0.3), add.floats(4 * W)], num_heads=H,
        qkv_hidden_sizes=[W, W, 2 * W])


def multi_head(add):
    q, k, v = add.floats(B, S, W), add.floats(B, 6, W), add.floats(B, 6, W)
    bias = add.floats(3 * W)
    mask = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    add("plain", "MultiHeadAttention", [q, k, v], num_heads=H)
    add("bias", "MultiHeadAttention", [q, k, v, bias], num_heads=H)
    add("mask_2d", "MultiHeadAttention", [q, k, v, bias, mask], num_heads=H)
    add("mask_ends", "MultiHeadAttention", [q, k, v, bias, np.array([4, 6], np.int32)], num_heads=H)
    add("mask_3d", "MultiHeadAttention", [q, k, v, None, np.ones((B, S, 6), np.int32)], num_heads=H)
    add("score_bias", "MultiHeadAttention", [q, k, v, bias, None, add.floats(B, H, S, 6)], num_heads=H)
    add("score_bias_wide", "MultiHeadAttention", [q, k, v, None, None, add.floats(1, 1, S, 6)], num_heads=H)
    add("causal", "MultiHeadAttention", [q, q[:, ::-1].copy(), q * 2], num_heads=H, unidirectional=1)
    add("other_width", "MultiHeadAttention", [q, k, add.floats(B, 6, 2 * W)], num_heads=H)
    heads_k, heads_v = add.floats(B, H, 6, D), add.floats(B, H, 6, D)
    add("cross_cache", "MultiHeadAttention", [q, heads_k, heads_v], num_heads=H)
    past_k, past_v = add.floats(B, H, 3, D), add.floats(B, H, 3, D)
    add("past", "MultiHeadAttention", [q, q + 1, q * 2, None, None, None, past_k, past_v], outputs=3, num_heads=H)
    add("past_causal", "MultiHeadAttention", [q, q + 1, q * 2, bias, None, None, past_k, past_v], outputs=3, num_heads=H, unidirectional=1)
    add("present", "MultiHeadAttention", [q, k, v], outputs=3, num_heads=H)
    add("scores", "MultiHeadAttention", [q, k, v], outputs=[True, False, False, True], num_heads=H, output_type=1)
    one = np.full((B, 1, W), 0.5, np.float32)
    new = [one, one + 1, one * 2]  # ONNX Runtime only has the form in which past and present are one buffer
    same = add.results("MultiHeadAttention", new + [None, None, None, past_k, past_v], 3, num_heads=H)
    add("plain", "DecoderMaskedMultiHeadAttention", new + [None, None, past_k, past_v], outputs=3, num_heads=H, expected=same)
    joined = np.concatenate(new, axis=2)
    add("joined", "DecoderMaskedMultiHeadAttention", [joined, None, None, None, None, past_k, past_v], outputs=3, num_heads=H, expected=same)
    mask = np.array([[1, 0, 1, 1], [1, 1, 1, 1]], np.int32)
    same = add.results("MultiHeadAttention", new + [None, mask, None, past_k, past_v], 3, num_heads=H)
    add("masked", "DecoderMaskedMultiHeadAttention", new + [mask, None, past_k, past_v], outputs=3, num_heads=H, expected=same)
    add("cross", "DecoderMaskedMultiHeadAttention", [one, heads_k, heads_v], num_heads=H)


def packed(add):
    """Three tokens of the first item, five of the second."""
    w, b, counts = add.floats(W, 3 * W, scale=0.3), add.floats(3 * W), [3, 5]
    tokens = add.floats(8, W)
    offsets = np.array([[0, 1, 2, 5, 6], [7, 8, 9, 3, 4]], np.int32)
    sums = np.array([0, 3, 8], np.int32)

    def attend(q, k, v):
        rows, start = [], 0
        for count in counts:
            parts = [t[start:start + count].reshape(count, H, D).swapaxes(0, 1) for t in (q, k, v)]
            weights = softmax(parts[0] @ parts[1].swapaxes(1, 2) / np.sqrt(D))
            rows.append((weights @ parts[2]).swapaxes(0, 1).reshape(count, W))
            start += count
        return np.concatenate(rows).astype(np.float32)

    q, k, v = np.split(tokens @ w + b, 3, axis=1)
    add("plain", "PackedAttention", [tokens, w, b, offsets, sums], num_heads=H, expected=[attend(q, k, v)])
    q, k, v = add.floats(8, W), add.floats(8, W), add.floats(8, W)
    add("plain", "PackedMultiHeadAttention", [q, k, v, None, offsets, sums], num_heads=H, expected=[attend(q, k, v)])
    add("bias", "PackedMultiHeadAttention", [q, k, v, b, offsets, sums], num_heads=H,
        expected=[attend(q + b[:W], k + b[W:2 * W], v + b[2 * W:])])
    joined = np.stack([t.reshape(8, H, D) for t in (q, k, v)], axis=2)
    add("joined", "PackedMultiHeadAttention", [joined, None, None, None, offsets, sums], num_heads=H, expected=[attend(q, k, v)])
    padded = np.zeros((B * S, W), np.float32)
    padded[offsets.ravel()[:8]] = tokens
    add("plain", "RestorePadding", [tokens, offsets], expected=[padded.reshape(B, S, W)])


def group_query(add):
    heads, groups, width = 4, 2, 16
    one = dict(num_heads=heads, kv_num_heads=groups)
    cos, sin = np.cos(add.floats(16, width // 2)), np.sin(add.floats(16, width // 2))

    def inputs(batch, length, past):
        rows = [add.floats(batch, length, n * width) for n in (heads, groups, groups)]
        return rows, [add.floats(batch, groups, past, width) for _ in range(2)]

    def counts(batch, total):
        return [np.full((batch,), total - 1, np.int32), np.array(total, np.int32)]

    rows, empty = inputs(2, 5, 0)
    add("prompt", "GroupQueryAttention", rows + empty + counts(2, 5), outputs=3, **one)
    add("prompt_no_past", "GroupQueryAttention", rows + [None, None] + counts(2, 5), outputs=3, **one)
    add("prompt_rotary", "GroupQueryAttention", rows + empty + counts(2, 5) + [cos, sin], outputs=3, do_rotary=1, **one)
    add("prompt_window", "GroupQueryAttention", rows + empty + counts(2, 5), outputs=3, local_window_size=2, **one)
    add("prompt_softcap", "GroupQueryAttention", rows + empty + counts(2, 5), outputs=3, softcap=2.0, **one)
    add("prompt_smooth", "GroupQueryAttention", rows + empty + counts(2, 5), outputs=3, smooth_softmax=1, **one)
    add("prompt_bias", "GroupQueryAttention", rows + empty + counts(2, 5) + [None, None, None, add.floats(1, heads, 5, 5)], outputs=3, **one)
    add("prompt_sink", "GroupQueryAttention", rows + empty + counts(2, 5) + [None, None, None, None, add.floats(heads)], outputs=3, **one)
    joined = np.concatenate(rows, axis=2)
    add("prompt_joined", "GroupQueryAttention", [joined, None, None] + empty + counts(2, 5), outputs=3, **one)
    add("prompt_joined_rotary", "GroupQueryAttention", [joined, None, None] + empty + counts(2, 5) + [cos, sin], outputs=3, do_rotary=1,
        rotary_interleaved=1, **one)
    rows, past = inputs(2, 1, 6)
    add("token", "GroupQueryAttention", rows + past + counts(2, 7), outputs=3, **one)
    add("token_rotary", "GroupQueryAttention", rows + past + counts(2, 7) + [cos, sin], outputs=3, do_rotary=1, **one)
    ids = np.array([[6], [6]], np.int64)
    add("token_positions", "GroupQueryAttention", rows + past + counts(2, 7) + [cos, sin, ids], outputs=3, do_rotary=1, **one)
    add("token_window", "GroupQueryAttention", rows + past + counts(2, 7), outputs=3, local_window_size=3, **one)
    add("token_scale", "GroupQueryAttention", rows + past + counts(2, 7), outputs=3, scale=0.3, **one)
    rows, past = inputs(1, 3, 6)
    add("tokens", "GroupQueryAttention", rows + past + counts(1, 9) + [cos, sin], outputs=3, do_rotary=1, **one)
    # Items of other lengths in a cache with room: 4 and 6 positions, the rest is empty.
    rows, past = inputs(2, 1, 8)
    for cache in past:
        cache[0, :, 4:], cache[1, :, 6:] = 0, 0
    lengths = [np.array([4, 6], np.int32), np.array(7, np.int32)]
    add("lengths", "GroupQueryAttention", rows + past + lengths, outputs=3, frozen=(6,), **one)
    decoder_step(add, rows, past, one)


def decoder_step(add, rows, past, attributes):
    """Lengths from an attention mask, as exporters of decoders write them."""
    from onnx import TensorProto, helper
    nodes = [helper.make_node("ReduceSum", ["mask", "axis"], ["sum"], keepdims=0),
             helper.make_node("Sub", ["sum", "one"], ["last"]),
             helper.make_node("Cast", ["last"], ["seqlens"], to=TensorProto.INT32),
             helper.make_node("Shape", ["mask"], ["shape"]),
             helper.make_node("Gather", ["shape", "one"], ["length"], axis=0),
             helper.make_node("Cast", ["length"], ["total"], to=TensorProto.INT32),
             helper.make_node("GroupQueryAttention", ["q", "k", "v", "past_k", "past_v", "seqlens", "total"], ["y", "present_k", "present_v"],
                              domain=DOMAIN, **attributes)]
    mask = np.array([[1] * 5 + [0] * 4, [1] * 7 + [0] * 2], np.int64)
    arrays = dict(zip(("q", "k", "v", "past_k", "past_v"), rows + past), mask=mask)
    constants = {"axis": np.array([1], np.int64), "one": np.array(1, np.int64)}
    add.model("groupqueryattention_from_mask", add.make_model(nodes, arrays, ["y", "present_k", "present_v"], constants), arrays)


def cases(add):
    for family in (attention, multi_head, packed, group_query):
        family(add)
