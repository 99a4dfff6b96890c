#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""State that trtexec keeps (--keepState): 64 steps of decoders and recurrent layers against the whole sequence at once and against steps that are fed
by hand, both by ONNX Runtime.

The decoders feed themselves: the token of a step is state, too, the one with the greatest logit of the step before. So every step has other data, and
the last step's caches hold what all steps computed.

usage: run.py --build build [--device 0]
On a GPU, in FP32 without TF32, where caches have two memories that change places.
"""
import argparse
import json
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from harness import Tests, quiet_environment  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
STEPS, VOCABULARY, WIDTH, HEADS, SHARED, LAYERS, MOST = 64, 97, 32, 4, 2, 2, 80
HEAD = WIDTH // HEADS


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, weights):
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Decoder:
    """Two layers of attention with shared heads. Caches are [batch, heads, past, 8] (`axis` 2) or [batch, past, heads, 8] (1)."""

    def __init__(self, axis=2, batch="batch", mask=False, reader=False):
        """`reader`: an output that grows and is made of a cache by a layer that knows nothing of room."""
        random = np.random.default_rng(5)
        self.axis, self.batch, self.mask, self.reader = axis, batch, mask, reader
        self.nodes = []
        self.weights = {"table": random.normal(0, 1, (VOCABULARY, WIDTH)).astype(np.float32),
                        "places": random.normal(0, 1, (MOST + 1, WIDTH)).astype(np.float32),
                        "head": random.normal(0, 1, (WIDTH, VOCABULARY)).astype(np.float32)}
        for i in range(LAYERS):
            for name, columns in (("q", WIDTH), ("k", SHARED * HEAD), ("v", SHARED * HEAD), ("o", WIDTH)):
                self.weights[f"{name}{i}"] = random.normal(0, WIDTH**-0.5, (WIDTH, columns)).astype(np.float32)

    def ints(self, name, *numbers):
        self.weights[name] = np.array(numbers, np.int64)
        return name

    def add(self, kind, inputs, output, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def cache(self, length):
        return [self.batch, SHARED, length, HEAD] if self.axis == 2 else [self.batch, length, SHARED, HEAD]

    def heads(self, x, weight, count, name):
        """[batch, tokens, WIDTH] -> [batch, count, tokens, HEAD]."""
        self.add("MatMul", [x, weight], f"{name}_rows")
        self.add("Reshape", [f"{name}_rows", self.ints(f"{name}_shape", 0, 0, count, HEAD)], f"{name}_split")
        return self.add("Transpose", [f"{name}_split"], name, perm=[0, 2, 1, 3])

    def repeated(self, x, name):
        """Each shared head for the heads that read it, as exporters write it."""
        self.add("Unsqueeze", [x, self.ints(f"{name}_two", 2)], f"{name}_five")
        self.add("Expand", [f"{name}_five", self.ints(f"{name}_times", 1, 1, HEADS // SHARED, 1, 1)], f"{name}_copies")
        return self.add("Reshape", [f"{name}_copies", self.ints(f"{name}_shape", 0, HEADS, -1, HEAD)], name)

    def attention(self, i, x, whole):
        q = self.heads(x, f"q{i}", HEADS, f"q_{i}")
        operands = []
        for part in "kv":
            now = self.heads(x, f"{part}{i}", SHARED, f"{part}_{i}")
            if self.axis == 1:
                now = self.add("Transpose", [now], f"{part}_{i}_back", perm=[0, 2, 1, 3])
            if not whole:
                now = self.add("Concat", [f"past.{i}.{part}", now], f"present.{i}.{part}", axis=self.axis)
            else:
                now = self.add("Identity", [now], f"present.{i}.{part}")
            if self.axis == 1:
                now = self.add("Transpose", [now], f"{part}_{i}_heads", perm=[0, 2, 1, 3])
            operands.append(self.repeated(now, f"{part}_{i}_all"))
        self.add("Transpose", [operands[0]], f"k_{i}_turned", perm=[0, 1, 3, 2])
        scores = self.add("MatMul", [q, f"k_{i}_turned"], f"scores_{i}")
        scores = self.add("Mul", [scores, "scale"], f"scaled_{i}")
        if self.mask:
            scores = self.add("Add", [scores, "full_mask"], f"masked_{i}")
        if whole:
            scores = self.add("Add", [scores, "causal"], f"seen_{i}")
        self.add("Softmax", [scores], f"weights_{i}", axis=-1)
        self.add("MatMul", [f"weights_{i}", operands[1]], f"mixed_{i}")
        self.add("Transpose", [f"mixed_{i}"], f"mixed_{i}_back", perm=[0, 2, 1, 3])
        self.add("Reshape", [f"mixed_{i}_back", self.ints(f"mixed_{i}_shape", 0, 0, WIDTH)], f"mixed_{i}_rows")
        self.add("MatMul", [f"mixed_{i}_rows", f"o{i}"], f"out_{i}")
        return self.add("Add", [x, f"out_{i}"], f"x_{i}")

    def proto(self, whole=0):
        """A step; or all of `whole` tokens at once."""
        self.nodes = []
        self.weights["scale"] = np.float32(HEAD**-0.5)
        tokens = whole or 1
        self.add("Gather", ["table", "token"], "embedded")
        if whole:
            self.weights["causal"] = np.triu(np.full((whole, whole), -1e9, np.float32), 1)
            self.weights["first_places"] = self.weights["places"][:whole]
            places = "first_places"
        else:
            self.add("Shape", ["past.0.k"], "past_shape")
            begin = self.add("Slice", ["past_shape", self.ints("a", self.axis), self.ints("b", self.axis + 1)], "begin")
            end = self.add("Add", [begin, self.ints("one", 1)], "end")
            places = self.add("Slice", ["places", begin, end, self.ints("zero", 0)], "place")
        x = self.add("Add", ["embedded", places], "x")
        if self.mask:  # of the past: what is new sees itself
            self.weights["seen"] = np.zeros((1, 1), np.float32)
            self.add("Concat", ["mask", "seen"], "full_mask", axis=1)
        for i in range(LAYERS):
            x = self.attention(i, x, whole)
        if self.reader:
            self.add("Sigmoid", ["present.0.k"], "all_keys")
        self.add("MatMul", [x, "head"], "logits")
        self.add("ArgMax", ["logits"], "next_token", axis=2, keepdims=0)
        caches = [f"{i}.{part}" for i in range(LAYERS) for part in "kv"]
        inputs = [value("token", INT64, [self.batch, tokens])]
        inputs += [value("mask", FLOAT, [1, "past"])] if self.mask else []
        inputs += [] if whole else [value(f"past.{c}", FLOAT, self.cache("past")) for c in caches]
        outputs = [value("logits", FLOAT, [self.batch, tokens, VOCABULARY]), value("next_token", INT64, [self.batch, tokens])]
        outputs += [value("all_keys", FLOAT, self.cache(whole or "total"))] if self.reader else []
        outputs += [value(f"present.{c}", FLOAT, self.cache(whole or "total")) for c in caches]
        used = {name for node in self.nodes for name in node.input}
        return model(self.nodes, inputs, outputs, {k: v for k, v in self.weights.items() if k in used})


def results(session, feeds):
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def session_of(proto):
    return onnxruntime.InferenceSession(proto.SerializeToString())


def fed_by_hand(decoder, first, steps, mask=None):
    """The last step's outputs, and the tokens that were fed. ONNX Runtime."""
    session, tokens = session_of(decoder.proto()), [first]
    caches = {f"past.{i}.{part}": np.zeros([len(first) if d == decoder.batch else d for d in decoder.cache(0)], np.float32)
              for i in range(LAYERS) for part in "kv"}
    for step in range(steps):
        feeds = {"token": tokens[-1], **caches}
        if mask is not None:
            feeds["mask"] = mask[:, :step]
        out = results(session, feeds)
        tokens.append(out["next_token"])
        caches = {name: out[name.replace("past", "present")] for name in caches}
    return out, np.concatenate(tokens[:-1], axis=1)


def compare(t, what, r, path, right):
    found = {}
    for tensor in json.loads(path.read_text()):
        shape = tuple(int(d) for d in tensor["dimensions"].split("x"))
        found[tensor["name"]] = np.reshape(tensor["values"], shape)
    for name, expected in right.items():
        if not t.check(name in found and found[name].shape == expected.shape,
                       f"{what}: '{name}' is {found[name].shape if name in found else 'missing'}, not {expected.shape}", r):
            continue
        worst = np.abs(found[name] - expected).max() if expected.size else 0
        t.check(worst <= 2e-4, f"{what}: '{name}' differs by {worst}", r)


def ranges(batch, axis, most=MOST - 1):
    cache = lambda b, length: f"past.0.k:{b}x{SHARED}x{length}x{HEAD}" if axis == 2 else f"past.0.k:{b}x{length}x{SHARED}x{HEAD}"
    return [f"--minShapes={cache(1, 0)}", f"--optShapes={cache(batch, 32)}", f"--maxShapes={cache(batch, most)}"]


QUICK = ["--duration=0", "--warmUp=0"]
DEVICE = ["--device=cpu"]


def build(t, name, proto, *words):
    onnx.save(proto, t.folder / f"{name}.onnx")
    r = t.run(f"--onnx={name}.onnx", "--builderOptimizationLevel=1", f"--saveEngine={name}.engine", "--skipInference", *DEVICE, *words)
    return t.check(r.code == 0, f"{name}: the build", r)


def notes(r):
    return [line for line in r.lines() if line.startswith("[I] State ")]


def decode(t, name, decoder, batch, how, *words):
    """64 steps of an engine, against steps fed by hand and against the whole sequence. `how`: the note of its caches."""
    fixed = decoder.batch != "batch"
    if not build(t, name, decoder.proto(), *ranges(batch, decoder.axis), *words):
        return
    first = np.arange(3, 3 + batch, dtype=np.int64).reshape(batch, 1)
    (t.folder / "first.bin").write_bytes(first.tobytes())
    isa = [word for word in words if word.startswith("--cpuIsa")]
    shapes = [f"--shapes=token:{batch}x1"] if not fixed else []
    mask = None
    if decoder.mask:
        mask = np.random.default_rng(1).normal(0, 1, (1, MOST - 1)).astype(np.float32)
        (t.folder / "mask.bin").write_bytes(mask.tobytes())
    loads = "--loadInputs=token:first.bin" + (",mask:mask.bin" if decoder.mask else "")
    r = t.run(f"--loadEngine={name}.engine", "--keepState=past:present,token:next_token", *shapes, loads, *isa, f"--iterations={STEPS}", *QUICK, *DEVICE,
              "--exportOutput=out.json")
    if not t.check(r.code == 0, f"{name}: {STEPS} steps", r):
        return
    by_hand, tokens = fed_by_hand(decoder, first, STEPS, mask)
    t.check(len(set(tokens[0])) > 3, f"{name}: the decoder says the same word again and again: {tokens[0]}")
    compare(t, f"{name}, fed by hand", r, t.folder / "out.json", by_hand)
    if not decoder.mask:
        whole = results(session_of(decoder.proto(STEPS)), {"token": tokens})
        last = {k: v[:, -1:] if k in ("logits", "next_token") else v for k, v in whole.items()}
        compare(t, f"{name}, the whole sequence at once", r, t.folder / "out.json", last)
    caches = [line for line in notes(r) if "past." in line]
    if decoder.reader and "appended" in how:
        # The layer, or a change of format in front of it, as the tuner chose; never the attention.
        why = caches.pop(0)
        t.check(re.search(r"because layer ('all_keys' \(Pointwise\)|'[^']*' \(Reformat\)) reads it without gaps", why), f"{name}: a cache that others read: {why}", r)
    t.check(len(caches) >= 2 * LAYERS - 1 and all(how in line for line in caches), f"{name}: caches are not '{how}'", r)
    t.check(any(line.startswith("[I] State token -> next_token: two memories that change places, because a step replaces it") for line in notes(r)),
            f"{name}: how the token is kept", r)


def restarts(t):
    """Room for 9 rows of past: after 10 steps state is full, and begins again."""
    decoder = Decoder()
    if not build(t, "short", decoder.proto(), *ranges(1, 2, 32)):
        return
    first = np.array([[3]], np.int64)
    (t.folder / "first.bin").write_bytes(first.tobytes())
    r = t.run("--loadEngine=short.engine", "--keepState=past:present,token:next_token", "--shapes=token:1x1", "--loadInputs=token:first.bin",
              "--iterations=37", *QUICK, *DEVICE, "--exportOutput=out.json")
    t.check(r.code == 0 and any("The state was full 1 times and began again" in line for line in r.out), "state that is full", r)
    compare(t, "after a restart", r, t.folder / "out.json", fed_by_hand(decoder, first, 4)[0])
    r = t.run("--loadEngine=short.engine", "--keepState", "--shapes=token:1x1", "--infStreams=2", "--threads", "--iterations=20", *QUICK, *DEVICE,
              "--dumpProfile", "--checkNumerics")
    t.check(r.code == 0 and len(notes(r)) == 2 * LAYERS + 1, "two contexts, names that tell, layer times", r)


def first_values(t):
    """State that begins with the caches of a run without it."""
    decoder = Decoder()
    random = np.random.default_rng(2)
    names = [f"past.{i}.{part}" for i in range(LAYERS) for part in "kv"]
    feeds = {name: random.normal(0, 1, (2, SHARED, 7, HEAD)).astype(np.float32) for name in names}
    for name, array in feeds.items():
        (t.folder / f"{name}.bin").write_bytes(array.tobytes())
    if not build(t, "begun", decoder.proto(), *ranges(2, 2)):
        return
    token = np.array([[4], [9]], np.int64)
    (t.folder / "token.bin").write_bytes(token.tobytes())
    loads = "--loadInputs=token:token.bin," + ",".join(f"{n}:{n}.bin" for n in names)
    r = t.run("--loadEngine=begun.engine", "--keepState", f"--shapes=token:2x1,past.0.k:2x{SHARED}x7x{HEAD}", loads, "--iterations=3", *QUICK, *DEVICE,
              "--exportOutput=out.json")
    if not t.check(r.code == 0, "state with first values", r):
        return
    session = session_of(decoder.proto())
    for _ in range(3):  # the token is state by its name, too
        out = results(session, {"token": token, **feeds})
        token = out["next_token"]
        feeds = {name: out[name.replace("past", "present")] for name in names}
    compare(t, "state with first values", r, t.folder / "out.json", out)


def lstm(t):
    """An LSTM's step, h0 and hn and c0 and cn by name, against all steps at once."""
    random = np.random.default_rng(3)
    hidden, width, batch = 24, 16, 3
    weights = {"w": random.normal(0, 0.3, (1, 4 * hidden, width)).astype(np.float32),
               "r": random.normal(0, 0.3, (1, 4 * hidden, hidden)).astype(np.float32),
               "b": random.normal(0, 0.3, (1, 8 * hidden)).astype(np.float32)}

    def proto(steps):
        node = helper.make_node("LSTM", ["x", "w", "r", "b", "", "h0", "c0"], ["y", "hn", "cn"], hidden_size=hidden)
        state = [1, "batch", hidden]
        return model([node], [value("x", FLOAT, [steps, "batch", width]), value("h0", FLOAT, state), value("c0", FLOAT, state)],
                     [value("y", FLOAT, [steps, 1, "batch", hidden]), value("hn", FLOAT, state), value("cn", FLOAT, state)], weights)

    if not build(t, "lstm", proto(1), f"--minShapes=x:1x1x{width}", f"--optShapes=x:1x{batch}x{width}", f"--maxShapes=x:1x{batch}x{width}"):
        return
    x = random.normal(0, 1, (1, batch, width)).astype(np.float32)
    (t.folder / "x.bin").write_bytes(x.tobytes())
    r = t.run("--loadEngine=lstm.engine", "--keepState", f"--shapes=x:1x{batch}x{width}", "--loadInputs=x:x.bin", f"--iterations={STEPS}", *QUICK, *DEVICE,
              "--exportOutput=out.json")
    if not t.check(r.code == 0 and len(notes(r)) == 2, "lstm: steps", r):
        return
    zeros = np.zeros((1, batch, hidden), np.float32)
    right = results(session_of(proto(STEPS)), {"x": np.tile(x, (STEPS, 1, 1)), "h0": zeros, "c0": zeros})
    compare(t, "lstm", r, t.folder / "out.json", {**right, "y": right["y"][-1:]})
    once = results(session_of(proto(1)), {"x": x, "h0": zeros, "c0": zeros})
    t.check(np.abs(once["hn"] - right["hn"]).max() > 1e-3, "lstm: steps that change nothing prove nothing")


def refused(t):
    """One error that says what is missing."""
    run = ["--loadEngine=lstm.engine", *QUICK, *DEVICE]
    cases = [("--keepState=h0:nothing", "no input 'h0' with an output 'nothing'"), ("--keepState=h0", "'h0' is no pair of state"),
             ("--keepState=h0:hn,h0:cn", "input 'h0' is in two pairs of state"), ("--keepState=h0:hn,c0:hn", "output 'hn' is in two pairs of state"),
             ("--keepState=h0:y", "their ranks differ")]
    for flag, text in cases:
        r = t.run(*run, flag)
        t.check(r.code == 1 and any(text in line for line in r.err), f"{flag}: no error with: {text}", r)
    node = helper.make_node("Relu", ["x"], ["y"])
    if build(t, "relu", model([node], [value("x", FLOAT, [4])], [value("y", FLOAT, [4])], {})):
        r = t.run("--loadEngine=relu.engine", "--keepState", *QUICK, *DEVICE)
        t.check(r.code == 1 and any("no names tell which outputs are state: the inputs are x, the outputs are y" in line for line in r.err),
                "a model without state", r)
    if build(t, "long", Decoder().proto(), *[word.replace("1x2x0x8", "1x2x5x8") for word in ranges(1, 2)]):
        r = t.run("--loadEngine=long.engine", "--keepState", *QUICK, *DEVICE)
        t.check(r.code == 1 and any("begins with 5 rows along dim 2, and nothing says what is in them" in line for line in r.err),
                "a cache that cannot begin empty", r)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    on_gpu = arguments.device != "cpu"
    DEVICE[:] = [f"--device={arguments.device}", *["--noTF32"] * on_gpu]
    quiet_environment()
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(arguments.build, folder)
        in_place, whole = "appended in place along axis {}, room for 80", "--batchPart=0"
        apart = "the batch is split"
        if on_gpu:
            in_place = "two memories that change places, because " + (apart := "only the CPU appends in place")
        decode(t, "heads", Decoder(), 1, in_place.format(2))
        decode(t, "heads_of_two", Decoder(), 2, in_place.format(2), whole)
        decode(t, "heads_apart", Decoder(), 2, f"two memories that change places, because {apart}", "--batchPart=1", "--cpuThreads=2")
        decode(t, "rows", Decoder(axis=1, batch=1), 1, in_place.format(1))
        decode(t, "rows_of_two", Decoder(axis=1), 2, in_place.format(1), whole)
        decode(t, "read", Decoder(reader=True), 2, in_place.format(2), whole)
        decode(t, "masked", Decoder(mask=True), 2, in_place.format(2), whole)
        if not on_gpu:
            decode(t, "heads_avx2", Decoder(), 2, in_place.format(2), whole, "--cpuIsa=avx2")
        restarts(t)
        first_values(t)
        lstm(t)
        refused(t)
        return t.finish("state")


if __name__ == "__main__":
    sys.exit(main())
