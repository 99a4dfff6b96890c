#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of NVIDIA's engine explorer itself on files that `lathe process` wrote. By hand, in an environment with trex 0.2.1
(compare_with_trex.py says which); dtale, which it imports at once, may be a stand-in with an empty global_state.set_app_settings.

    call_trex.py out/m.onnx.engine [...]        # BASE of BASE.graph.json, .profile.json, .timing.json and the metadata

Prints how many calls work, and each that does not with its error. Run it on trex's own samples (tests/inputs), too: what fails
there is not the files' fault.
"""
import contextlib
import io
import itertools
import pathlib
import sys
import tempfile
import warnings

import plotly.io
import trex
import trex.compare_engines as compare
import trex.graphing as graphing
import trex.lint as lint
import trex.notebook as notebook
import trex.report_card as card

warnings.filterwarnings("ignore")
plotly.io.renderers.default = "json"
notebook.set_table_display_backend(lambda table, **_: None)


class Calls:
    def __init__(self):
        self.count, self.failures = 0, []

    def __call__(self, name, act, *arguments, **named):
        self.count += 1
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return act(*arguments, **named)
        except Exception as error:  # whatever it is, it is what is asked for
            self.failures.append(f"{name}: {type(error).__name__}: {str(error)[:110]}")
            return None


def diagrams(call, name, section, *arguments):
    for title, draw in (call(name, section, *arguments) or {}).items():
        call(f"{name}, {title}", draw, title=title, do_show=False)


def one_engine(call, base, folder):
    plan = call("EnginePlan", trex.EnginePlan, *(f"{base}.{part}.json" for part in ("graph", "profile", "profile.metadata", "build.metadata")))
    if plan is None:
        return None
    call("summary", plan.summary)
    call("clean_for_display", trex.clean_for_display, plan.df.copy())
    for kind in sorted(set(plan.df["type"])):
        call(f"get_layers_by_type {kind}", plan.get_layers_by_type, kind)
    convolutions = plan.get_layers_by_type("Convolution")
    diagrams(call, "performance", card.report_card_perf_overview, plan)
    diagrams(call, "memory", card.report_card_memory_footprint, plan)
    if len(convolutions):
        diagrams(call, "convolutions", card.report_card_convolutions_overview, convolutions)
        for name in ("gemm_MNK", "gemm_MNK_scatter", "efficiency_vs_latency_3d", "perf_scatter"):
            call(name, getattr(card, f"report_card_{name}"), plan)
    call("table", card.report_card_table_view, plan)
    call("pointwise", card.report_card_pointwise_lint, plan)
    call("sunburst", card.layer_latency_sunburst, plan.df, "sunburst")
    call("timings", card.plot_engine_timings, f"{base}.timing.json")
    if (plan.df["type"] == "Reformat").any():
        call("reformats", card.report_card_reformat_overview, plan)
    for name in ("ConvLinter", "ReformatLinter", "SliceLinter", "QDQLinter"):
        call(name, lambda: getattr(lint, name)(plan).lint())
    styles = itertools.product(graphing.layer_node_renderers.items(), (graphing.layer_type_formatter, graphing.layer_precision_formatter), (False, True))
    for (style, renderer), formatter, more in styles:
        call(f"to_dot {style}", graphing.to_dot, plan, formatter, layer_node_renderer=renderer, display_regions=more, display_constants=more, expand_layer_details=more)
    dot = call("to_dot", graphing.to_dot, plan, graphing.layer_type_formatter)
    for kind in ("svg", "png"):
        call(f"render_dot {kind}", graphing.render_dot, dot, str(folder / "graph"), kind)
    call("OnnxGraph", graphing.OnnxGraph, plan, True)
    return plan


def main():
    call, plans = Calls(), []
    with tempfile.TemporaryDirectory() as folder:
        for base in sys.argv[1:]:
            plans.append(one_engine(call, base, pathlib.Path(folder)))
    if len(plans) > 1 and all(plans):
        call("compare overview", compare.compare_engines_overview, plans)
        call("compare summaries", compare.compare_engines_summaries_tbl, plans)
        for exact in (True, False):
            call("compare latencies", compare.compare_engines_layer_latencies, plans[0], plans[1], 0.03, exact)
            call("match_layers", compare.match_layers, plans[0], plans[1], exact)
    print(f"{call.count - len(call.failures)} of {call.count} calls work")
    for failure in call.failures:
        print("   ", failure)


if __name__ == "__main__":
    main()
