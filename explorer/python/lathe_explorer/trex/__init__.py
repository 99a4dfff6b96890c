# SPDX-License-Identifier: Apache-2.0
"""The names of NVIDIA's engine explorer (trex) over Lathe's readers: `import lathe_explorer.trex as trex`.

What is here is listed in docs/explorer.md; what is not, is not pretended.
"""
from .engine_plan import EnginePlan
from .frames import change_col_order, clean_df, clean_for_display, clean_io, drop_columns, group_count, group_mean_attr, group_sum_attr, shape_to_str
from .lint import ConvLinter, QDQLinter, ReformatLinter, SliceLinter
from .plotting import (layer_colormap, plotly_bar2, plotly_hist, plotly_pie, plotly_pie2, precision_colormap, stacked_bars, stacked_tabular_df)

__all__ = ["ConvLinter", "EnginePlan", "QDQLinter", "ReformatLinter", "SliceLinter", "change_col_order", "clean_df", "clean_for_display",
           "clean_io", "drop_columns", "group_count", "group_mean_attr", "group_sum_attr", "layer_colormap", "plotly_bar2", "plotly_hist",
           "plotly_pie", "plotly_pie2", "precision_colormap", "shape_to_str", "stacked_bars", "stacked_tabular_df"]
