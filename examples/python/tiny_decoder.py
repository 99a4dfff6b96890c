# SPDX-License-Identifier: Apache-2.0
"""Writes a language model of a few kilobytes as one step of a decoder: tiny_decoder.py TEXT MODEL.onnx

It is a transformer whose weights are not trained but counted: which letter follows which two in TEXT. One step takes a letter and the caches of the
letters before it, and gives scores of the next one and the caches with one more row, as exporters write decoders:

    token int64 [1, 1], past.k float32 [1, 1, past, MOST], past.v [1, 1, past, letters]  ->  logits [1, letters], present.k, present.v

Attention finds the letter before this one: the key of a letter is its place, the query is the place before. Hidden units say which two letters they
were, the last product has the counts.
"""
import collections
import pathlib
import sys

import numpy as np

import lathe

MOST = 256  # places


def letters_of(text):
    return sorted(set(text))


def counts_of(text):
    """How often each letter follows each pair of letters."""
    counts = collections.defaultdict(collections.Counter)
    for a, b, c in zip(text, text[1:], text[2:]):
        counts[a, b][c] += 1
    return counts


def decoder(text):
    letters, counts = letters_of(text), counts_of(text)
    number = {letter: i for i, letter in enumerate(letters)}
    pairs = list(counts)
    before, now = np.zeros((len(letters), len(pairs)), np.float32), np.zeros((len(letters), len(pairs)), np.float32)
    after = np.zeros((len(pairs), len(letters)), np.float32)
    for unit, (a, b) in enumerate(pairs):
        before[number[a], unit] = now[number[b], unit] = 1
        for c, count in counts[a, b].items():
            after[unit, number[c]] = count

    net = lathe.NetworkBuilder("tiny decoder")
    token = net.input("token", "int64", (1, 1))
    past_k = net.input("past.k", "float32", (1, 1, -1, MOST), ["1", "1", "past", str(MOST)])
    past_v = net.input("past.v", "float32", (1, 1, -1, len(letters)), ["1", "1", "past", str(len(letters))])
    place = net.reshape(net.slice(net.shape(past_k), [2], [3], [0]), [1, 1])  # how many letters there were
    one_hot = net.op("Gather", [net.constant(np.eye(len(letters), dtype=np.float32)), token], axis=0)  # [1, 1, letters]
    key = net.op("Gather", [net.constant(np.eye(MOST, dtype=np.float32)), place], axis=0)
    # The place before; the first letter has none, and attends to itself.
    query = net.op("Gather", [net.constant(np.eye(MOST, k=-1, dtype=np.float32) * 60), place], axis=0)
    present_k = net.concatenation([past_k, net.reshape(key, [1, 1, 1, MOST])], 2)
    present_v = net.concatenation([past_v, net.reshape(one_hot, [1, 1, 1, len(letters)])], 2)
    scores = net.matrix_multiply(net.reshape(query, [1, 1, 1, MOST]), net.transpose(present_k, [0, 1, 3, 2]))
    found = net.matrix_multiply(net.softmax(scores, -1), present_v)
    both = net.elementwise(lathe.Elementwise.SUM, net.matrix_multiply(net.reshape(found, [1, len(letters)]), before),
                           net.matrix_multiply(net.reshape(one_hot, [1, len(letters)]), now))
    units = net.activation(lathe.Activation.RELU, net.elementwise(lathe.Elementwise.SUB, both, 1.0))
    net.output(net.matrix_multiply(units, after), "logits")
    net.output(present_k, "present.k")
    net.output(present_v, "present.v")
    return net.finish()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    text = pathlib.Path(sys.argv[1]).read_text()
    decoder(text).to_onnx(sys.argv[2])
    print(f"wrote {sys.argv[2]}: {len(letters_of(text))} letters, {len(counts_of(text))} pairs")


if __name__ == "__main__":
    main()
