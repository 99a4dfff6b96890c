#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the recipe of a small one-stage detector in the manner of YOLO: strided convolutions with SiLU, split-and-concat
blocks, pooling pyramid, top-down and bottom-up paths (Resize, Concat), heads at three strides, box decoding, NonMaxSuppression.

The weights' moments come from the fan-in; calibrate.py then gives every layer unit variance:
    make_detector.py detector.skel.onnx && calibrate.py detector.skel.onnx detector.skel.onnx "..." Conv
usage: make_detector.py OUT.skel.onnx
needs: onnx, numpy
"""
import json, sys
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper

SIZE, CLASSES, WIDTHS = 320, 20, (16, 32, 64, 128, 256)
STRIDES, ANCHORS = (8, 16, 32), (24.0, 64.0, 144.0)


class Writer:
    def __init__(self):
        self.nodes, self.initializers, self.recipes = [], [], {}

    def node(self, op, inputs, name, outputs=1, **attributes):
        outs = [f"{name}/{op}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, outs, name=f"{name}/{op}", **attributes))
        return outs[0] if outputs == 1 else outs

    def constant(self, name, value):
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name, dims):
        std = float((2.0 / np.prod(dims[1:])) ** 0.5)
        self.recipes[name] = {"dtype": TensorProto.FLOAT, "dims": list(dims), "mean": 0.0, "std": std,
                              "min": -4 * std, "max": 4 * std, "integer": False}
        self.initializers.append(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims))
        return name

    def conv(self, x, name, cin, cout, k=1, stride=1, act=True):
        bias = np.linspace(-0.1, 0.1, cout).astype(np.float32)
        y = self.node("Conv", [x, self.weight(f"{name}.weight", (cout, cin, k, k)), self.constant(f"{name}.bias", bias)], name,
                      kernel_shape=[k, k], strides=[stride, stride], pads=[k // 2] * 4)
        if not act:
            return y
        return self.node("Mul", [y, self.node("Sigmoid", [y], f"{name}/act")], f"{name}/act")

    def split_block(self, x, name, cin, cout, repeats=1, residual=True):
        """Half of the channels go through small bottlenecks; everything is concatenated and mixed."""
        half = cout // 2
        y = self.conv(x, f"{name}/cv1", cin, cout)
        parts = list(self.node("Split", [y, self.constant(f"{name}.sizes", np.array([half, half], np.int64))], name, 2, axis=1))
        for i in range(repeats):
            z = self.conv(parts[-1], f"{name}/m{i}/cv1", half, half, 3)
            z = self.conv(z, f"{name}/m{i}/cv2", half, half, 3)
            parts.append(self.node("Add", [parts[-1], z], f"{name}/m{i}") if residual else z)
        return self.conv(self.node("Concat", parts, name, axis=1), f"{name}/cv2", half * (2 + repeats), cout)

    def pool_pyramid(self, x, name, channels):
        parts = [self.conv(x, f"{name}/cv1", channels, channels // 2)]
        for i in range(3):
            parts.append(self.node("MaxPool", [parts[-1]], f"{name}/m{i}", kernel_shape=[5, 5], pads=[2] * 4, strides=[1, 1]))
        return self.conv(self.node("Concat", parts, name, axis=1), f"{name}/cv2", channels * 2, channels)

    def upsample(self, x, name):
        scales = self.constant(f"{name}.scales", np.array([1, 1, 2, 2], np.float32))
        return self.node("Resize", [x, "", scales], name, mode="nearest", coordinate_transformation_mode="asymmetric",
                         nearest_mode="floor")


def features(w):
    c0, c1, c2, c3, c4 = WIDTHS
    x = w.conv(w.conv("images", "/backbone/stem", 3, c0, 3, 2), "/backbone/down1", c0, c1, 3, 2)
    x = w.split_block(x, "/backbone/block1", c1, c1)
    p3 = w.split_block(w.conv(x, "/backbone/down2", c1, c2, 3, 2), "/backbone/block2", c2, c2, 2)
    p4 = w.split_block(w.conv(p3, "/backbone/down3", c2, c3, 3, 2), "/backbone/block3", c3, c3, 2)
    p5 = w.split_block(w.conv(p4, "/backbone/down4", c3, c4, 3, 2), "/backbone/block4", c4, c4)
    p5 = w.pool_pyramid(p5, "/backbone/sppf", c4)
    up4 = w.node("Concat", [w.upsample(p5, "/neck/up1"), p4], "/neck/cat1", axis=1)
    n4 = w.split_block(up4, "/neck/block1", c4 + c3, c3, residual=False)
    up3 = w.node("Concat", [w.upsample(n4, "/neck/up2"), p3], "/neck/cat2", axis=1)
    n3 = w.split_block(up3, "/neck/block2", c3 + c2, c2, residual=False)
    d4 = w.node("Concat", [w.conv(n3, "/neck/down1", c2, c2, 3, 2), n4], "/neck/cat3", axis=1)
    n4 = w.split_block(d4, "/neck/block3", c2 + c3, c3, residual=False)
    d5 = w.node("Concat", [w.conv(n4, "/neck/down2", c3, c3, 3, 2), p5], "/neck/cat4", axis=1)
    n5 = w.split_block(d5, "/neck/block4", c3 + c4, c4, residual=False)
    return [(n3, c2), (n4, c3), (n5, c4)]


def heads(w, levels):
    shape = w.constant("/head.shape", np.array([0, 4 + CLASSES, -1], np.int64))
    flat = []
    for i, (x, channels) in enumerate(levels):
        y = w.conv(w.conv(x, f"/head/{i}/cv1", channels, 64, 3), f"/head/{i}/cv2", 64, 4 + CLASSES, act=False)
        flat.append(w.node("Reshape", [y, shape], f"/head/{i}"))
    everything = w.node("Concat", flat, "/head", axis=2)
    return w.node("Split", [everything, w.constant("/head.sizes", np.array([2, 2, CLASSES], np.int64))], "/head", 3, axis=1)


def grids():
    """Per cell: the corner in cells, the stride, the anchor's size."""
    centres, strides, anchors = [], [], []
    for stride, anchor in zip(STRIDES, ANCHORS):
        n = SIZE // stride
        y, x = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
        centres.append(np.stack([x.ravel(), y.ravel()]))
        strides.append(np.full(n * n, stride))
        anchors.append(np.full(n * n, anchor))
    as_float = lambda a: np.concatenate(a, -1).astype(np.float32)
    return as_float(centres)[None], as_float(strides)[None, None], as_float(anchors)[None, None]


def decode(w, xy, wh):
    centres, strides, anchors = grids()
    two = w.constant("/decode.two", np.float32(2))
    xy = w.node("Sub", [w.node("Mul", [w.node("Sigmoid", [xy], "/decode/xy"), two], "/decode/xy"),
                        w.constant("/decode.half", np.float32(0.5))], "/decode/xy")
    xy = w.node("Add", [xy, w.constant("/decode.grid", centres)], "/decode/centre")
    xy = w.node("Mul", [xy, w.constant("/decode.stride", strides)], "/decode/centre")
    wh = w.node("Pow", [w.node("Mul", [w.node("Sigmoid", [wh], "/decode/wh"), two], "/decode/wh"), two], "/decode/wh")
    wh = w.node("Mul", [wh, w.constant("/decode.anchor", anchors)], "/decode/size")
    return w.node("Transpose", [w.node("Concat", [xy, wh], "/decode", axis=1)], "/decode", perm=[0, 2, 1])


def select(w, boxes, scores):
    limits = [w.constant("/nms.max", np.array([20], np.int64)), w.constant("/nms.iou", np.array([0.5], np.float32)),
              w.constant("/nms.score", np.array([0.9], np.float32))]
    w.nodes.append(helper.make_node("NonMaxSuppression", [boxes, scores, *limits], ["selected"], name="/nms/NonMaxSuppression",
                                    center_point_box=1))
    place = w.node("Gather", ["selected", w.constant("/nms.columns", np.array([0, 2], np.int64))], "/nms/place", axis=1)
    w.nodes.append(helper.make_node("GatherND", [boxes, place], ["boxes"], name="/nms/boxes/GatherND"))
    w.nodes.append(helper.make_node("GatherND", [scores, "selected"], ["scores"], name="/nms/scores/GatherND"))


def main(target):
    w = Writer()
    xy, wh, classes = heads(w, features(w))
    select(w, decode(w, xy, wh), w.node("Sigmoid", [classes], "/decode/scores"))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        w.nodes, "detector", [info("images", TensorProto.FLOAT, ["batch", 3, SIZE, SIZE])],
        [info("selected", TensorProto.INT64, ["detections", 3]), info("boxes", TensorProto.FLOAT, ["detections", 4]),
         info("scores", TensorProto.FLOAT, ["detections"])], w.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="lathe")
    model.metadata_props.add(key="skeleton.recipes", value=json.dumps(w.recipes))
    onnx.save(model, target)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
