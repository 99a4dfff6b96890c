# SPDX-License-Identifier: Apache-2.0
"""Plugins of TensorRT that are known by name. NumPy says what their pages in TensorRT's repository say."""
import numpy as np

DOMAIN = "trt.plugins"


def overlap(a, b, pixel):
    width = min(a[2], b[2]) - max(a[0], b[0]) + pixel
    height = min(a[3], b[3]) - max(a[1], b[1]) + pixel
    if width <= 0 or height <= 0:
        return 0
    area = lambda c: (c[2] - c[0] + pixel) * (c[3] - c[1] + pixel)
    return width * height / (area(a) + area(b) - width * height)


def detections(boxes, scores, keep, score, iou, background=-1, top_k=None, agnostic=False, pixel=0, pad=0, clip=False):
    """counts, boxes, scores and classes: a plain loop over candidates from the best to the worst."""
    batch, _, classes = scores.shape
    counts, out_boxes = np.zeros((batch, 1), np.int32), np.zeros((batch, keep, 4), np.float32)
    out_scores, labels = np.zeros((batch, keep), np.float32), np.full((batch, keep), pad, np.int32)
    for b in range(batch):
        found = []
        for c in range(classes):
            if c != background:
                mine = sorted((-scores[b, i, c], i, c) for i in range(scores.shape[1]) if scores[b, i, c] > score)
                found += mine[:top_k]
        kept = []
        for s, i, c in sorted(found):
            box = boxes[b, i] if boxes.ndim == 3 else boxes[b, i, c if boxes.shape[2] > 1 else 0]
            if len(kept) < keep and all(overlap(box, k, pixel) <= iou for k, _, label in kept if agnostic or label == c):
                kept.append((box, -s, c))
        counts[b] = len(kept)
        for at, (box, s, c) in enumerate(kept):
            out_boxes[b, at], out_scores[b, at], labels[b, at] = np.clip(box, 0, 1) if clip else box, s, c
    return [counts, out_boxes, out_scores, labels]


def random_boxes(add, *shape, size=1.0):
    low = add.random.uniform(-0.1, 0.8, (*shape, 2)) * size
    return np.concatenate([low, low + add.random.uniform(0.1, 0.5, (*shape, 2)) * size], -1).astype(np.float32)


def sigmoid(x):
    return (1 / (1 + np.exp(-x))).astype(np.float32)


def efficient_nms(add):
    boxes, raw = random_boxes(add, 2, 30), add.floats(2, 30, 3, scale=2)
    scores = sigmoid(raw)
    settings = dict(max_output_boxes=12, score_threshold=0.3, iou_threshold=0.4)
    limits = dict(keep=12, score=np.float32(0.3), iou=np.float32(0.4))
    add("plain", "EfficientNMS_TRT", [boxes, scores], 4, expected=detections(boxes, scores, **limits), plugin_version="1", **settings)
    add("background", "EfficientNMS_TRT", [boxes, scores], 4, expected=detections(boxes, scores, background=0, **limits), background_class=0, **settings)
    add("agnostic", "EfficientNMS_TRT", [boxes, scores], 4, expected=detections(boxes, scores, agnostic=True, **limits), class_agnostic=1, **settings)
    add("sigmoid", "EfficientNMS_TRT", [boxes, raw], 4, expected=detections(boxes, scores, **limits), score_activation=1, **settings)
    centers = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)
    low, high = centers[..., :2] - centers[..., 2:] / 2, centers[..., :2] + centers[..., 2:] / 2
    add("centers", "EfficientNMS_TRT", [centers, scores], 4, expected=detections(np.concatenate([low, high], -1), scores, **limits), box_coding=1, **settings)
    per_class = random_boxes(add, 2, 30, 3)
    add("boxes_of_classes", "EfficientNMS_TRT", [per_class, scores], 4, expected=detections(per_class, scores, **limits), **settings)
    anchors, shift = random_boxes(add, 1, 30), add.floats(2, 30, 4, scale=0.05)
    add("anchors", "EfficientNMS_TRT", [shift, scores, anchors], 4, expected=detections(shift + anchors, scores, **limits), **settings)
    sizes = np.concatenate([anchors[..., :2], anchors[..., 2:] - anchors[..., :2]], -1)
    middle = shift[..., :2] * sizes[..., 2:] + sizes[..., :2]
    extent = np.exp(shift[..., 2:]) * sizes[..., 2:]
    decoded = np.concatenate([middle - extent / 2, middle + extent / 2], -1)
    add("center_anchors", "EfficientNMS_TRT", [shift, scores, sizes], 4, expected=detections(decoded, scores, **limits), box_coding=1, **settings)
    add("nothing", "EfficientNMS_TRT", [boxes, scores], 4, expected=detections(boxes, scores, 5, 1, 0.5), max_output_boxes=5, score_threshold=1.0)


def batched_nms(add):
    boxes, scores = random_boxes(add, 2, 40, 1), sigmoid(add.floats(2, 40, 3, scale=2))
    names = dict(shareLocation=1, numClasses=3, topK=20, keepTopK=10, scoreThreshold=0.2, iouThreshold=0.5)
    limits = dict(keep=10, score=np.float32(0.2), iou=0.5, top_k=20, pad=-1)

    def floats(results):
        return [*results[:3], results[3].astype(np.float32)]
    for op in ("BatchedNMS_TRT", "BatchedNMSDynamic_TRT"):
        add("plain", op, [boxes, scores], 4, expected=floats(detections(boxes, scores, clip=True, background=1, **limits)), backgroundLabelId=1, **names)
    big = random_boxes(add, 2, 40, 3, size=50)
    add("pixels", "BatchedNMSDynamic_TRT", [big, scores], 4, expected=floats(detections(big, scores, pixel=1, **limits)), backgroundLabelId=-1, isNormalized=0,
        **(names | dict(shareLocation=0)))
    add("no_clip", "BatchedNMSDynamic_TRT", [boxes, scores], 4, expected=floats(detections(boxes, scores, **limits)), clipBoxes=0, **names)


def onnx_nms(add):
    boxes, scores = random_boxes(add, 2, 15), sigmoid(add.floats(2, 2, 15, scale=2))
    rows = []
    for b in range(2):
        for c in range(2):
            chosen = []
            for s, i in sorted((-scores[b, c, i], i) for i in range(15) if scores[b, c, i] > np.float32(0.4)):
                if len(chosen) < 4 and all(overlap(boxes[b, i], boxes[b, k], 0) <= 0.5 for k in chosen):
                    chosen.append(i)
            rows += [[b, c, i] for i in chosen]
    padded = np.array(rows + [rows[-1]] * (2 * 2 * 4 - len(rows)), np.int32)
    settings = dict(max_output_boxes_per_class=4, iou_threshold=0.5)
    add("plain", "EfficientNMS_ONNX_TRT", [boxes, scores], expected=[padded], score_threshold=0.4, **settings)
    add("nothing", "EfficientNMS_ONNX_TRT", [boxes, scores], expected=[np.zeros((16, 3), np.int32)], score_threshold=1.0, **settings)


def bilinear(image, y, x):
    """0 outside; image (..., H, W)."""
    height, width = image.shape[-2:]
    total = 0
    for v, wy in ((np.floor(y), 1 - (y - np.floor(y))), (np.floor(y) + 1, y - np.floor(y))):
        for u, wx in ((np.floor(x), 1 - (x - np.floor(x))), (np.floor(x) + 1, x - np.floor(x))):
            if 0 <= v < height and 0 <= u < width:
                total = total + image[..., int(v), int(u)] * wy * wx
    return total


def crops(add):
    images, rois = add.floats(2, 3, 6, 7), add.random.uniform(-0.1, 1.1, (2, 4, 4, 1)).astype(np.float32)
    rois[:, 0] = np.float32([0.1, 0.2, 0.8, 0.9])[:, None]

    def expected(height, width):
        y = np.zeros((2, 4, 3, height, width), np.float32)
        for n, b, i, j in np.ndindex(2, 4, height, width):
            y1, x1, y2, x2 = rois[n, b, :, 0].astype(np.float64)
            v = y1 + (y2 - y1) * (i / (height - 1) if height > 1 else 0.5)
            u = x1 + (x2 - x1) * (j / (width - 1) if width > 1 else 0.5)
            if 0 <= v <= 1 and 0 <= u <= 1:
                y[n, b, :, i, j] = bilinear(images[n], v * 5, u * 6)
        return [y]
    add("plain", "CropAndResizeDynamic", [images, rois], expected=expected(3, 4), crop_height=3, crop_width=4)
    add("one_row", "CropAndResize", [images, rois], expected=expected(1, 5), crop_height=1, crop_width=5)


def deformable_attention(add):
    shapes, starts = np.array([[4, 5], [2, 3]], np.int64), np.array([0, 20], np.int64)
    value, places = add.floats(2, 26, 2, 3), add.random.uniform(-0.1, 1.1, (2, 4, 2, 2, 3, 2)).astype(np.float32)
    weights = add.random.uniform(0, 1, (2, 4, 2, 2, 3)).astype(np.float32)
    y = np.zeros((2, 4, 2, 3), np.float32)
    for n, q, m, level, p in np.ndindex(2, 4, 2, 2, 3):
        height, width = shapes[level]
        image = value[n, starts[level]:starts[level] + height * width, m].reshape(height, width, 3).transpose(2, 0, 1)
        u, v = places[n, q, m, level, p]
        y[n, q, m] += weights[n, q, m, level, p] * bilinear(image, v * height - 0.5, u * width - 0.5)
    add("plain", "MultiscaleDeformableAttnPlugin_TRT", [value, shapes, starts, places, weights], expected=[y], frozen=(1, 2), plugin_version="2")


def disentangled(add):
    for name, length, span in (("short", 6, 8), ("long", 40, 8)):
        c2c, c2p, p2c = add.floats(3, length, length), add.floats(3, length, 2 * span), add.floats(3, length, 2 * span)
        middle = span // 2
        factor = np.float32(middle - 1) / (np.log(np.float32(2 * span - 1)) - np.log(np.float32(middle))) * np.float32(1 - 1e-7)
        y = np.zeros_like(c2c)

        def place(distance):
            bucket = distance
            if abs(distance) > middle:
                bucket = np.ceil((np.log(np.float32(abs(distance))) - np.log(np.float32(middle))) * factor) + middle
                bucket = bucket if distance > 0 else -bucket
            return int(np.clip(bucket + span, 0, 2 * span - 1))
        for i, j in np.ndindex(length, length):
            y[:, i, j] = (c2c[:, i, j] + c2p[:, i, place(i - j)] + p2c[:, j, place(i - j)]) * np.float32(0.25)
        add(name, "DisentangledAttention_TRT", [c2c, c2p, p2c], expected=[y], span=span, factor=0.25)


def deform_conv(add):
    x, w, bias = add.floats(1, 4, 6, 5), add.floats(6, 2, 3, 3), add.floats(6)
    offset, mask = add.floats(1, 2 * 2 * 9, 6, 5, scale=0.7), add.random.uniform(0, 1, (1, 2 * 9, 6, 5)).astype(np.float32)
    y = np.zeros((1, 6, 6, 5), np.float32)
    for m, i, j in np.ndindex(6, 6, 5):
        group = m // 3
        for c, k, l in np.ndindex(2, 3, 3):
            channel = group * 2 + c
            tap = channel // 2 * 9 + k * 3 + l
            v, u = i - 1 + k + offset[0, 2 * tap, i, j], j - 1 + l + offset[0, 2 * tap + 1, i, j]
            y[0, m, i, j] += w[m, c, k, l] * mask[0, tap, i, j] * bilinear(x[0, channel], v, u)
        y[0, m, i, j] += bias[m]
    add("groups", "ModulatedDeformConv2d", [x, offset, mask, w, bias], expected=[y], padding=[1, 1], stride=[1, 1], dilation=[1, 1], group=2, deformable_group=2)


def norms(add):
    x, scale, bias = add.floats(2, 6, 4, 3), add.floats(6), add.floats(6)

    def normalized(groups):
        parts = x.reshape(2, groups, -1).astype(np.float64)
        y = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-3)
        return (y.reshape(x.shape) * scale[:, None, None] + bias[:, None, None]).astype(np.float32)
    y = normalized(6)
    add("plain", "InstanceNormalization_TRT", [x, scale, bias], expected=[y], epsilon=1e-3)
    add("relu", "InstanceNormalization_TRT", [x, scale, bias], expected=[np.where(y < 0, np.float32(0.1) * y, y)], epsilon=1e-3, relu=1, alpha=0.1)
    add("plain", "GroupNormalizationPlugin", [x, scale, bias], expected=[normalized(3)], eps=1e-3, num_groups=3)


def same_as_onnx(add):
    images, rois, which = add.floats(2, 3, 8, 9), np.float32([[1, 1, 6, 5], [0, 2, 7, 7.5]]), np.array([1, 0], np.int32)
    for name, mode, half, points in (("avg", 1, 1, 2), ("max", 0, 0, 1)):
        theirs = add.make_model([add.helper.make_node("RoiAlign", ["x0", "x1", "x2"], ["y"], mode=("max", "avg")[mode], output_height=2, output_width=3,
                                                      sampling_ratio=points, spatial_scale=0.9, coordinate_transformation_mode=("output_half_pixel", "half_pixel")[half])],
                                {"x0": images, "x1": rois, "x2": which.astype(np.int64)}, ["y"])
        expected = add.reference(theirs, {"x0": images, "x1": rois, "x2": which.astype(np.int64)})
        add(name, "ROIAlign_TRT", [images, rois, which], expected=expected, mode=mode, coordinate_transformation_mode=half, output_height=2, output_width=3,
            sampling_ratio=points, spatial_scale=0.9)
    data, updates, indices = add.floats(4, 5), add.floats(2, 5), np.array([[3], [1]], np.int32)
    scattered = data.copy()
    scattered[indices[:, 0]] = updates
    add("rows", "ScatterND", [data, indices, updates], expected=[scattered])
    rows = add.floats(3, 4, 9)
    for name, sign in (("largest", -1), ("smallest", 1)):
        order = np.argsort(sign * rows, -1, kind="stable")[..., :4]
        add(name, "TopkLastDim", [rows], 2, expected=[np.take_along_axis(rows, order, -1), order.astype(np.int32)], k=4, is_largest=int(sign < 0))


def cases(add):
    for family in (efficient_nms, batched_nms, onnx_nms, crops, deformable_attention, disentangled, deform_conv, norms, same_as_onnx):
        family(add)
