# SPDX-License-Identifier: Apache-2.0
"""The names of NVIDIA's engine explorer (trex) over Lathe's readers: `import lathe_explorer.trex as trex`.

Modules and functions are where they are there; this package holds those that notebooks take from trex itself, of all its
releases. What differs in values is listed in docs/explorer.md. Modules that need more than pandas and plotly (excel_summary,
the drop-down boxes) say which extra to install when they are used.
"""
from . import colors, compare_engines, df_preprocessing, engine_plan, graphing, interactive, lint, misc, notebook, parser, plotting, report_card
from .activations import Activation, create_activations
from .archiving import EngineArchive
from .colors import default_pallete, layer_colormap, precision_colormap
from .compare_engines import (aligned_layers, aligned_merge_plans, compare_engines_layer_details, compare_engines_layer_latencies, compare_engines_overview,
                              compare_engines_summaries_tbl, get_plans_names, match_layers)
from .df_preprocessing import annotate_convolutions, change_col_order, clean_df, clean_for_display, clean_io, drop_columns, filter_by_layer, layer_attributes
from .engine_plan import EnginePlan, import_graph_file, print_summary, summary_dict
from .graphing import (DotGraph, OnnxGraph, PlanGraph, latency_types, layer_node_formatters, layer_node_renderers, layer_precision_formatter, layer_type_formatter,
                       precision_formatter, render_dot, to_dot)
from .layer import Layer
from .lint import ConvLinter, QDQLinter, ReformatLinter, SliceLinter
from .misc import group_count, group_mean_attr, group_sum_attr, shape_to_str, stack_dataframes, stack_dicts
from .notebook import display_df, section_header, set_table_display_backend, set_wide_display
from .parser import read_json, read_profiling_file, read_timing_file
from .plotting import plotly_bar2, plotly_hist, plotly_pie, plotly_pie2, stacked_bars, stacked_tabular, stacked_tabular_df, trex_base_layout
from .report_card import *  # noqa: F403

__version__ = "0.2.1"  # of trex, whose names these are
