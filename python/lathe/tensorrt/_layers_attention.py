# SPDX-License-Identifier: Apache-2.0
"""The layers of INetworkDefinition that transformers are made of: attention, rotary embedding, caches of keys and values."""
import numpy as np

import lathe
from lathe import Elementwise, Reduction

from . import _types as t
from ._layers import _L, _Layer, adds
from ._network import NotSupported

_PADDED, _PACKED = t.AttentionIOForm
_NOT_CAUSAL, _UPPER_LEFT, _LOWER_RIGHT = t.CausalMaskKind
_FIRST, _LENGTH = 0, 2  # dims of a padded tensor: (batch, heads, length, width)


def _input(index):
    """An attribute that is an input of the layer."""
    return property(lambda self: self.get_input(index), lambda self, tensor: self.set_input(index, tensor))


class _Tokens:
    """Where the tokens of a tensor are: `sequence`, `position` in it, and `left`, how many tokens the sequence has from there on; of padding it
    is less than 1. All are int64 of (batch or 1, tokens or 1).

    lengths: of a padded tensor those of its sequences, or None; of a packed one where each begins, and where the last one ends."""

    def __init__(self, nb, x, form, lengths):
        self._nb, self._packed, self._dims = nb, form == _PACKED, nb.shape(x)
        extent, lengths = self._extent(_FIRST if self._packed else _LENGTH), None if lengths is None else nb.cast(lengths, "int64")
        place = nb.unsqueeze(nb.range(0, extent, 1), [0])
        if not self._packed:
            self.sequence, self.position = nb.unsqueeze(nb.range(0, self._extent(_FIRST), 1), [1]), place
            self.left = nb.elementwise(Elementwise.SUB, extent if lengths is None else nb.unsqueeze(lengths, [1]), place)
            return
        ended = nb.elementwise(Elementwise.LESS_OR_EQUAL, nb.unsqueeze(nb.slice(lengths, [1], [1 << 31]), [1]), place)
        self.sequence = nb.reduce(Reduction.SUM, nb.cast(ended, "int64"), [0])
        last = nb.elementwise(Elementwise.SUB, nb.gather(nb.shape(lengths), 0), 1)
        following = nb.elementwise(Elementwise.MIN, nb.elementwise(Elementwise.SUM, self.sequence, 1), last)
        self.position = nb.elementwise(Elementwise.SUB, place, nb.gather(lengths, self.sequence))
        self.left = nb.elementwise(Elementwise.SUB, nb.gather(lengths, following), place)

    def _extent(self, axis):
        return self._nb.gather(self._dims, axis)

    def put_in_a_row(self):
        """Where they are once in_a_row() has put all sequences one behind the other."""
        if not self._packed:
            whole = self._nb.gather(self._dims, [_FIRST, _LENGTH])
            for name in ("sequence", "position", "left"):
                setattr(self, name, self._nb.reshape(self._nb.expand(getattr(self, name), whole), [1, -1]))

    def in_a_row(self, x):
        """(1, heads, tokens, width) of a tensor of these tokens."""
        nb = self._nb
        return nb.transpose(nb.unsqueeze(x, [0]) if self._packed else nb.reshape(nb.transpose(x, [0, 2, 1, 3]), [1, -1, 0, 0]), [0, 2, 1, 3])

    def as_before(self, y, name):
        """The reverse of in_a_row()."""
        nb = self._nb
        y = nb.transpose(y, [0, 2, 1, 3])
        if self._packed:
            return nb.squeeze(y, [0], name=name)
        dims = nb.concatenation([nb.gather(self._dims, [_FIRST, _LENGTH]), nb.constant([0, 0], "int64")], 0)
        return nb.transpose(nb.reshape(y, dims), [0, 2, 1, 3], name=name)


@adds("add_attention_v2")
class IAttention(_Layer):
    TYPE = _L.ATTENTION_OUTPUT
    FIELDS = dict(decomposable=False, norm_op=t.AttentionNormalizationOp.SOFTMAX, causal_kind=_NOT_CAUSAL, query_form=_PADDED, key_value_form=_PADDED,
                  normalization_quantize_to_type=t.DataType.FLOAT, num_ranks=1)
    _takes, _tensors = ("query", "key", "value", "norm_op", "causal_kind"), 3

    mask, normalization_quantize_scale, query_lengths, key_value_lengths = (_input(index) for index in range(3, 7))

    def __init__(self, network, inputs, *, causal_kind=_NOT_CAUSAL, **fields):
        super().__init__(network, inputs, causal_kind=t.CausalMaskKind(causal_kind), **fields)

    causal = property(lambda self: self.causal_kind != _NOT_CAUSAL, lambda self, causal: setattr(self, "causal_kind", t.CausalMaskKind(bool(causal))))

    def _emit(self, nb, inputs):
        q, k, v, mask, scale, q_lengths, k_lengths = inputs + [None] * (7 - len(inputs))
        if self.query_form == _PADDED:
            q_lengths = None  # all queries count, as documented
        self._check(q, k, v, mask, scale, q_lengths, k_lengths)
        fused = self.norm_op == t.AttentionNormalizationOp.SOFTMAX and scale is None
        ragged = _PACKED in (self.query_form, self.key_value_form)
        if fused and not ragged and k_lengths is None and self.causal_kind != _LOWER_RIGHT:
            return nb.attention(q, k, v, mask=mask, causal=self.causal_kind == _UPPER_LEFT, scale=1.0, name=self.name)
        queries, keys = _Tokens(nb, q, self.query_form, q_lengths), _Tokens(nb, k, self.key_value_form, k_lengths)
        if ragged:
            queries.put_in_a_row()
            keys.put_in_a_row()
            q, k, v = queries.in_a_row(q), keys.in_a_row(k), keys.in_a_row(v)
        allowed, added = (mask, None) if mask is not None and mask.dtype == "bool" else (None, mask)
        for condition in self._conditions(nb, queries, keys, ragged, k_lengths is not None):
            allowed = condition if allowed is None else nb.elementwise(Elementwise.AND, allowed, condition)
        name = "" if ragged else self.name
        y = (self._fused if fused else self._by_products)(nb, q, k, v, allowed, added, scale, name)
        return queries.as_before(y, self.name) if ragged else y

    def _check(self, q, k, v, mask, scale, q_lengths, k_lengths):
        def refuse(what, hint=""):
            raise lathe.InputError(what, where=f"attention '{self.name}'", hint=hint)
        if self.num_ranks != 1:
            raise NotSupported(f"IAttention.num_ranks of {self.num_ranks}")
        batches = set()
        for what, x, form, lengths, attribute in (("query", q, self.query_form, q_lengths, "query_lengths"),
                                                  ("key", k, self.key_value_form, k_lengths, "key_value_lengths"),
                                                  ("value", v, self.key_value_form, k_lengths, "key_value_lengths")):
            rank = 3 if form == _PACKED else 4
            if len(x.shape) != rank:
                refuse(f"the {what} of {len(x.shape)} dims is not {form.name}", f"it takes {rank}")
            if form == _PACKED and lengths is None:
                refuse(f"the {what} is packed and has no lengths", f"set {attribute}")
            if lengths is not None and (lengths.dtype != "int32" or len(lengths.shape) != 1):
                refuse(f"{attribute} are {lengths.dtype} of {len(lengths.shape)} dims", "they take int32 of one")
            batches |= {x.shape[0]} if form == _PADDED else set()
            batches |= {lengths.shape[0] - (form == _PACKED)} if lengths is not None else set()
        known = sorted(batch for batch in batches if batch >= 0)
        if len(known) > 1:
            refuse(f"queries, keys and lengths are of {known} sequences")
        heads, groups = q.shape[1], k.shape[1]
        if heads > 0 and groups > 0 and heads % groups:
            refuse(f"{heads} heads of queries do not share {groups} heads of keys")
        if mask is not None and self.causal_kind != _NOT_CAUSAL:
            refuse("it has a mask and is causal", "make causal_kind NONE and the mask causal")
        if mask is not None and _PACKED in (self.query_form, self.key_value_form):
            refuse("packed forms take no mask")
        if (scale is not None) != (self.normalization_quantize_to_type in (t.DataType.FP8, t.DataType.INT8)):
            refuse("a scale and a type of FP8 or INT8 quantize the normalization together", "set normalization_quantize_scale and _to_type")

    def _conditions(self, nb, queries, keys, ragged, lengths):
        """What has to hold for a query to see a key, each of (batch or 1, 1, queries or 1, keys or 1)."""
        def compared(kind, query, key):
            return nb.elementwise(kind, nb.unsqueeze(query, [1, 3]), nb.unsqueeze(key, [1, 2]))
        if ragged:
            yield compared(Elementwise.EQUAL, queries.sequence, keys.sequence)
        if lengths:
            yield nb.elementwise(Elementwise.GREATER, nb.unsqueeze(keys.left, [1, 2]), 0)
        if self.causal_kind == _UPPER_LEFT:
            yield compared(Elementwise.GREATER_OR_EQUAL, queries.position, keys.position)
        if self.causal_kind == _LOWER_RIGHT:
            yield compared(Elementwise.LESS_OR_EQUAL, queries.left, keys.left)

    def _fused(self, nb, q, k, v, allowed, added, _, name):
        mask = allowed if added is None else added if allowed is None else nb.select(allowed, added, -np.inf)
        return nb.attention(q, k, v, mask=mask, scale=1.0, name=name)

    def _by_products(self, nb, q, k, v, allowed, added, scale, name):
        """What the fused operator has not: weights that are not normalized, and such that are quantized."""
        heads, groups = q.shape[1], k.shape[1]
        if heads != groups:
            k, v = (nb.gather(x, [head * groups // heads for head in range(heads)], 1) for x in (k, v))
        weights = nb.matrix_multiply(q, k, False, True)
        if added is not None:
            weights = nb.elementwise(Elementwise.SUM, weights, added)
        if self.norm_op == t.AttentionNormalizationOp.SOFTMAX:
            weights = nb.softmax(weights if allowed is None else nb.select(allowed, weights, -np.inf), -1)
        if allowed is not None:
            weights = nb.select(allowed, weights, 0)  # also of queries that see no key
        if scale is not None:
            scale = nb.reshape(scale, [])
            weights = nb.dequantize(nb.quantize(weights, scale, dtype=t.lathe_name(self.normalization_quantize_to_type)), scale)
        return nb.matrix_multiply(weights, v, name=name)


adds("add_attention")(type("IAttention", (IAttention,), {"_takes": (*IAttention._takes[:-1], "causal"), "_renamed": {"causal": "causal_kind"}}))


@adds("add_rotary_embedding")
class IRotaryEmbeddingLayer(_Layer):
    TYPE, FIELDS = _L.ROTARY_EMBEDDING, dict(interleaved=False, rotary_embedding_dim=0)
    _takes, _tensors = ("input", "cos_cache", "sin_cache", "interleaved", "rotary_embedding_dim"), 3

    def _emit(self, nb, inputs):
        positions = inputs[3] if len(inputs) > 3 else None
        return nb.rotary_embedding(*inputs[:3], position_ids=positions, interleaved=self.interleaved,
                                   rotary_dim=self.rotary_embedding_dim, name=self.name)


@adds("add_kv_cache_update")
class IKVCacheUpdateLayer(_Layer):
    TYPE, FIELDS = _L.KVCACHE_UPDATE, dict(cache_mode=t.KVCacheMode.LINEAR)
    _takes, _tensors = ("cache", "update", "write_indices", "cache_mode"), 3

    def _emit(self, nb, inputs):
        return nb.kv_cache_update(inputs[0], inputs[1], nb.cast(inputs[2], "int64"), name=self.name)
