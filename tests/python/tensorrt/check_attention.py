# SPDX-License-Identifier: Apache-2.0
"""Attention: causal kinds, forms, lengths, masks and normalizations, against numpy."""
import unittest

import numpy as np

import lathe.tensorrt as trt

from case import RNG, Case, infer

NONE, UPPER_LEFT, LOWER_RIGHT = trt.CausalMaskKind.NONE, trt.CausalMaskKind.UPPER_LEFT, trt.CausalMaskKind.LOWER_RIGHT
PADDED, PACKED = trt.AttentionIOForm.PADDED_BHND, trt.AttentionIOForm.PACKED_NHD
SOFTMAX, PLAIN = trt.AttentionNormalizationOp.SOFTMAX, trt.AttentionNormalizationOp.NONE
TYPES = {"float32": trt.float32, "int32": trt.int32, "bool": trt.bool}
WIDTH = 8


def attend(q, k, v, kind=NONE, norm_op=SOFTMAX, mask=None, rounded=lambda weights: weights):
    """The attention of one sequence, of (heads, tokens, width). Queries that see no key give zeros."""
    k, v = (np.repeat(x, len(q) // len(x), 0) for x in (k, v))
    weights = q @ k.swapaxes(-1, -2)
    query, key = np.indices(weights.shape[-2:])
    seen = {NONE: query >= 0, UPPER_LEFT: key <= query, LOWER_RIGHT: key - k.shape[1] <= query - q.shape[1]}[kind]
    if mask is not None and mask.dtype == bool:
        seen = seen & mask
    elif mask is not None:
        weights = weights + mask
    weights = np.where(seen, weights, -np.inf if norm_op == SOFTMAX else 0)
    if norm_op == SOFTMAX:
        powers = np.exp(weights - np.maximum(weights.max(-1, keepdims=True), -1e30))
        weights = powers / np.maximum(powers.sum(-1, keepdims=True), 1e-30)
    return rounded(weights) @ v


def sequences(lengths, heads):
    return [RNG.standard_normal((heads, length, WIDTH)).astype(np.float32) for length in lengths]


def packed(parts, behind=0):
    """(tokens, heads, width), and where the sequences begin and end. Behind them is what no one may see."""
    tail = np.full((len(parts[0]), behind, WIDTH), 1e3, np.float32)
    return np.concatenate([*parts, tail], 1).swapaxes(0, 1), np.cumsum([0, *(p.shape[1] for p in parts)], dtype=np.int32)


def padded(parts, length):
    """(batch, heads, tokens, width), and the lengths."""
    whole = np.full((len(parts), len(parts[0]), length, WIDTH), 1e3, np.float32)
    for to, part in zip(whole, parts):
        to[:, :part.shape[1]] = part
    return whole, np.array([p.shape[1] for p in parts], np.int32)


class Attention(Case):
    def add(self, arrays, kind=NONE, norm_op=SOFTMAX, dynamic=False, **settings):
        """An attention of arrays by name; those behind query, key and value are attributes, as are the settings."""
        self.setUp()
        profile, tensors = self.builder.create_optimization_profile(), {}
        for name, array in arrays.items():
            shape = array.shape
            if dynamic:  # the batch and all numbers of tokens
                moving = (0, 2) if array.ndim == 4 else (0,)
                shape = tuple(-1 if axis in moving else d for axis, d in enumerate(shape))
                profile.set_shape(name, tuple(1 if d == -1 else d for d in shape), array.shape, tuple(64 if d == -1 else d for d in shape))
            tensors[name] = self.input(*shape, dtype=TYPES[str(array.dtype)], name=name)
        if dynamic:
            self.config.add_optimization_profile(profile)
        layer = self.network.add_attention_v2(*(tensors.pop(name) for name in ("query", "key", "value")), norm_op, kind)
        for name, value in (*tensors.items(), *settings.items()):
            setattr(layer, name, value)
        return layer

    def run_attention(self, arrays, *arguments, **settings):
        return self.result(self.add(arrays, *arguments, **settings).get_output(0), **arrays)

    def check(self, expected, arrays, *arguments, **settings):
        actual = self.run_attention(arrays, *arguments, **settings)
        self.assertEqual(actual.shape, expected.shape)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)

    def each_way(self, check):
        """Calls it with queries, keys and values of sequences of several lengths and numbers of heads, and a causal kind."""
        for queries, keys in (((3, 1, 4), (5, 1, 4)), ((4, 1, 2), (3, 6, 2)), ((2,), (1,))):
            for heads, groups in ((2, 2), (4, 2), (3, 1)):
                for kind in trt.CausalMaskKind:
                    with self.subTest(queries=queries, keys=keys, heads=heads, groups=groups, kind=kind.name):
                        check(sequences(queries, heads), sequences(keys, groups), sequences(keys, groups), kind)

    def test_causal_kinds(self):
        for queries, keys in ((4, 4), (3, 5), (1, 6), (5, 3)):
            (q,), (k,), (v,) = (sequences((n,), 2) for n in (queries, keys, keys))
            for kind in trt.CausalMaskKind:
                with self.subTest(queries=queries, keys=keys, kind=kind.name):
                    self.check(attend(q, k, v, kind)[None], dict(query=q[None], key=k[None], value=v[None]), kind)

    def test_causal_is_upper_left(self):
        (q,), k, v = sequences((4,), 1), *sequences((4, 4), 1)
        arrays, expected = dict(query=q[None], key=k[None], value=v[None]), attend(q, k, v, UPPER_LEFT)[None]
        self.check(expected, arrays, causal=True)
        tensors = [self.input(*q[None].shape, name=name) for name in "qkv"]
        layer = self.network.add_attention(*tensors, SOFTMAX, True)
        self.assertEqual((layer.causal, layer.causal_kind), (True, UPPER_LEFT))
        layer.causal = False
        self.assertEqual((layer.causal, layer.causal_kind), (False, NONE))
        self.assertIsInstance(layer, trt.IAttention)

    def test_packed(self):
        def check(q, k, v, kind):
            expected = packed([attend(*parts, kind) for parts in zip(q, k, v)])[0]
            (query, query_ends), (key, key_ends), (value, _) = packed(q), packed(k), packed(v)
            arrays = dict(query=query, key=key, value=value, query_lengths=query_ends, key_value_lengths=key_ends)
            for dynamic in (False, True):
                self.check(expected, arrays, kind, dynamic=dynamic, query_form=PACKED, key_value_form=PACKED)
        self.each_way(check)

    def test_packed_with_tokens_of_no_sequence(self):
        def check(q, k, v, kind):
            expected = packed([attend(*parts, kind) for parts in zip(q, k, v)])[0]
            (query, query_ends), (key, key_ends), (value, _) = packed(q, 2), packed(k, 3), packed(v, 3)
            arrays = dict(query=query, key=key, value=value, query_lengths=query_ends, key_value_lengths=key_ends)
            actual = self.run_attention(arrays, kind, query_form=PACKED, key_value_form=PACKED)
            self.assertTrue(np.isfinite(actual).all())
            np.testing.assert_allclose(actual[:-2], expected, rtol=1e-4, atol=1e-5)
        self.each_way(check)

    def test_sizes_of_run_time(self):
        engine = None
        for queries, keys in (((3, 1, 4), (5, 1, 4)), ((2,), (7,)), ((1, 1, 1, 1), (3, 2, 1, 9))):
            q, k, v = sequences(queries, 4), sequences(keys, 2), sequences(keys, 2)
            (query, query_ends), (key, key_ends), (value, _) = packed(q), packed(k), packed(v)
            arrays = dict(query=query, key=key, value=value, query_lengths=query_ends, key_value_lengths=key_ends)
            if engine is None:
                y = self.add(arrays, LOWER_RIGHT, dynamic=True, query_form=PACKED, key_value_form=PACKED).get_output(0)
                self.assertEqual(tuple(y.shape), (-1, 4, WIDTH))
                y.name = "result"
                self.network.mark_output(y)
                engine = self.engine()
            expected = packed([attend(*parts, LOWER_RIGHT) for parts in zip(q, k, v)])[0]
            np.testing.assert_allclose(infer(engine, **arrays)["result"], expected, rtol=1e-4, atol=1e-5)

    def test_packed_with_an_empty_sequence(self):
        q, k, v = sequences((2, 0, 3), 2), sequences((3, 2, 0), 2), sequences((3, 2, 0), 2)
        expected = packed([attend(q[0], k[0], v[0]), np.zeros_like(q[2])])[0]
        (query, query_ends), (key, key_ends), (value, _) = packed(q), packed(k), packed(v)
        arrays = dict(query=query, key=key, value=value, query_lengths=query_ends, key_value_lengths=key_ends)
        self.check(expected, arrays, query_form=PACKED, key_value_form=PACKED)

    def test_padded_with_lengths(self):
        def check(q, k, v, kind):
            q, (key, lengths) = sequences((3,) * len(k), len(q[0])), padded(k, 7)
            arrays = dict(query=np.stack(q), key=key, value=padded(v, 7)[0], key_value_lengths=lengths)
            for dynamic in (False, True):
                self.check(np.stack([attend(*parts, kind) for parts in zip(q, k, v)]), arrays, kind, dynamic=dynamic)
        self.each_way(check)

    def test_packed_queries_of_padded_keys(self):
        def check(q, k, v, kind):
            expected = packed([attend(*parts, kind) for parts in zip(q, k, v)])[0]
            (query, ends), (key, lengths) = packed(q), padded(k, 7)
            arrays = dict(query=query, key=key, value=padded(v, 7)[0], query_lengths=ends, key_value_lengths=lengths)
            for dynamic in (False, True):
                self.check(expected, arrays, kind, dynamic=dynamic, query_form=PACKED)
            del arrays["key_value_lengths"]  # all keys count
            whole = packed([attend(*parts, kind) for parts in zip(q, key, arrays["value"])])[0]
            self.check(whole, arrays, kind, query_form=PACKED)
        self.each_way(check)

    def test_padded_queries_of_packed_keys(self):
        def check(_, k, v, kind):
            q = sequences((3,) * len(k), 2 * len(k[0]))
            (key, ends), (value, _) = packed(k), packed(v)
            arrays = dict(query=np.stack(q), key=key, value=value, key_value_lengths=ends)
            for dynamic in (False, True):
                self.check(np.stack([attend(*parts, kind) for parts in zip(q, k, v)]), arrays, kind, dynamic=dynamic, key_value_form=PACKED)
        self.each_way(check)

    def test_lengths_of_padded_queries_count_for_nothing(self):
        (q, k, v), ends = sequences((3, 4, 4), 1), np.array([0, 1], np.int32)
        for kind in trt.CausalMaskKind:
            self.check(attend(q, k, v, kind)[None], dict(query=q[None], key=k[None], value=v[None], query_lengths=ends), kind)

    def test_masks_with_lengths(self):
        q, k, v = sequences((3, 3), 4), sequences((5, 2), 2), sequences((5, 2), 2)
        (key, lengths), (value, _) = padded(k, 6), padded(v, 6)
        for mask in (RNG.random((2, 1, 3, 6)) < 0.7, RNG.standard_normal((1, 4, 3, 6)).astype(np.float32)):
            masks = np.broadcast_to(mask, (2, 4, 3, 6))
            for norm_op in trt.AttentionNormalizationOp:
                expected = [attend(*parts[:3], norm_op=norm_op, mask=parts[3][..., :parts[1].shape[1]]) for parts in zip(q, k, v, masks)]
                with self.subTest(mask=mask.dtype, norm_op=norm_op.name):
                    self.check(np.stack(expected), dict(query=np.stack(q), key=key, value=value, key_value_lengths=lengths, mask=mask), NONE, norm_op)

    def test_normalizations(self):
        def check(q, k, v, kind):
            expected = packed([attend(*parts, kind, PLAIN) for parts in zip(q, k, v)])[0]
            (query, query_ends), (key, key_ends), (value, _) = packed(q), packed(k), packed(v)
            arrays = dict(query=query, key=key, value=value, query_lengths=query_ends, key_value_lengths=key_ends)
            self.check(expected, arrays, kind, PLAIN, query_form=PACKED, key_value_form=PACKED)
            arrays = dict(query=q[0][None], key=k[0][None], value=v[0][None])
            self.check(attend(q[0], k[0], v[0], kind, PLAIN)[None], arrays, kind, PLAIN)
        self.each_way(check)

    def test_quantized_normalization(self):
        def as_fp8(x):
            step = 2.0 ** (np.maximum(np.frexp(x)[1] - 1, -6) - 3)
            return np.round(x / step) * step
        q, k, v = sequences((3, 5, 5), 2)
        arrays = dict(query=q[None], key=k[None], value=v[None])
        for dtype, scale, near in ((trt.int8, np.float32(1 / 128), lambda x: np.clip(np.round(x), -128, 127)),
                                   (trt.fp8, np.float32([1 / 256]), as_fp8)):
            for kind in trt.CausalMaskKind:
                with self.subTest(dtype=dtype, kind=kind.name):
                    layer = self.add(arrays, kind, normalization_quantize_to_type=dtype)
                    layer.normalization_quantize_scale = self.constant(scale)
                    expected = attend(q, k, v, kind, rounded=lambda weights: near(weights / scale) * scale)[None]
                    np.testing.assert_allclose(self.result(layer.get_output(0), **arrays), expected, rtol=1e-4, atol=1e-5)

    def test_misuse(self):
        (q, k, v), ends = sequences((3, 3, 3), 2), np.array([0, 1, 3], np.int32)
        flat = {name: x.swapaxes(0, 1) for name, x in (("query", q), ("key", k), ("value", v))}
        whole = {name: x[None] for name, x in (("query", q), ("key", k), ("value", v))}
        mask = np.ones((1, 1, 3, 3), bool)
        both = dict(query_form=PACKED, key_value_form=PACKED)
        for message, arrays, settings in (
                ("query.* is packed and has no lengths.*query_lengths", dict(flat, key_value_lengths=ends), both),
                ("key.* is packed and has no lengths.*key_value_lengths", dict(flat, query_lengths=ends), both),
                ("query of 4 dims is not PACKED_NHD", dict(whole, query_lengths=ends), dict(query_form=PACKED)),
                ("query of 3 dims is not PADDED_BHND", flat, {}),
                ("key of 4 dims is not PACKED_NHD", dict(whole, key_value_lengths=ends), dict(key_value_form=PACKED)),
                ("key_value_lengths are float32 of 1 dims", dict(whole, key_value_lengths=ends.astype(np.float32)), {}),
                ("key_value_lengths are int32 of 2 dims", dict(whole, key_value_lengths=ends[None]), {}),
                (r"queries, keys and lengths are of \[1, 2\] sequences", dict(whole, key_value_lengths=ends[:2]), {}),
                (r"queries, keys and lengths are of \[1, 2\] sequences", dict(flat, query_lengths=ends, key_value_lengths=ends[::2]), both),
                ("2 heads of queries do not share 3 heads", dict(whole, key=np.ones((1, 3, 3, WIDTH), np.float32)), {}),
                ("a mask and is causal", dict(whole, mask=mask), dict(causal_kind=LOWER_RIGHT)),
                ("packed forms take no mask", dict(flat, query_lengths=ends, key_value_lengths=ends, mask=mask), both),
                ("a scale and a type", whole, dict(normalization_quantize_to_type=trt.fp8)),
                ("a scale and a type", dict(whole, normalization_quantize_scale=np.ones((), np.float32)), {})):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                self.add(arrays, **{"kind": settings.pop("causal_kind", NONE), **settings}).get_output(0).shape
        with self.assertRaisesRegex(NotImplementedError, "IAttention.num_ranks of 2 is not supported"):
            self.add(whole, num_ranks=2).get_output(0).shape


if __name__ == "__main__":
    unittest.main(argv=["tensorrt-attention"], verbosity=1)
