# SPDX-License-Identifier: Apache-2.0
"""The dataframe: typed views of one layer type, and what makes a frame readable.

`clean_io`, `clean_df` and `drop_columns` change their argument, as people's notebooks expect, and return it, too.
"""
from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from .activations import create_activations

_FIRST = ["Name", "type", "Inputs", "Outputs", "latency.avg_time", "latency.pct_time", "total_footprint_bytes", "tactic"]
_COMMON = ["Name", "type", "subtype", "precision", "tactic", "latency.pct_time", "latency.avg_time", "total_io_size_bytes", "total_footprint_bytes", "Inputs", "Outputs"]
# Columns that are lists of code or of objects.
_RAW = ["Operations", "OutputVars", "InputArgs", "Params", "Literals", "PointWiseExpressionOperations", "Instructions", "OnnxNodes", "Weights", "Bias"]

# Typed views: column of the file -> name in the view, by layer type. PointWiseV2 and PointWise are two runners of one type.
layer_attributes: dict[str, dict[str, str]] = {
    "Convolution": {"Groups": "groups", "OutMaps": "out_maps", "Stride": "stride", "Kernel": "kernel", "Dilation": "dilation", "HasBias": "has_bias",
                    "HasReLU": "has_relu", "Activation": "activation", "Operations": "operations", "NbOperations": "n_operations"},
    "PointWiseV2": {"Operations": "operations", "NbOperations": "n_operations", "NbInputArgs": "n_input_args"},
    "PointWise": {"Instructions": "operations", "NbInstructions": "n_operations", "NbInputs": "n_input_args"},
    "Reformat": {"Origin": "origin"},
    "Pooling": {"PoolingType": "pooling_type", "WindowSize": "window_size", "PaddingMode": "padding_mode", "Stride": "stride"},
    "Scale": {"Mode": "mode", "Shift": "shift", "Scale": "scale", "Power": "power", "Activation": "activation", "ChannelAxis": "ch_axis"},
    "Shuffle": {"FirstTranspose": "first_transpose", "SecondTranspose": "second_transpose", "Reshape": "reshape"},
    "Resize": {"ResizeMode": "mode", "ResizeScales": "scales", "NNRounding": "scale"},
    "Slice": {"Start": "start", "Stride": "stride", "Size": "size", "Mode": "mode"},
}


def _view(rows: pd.DataFrame, layer_type: str) -> pd.DataFrame:
    names = {k: v for k, v in layer_attributes.get(layer_type, {}).items() if k in rows}
    columns = _COMMON + list(names) + (["Weights"] if layer_type == "Convolution" and "Weights" in rows else [])
    return rows[columns].rename(columns={k: f"attr.{v}" for k, v in names.items()})


def filter_by_layer(df: pd.DataFrame, layer_type: str) -> pd.DataFrame:
    """The layers of one type with their typed attributes as attr.*; convolutions as implicit products, too."""
    rows = df[df["type"] == layer_type]
    if layer_type == "PointWise":
        old = rows["subtype"] == "PointWise"
        parts = [_view(part, kind) for part, kind in ((rows[old], "PointWise"), (rows[~old], "PointWiseV2")) if len(part)]
        return pd.concat(parts) if parts else _view(rows, layer_type)
    view = _view(rows, layer_type).copy()
    if layer_type == "Reformat" and "attr.origin" not in view:
        view["attr.origin"] = ""
    if layer_type == "Convolution" and len(view):
        annotate_convolutions(view)
    return view


def annotate_convolutions(convs: pd.DataFrame) -> None:
    """Adds what a convolution is as a product: M x K times K x N, multiply-adds, and rates.

    A convolution of other than two dimensions counts its whole kernel and all of its positions.
    """
    rows = []
    for _, conv in convs.iterrows():
        inputs, outputs = create_activations(conv)
        n, c, *_ = inputs[0].shape
        _, k, *positions = outputs[0].shape
        kernel = place = 1
        for extent in conv["attr.kernel"]:
            kernel *= int(extent)
        for extent in positions:
            place *= extent
        groups = int(conv.get("attr.groups", 1)) or 1
        weights = k * c * kernel // groups * inputs[0].data_size
        moved = sum(_volume(t.shape) * t.data_size for t in (inputs[0], outputs[0])) + weights
        macs, ms = n * k * place * c * kernel // groups, conv["latency.avg_time"]
        rows.append({"attr.macs": macs, "attr.arithmetic_intensity": macs / moved if moved else float("nan"),
                     "attr.compute_efficiency": macs / ms if ms > 0 else 0.0, "attr.memory_efficiency": moved / ms if ms > 0 else 0.0,
                     "attr.M": n * place, "attr.N": k, "attr.K": c // groups * kernel})
    for column, values in pd.DataFrame(rows, index=convs.index).items():
        convs[column] = values


def _volume(shape: Sequence[int]) -> int:
    volume = 1
    for dim in shape:
        volume *= dim
    return volume


def clean_io(df: pd.DataFrame) -> pd.DataFrame:
    """Formats instead of lists of dictionaries."""
    tensors = [create_activations(row) for _, row in df.iterrows()]
    df["Inputs"] = [", ".join(t.format for t in inputs) for inputs, _ in tensors]
    df["Outputs"] = [outputs[0].format if outputs else "" for _, outputs in tensors]
    return df


def drop_columns(df: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    df.drop(columns=[c for c in columns if c in df], inplace=True)
    return df


def clean_df(df: pd.DataFrame, inplace: bool = True) -> pd.DataFrame:
    """Formats for tensors, no columns of code or objects."""
    df = df if inplace else df.copy()
    return drop_columns(clean_io(df), _RAW)


def change_col_order(df: pd.DataFrame) -> pd.DataFrame:
    first = [c for c in _FIRST if c in df]
    return df[first + [c for c in df if c not in first]]


def clean_for_display(df: pd.DataFrame) -> pd.DataFrame:
    cleaned = change_col_order(clean_df(df, inplace=False)).copy()
    return drop_columns(cleaned, ["subtype", "TacticValue", "precision", "total_io_size_bytes"])
