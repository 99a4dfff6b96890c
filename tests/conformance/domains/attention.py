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
    x, w, b, past = add.floats(B, 1, W), add.floats(W, 3 * W, scale=0.3), add.floats(3 * W), add.floats(2, B, H, 3, D)
    for name, masks in (("plain", None), ("masked", mask)):  # the same form of Attention
        same = add.results("Attention", [x, w, b, masks, past], 2, num_heads=H)
        add(name, "DecoderMaskedSelfAttention", [x, w, b, masks, past, None, np.array([3], np.int32)], outputs=2, num_heads=H, expected=same)


def decoder(add):
    """Rows are (S, B, D); flags say what keys and values are made of. The same as MultiHeadAttention on projected rows."""
    q, keys = add.floats(S, B, W), add.floats(7, B, W)
    wq, wkv, b = add.floats(W, W, scale=0.3), add.floats(W, 2 * W, scale=0.3), add.floats(3 * W)
    caches = [add.floats(B, H, 6, D) for _ in range(2)]

    def heads(rows):
        return np.ascontiguousarray(rows.reshape(B, -1, H, D).swapaxes(1, 2))

    for name, encoder, used in (("own", False, False), ("encoder", True, False), ("own_cache", False, True), ("encoder_cache", True, True)):
        x = (keys if encoder else q).swapaxes(0, 1)
        k, v = (heads(x @ wkv[:, i * W:(i + 1) * W] + b[(i + 1) * W:(i + 2) * W]) for i in (0, 1))
        if used:
            k, v = caches if encoder else (np.concatenate(pair, axis=2) for pair in zip(caches, (k, v)))
        mask = np.arange(k.shape[2]) >= np.array([4, k.shape[2]])[:, None]  # true: padding
        for kind, masks in (("", None), ("_masked", mask)):
            flags = [np.array(flag) for flag in (encoder, used, used, masks is not None)]
            scores = heads(q.swapaxes(0, 1) @ wq + b[:W]) @ k.swapaxes(2, 3) / np.sqrt(D)
            if masks is not None:
                scores = np.where(mask[:, None, None], np.float32(-10000), scores)
            y = (softmax(scores) @ v).transpose(2, 0, 1, 3).reshape(S, B, W)
            add(name + kind, "DecoderAttention", [q, keys, wq, wkv, b, masks, *(caches if used else (None, None)), *flags], outputs=3,
                frozen=(8, 9, 10, 11), num_heads=H, expected=[a.astype(np.float32) for a in (y, k, v)])


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
    for name, counts in (("plain", [3, 5]), ("full", [5, 5]), ("an_empty_item", [0, 2])):
        x = add.floats(B, S, W)
        keep = np.arange(S) < np.array(counts)[:, None]
        places = np.concatenate([np.flatnonzero(keep), np.flatnonzero(~keep)]).reshape(B, S)
        sums = np.concatenate([[0], np.cumsum(counts)])
        add(name, "RemovePadding", [x, np.array(counts, np.int32)], outputs=4,
            expected=[x[keep], places.astype(np.int32), sums.astype(np.int32), np.array([max(counts)], np.int32)])


def without_padding(add):
    """A layer between RemovePadding and RestorePadding; what it gives is the layer's result where there are tokens."""
    from onnx import helper
    nodes = [helper.make_node("RemovePadding", ["x", "counts"], ["tokens", "offsets", "sums", "longest"], domain=DOMAIN),
             helper.make_node("PackedAttention", ["tokens", "w", "b", "offsets", "sums"], ["attended"], domain=DOMAIN, num_heads=H),
             helper.make_node("RestorePadding", ["attended", "offsets"], ["y"], domain=DOMAIN)]
    x, w, b, counts = add.floats(B, S, W), add.floats(W, 3 * W, scale=0.3), add.floats(3 * W), np.array([3, 5], np.int32)
    attended = add.results("Attention", [x, w, b, counts], num_heads=H)[0]
    y = np.where((np.arange(S) < counts[:, None])[..., None], attended, np.float32(0))
    arrays = {"x": x, "counts": counts}
    add.model("removepadding_and_back", add.make_model(nodes, arrays, ["y"], {"w": w, "b": b}, output_type=1), arrays, [y])


def buckets(offset, count, farthest, both):
    """Of T5: distances up to half of the buckets have one each, farther ones share buckets on a scale of logarithms."""
    result = 0
    if both:
        count //= 2
        result = count if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    exact = count // 2
    if distance < exact:
        return result + distance
    span = np.log(np.float32(farthest) / np.float32(exact))
    step = np.log(np.float32(distance) / np.float32(exact)) / span * np.float32(count - exact)
    return result + min(exact + int(step), count - 1)


def position_biases(add):
    count, heads = 12, 3
    table = add.floats(count, heads)
    by_head = table.reshape(heads, count)  # how the operator reads the memory of its table
    for name, both, farthest, length in (("causal", 0, 10, 17), ("both", 1, 16, 23), ("short", 1, 20, 4)):
        index = [[buckets(k - q, count, farthest, both) for k in range(length)] for q in range(length)]
        lengths = [np.array(length, np.int64)] * 2
        for kind, frozen in (("", (1, 2)), ("_at_run_time", ())):
            add(name + kind, "RelativePositionBias", [table, *lengths], frozen=frozen, max_distance=farthest, is_bidirectional=both,
                expected=[by_head[:, index][None]])
    q, bias, positions = add.floats(B, S, W), add.floats(W), add.floats(1, H, S, S)
    w, b, factors = add.floats(D, 8), add.floats(8), add.floats(1, H, 1, 1)

    def gated(rows):
        by_query = rows.reshape(B, S, H, D).swapaxes(1, 2)
        gates = 1 / (1 + np.exp(-(by_query @ w + b).reshape(B, H, S, 2, 4).sum(axis=-1)))
        return ((gates[..., :1] * (gates[..., 1:] * factors - 1) + 2) * positions).astype(np.float32)

    add("plain", "GatedRelativePositionBias", [q, bias, positions, w, b, factors], num_heads=H, expected=[gated(q + bias)])
    offsets = np.array([[0, 1, 2, 5, 6], [7, 8, 9, 3, 4]], np.int32)
    rows = np.zeros((B * S, W), np.float32)
    rows[offsets.ravel()[:8]] = q.reshape(B * S, W)[:8] + bias
    add("packed", "GatedRelativePositionBias", [q.reshape(B * S, W)[:8].copy(), bias, positions, w, b, factors, offsets], num_heads=H,
        expected=[gated(rows)])


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


def shared_cache(model, arrays, outputs=("y0", "y1", "y2")):
    """ONNX Runtime on a model whose caches (x3 and x4) are inputs and outputs in one place."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = {name: ort.OrtValue.ortvalue_from_numpy(array.copy()) for name, array in arrays.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output(outputs[0])
    for cache, present in (("x3", outputs[1]), ("x4", outputs[2])):
        binding.bind_ortvalue_output(present, values[cache])
    session.run_with_iobinding(binding)
    return [binding.copy_outputs_to_cpu()[0], values["x3"].numpy().copy(), values["x4"].numpy().copy()]


def in_blocks(add):
    heads, groups, width, size, room = 4, 2, 16, 16, 64
    attributes = dict(num_heads=heads, kv_num_heads=groups, sparse_block_size=size)
    columns = np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], np.int32)
    ends = np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], np.int32)
    cos, sin = np.cos(add.floats(room, width // 2)), np.sin(add.floats(room, width // 2))
    for name, batch, length, total, totals, layouts in (("prompt", 1, 40, 40, [40], 2), ("prompts", 2, 20, 20, [20, 20], 1),
                                                        ("token", 2, 1, 50, [50, 41], 2)):
        rows = [add.floats(batch, length, n * width) for n in (heads, groups, groups)]
        caches = [add.floats(batch, groups, room, width) for _ in range(2)]
        for cache in caches:
            for b, count in enumerate(totals):
                cache[b, :, count - length:] = 0
        front = caches + [ends[:layouts], columns[:layouts], np.array(total, np.int32), np.array(totals, np.int32)]
        joined = [np.concatenate(rows, axis=2), None, None]
        for kind, inputs, more in (("", rows + front, {}), ("_rotary", rows + front + [cos, sin], dict(do_rotary=1)),
                                   ("_joined", joined + front, dict(scale=0.2))):
            alone = []  # ONNX Runtime 1.31 gives NaN where items of a batch differ in length
            for b, count in enumerate(totals):
                one = [x[b:b + 1] if x is not None and x.ndim > 2 else x for x in inputs]
                one[7], one[8] = np.array(count, np.int32), np.array([count], np.int32)
                model, arrays = add.one_node("SparseAttention", one, 3, frozen=(5, 6), **attributes, **more)
                alone.append(shared_cache(model, arrays))
            add(name + kind, "SparseAttention", inputs, outputs=3, frozen=(5, 6), expected=[np.concatenate(y) for y in zip(*alone)],
                **attributes, **more)


def cases(add):
    for family in (attention, multi_head, decoder, packed, without_padding, position_biases, group_query, in_blocks):
        family(add)
