# SPDX-License-Identifier: Apache-2.0
"""Grouping and stacking of frames."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd


def group_count(df: pd.DataFrame, grouping_attr: str) -> pd.DataFrame:
    return df.groupby(grouping_attr).size().reset_index(name="count")


def group_sum_attr(df: pd.DataFrame, grouping_attr: str, reduced_attr: str) -> pd.DataFrame:
    return df.groupby(grouping_attr)[reduced_attr].sum().reset_index()


def group_mean_attr(df: pd.DataFrame, grouping_attr: str, reduced_attr: str) -> pd.DataFrame:
    return df.groupby(grouping_attr)[reduced_attr].mean().reset_index()


def shape_to_str(shape: Sequence[int]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


def stack_dicts(dict_list: Sequence[Mapping[Any, Any]], empty_placeholder: Any = 0) -> dict[Any, list[Any]]:
    """Key -> the values of all dictionaries, in the order in which keys first occur."""
    keys = dict.fromkeys(key for values in dict_list for key in values)
    return {key: [values.get(key, empty_placeholder) for values in dict_list] for key in keys}


def stack_dataframes(df_list: Sequence[pd.DataFrame], names_col: str, values_col: str, empty_placeholder: Any = 0) -> dict[Any, list[Any]]:
    return stack_dicts([dict(zip(df[names_col], df[values_col])) for df in df_list], empty_placeholder)
