# SPDX-License-Identifier: Apache-2.0
"""Helpers on the dataframe, under trex's names. They return new frames and leave their argument alone."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

_FIRST = ["Name", "type", "Inputs", "Outputs", "latency.avg_time", "latency.pct_time", "total_footprint_bytes", "tactic"]
_RAW = ["Operations", "OutputVars", "InputArgs", "Params", "Literals", "PointWiseExpressionOperations", "OnnxNodes"]


def group_count(df: pd.DataFrame, grouping_attr: str) -> pd.DataFrame:
    return df.groupby(grouping_attr).size().reset_index(name="count")


def group_sum_attr(df: pd.DataFrame, grouping_attr: str, reduced_attr: str) -> pd.DataFrame:
    return df.groupby(grouping_attr)[reduced_attr].sum().reset_index()


def group_mean_attr(df: pd.DataFrame, grouping_attr: str, reduced_attr: str) -> pd.DataFrame:
    return df.groupby(grouping_attr)[reduced_attr].mean().reset_index()


def shape_to_str(shape: Sequence[int]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def _label(tensor: dict[str, Any]) -> str:
    return tensor["Datatype"] + " " + shape_to_str(tensor["Dimensions"])


def clean_io(df: pd.DataFrame) -> pd.DataFrame:
    """Types and shapes instead of lists of dictionaries."""
    return df.assign(Inputs=[", ".join(map(_label, tensors)) for tensors in df["Inputs"]],
                     Outputs=[_label(tensors[0]) if tensors else "" for tensors in df["Outputs"]])


def drop_columns(df: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    return df.drop(columns=list(columns), errors="ignore")


def clean_df(df: pd.DataFrame) -> pd.DataFrame:
    return drop_columns(clean_io(df), _RAW)


def change_col_order(df: pd.DataFrame) -> pd.DataFrame:
    first = [c for c in _FIRST if c in df]
    return df[first + [c for c in df if c not in first]]


def clean_for_display(df: pd.DataFrame) -> pd.DataFrame:
    return drop_columns(change_col_order(clean_df(df)), ["subtype", "TacticValue", "precision", "total_io_size_bytes"])
