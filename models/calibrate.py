#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a recipe of a model whose activations keep unit variance.

A fresh export often has activations that vanish or explode with depth (batch norms folded with the statistics of an
untrained network). This walks the convolutions and fully connected layers in order, and where the standard deviation of a
layer's output on normal input lies outside [0.7, 1.5] it scales the moments of its weight. Weights of more than 64 elements that the
file still holds become entries of the recipe table ('skeleton.recipes'), so the file gets smaller too.

usage: calibrate.py IN.skel.onnx OUT.skel.onnx DESCRIPTION [OPERATORS]     OPERATORS: those to scale, default Conv,Gemm
needs: onnx, onnxruntime, numpy
"""
import json, sys, zlib
import numpy as np, onnx, onnxruntime
from onnx import numpy_helper

TABLE = "skeleton.recipes"
GATE_DEVIATION = 0.25


def draw(key, r):
    """The weights that src/onnx/random_weights.cpp draws."""
    n = int(np.prod(r["dims"]))
    with np.errstate(over="ignore"):
        z = np.uint64(zlib.crc32(key.encode())) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(r["dtype"])
    if r["integer"]:
        low, high = int(r["min"]), int(r["max"])
        return (z % np.uint64(high - low + 1)).astype(np.int64).__add__(low).astype(dtype).reshape(r["dims"])
    total = sum(((z >> np.uint64(s)) & np.uint64(0xFFFF)).astype(np.int64) for s in (0, 16, 32, 48))
    a = (total - 2 * 65535) / 37837.22 * r["std"] + r["mean"]
    return np.clip(a, r["min"], r["max"]).astype(dtype).reshape(r["dims"])


def take_out_weights(model, table):
    for t in model.graph.initializer:
        if t.name in table or t.data_type != onnx.TensorProto.FLOAT or int(np.prod(t.dims)) <= 64:
            continue
        a = numpy_helper.to_array(t)
        std = float(a.std())
        if std == 0 or len(t.dims) < 2:
            continue  # biases stay as they are
        table[t.name] = {"dtype": t.data_type, "dims": list(t.dims), "mean": float(a.mean()), "std": std,
                         "min": float(a.min()), "max": float(a.max()), "integer": False}
        t.ClearField("raw_data")
        t.ClearField("float_data")


def output_deviations(model, table, layers):
    """Standard deviation of each layer's output over the one that it should have."""
    full = onnx.ModelProto()
    full.CopyFrom(model)
    for t in full.graph.initializer:
        if t.name in table:
            t.raw_data = draw(t.name, table[t.name]).tobytes()
    for n in layers:
        if n.output[0] not in [o.name for o in full.graph.output]:
            full.graph.output.append(onnx.helper.make_empty_tensor_value_info(n.output[0]))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(full.SerializeToString(), options)
    rng = np.random.default_rng(0)
    feed = {i.name: rng.standard_normal([d if isinstance(d, int) else 1 for d in i.shape]).astype(np.float32)
            for i in session.get_inputs()}
    # A convolution that sees one pixel feeds a gate (squeeze and excitation): there a small deviation is wanted, since gates that
    # swing from 0 to 1 multiply rounding errors from block to block.
    target = lambda v: GATE_DEVIATION if v.ndim == 4 and v.shape[2:] == (1, 1) else 1.0
    return {o.name: float(v.std()) / target(v) for o, v in zip(session.get_outputs(), session.run(None, feed))}


def calibrate(model, table, operators):
    layers = [n for n in model.graph.node if n.op_type in operators and n.input[1] in table]
    for start in range(len(layers)):
        deviations = output_deviations(model, table, layers)
        wrong = [n for n in layers[start:] if not 0.7 <= deviations[n.output[0]] <= 1.5]
        if not wrong:
            return
        n, r = wrong[0], table[wrong[0].input[1]]
        scale = 1 / deviations[n.output[0]]
        print(f"{n.name}: {deviations[n.output[0]]:.3g} -> 1 ({len(wrong) - 1} to look at)", flush=True)
        for key in ("mean", "std", "min", "max"):
            r[key] *= scale


def main(source, target, description, operators="Conv,Gemm"):
    model = onnx.load(source)
    entries = {p.key: p.value for p in model.metadata_props}
    table = json.loads(entries.get(TABLE, "{}"))
    take_out_weights(model, table)
    calibrate(model, table, operators.split(","))
    del model.metadata_props[:]
    entries["description"] = description
    entries[TABLE] = json.dumps(table)
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, target)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
