# SPDX-License-Identifier: Apache-2.0
"""The report card: every diagram that trex has of one engine.

The functions without `_widget` give a dictionary from title to a function that draws and returns the figure; those with it
show a drop-down box over that dictionary. Where a figure counts products (M, N, K, intensity) it is of convolutions, as there.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go

from . import colors, df_preprocessing, graphing, interactive, misc, notebook, parser, plotting
from .engine_plan import EnginePlan

Diagrams = dict[str, Callable[..., Any]]


def _precision_sunburst(plan: EnginePlan, title: str, do_show: bool = True) -> go.Figure | None:
    """Type, then precision, by number of layers."""
    counts = plan.df.groupby(["type", "precision"]).size().reset_index(name="count")
    figure = px.sunburst(counts, path=["type", "precision"], values="count", color="precision", color_discrete_map=dict(colors.precision_colormap))
    figure.update_layout(title={"text": f"{title} ({plan.name})", "x": 0.5})
    return _shown(figure, do_show)


def _shown(figure: go.Figure, do_show: bool) -> go.Figure | None:
    """The figure, or nothing once it was shown: a cell that ends with it would show it again."""
    if not do_show:
        return figure
    figure.show()
    return None


def report_card_perf_overview(plan: EnginePlan) -> Diagrams:
    """Ten diagrams of where the time goes."""
    by_layer = partial(plotting.plotly_bar2, plan.df, names_col="Name", xaxis_title="Layer")
    typed: dict[str, Any] = {"color": "type", "colormap": colors.layer_colormap}
    by_type = partial(plotting.plotly_bar2, names_col="type", orientation="h", show_axis_ticks=(True, True), **typed)
    time_by_type = plan.df.groupby("type")[["latency.pct_time", "latency.avg_time"]].sum().reset_index()
    rollup = [(misc.group_count(plan.df, "precision"), "Layer count by precision", "count", "precision"),
              (misc.group_sum_attr(plan.df, "precision", "latency.pct_time"), "% latency by precision", "latency.pct_time", "precision")]
    return {
        "Latency per layer (%)": partial(by_layer, values_col="latency.pct_time", **typed),
        "Latency per layer (ms)": partial(by_layer, values_col="latency.avg_time", **typed),
        "Layer latency distribution": partial(plotting.plotly_hist, plan.df, values_col="latency.pct_time", xaxis_title="Latency (%)", **typed),
        "Precision per layer": partial(by_layer, values_col="latency.avg_time", color="precision", colormap=colors.precision_colormap),
        "Output precision per layer": partial(by_layer, values_col="latency.avg_time", color="output_precision", colormap=colors.precision_colormap),
        "Count per layer type": partial(by_type, misc.group_count(plan.df, "type"), values_col="count"),
        "Latency per layer type (ms)": partial(by_type, time_by_type, values_col="latency.avg_time"),
        "Latency per layer type (%)": partial(by_type, time_by_type, values_col="latency.pct_time"),
        "Precision per layer type": partial(_precision_sunburst, plan),
        "Precision rollup": partial(plotting.plotly_pie2, charts=rollup, colormap=colors.precision_colormap),
    }


def report_card_convolutions_overview(convs: pd.DataFrame) -> Diagrams:
    """Thirteen diagrams of `plan.get_layers_by_type("Convolution")`."""
    bars = partial(plotting.plotly_bar2, convs, names_col="Name")
    latency = partial(bars, values_col="latency.pct_time")
    return {
        "Latency per convolution (color = precision)": partial(latency, color="precision", colormap=colors.precision_colormap),
        "Latency per convolution (color = FMAs)": partial(latency, color="attr.macs"),
        "Latency per convolution (color = data size)": partial(latency, color="total_footprint_bytes"),
        "Latency per convolution (color = arithmetic intensity)": partial(latency, color="attr.arithmetic_intensity"),
        "Latency per convolution (color = compute efficiency)": partial(latency, color="attr.compute_efficiency"),
        "Latency per convolution (color = group size)": partial(latency, color="attr.groups"),
        "Latency per convolution (color = kernel size)": partial(latency, color="attr.kernel"),
        "Data footprints": partial(bars, values_col="total_footprint_bytes", color="latency.pct_time"),
        "Fused Multiply-Accumulate (FMAs)": partial(bars, values_col="attr.macs", color="latency.pct_time"),
        "Arithmetic intensity (color = latency)": partial(bars, values_col="attr.arithmetic_intensity", color="latency.pct_time"),
        "Arithmetic intensity (color = footprint)": partial(bars, values_col="attr.arithmetic_intensity", color="total_footprint_bytes"),
        "Compute efficiency (color = latency)": partial(bars, values_col="attr.compute_efficiency", color="latency.pct_time"),
        "Memory efficiency (color = latency)": partial(bars, values_col="attr.memory_efficiency", color="latency.pct_time"),
    }


def report_card_memory_footprint(plan: EnginePlan) -> Diagrams:
    """Bytes of weights, of activations and of both: per layer, and how they are distributed."""
    typed: dict[str, Any] = {"color": "type", "colormap": colors.layer_colormap}
    bars = partial(plotting.plotly_bar2, plan.df, names_col="Name", **typed)
    spread = partial(plotting.plotly_hist, plan.df, xaxis_title="Size (bytes)", **typed)
    quantities = {"Weights": "weights_size", "Activation": "total_io_size_bytes", "Total": "total_footprint_bytes"}
    diagrams: Diagrams = {f"{what} footprint per layer": partial(bars, values_col=column) for what, column in quantities.items()}
    diagrams |= {f"{what} footprint distribution per layer": partial(spread, values_col=column) for what, column in quantities.items()}
    return diagrams


def report_card_perf_overview_widget(plan: EnginePlan) -> interactive.InteractiveDiagram_2:
    return interactive.InteractiveDiagram_2(report_card_perf_overview(plan), "Diagram:")


def report_card_convolutions_overview_widget(convs: pd.DataFrame) -> interactive.InteractiveDiagram_2:
    return interactive.InteractiveDiagram_2(report_card_convolutions_overview(convs), "Diagram:")


def report_card_memory_footprint_widget(plan: EnginePlan) -> interactive.InteractiveDiagram_2:
    return interactive.InteractiveDiagram_2(report_card_memory_footprint(plan), "Diagram:")


def report_card_table_view(plan: EnginePlan) -> interactive.InteractiveDiagram:
    """A table of all layers or of one type, with that type's share."""

    def render(choice: str, _: str) -> None:
        rows = plan.df if choice == "All" else plan.get_layers_by_type(choice)
        if choice != "All":
            print(f"There are {len(rows)} {choice} layers which account for {rows['latency.pct_time'].sum():.2f}% "
                  f"({rows['latency.avg_time'].sum():.5f} ms) of the overall latency.")
        notebook.display_df(df_preprocessing.clean_for_display(rows))

    return interactive.InteractiveDiagram(render, {t: t for t in ["All", *dict.fromkeys(plan.df["type"])]}, "Dataframe")


def report_card_pointwise_lint(plan: EnginePlan) -> go.Figure | None:
    """Fused pointwise layers by their number of operations, and what each computes."""
    layers = plan.get_layers_by_type("PointWise")
    if len(layers) == 0 or "attr.n_operations" not in layers:
        print("The engine has no pointwise layers that list their operations.")
        return None
    groups = misc.group_sum_attr(layers, "attr.n_operations", "latency.pct_time").merge(misc.group_count(layers, "attr.n_operations"), on="attr.n_operations")
    operations = groups["count"] * groups["attr.n_operations"].clip(lower=1)
    groups["per_op_latency"] = groups["latency.pct_time"] / operations
    for _, layer in layers.iterrows():
        if layer["attr.n_operations"] >= 2 and isinstance(layer.get("attr.operations"), list):
            print("\n\t".join([layer["Name"], *layer["attr.operations"]]))
    charts = [(groups, title, column, "attr.n_operations") for title, column in (
        ("Pointwise layers by number of operations", "count"), ("Latency by number of operations (%)", "latency.pct_time"),
        ("Per op latency by number of operations", "per_op_latency"))]
    return plotting.plotly_pie2("Pointwise Statistics", charts)


def layer_latency_sunburst(df: pd.DataFrame, title: str, do_show: bool = True) -> go.Figure | None:
    """Type, then layer, sized by share of the time."""
    figure = px.sunburst(df[df["latency.pct_time"] > 0], path=["type", "Name"], values="latency.pct_time", color="type", color_discrete_map=dict(colors.layer_colormap))
    figure.update_layout(title={"text": title, "x": 0.5})
    return _shown(figure, do_show)


def layer_latency_treemap(df: pd.DataFrame, title: str, color: str = "latency.pct_time", do_show: bool = True) -> go.Figure | None:
    """Type, then layer, sized by share of the time; `color` is any column of numbers."""
    figure = px.treemap(df[df["latency.pct_time"] > 0], path=["type", "Name"], values="latency.pct_time", color=color, title=title, color_continuous_scale="Cividis")
    return _shown(figure, do_show)


def plot_engine_timings(timing_json_file: str | os.PathLike[str], do_show: bool = True) -> go.Figure | None:
    """The latency of every measured query."""
    latencies = parser.read_timing_file(timing_json_file)
    figure = px.scatter(title="Engine Timing Samples", x=list(range(len(latencies))), y=latencies)
    plotting.trex_base_layout(figure)
    figure.update_layout(xaxis_title="Timing Samples", yaxis_title="Latency (ms)", title_x=0.5)
    return _shown(figure, do_show)


def _scatter(plan: EnginePlan, title: str, x: str, y: str, color: str, size: str | None, do_show: bool = True) -> go.Figure | None:
    figure = px.scatter(plan.get_layers_by_type("Convolution"), x=x, y=y, color=color, size=size, size_max=18, opacity=0.7, hover_name="Name")
    plotting.trex_base_layout(figure)
    figure.update_layout(title={"text": title, "x": 0.5}, margin={"l": 0, "r": 0, "b": 0, "t": 50})
    return _shown(figure, do_show)


def _scatter_3d(plan: EnginePlan, title: str, axes: tuple[str, str, str], color: str, do_show: bool = True) -> go.Figure | None:
    x, y, z = axes
    figure = px.scatter_3d(plan.get_layers_by_type("Convolution"), x=x, y=y, z=z, color=color, size="latency.avg_time", size_max=18, opacity=0.7, hover_name="Name")
    figure.update_layout(title={"text": title, "x": 0.5}, margin={"l": 0, "r": 0, "b": 0, "t": 50})
    return _shown(figure, do_show)


def report_card_gemm_MNK(plan: EnginePlan) -> interactive.InteractiveDiagram:
    """Convolutions as products in M, N and K."""
    choices = {f"MxNxK color={what}; size=mean time": column for what, column in (
        ("mean time", "latency.avg_time"), ("arithmetic intensity", "attr.arithmetic_intensity"), ("compute efficiency", "attr.compute_efficiency"),
        ("memory efficiency", "attr.memory_efficiency"))}
    draw = lambda choice, color: _scatter_3d(plan, f"Implicit GEMM {choice}", ("attr.M", "attr.N", "attr.K"), color)  # noqa: E731
    return interactive.InteractiveDiagram(draw, choices, "Diagram")


def report_card_gemm_MNK_scatter(plan: EnginePlan) -> interactive.InteractiveDiagram:
    choices = {f"{extent} vs. Latency (color = footprint)": (f"attr.{extent}", "latency.avg_time", "total_footprint_bytes", None) for extent in "MNK"}
    return interactive.InteractiveDiagram(partial(_scatter, plan), choices, "Diagram")


def report_card_efficiency_vs_latency_3d(plan: EnginePlan, do_show: bool = True) -> go.Figure | None:
    return _scatter_3d(plan, "Compute-efficiency vs Memory-efficiency vs Latency",
                       ("attr.compute_efficiency", "attr.memory_efficiency", "attr.arithmetic_intensity"), "total_footprint_bytes", do_show)


def report_card_perf_scatter(plan: EnginePlan) -> interactive.InteractiveDiagram:
    """Six pairs of efficiencies, work and bytes; the colour is the time."""
    compute, memory, intensity, macs, size = "attr.compute_efficiency", "attr.memory_efficiency", "attr.arithmetic_intensity", "attr.macs", "total_footprint_bytes"
    pairs = {"Compute-efficiency vs. FMAs (size = footprint)": (compute, macs, size), "Memory-efficiency vs. footprint (size = FMAs)": (memory, size, macs),
             "Compute-efficiency vs. memory-efficiency (size = AI)": (compute, memory, intensity), "Memory footprint vs FMAs (size = AI)": (size, macs, intensity),
             "Arithmetic-intensity vs. compute-efficiency (size = memory-efficiency)": (intensity, compute, memory),
             "Arithmetic-intensity vs. memory-efficiency (size = compute-efficiency)": (intensity, memory, compute)}
    choices = {title: (x, y, "latency.avg_time", bubble) for title, (x, y, bubble) in pairs.items()}
    return interactive.InteractiveDiagram(partial(_scatter, plan), choices, "Diagram")


def report_card_reformat_overview(plan: EnginePlan) -> interactive.InteractiveDiagram_2 | None:
    """Reformats by their origin."""
    reformats = plan.get_layers_by_type("Reformat")
    if len(reformats) == 0:
        print("The engine has no reformat layers.")
        return None
    bars = partial(plotting.plotly_bar2, names_col="attr.origin", color="attr.origin", orientation="h", show_axis_ticks=(True, True))
    return interactive.InteractiveDiagram_2({
        "Reformat - Count by origin": partial(bars, misc.group_count(reformats, "attr.origin"), values_col="count"),
        "Reformat - Latency by origin": partial(bars, misc.group_sum_attr(reformats, "attr.origin", "latency.avg_time"), values_col="latency.avg_time"),
        "Reformat - Percent latency by origin": partial(bars, misc.group_sum_attr(reformats, "attr.origin", "latency.pct_time"), values_col="latency.pct_time"),
    }, "Diagram:")


def report_card_draw_plan_graph(plan: EnginePlan, engine_name: str) -> interactive.InteractiveDiagram:
    """Five ways to draw the graph, each into an SVG file."""

    def render(_: str, formatter: Any, regions: bool, details: bool, names: bool = True) -> str:
        graph = graphing.to_dot(plan, formatter, display_regions=regions, expand_layer_details=details, display_layer_names=names)
        return graphing.render_dot(graph, engine_name, "svg")

    by_type, by_precision = graphing.layer_type_formatter, graphing.layer_precision_formatter
    return interactive.InteractiveDiagram(render, {
        "Color nodes by type": (by_type, False, False), "Color nodes by type (detailed)": (by_type, True, True),
        "Color nodes by precision": (by_precision, False, False), "Color nodes by precision (detailed)": (by_precision, True, True),
        "Minimalistic": (by_type, False, True, False)}, "Color formatting:")


def report_card_draw_plan_graph_extended(plan: EnginePlan, engine_name: str) -> Any:
    """A panel with every option of the graph, and buttons that write SVG and ONNX."""
    from .graph_panel import GraphPanel
    return GraphPanel(plan, engine_name)
