# SPDX-License-Identifier: Apache-2.0
"""Two and more engines side by side, under trex's names. Layers are aligned by the core: through the ONNX nodes that they
implement, in order, so that equal blocks do not shift and fused or split layers stay together.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .. import report as reports
from . import colors, interactive, misc, notebook, plotting
from .activations import create_activations
from .engine_plan import EnginePlan, summary_dict

Pair = tuple[int | None, int | None]


def get_plans_names(plans: Sequence[EnginePlan]) -> list[str]:
    """The plans' names, numbered when two are equal."""
    names = [plan.name for plan in plans]
    return names if len(set(names)) == len(names) else [f"{name}.{i}" for i, name in enumerate(names)]


def _batch_size(plan: EnginePlan) -> int:
    """The first extent of the first network input; 1 where it has none or it is not known."""
    inputs, _ = plan.get_bindings()
    return max(1, inputs[0].shape[0]) if inputs and inputs[0].shape else 1


def _sums(plan: EnginePlan, by: str, scale: float = 1.0) -> pd.DataFrame:
    frame = plan.df.groupby(by)[["latency.pct_time", "latency.avg_time"]].sum().reset_index()
    return frame.assign(**{"latency.avg_time": frame["latency.avg_time"] * scale})


def speedup_range_highlights(col_name: str, threshold: float) -> dict[str, Any]:
    """Colours for a table that understands ranges: faster, the same within the threshold, slower."""
    colour = lambda r, g, b: {"r": r, "g": g, "b": b, "a": 1}  # noqa: E731
    return {col_name: {"active": True, "equals": {"active": True, "value": 1, "color": colour(255, 245, 157)},
                       "greaterThan": {"active": True, "value": 1 + threshold, "color": colour(86, 180, 233)},
                       "lessThan": {"active": True, "value": 1 - threshold, "color": colour(230, 159, 0)}}}


def _styled(table: pd.DataFrame, column: str, threshold: float) -> Any:
    """The table with its speed-ups coloured; the plain table where pandas cannot style."""

    def colour(value: Any) -> str:
        if not isinstance(value, float) or value != value:
            return ""
        return "background-color: #56B4E9" if value > 1 + threshold else "background-color: #E69F00" if value < 1 - threshold else "background-color: #F0E442"

    try:
        return table.style.map(colour, subset=[column])
    except ImportError:  # jinja2
        return table


def _latency_per_type(plans: Sequence[EnginePlan], names: list[str], title: str, do_show: bool = True) -> go.Figure:
    """Stacked times by type, with throughput and latency of the whole engines where the metadata has them."""
    tables = [_sums(plan, "type") for plan in plans]
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    plotting.stacked_bars(title, names, tables, "type", "latency.avg_time", colormap=colors.layer_colormap, display_tbl=False, fig=figure,
                          xaxis_title="Engine", yaxis_title="Latency (ms)")
    latency = [series for plan in plans if isinstance(series := plan.performance_summary.get("Latency"), list) and len(series) > 2]
    if len(latency) == len(plans):
        figure.add_trace(go.Scatter(x=names, y=[series[2] for series in latency], name="Mean latency of the engine", mode="markers", marker={"size": 12, "color": "#000000"}))
    throughput = [plan.performance_summary.get("Throughput") for plan in plans]
    if all(isinstance(value, (int, float)) for value in throughput):
        figure.add_trace(go.Scatter(x=names, y=throughput, name="Throughput (1/s)", mode="markers", marker={"size": 12, "color": "#CC79A7", "symbol": "diamond"}), secondary_y=True)
    figure.update_layout(showlegend=True)
    if do_show:
        figure.show()
        table = plotting.stacked_tabular_df(names, tables, "type", "latency.avg_time", float("nan"))
        table["speedup"] = table[names[0]] / table[names[-1]]
        print(f"speedup: {names[-1]} against {names[0]}")
        notebook.display_df(_styled(table, "speedup", 0.03))
    return figure


def _throughput(plans: Sequence[EnginePlan], names: list[str], title: str, do_show: bool = True) -> go.Figure:
    figure = px.bar(x=[plan.performance_summary["Throughput"] for plan in plans], y=names, orientation="h", title=title)
    plotting.trex_base_layout(figure)
    figure.update_layout(xaxis_title="Throughput (inferences / sec)", yaxis_title="Engine")
    if do_show:
        figure.show()
    return figure


def compare_engines_overview_diagrams(plans: Sequence[EnginePlan]) -> dict[str, Any]:
    """The diagrams of compare_engines_overview: title -> function that draws."""
    names = get_plans_names(plans)
    grouped = partial(plotting.plotly_bar2, names_col="type", orientation="h", showlegend=True, show_axis_ticks=(True, True))
    donuts = lambda tables, values, by: partial(plotting.plotly_pie2, charts=[(t, n, values, by) for t, n in zip(tables, names)], colormap=colors.precision_colormap)  # noqa: E731
    counted = lambda by: [misc.group_count(plan.df, by) for plan in plans]  # noqa: E731
    diagrams = {
        "Stacked latencies by layer type": partial(_latency_per_type, plans, names),
        "Stacked latencies by layer type (BS normalized)": partial(
            plotting.stacked_bars, bar_names=names, df_list=[_sums(plan, "type", 1 / _batch_size(plan)) for plan in plans], names_col="type", values_col="latency.avg_time",
            empty_symbol=float("nan"), colormap=colors.layer_colormap, xaxis_title="Engine", yaxis_title="Latency (ms)"),
        "Layer count comparison": partial(grouped, dict(zip(names, counted("type"))), values_col="count"),
        "Layer-type latency comparison": partial(grouped, {n: _sums(plan, "type") for n, plan in zip(names, plans)}, values_col="latency.avg_time"),
        "Layer latency by precision": partial(plotting.stacked_bars, bar_names=names, df_list=[_sums(plan, "precision") for plan in plans], names_col="precision",
                                              values_col="latency.avg_time", colormap=colors.precision_colormap),
        "Precision counts": donuts(counted("precision"), "count", "precision"),
        "Output precision counts": donuts(counted("output_precision"), "count", "output_precision"),
        "Precision latency": donuts([_sums(plan, "precision") for plan in plans], "latency.pct_time", "precision"),
    }
    if all(isinstance(plan.performance_summary.get("Throughput"), (int, float)) for plan in plans):
        diagrams["Throughput"] = partial(_throughput, plans, names)
    return diagrams


def compare_engines_overview(plans: Sequence[EnginePlan]) -> interactive.InteractiveDiagram_2:
    return interactive.InteractiveDiagram_2(compare_engines_overview_diagrams(plans), "Diagram:")


def compare_engines_summaries_df(plans: Sequence[EnginePlan], orientation: str = "vertical") -> pd.DataFrame:
    """Model, performance, device and builder settings; one column (vertical) or one row (horizontal) per engine."""
    merged: dict[str, list[Any]] = {}
    for part in (summary_dict, lambda p: p.performance_summary, lambda p: p.device_properties, lambda p: p.builder_cfg):
        merged |= misc.stack_dicts([part(plan) for plan in plans], empty_placeholder="")
    names = get_plans_names(plans)
    if orientation == "vertical":
        table = pd.DataFrame.from_dict({k: list(map(str, v)) for k, v in merged.items()}, orient="index", columns=names)
        table.insert(0, "attribute", list(merged))
        return table.reset_index(drop=True)
    table = pd.DataFrame({k: list(map(str, v)) for k, v in merged.items()})
    table.insert(0, "plan", names)
    return table


def compare_engines_summaries_tbl(plans: Sequence[EnginePlan], orientation: str = "vertical") -> None:
    print('"Average time": the sum of the layers, each timed alone.')
    print('"Latency": minimum, maximum, mean, median and percentiles of whole runs without times per layer.')
    notebook.display_df(compare_engines_summaries_df(plans, orientation))


def match_layers(plan1: EnginePlan, plan2: EnginePlan, exact_matching: bool = True) -> list[Pair]:
    """Pairs of row numbers, None where a side has no counterpart. Layers that share ONNX nodes are matched whatever their
    shapes, so `exact_matching` changes nothing; what is fused differently gives a pair and lone rows next to it."""
    rows = reports.compare(plan1.report, plan2.report).rows
    return [pair for one, two in zip(rows["baseline_layers"], rows["candidate_layers"]) for pair in zip_longest(one, two)]


def _io(layer: pd.Series | None) -> tuple[str, str, str]:
    """Precisions in and out, and formats with shapes."""
    if layer is None:
        return "", "", ""
    inputs, outputs = create_activations(layer)
    texts = lambda tensors: ", ".join(f"{t.format}:{t.shape}" for t in tensors)  # noqa: E731
    return ", ".join(t.precision for t in inputs), ", ".join(t.precision for t in outputs), f"in: {texts(inputs)}\tout: {texts(outputs)}"


def aligned_merge_plans(plan1: EnginePlan, plan2: EnginePlan, matched_indices_pairs: Sequence[Pair]) -> pd.DataFrame:
    """One row per pair; the last two columns are the layers' names, under the names of the plans."""
    names = get_plans_names([plan1, plan2])
    rows = []
    for pair in matched_indices_pairs:
        one, two = (plan.df.loc[i] if i is not None else None for plan, i in zip((plan1, plan2), pair))
        times = [layer["latency.avg_time"] if layer is not None else 0.0 for layer in (one, two)]
        (in1, out1, formats1), (in2, out2, formats2) = _io(one), _io(two)
        tactics = [layer["tactic"] if layer is not None else "" for layer in (one, two)]
        rows.append((next(layer["type"] for layer in (one, two) if layer is not None), *times, times[0] / times[1] if one is not None and two is not None and times[1] else float("nan"),
                     in1, in2, out1, out2, *tactics, formats1, formats2, *(layer["Name"] if layer is not None else "" for layer in (one, two))))
    return pd.DataFrame(rows, columns=["type", "avg_time (1)", "avg_time (2)", "speedup (2)", "in-p (1)", "in-p (2)", "out-p (1)", "out-p (2)",
                                       "tactic (1)", "tactic (2)", "formats (1)", "formats (2)", *names])


def aligned_layers(plan1: EnginePlan, plan2: EnginePlan, matched_indices_pairs: Sequence[Pair], layer_type: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both engines' layers in the same rows, with placeholders; of one type, or all."""
    tables: tuple[list[Any], list[Any]] = ([], [])
    for pair in matched_indices_pairs:
        layers = [plan.df.loc[i] if i is not None else None for plan, i in zip((plan1, plan2), pair)]
        if layer_type is not None and all(layer is None or layer["type"] != layer_type for layer in layers):
            continue
        for table, layer in zip(tables, layers):
            table.append((len(table), "", "", 0.0) if layer is None else (len(table), layer["Name"], layer["type"], layer["latency.avg_time"]))
    one, two = (pd.DataFrame(table, columns=["id", "name", "type", "latency.avg_time"]) for table in tables)
    return one, two


def filter_aligned(table: pd.DataFrame, choice: str) -> pd.DataFrame:
    """All, Precision Mismatch, Tactic Mismatch, or the rows of one layer type."""
    if choice == "All":
        return table
    if choice == "Precision Mismatch":
        return table[(table["in-p (1)"] != table["in-p (2)"]) | (table["out-p (1)"] != table["out-p (2)"])]
    if choice == "Tactic Mismatch":
        return table[table["tactic (1)"] != table["tactic (2)"]]
    return table[table["type"] == choice]


def compare_engines_layer_latencies(plan1: EnginePlan, plan2: EnginePlan, threshold: float, exact_matching: bool) -> interactive.InteractiveDiagram:
    """The aligned table with its filters, the sums, and a bar per aligned pair."""
    names, pairs = get_plans_names([plan1, plan2]), match_layers(plan1, plan2, exact_matching)
    table = aligned_merge_plans(plan1, plan2, pairs)

    def render(choice: str, _: str) -> go.Figure:
        kept = filter_aligned(table, choice)
        print(f"1: {names[0]}\n2: {names[1]}\nin-p, out-p: precisions of inputs and outputs")
        notebook.display_df(_styled(kept, "speedup (2)", threshold), range_highlights=speedup_range_highlights("speedup (2)", threshold))
        frames = aligned_layers(plan1, plan2, [pairs[i] for i in kept.index])
        for name, frame in zip(names, frames):
            print(f"{name}: {frame['latency.avg_time'].sum():.3f} ms")
        return plotting.plotly_bar2(dict(zip(names, frames)), f"Layer Latency Comparison ({choice})", "latency.avg_time", "id", showlegend=True)

    types = dict.fromkeys([*plan1.df["type"], *plan2.df["type"]])
    return interactive.InteractiveDiagram(render, {t: t for t in ["All", "Precision Mismatch", "Tactic Mismatch", *types]}, "Dataframe")


def layer_details(table: pd.DataFrame, row_id: int) -> pd.DataFrame:
    """One row of the aligned table as attributes of both layers, each the same or different."""
    row = table.iloc[row_id]
    names = list(table.columns[-2:])
    attributes = {"name": tuple(row[n] for n in names), **{title: (row[f"{key} (1)"], row[f"{key} (2)"]) for title, key in (
        ("avg_time", "avg_time"), ("tactic", "tactic"), ("input precision", "in-p"), ("output precision", "out-p"), ("formats", "formats"))}}
    result = ["", row["speedup (2)"], *("Same" if a == b else "Different" for a, b in list(attributes.values())[2:])]
    return pd.DataFrame({"attribute": list(attributes), "comparison": result, **{n: [v[i] for v in attributes.values()] for i, n in enumerate(names)}})


def compare_engines_layer_details(plan1: EnginePlan, plan2: EnginePlan) -> interactive.InteractiveDiagram:
    table = aligned_merge_plans(plan1, plan2, match_layers(plan1, plan2))
    choices = {f"{i}: {kind}": i for i, kind in enumerate(table["type"])}
    return interactive.InteractiveDiagram(lambda _, row: notebook.display_df(layer_details(table, row)), choices, "Choose Layer:")
