#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models of operators that no recipe has, for compare.py --onnx: a GRU and tree ensembles.

usage: write_models.py FOLDER

  gru.onnx     two layers of 256 hidden values in both directions over 100 steps of 80 features; dim: batch
  trees.onnx   500 complete trees of depth 8 over 30 features (TreeEnsembleRegressor); dim: batch, the rows

    bench/write_models.py /tmp/models
    bench/compare.py --onnx /tmp/models --models gru --batches 1,16
    bench/compare.py --onnx /tmp/models --models trees --batches 1,1000 --no-openvino    # which has no trees
"""

import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

FLOAT = TensorProto.FLOAT


def model(graph, domains={}):
    opsets = [helper.make_opsetid(domain, version) for domain, version in {"": 17, **domains}.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def gru(steps=100, features=80, hidden=256, layers=2):
    rng = np.random.default_rng(1)
    nodes, weights, x, width = [], [], "x", features
    for layer in range(layers):
        shapes = {"w": (2, 3 * hidden, width), "r": (2, 3 * hidden, hidden), "b": (2, 6 * hidden)}
        for name, shape in shapes.items():
            values = (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
            weights.append(numpy_helper.from_array(values, f"{name}{layer}"))
        nodes.append(helper.make_node("GRU", [x, f"w{layer}", f"r{layer}", f"b{layer}"], [f"h{layer}"], f"gru{layer}",
                                      hidden_size=hidden, direction="bidirectional", linear_before_reset=1))
        nodes.append(helper.make_node("Transpose", [f"h{layer}"], [f"t{layer}"], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", [f"t{layer}", "rows"], [f"y{layer}"]))
        x, width = f"y{layer}", 2 * hidden
    weights.append(numpy_helper.from_array(np.array([steps, -1, 2 * hidden], np.int64), "rows"))
    inputs = [helper.make_tensor_value_info("x", FLOAT, [steps, "batch", features])]
    outputs = [helper.make_tensor_value_info(x, FLOAT, [steps, "batch", 2 * hidden])]
    return model(helper.make_graph(nodes, "gru", inputs, outputs, weights))


def trees(count=500, depth=8, features=30):
    rng = np.random.default_rng(2)
    inner, leaves = 2**depth - 1, 2**depth
    total = inner + leaves
    node = np.arange(total)
    is_leaf = node >= inner
    every = lambda values: np.tile(values, count).tolist()  # noqa: E731
    attributes = {
        "nodes_treeids": np.repeat(np.arange(count), total).tolist(),
        "nodes_nodeids": every(node),
        "nodes_featureids": np.where(np.tile(is_leaf, count), 0, rng.integers(0, features, count * total)).tolist(),
        "nodes_values": np.where(np.tile(is_leaf, count), 0, rng.standard_normal(count * total)).astype(np.float32).tolist(),
        "nodes_modes": ["LEAF" if leaf else "BRANCH_LEQ" for leaf in every(is_leaf)],
        "nodes_truenodeids": every(np.where(is_leaf, 0, 2 * node + 1)),
        "nodes_falsenodeids": every(np.where(is_leaf, 0, 2 * node + 2)),
        "target_treeids": np.repeat(np.arange(count), leaves).tolist(),
        "target_nodeids": every(np.arange(inner, total)),
        "target_ids": [0] * (count * leaves),
        "target_weights": rng.standard_normal(count * leaves).astype(np.float32).tolist(),
    }
    nodes = [helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], "trees", domain="ai.onnx.ml", n_targets=1, **attributes)]
    inputs = [helper.make_tensor_value_info("x", FLOAT, ["batch", features])]
    outputs = [helper.make_tensor_value_info("y", FLOAT, ["batch", 1])]
    return model(helper.make_graph(nodes, "trees", inputs, outputs), {"ai.onnx.ml": 3})


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in {"gru": gru, "trees": trees}.items():
        save(write(), folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
