# SPDX-License-Identifier: Apache-2.0
"""trex's plot wrappers with plotly. Each returns the figure, and shows it unless `do_show` is False."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .colors import GRID_COLOR, UNKNOWN_KEY_COLOR, default_pallete
from .misc import stack_dataframes
from .notebook import display_df

Colours = Mapping[Any, str] | None


def _colour_of(colormap: Colours, key: Any, index: int) -> str:
    if colormap is None:
        return default_pallete[min(index, len(default_pallete) - 1)]
    try:
        return colormap[key]
    except KeyError:
        return UNKNOWN_KEY_COLOR


def _text(value: Any) -> Any:
    """Lists (a kernel's extents) cannot be categories; their text can."""
    return value if isinstance(value, (str, int, float)) else str(value)


def _marker(frame: pd.DataFrame, color: str | None, colormap: Colours) -> dict[str, Any]:
    if color is None:
        return {}
    if pd.api.types.is_numeric_dtype(frame[color]):
        return {"color": frame[color], "colorbar": {"title": color}, "showscale": True, "colorscale": "Cividis"}
    keys = [_text(value) for value in frame[color]]
    order = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    return {"color": [_colour_of(colormap, key, order[key]) for key in keys]}


def _labels(values: pd.Series) -> list[str]:
    return [f"{v:.4f}" if isinstance(v, float) else str(v) for v in values]


def trex_base_layout(fig: go.Figure, gridcolor: str | None = None) -> None:
    """No background, a grey grid."""
    grid = {"gridcolor": gridcolor or GRID_COLOR}
    fig.update_layout(xaxis=grid, yaxis=grid, plot_bgcolor="rgba(0,0,0,0)", paper_bgcolor="rgba(0,0,0,0)")


def _finish(figure: go.Figure, do_show: bool) -> go.Figure:
    if do_show:
        figure.show()
    return figure


def plotly_bar2(df: pd.DataFrame | Mapping[str, pd.DataFrame], title: str, values_col: str, names_col: str, orientation: str = "v", color: str | None = None,
                size: tuple[int | None, int | None] = (None, None), use_slider: bool = False, colormap: Colours = None,
                show_axis_ticks: tuple[bool, bool] = (False, True), showlegend: bool = False, xaxis_title: str | None = None, yaxis_title: str | None = None,
                do_show: bool = True) -> go.Figure:
    """Bars of one frame, or of several side by side. `color`: a column of categories or numbers."""
    frames: Mapping[Any, pd.DataFrame] = df if isinstance(df, Mapping) else {None: df}
    figure = go.Figure()
    for name, frame in frames.items():
        along, across = list(frame[names_col]), list(frame[values_col])
        x, y = (along, across) if orientation == "v" else (across, along)
        figure.add_trace(go.Bar(name=name, x=x, y=y, orientation=orientation, marker=_marker(frame, color, colormap), text=_labels(frame[values_col]),
                                hovertemplate=f"{names_col}: %{{{'x' if orientation == 'v' else 'y'}}}<br>{values_col}: %{{{'y' if orientation == 'v' else 'x'}}}"))
    titles = [xaxis_title or names_col, yaxis_title or values_col]
    if orientation == "h":
        titles.reverse()
    trex_base_layout(figure)
    figure.update_layout(title={"text": title, "x": 0.5}, showlegend=showlegend, width=size[0], height=size[1], xaxis_title=titles[0], yaxis_title=titles[1])
    figure.update_xaxes(showticklabels=show_axis_ticks[0], rangeslider_visible=use_slider)
    figure.update_yaxes(showticklabels=show_axis_ticks[1])
    return _finish(figure, do_show)


def plotly_hist(df: pd.DataFrame, title: str, values_col: str, xaxis_title: str, color: str, colormap: Colours = None, do_show: bool = True) -> go.Figure:
    """How many layers have how much, stacked by the categories of `color`."""
    categories = list(dict.fromkeys(_text(v) for v in df[color]))
    colours = {category: _colour_of(colormap, category, i) for i, category in enumerate(categories)}
    figure = px.histogram(df.assign(**{color: [_text(v) for v in df[color]]}), x=values_col, title=title, nbins=max(len(df), 1), histfunc="count",
                          color=color, template="simple_white", color_discrete_map=colours)
    figure.update_layout(xaxis_title=xaxis_title, bargap=0.05)
    return _finish(figure, do_show)


def plotly_pie(df: pd.DataFrame, title: str, values: str, names: str, colormap: Colours = None, do_show: bool = True) -> go.Figure:
    figure = plotly_pie2(title, [(df, "", values, names)], colormap=colormap, do_show=False)
    figure.update_traces(hole=0)
    return _finish(figure, do_show)


def plotly_pie2(title: str, charts: Sequence[tuple[pd.DataFrame, str, str, str]], max_cols: int = 3, colormap: Colours = None, do_show: bool = True) -> go.Figure:
    """Donuts of (frame, subtitle, values, names), `max_cols` in a row."""
    columns = min(len(charts), max_cols)
    rows = (len(charts) + columns - 1) // columns
    figure = make_subplots(rows=rows, cols=columns, specs=[[{"type": "domain"}] * columns] * rows, subplot_titles=[c[1] for c in charts])
    for i, (frame, subtitle, values, names) in enumerate(charts):
        colours = [_colour_of(colormap, _text(n), j) for j, n in enumerate(frame[names])]
        figure.add_trace(go.Pie(labels=[_text(n) for n in frame[names]], values=list(frame[values]), name=subtitle, hole=0.4, marker={"colors": colours},
                                hoverinfo="label+percent", textinfo="value", textposition="inside"), i // columns + 1, i % columns + 1)
    figure.update_layout(title={"text": title, "x": 0.5})
    return _finish(figure, do_show)


def rotate_columns(df: pd.DataFrame) -> pd.DataFrame:
    """The last column becomes the first."""
    columns = df.columns.tolist()
    return df[columns[-1:] + columns[:-1]]


def stacked_tabular_df(bar_names: Sequence[str], df_list: Sequence[pd.DataFrame], names_col: str, values_col: str, empty_symbol: Any = 0) -> pd.DataFrame:
    """Rows are names, columns engines; the first column holds the names."""
    stacked = stack_dataframes(df_list, names_col, values_col, empty_symbol)
    table = pd.DataFrame.from_dict(stacked, orient="index", columns=list(bar_names))
    table.insert(0, values_col, list(stacked))
    return table


def stacked_tabular(*args: Any, **kwargs: Any) -> None:
    display_df(stacked_tabular_df(*args, **kwargs))


def stacked_bars(title: str, bar_names: Sequence[str], df_list: Sequence[pd.DataFrame], names_col: str, values_col: str, empty_symbol: Any = 0,
                 colormap: Colours = None, display_tbl: bool = True, fig: go.Figure | None = None, xaxis_title: str | None = None,
                 yaxis_title: str | None = None, do_show: bool = True) -> go.Figure:
    """One stacked bar per engine; into `fig` when there is one, which its owner shows."""
    figure = fig if fig is not None else go.Figure()
    for i, (name, values) in enumerate(stack_dataframes(df_list, names_col, values_col, empty_symbol).items()):
        figure.add_trace(go.Bar(name=str(name), x=list(bar_names), y=values, text=values, texttemplate="%{text:.4f}", marker_color=_colour_of(colormap, name, i)))
    trex_base_layout(figure)
    figure.update_layout(title={"text": title, "x": 0.5}, barmode="stack", xaxis_title=xaxis_title, yaxis_title=yaxis_title or values_col)
    if fig is None and do_show:
        figure.show()
    if display_tbl and do_show:
        stacked_tabular(bar_names, df_list, names_col, values_col, empty_symbol)
    return figure
