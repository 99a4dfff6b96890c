# SPDX-License-Identifier: Apache-2.0
"""trex's plot wrappers with plotly. Each returns the figure, and shows it unless `do_show` is False."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
from plotly.subplots import make_subplots

# Okabe and Ito: told apart with any kind of colour blindness.
_SKY, _BLUE, _GREEN, _YELLOW, _ORANGE, _RED, _PURPLE, _GREY = "#56B4E9", "#0072B2", "#009E73", "#F0E442", "#E69F00", "#D55E00", "#CC79A7", "#999999"
precision_colormap: Mapping[str, str] = defaultdict(lambda: _GREY, {"INT8": _GREEN, "FP32": _RED, "FP16": _ORANGE, "BF16": _YELLOW, "FP8": _SKY, "INT4": _PURPLE, "FP4": _BLUE})
layer_colormap: Mapping[str, str] = defaultdict(lambda: _GREY, {"Convolution": _BLUE, "MatrixMultiply": _SKY, "gemm": _SKY, "Attention": _GREEN, "Reformat": _ORANGE,
                                                                "PointWise": _YELLOW, "Pooling": _PURPLE, "SoftMax": _RED})


def _finish(figure: go.Figure, do_show: bool) -> go.Figure:
    if do_show:
        figure.show()
    return figure


def plotly_bar2(df: pd.DataFrame | Mapping[str, pd.DataFrame], title: str, values_col: str, names_col: str, orientation: str = "v", color: str | None = None,
                colormap: Mapping[str, str] | None = None, show_axis_ticks: tuple[bool, bool] = (True, True), showlegend: bool = False,
                xaxis_title: str | None = None, yaxis_title: str | None = None, use_slider: bool = False, do_show: bool = True) -> go.Figure:
    """Bars of one frame, or of several side by side. `color`: a column of categories or numbers."""
    frames = df if isinstance(df, Mapping) else {"": df}
    figure = go.Figure()
    for name, frame in frames.items():
        marker: dict[str, Any] = {}
        if color is not None and pd.api.types.is_numeric_dtype(frame[color]):
            marker = {"color": frame[color], "showscale": True}
        elif color is not None:
            colours = colormap if colormap is not None else {c: px.colors.qualitative.Safe[i % 11] for i, c in enumerate(dict.fromkeys(frame[color]))}
            marker = {"color": [colours[c] for c in frame[color]]}
        x, y = (frame[names_col], frame[values_col]) if orientation == "v" else (frame[values_col], frame[names_col])
        figure.add_trace(go.Bar(name=name, x=x, y=y, orientation=orientation, marker=marker, text=[f"{v:.4f}" for v in frame[values_col]]))
    figure.update_layout(title=title, showlegend=showlegend or len(frames) > 1, xaxis_title=xaxis_title or names_col, yaxis_title=yaxis_title or values_col)
    figure.update_xaxes(showticklabels=show_axis_ticks[0], rangeslider_visible=use_slider)
    figure.update_yaxes(showticklabels=show_axis_ticks[1])
    return _finish(figure, do_show)


def plotly_hist(df: pd.DataFrame, title: str, values_col: str, xaxis_title: str, color: str, colormap: Mapping[str, str] | None = None, do_show: bool = True) -> go.Figure:
    colours = {str(c): colormap[c] for c in df[color].unique()} if colormap is not None else None
    figure = px.histogram(df, x=values_col, title=title, nbins=max(len(df), 1), color=color, color_discrete_map=colours)
    figure.update_layout(xaxis_title=xaxis_title, bargap=0.05)
    return _finish(figure, do_show)


def plotly_pie(df: pd.DataFrame, title: str, values: str, names: str, colormap: Mapping[str, str] | None = None, do_show: bool = True) -> go.Figure:
    return plotly_pie2(title, [(df, "", values, names)], colormap, do_show)


def plotly_pie2(title: str, charts: Sequence[tuple[pd.DataFrame, str, str, str]], colormap: Mapping[str, str] | None = None, do_show: bool = True) -> go.Figure:
    """Donuts of (frame, subtitle, values, names), three in a row."""
    columns = min(len(charts), 3)
    rows = (len(charts) + columns - 1) // columns
    figure = make_subplots(rows=rows, cols=columns, specs=[[{"type": "domain"}] * columns] * rows, subplot_titles=[c[1] for c in charts])
    for i, (frame, subtitle, values, names) in enumerate(charts):
        marker = {"colors": [colormap[n] for n in frame[names]]} if colormap is not None else None
        figure.add_trace(go.Pie(labels=frame[names], values=frame[values], name=subtitle, hole=0.4, marker=marker), i // columns + 1, i % columns + 1)
    figure.update_layout(title=title)
    return _finish(figure, do_show)


def stacked_tabular_df(bar_names: Sequence[str], df_list: Sequence[pd.DataFrame], names_col: str, values_col: str, empty_placeholder: float = 0) -> pd.DataFrame:
    """Rows are names, columns engines."""
    table = pd.concat([frame.set_index(names_col)[values_col].rename(name) for name, frame in zip(bar_names, df_list)], axis=1)
    return table.fillna(empty_placeholder)


def stacked_bars(title: str, bar_names: Sequence[str], df_list: Sequence[pd.DataFrame], names_col: str, values_col: str, empty_placeholder: float = 0,
                 colormap: Mapping[str, str] | None = None, xaxis_title: str | None = None, yaxis_title: str | None = None, do_show: bool = True) -> go.Figure:
    """One stacked bar per engine."""
    figure = go.Figure()
    for name, row in stacked_tabular_df(bar_names, df_list, names_col, values_col, empty_placeholder).iterrows():
        figure.add_trace(go.Bar(name=str(name), x=list(bar_names), y=list(row), marker_color=colormap[name] if colormap is not None else None))
    figure.update_layout(title=title, barmode="stack", xaxis_title=xaxis_title, yaxis_title=yaxis_title or values_col)
    return _finish(figure, do_show)
