# SPDX-License-Identifier: Apache-2.0
"""Colours of precisions and layer types: Okabe and Ito's and tints of them, told apart with any kind of colour blindness."""
from __future__ import annotations

from collections import defaultdict

_SKY, _BLUE, _GREEN, _YELLOW, _ORANGE, _RED, _PURPLE = "#56B4E9", "#0072B2", "#009E73", "#F0E442", "#E69F00", "#D55E00", "#CC79A7"
UNKNOWN_KEY_COLOR = "#999999"
GRID_COLOR = "rgba(128, 128, 128, 0.3)"
NVDA_GREEN = _GREEN  # the name under which scripts ask for the accent colour

default_pallete = [_BLUE, _ORANGE, _GREEN, _PURPLE, _SKY, _RED, _YELLOW, "#7A4C00", "#004D73", "#8A8A00", "#7B2D5B", "#2E2E2E", UNKNOWN_KEY_COLOR]

precision_colormap: defaultdict[str, str] = defaultdict(lambda: UNKNOWN_KEY_COLOR, {
    "INT8": _GREEN, "FP32": _RED, "FP16": _ORANGE, "BF16": _YELLOW, "FP8": _SKY, "INT4": _PURPLE, "FP4": _BLUE, "INT32": "#C8C8C8", "INT64": "#A8A8A8"})

layer_colormap: defaultdict[str, str] = defaultdict(lambda: UNKNOWN_KEY_COLOR, {
    "Convolution": _BLUE, "Deconvolution": "#004D73", "ConvActPool": "#3B93C4", "MatrixMultiply": _SKY, "gemm": _SKY, "Attention": _GREEN,
    "Reformat": _ORANGE, "Shuffle": "#F5C56B", "Slice": "#F0B030", "Cast": "#C98A00", "Scale": "#B8E0A8", "Quantize": "#7A4C00",
    "Pooling": _PURPLE, "Reduce": "#E3B3CF", "PluginV2": "#2E2E2E", "PointWise": _YELLOW, "ElementWise": _YELLOW, "LayerNorm": "#7B2D5B",
    "SoftMax": _RED, "Myelin": "#8A8A00", "kgen": "#8A8A00", "NonZero": "#9FDCC6", "TrainStation": "#F5A58A"})
