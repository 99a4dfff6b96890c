# SPDX-License-Identifier: Apache-2.0
"""trex's names in lathe_explorer.trex, one function per row of the parity table (docs/explorer.md). Runs inside the
environment that has the wheel; every diagram is drawn and looked into, pictures are parsed, workbooks and archives opened.
"""
import contextlib
import io
import itertools
import json
import pathlib
import sys
import tempfile
import types
import xml.etree.ElementTree
import zipfile

import onnx
import pandas as pd
import plotly.io

import lathe_explorer
import lathe_explorer.trex as trex
from lathe_explorer.trex import __main__ as command
from lathe_explorer.trex import compare_engines, config_gpu, excel_summary, graphing, interactive, notebook, report_card

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "explorer"))
import dialects  # noqa: E402

plotly.io.renderers.default = "json"
failures, shown = [], []
notebook.set_table_display_backend(lambda table, **_: shown.append(table))


def check(condition, text):
    if not condition:
        failures.append(text)
        print("FAILED", text)


def quiet(act, *arguments, **named):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        result = act(*arguments, **named)
    return result, out.getvalue()


def values_of(figure):
    """How many numbers a figure draws."""
    return sum(len(v) for trace in figure.data for v in [next((getattr(trace, k, None) for k in ("values", "y", "x") if getattr(trace, k, None) is not None), [])])


def drawn(diagrams, count, what):
    check(len(diagrams) == count, f"{what}: {len(diagrams)} diagrams, not {count}")
    for title, draw in diagrams.items():
        figure = draw(title=title, do_show=False)
        check(values_of(figure) > 0 and title in figure.layout.title.text, f"{what}: {title} is empty")


def report_cards(plan, times):
    """10 + 13 + 6 diagrams, sunburst, treemap, timings, GEMM in 2-D and 3-D, six scatters, reformats by origin, tables."""
    drawn(report_card.report_card_perf_overview(plan), 10, "performance overview")
    drawn(report_card.report_card_convolutions_overview(plan.get_layers_by_type("Convolution")), 13, "convolutions")
    drawn(report_card.report_card_memory_footprint(plan), 6, "memory footprint")
    drawn({"sunburst": lambda **k: report_card.layer_latency_sunburst(plan.df, **k), "treemap": lambda **k: report_card.layer_latency_treemap(plan.df, **k)}, 2, "latencies")
    sunburst = report_card.layer_latency_sunburst(plan.df, "s", do_show=False).data[0]
    leaves = [v for label, v in zip(sunburst.ids, sunburst.values) if "/" in label]
    check(abs(sum(leaves) - plan.df["latency.pct_time"].sum()) < 1e-9, "the sunburst's leaves are not the layers' shares")
    check(len(report_card.plot_engine_timings(times, do_show=False).data[0].y) == 50, "timings")
    check(report_card.report_card_efficiency_vs_latency_3d(plan, do_show=False).data[0].type == "scatter3d", "efficiency in 3-D")
    for widget, count in ((report_card.report_card_gemm_MNK, 4), (report_card.report_card_gemm_MNK_scatter, 3), (report_card.report_card_perf_scatter, 6),
                          (report_card.report_card_reformat_overview, 3), (report_card.report_card_table_view, 7), (report_card.report_card_perf_overview_widget, 10)):
        box, _ = quiet(widget, plan)
        check(isinstance(box, (interactive.InteractiveDiagram, interactive.InteractiveDiagram_2)) and len(box.choices) == count, f"{widget.__name__}: {len(box.choices)} choices")
        for choice in box.choices:
            before = len(shown)
            quiet(box.render, choice)
            check(widget is not report_card.report_card_table_view or len(shown) == before + 1, f"no table for {choice}")
    _, text = quiet(report_card.report_card_pointwise_lint, plan)
    check("iSigmoid" in text, f"pointwise operations: {text}")


def tables(plan):
    """The dataframe, typed views, cleaning, the tactic table."""
    reformat, conv = plan.get_layers_by_type("Reformat"), plan.get_layers_by_type("Convolution")
    check(conv[["attr.M", "attr.N", "attr.K"]].values.tolist() == [[256, 16, 72], [256, 16, 144]], f"implicit products: {conv}")
    check(plan.get_layers_by_type("Pooling")["attr.pooling_type"].tolist() == ["AVERAGE"], "pooling")
    check(plan.get_layers_by_type("PointWise")["attr.n_operations"].tolist() == [2] and len(reformat) == 1, "pointwise")
    frame = plan.df.copy()
    check(trex.clean_df(frame, inplace=True) is frame and frame["Inputs"].iloc[1] == "FP16 NHWC8", f"clean_df: {frame['Inputs'].tolist()}")
    trex.drop_columns(frame, ["subtype", "nothing"])
    check("subtype" not in frame, "drop_columns works in place")
    check(trex.group_count(plan.df, "tactic")["count"].sum() == len(plan.df), "tactics")
    inputs, outputs = trex.create_activations(plan.df.iloc[1])
    check((inputs[0].precision, inputs[0].data_size, inputs[0].size_bytes, outputs[0].shape) == ("FP16", 2, 4096, [1, 16, 16, 16]), "activations")
    wide = {"Name": "t", "Dimensions": [1, 24, 2, 2], "Format/Datatype": "Float", "Format": "Sixteen wide channel vectorized row major", "Datatype": "Float"}
    check((trex.Activation(wide).size_bytes, trex.Activation(wide).format) == (4 * 32 * 2 * 2, "FP32 NC/16HW16"), "a layout that the file has apart counts")
    check(isinstance(plan.find("fc"), trex.Layer) and plan.find("fc").outputs[0].name == "l", "layers")
    check([c.name for c in plan.constants] == ["w_fc"] and len(plan.all_layers) == len(plan.layers) + 1, "constants")


def graph_options(plan, folder):
    """Three node styles, two colourings, halos, regions with generations, forks, constants, latency metric, metadata, files."""
    plain = graphing.DotGraph(plan, graphing.layer_type_formatter)
    check([n.name for n in plain.graph.memory_nodes] == ["x", "y"], "without regions there are inputs and outputs alone")
    for style, (formatter, regions, constants) in itertools.product(graphing.layer_node_renderers, ((graphing.layer_type_formatter, False, False), (
            graphing.layer_precision_formatter, True, True))):
        dot = graphing.to_dot(plan, formatter, layer_node_renderer=graphing.layer_node_renderers[style], display_regions=regions, display_constants=constants,
                              expand_layer_details=True, display_forking_regions=True, display_edge_name=True, latency_type="median_time",
                              display_region_names=True, display_region_reuse=True, highlight_layers=["fc"], stack_layer_names=not regions)
        path, _ = quiet(graphing.render_dot, dot, folder / f"{style}{regions}", "svg")
        svg = xml.etree.ElementTree.parse(path).getroot()
        texts = {t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")}
        check(len(svg.findall(".//{*}g[@class='node']")) >= len(plan.layers), f"{style}: nodes")
        check("stroke=\"red\"" in pathlib.Path(path).read_text(), f"{style}: no halo")
        check(style != "Configurable" or {"conv1", "iMul(arg0, var0)"} & {str(t).strip() for t in texts} or regions, f"{style}: {sorted(map(str, texts))}")
    full = graphing.PlanGraph(plan, include_regions=True, include_constants=True)
    check({"a.0", "w.0"} <= {n.name for n in full.memory_nodes} and "w_fc" in {n.layer.name for n in full.layer_nodes}, "regions and constants")
    forks = graphing.PlanGraph(plan, include_forking_regions=True)
    check("a.0" in {n.name for n in forks.memory_nodes} and "b.0" not in {n.name for n in forks.memory_nodes}, "forks")
    path, _ = quiet(graphing.render_dot, plain.dot, folder / "g", "png")
    check(pathlib.Path(path).read_bytes().startswith(b"\x89PNG"), "PNG")
    path, _ = quiet(graphing.render_dot, plain.dot, folder / "g", "dot")
    check(pathlib.Path(path).read_text().startswith("digraph"), "DOT")
    check(plain.graph.beam("fc", 1) == {"fc", "softmax1", "pool1"} and "reformat" in plain.graph.query("conv1"), f"beam: {plain.graph.beam('fc', 1)}")
    panel, _ = quiet(report_card.report_card_draw_plan_graph_extended, plan, str(folder / "panel"))
    check(pathlib.Path(quiet(panel.render_svg)[0]).exists() and pathlib.Path(quiet(panel.write_onnx)[0]).exists(), "the panel's buttons")
    box, _ = quiet(report_card.report_card_draw_plan_graph, plan, str(folder / "presets"))
    check(len(box.choices) == 5 and all(quiet(box.render, c) for c in box.choices), "presets")


def generations(folder):
    """A buffer that is read, then written again; slices of one buffer; names that Graphviz minds; a train station."""
    tensor = lambda name: {"Name": name, "Dimensions": [1, 8], "Format/Datatype": "Row major linear FP32"}  # noqa: E731
    layer = lambda name, kind, reads, writes: {"Name": name, "LayerType": kind, "Inputs": [tensor(t) for t in reads], "Outputs": [tensor(t) for t in writes]}  # noqa: E731
    layers = [layer("a<b>&\"c\" {x|y}:0\\", "Scale", ["in"], ["cache"]), layer("left", "Scale", ["in"], ["wide"]), layer("right", "Scale", ["in"], ["wide"]),
              layer("station", "TrainStation", [], []), layer("update", "Scatter", ["cache"], ["cache"]), layer("join", "ElementWise", ["cache", "wide"], ["out"])]
    file = folder / "generations.json"
    file.write_text(json.dumps({"Layers": layers, "Bindings": ["in", "out"]}))
    plan = trex.EnginePlan(file)
    graph = graphing.PlanGraph(plan)
    check({"cache.0", "cache.1"} <= {n.name for n in graph.memory_nodes}, f"generations: {[n.name for n in graph.memory_nodes]}")
    wide = next(r for r in graph.regions if r.name == "wide")
    check(wide.nb_generations() == 1 and len(wide.writers()) == 2, "slices are one generation")
    dot = graphing.to_dot(plan, graphing.layer_type_formatter, display_region_reuse=True, display_region_names=True)
    check("(gen=1)" in dot.source and "dashed" in dot.source, "generation or train station is not drawn")
    path, _ = quiet(graphing.render_dot, dot, folder / "generations", "svg")
    check("a&lt;b&gt;&amp;" in pathlib.Path(path).read_text(), "names are not escaped")
    check("station" not in {n.layer.name for n in graph.layer_nodes} or graph.remove_disconnected_layers() is None, "train stations stay")
    check_onnx(plan, folder)
    check(plan.df["latency.avg_time"].isna().all() and plan.total_runtime == 0, "times without a profile")


def check_onnx(plan, folder):
    """Every value is written once and before it is read, and every layer is there with its fields."""
    graphing.OnnxGraph(plan, display_forking_regions=False).save(folder / "plan.onnx")
    graph = onnx.load(folder / "plan.onnx").graph
    known = {i.name for i in graph.input}
    for node in graph.node:
        check(set(node.input) - {""} <= known, f"{node.name} reads {set(node.input) - known}, which nobody wrote")
        check(not known & set(node.output), f"{node.name} writes {known & set(node.output)} again")
        known |= set(node.output)
    check({o.name for o in graph.output} <= known, "an output is not written")
    check({layer.name for layer in plan.layers} <= {n.name for n in graph.node}, "a layer is missing in the ONNX file")


def linters(plan):
    for linter in (trex.ConvLinter, trex.ReformatLinter, trex.SliceLinter, trex.QDQLinter):
        check(list(linter(plan).lint().columns)[:2] == ["name", "tactic"], linter.__name__)
    check(trex.ReformatLinter(plan).lint().loc["reformat"]["type conversion"] == "FP32 -> FP16", "reformat linter")


def comparisons(plan, other):
    """Nine diagrams (throughput with metadata), summaries, aligned table with its filters, pair details."""
    plans = (plan, other)
    drawn_here = compare_engines.compare_engines_overview_diagrams(plans)
    check(len(drawn_here) == 9, f"comparison: {list(drawn_here)}")
    for title, draw in drawn_here.items():
        figure, _ = quiet(draw, title=title, do_show=False)
        check(values_of(figure) > 0, f"comparison: {title} is empty")
    table = compare_engines.compare_engines_summaries_df(plans)
    check(list(table.columns) == ["attribute", "ten", "eight"] and "Throughput" in table["attribute"].tolist(), f"summaries: {table}")
    check(compare_engines.compare_engines_summaries_df(plans, "horizontal").shape[0] == 2, "horizontal summaries")
    pairs = trex.match_layers(plan, other, exact_matching=True)
    check(pairs == [(i, i) for i in range(7)], f"pairs: {pairs}")
    aligned = trex.aligned_merge_plans(plan, other, pairs)
    for column, frame in (("avg_time (1)", plan.df), ("avg_time (2)", other.df)):
        check(abs(aligned[column].sum() - frame["latency.avg_time"].sum()) < 1e-12, f"{column} does not sum to the engine")
    for quiet_widget in (lambda: trex.compare_engines_layer_latencies(plan, other, threshold=0.03, exact_matching=True), lambda: trex.compare_engines_layer_details(plan, other),
                         lambda: trex.compare_engines_overview(plans)):
        box, _ = quiet(quiet_widget)
        check({"All", "Precision Mismatch", "Tactic Mismatch"} <= set(box.choices) or len(box.choices) in (7, 9), f"choices: {list(box.choices)}")
        for choice in box.choices:
            quiet(box.render, choice)
    quiet(trex.compare_engines_summaries_tbl, plans)
    check(shown[-1].equals(table), "the summaries are not shown")


def workbooks(plan, folder):
    """Excel: the frame at B4, a sheet with a chart for each of the 16 diagrams, own frames and pictures."""
    picture = folder / "g.png"
    with contextlib.redirect_stdout(io.StringIO()), excel_summary.ExcelSummary(plan, folder / "x.xlsx") as summary:
        summary.generate_default_summary(save=False)
        summary.add_dataframes({"clean": trex.clean_for_display(plan.df)})
        summary.add_images({"graph": picture})
    with zipfile.ZipFile(folder / "x.xlsx") as book:
        names = book.namelist()
        text = book.read("xl/workbook.xml").decode()
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    check(sum(n.startswith("xl/charts/chart") for n in names) >= 16, f"charts: {names}")
    check(text.count("<sheet ") == 19 and 'name="Plan"' in text and '<c r="B4"' in sheet, "sheets")
    check(any(n.startswith("xl/media/") for n in names), "the picture is not in the workbook")


def archives(files, folder):
    """Archives are opened again, read by name, and load as an engine."""
    path = folder / "x.tea"
    with trex.EngineArchive(path) as tea:
        for role in ("layers", "profile", "times"):
            with tea.writer(f"m.{role}.json") as writer:
                writer.write(files[role].read_text())
    trex.EngineArchive(path).writef_bin("engine.trt", b"\0\1")
    check(trex.EngineArchive(path).readf("engine.trt") == b"\0\1" and len(trex.EngineArchive(path).names()) == 4, "an archive is not kept when it is opened")
    report = lathe_explorer.load(path)
    check(len(report.engine.layers) == 7 and len(report.engine.iterations) == 50, "load of an archive")
    module = sys.modules["lathe_explorer.report"]
    most, module._MOST_ARCHIVED = module._MOST_ARCHIVED, 100
    try:
        lathe_explorer.load(path)
        check(False, "an archive of any size is read")
    except ValueError as error:
        check("have more than 1 GiB" in str(error), f"a large archive: {error}")
    module._MOST_ARCHIVED = most


def command_line(files, folder):
    """draw with beam and query, summary with its three sort keys, errors in one line."""
    layers = folder / "draw.json"
    layers.write_text(files["layers"].read_text())
    for flags, name in (([], "draw.json.svg"), (["-of", "dot", "-dr", "-dc", "-drn", "-dm", "-no_ln"], "draw.json.dot"), (["--beam", "fc,1"], "draw.json.beam.svg"),
                        (["--query", "conv[12]"], "draw.json.query.svg")):
        code, _ = quiet(command.main, ["draw", str(layers), "-pj", str(files["profile"]), *flags])
        check(code == 0 and (folder / name).exists(), f"draw {flags}")
    plan = trex.EnginePlan(files["layers"], files["profile"])
    check(command.summarize_engine(plan, sort_key="latency")["latency %"].is_monotonic_decreasing, "summary by latency")
    grouped = command.summarize_engine(plan, group_tactics=True, sort_key="count")
    check(grouped["count"].is_monotonic_decreasing and abs(grouped["latency %"].sum() - plan.df["latency.pct_time"].sum()) < 1e-9, "summary by count")
    check(command.summarize_engine(plan, sort_key="id")["tactic"].is_monotonic_increasing, "summary by id")
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = command.main(["draw", str(layers), "--beam", "nothing,1"])
    check(code == 1 and said.getvalue().count("\n") == 1, f"error: {said.getvalue()}")


class FakeNvml(types.SimpleNamespace):
    """Says what was asked of it; clocks may not be locked."""
    NVMLError = type("NVMLError", (Exception,), {})
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, nvmlClocksThrottleReasonGpuIdle, nvmlClocksThrottleReasonApplicationsClocksSetting = 1, 2, 0, 1, 2

    def __init__(self):
        super().__init__(calls=[])
        answers = {"Init": None, "Shutdown": None, "DeviceGetHandleByIndex": "handle", "DeviceGetPowerUsage": 123400, "DeviceGetClockInfo": 1410, "DeviceGetTemperature": 45,
                   "DeviceGetUtilizationRates": types.SimpleNamespace(gpu=90, memory=10), "DeviceGetCurrentClocksThrottleReasons": 8, "DeviceGetPowerManagementLimit": 400000,
                   "DeviceGetPowerManagementLimitConstraints": (100000, 300000), "DeviceSetPowerManagementLimit": None, "DeviceGetSupportedMemoryClocks": [1215, 800],
                   "DeviceGetSupportedGraphicsClocks": [1410, 1395]}
        for name, answer in answers.items():
            setattr(self, f"nvml{name}", lambda *a, n=name, r=answer: (self.calls.append((n, a[1:])), r)[1])
        self.nvmlDeviceSetGpuLockedClocks = self.nvmlDeviceSetMemoryLockedClocks = self._refuse

    def _refuse(self, *_):
        raise self.NVMLError("no permission")


def clocks():
    """Power limit within the board's range and put back, clocks refused but said, samples with throttling."""
    nvml = FakeNvml()
    check(config_gpu.get_max_clocks(0, nvml) == (1215, 1410), "get_max_clocks")
    with config_gpu.GPUConfigurator(power_limit=500, compute_clk=1410, memory_clk=1215, nvml=nvml), config_gpu.GPUMonitor(True, nvml=nvml, print_samples=False) as monitor:
        pass
    limits = [a for n, a in nvml.calls if n == "DeviceSetPowerManagementLimit"]
    check(limits == [(300000,), (400000,)], f"power limits: {limits}")
    check(monitor.samples and monitor.samples[0]["power_w"] == 123.4 and monitor.samples[0]["throttled"], f"samples: {monitor.samples}")


def expected_frame(paths):
    """The frame of a network of each release, column by column, against trex's (made by compare_with_trex.py); what differs
    is named there with its reason."""
    expected = json.loads(pathlib.Path(__file__).with_name("trex_frames.json").read_text())
    for release, columns in expected["columns"].items():
        files = paths[int(release)]
        frame = trex.EnginePlan(files["layers"], files["profile"]).df
        for column, values in columns.items():
            different = {int(i): ours for i, ours in expected["differences"].get(release, {}).get(column, {}).get("ours", {}).items()}
            for i, (ours, theirs) in enumerate(zip(frame[column].tolist() if column in frame else [], values, strict=False)):
                wanted = different.get(i, theirs)
                check((ours != ours and wanted is None) or ours == wanted, f"TensorRT {release}, {column}, row {i}: {ours!r}, expected {wanted!r}")
            check(column in frame, f"TensorRT {release}: no column {column}")
            check(not different or expected["differences"][release][column]["reason"].startswith("W"), f"{column}: a difference without its reason")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        paths = dialects.write_all(folder)
        ten, eight = (trex.EnginePlan(paths[r]["layers"], paths[r]["profile"], paths[r]["log"], name=n) for r, n in ((10, "ten"), (8, "eight")))
        report_cards(ten, paths[10]["times"])
        tables(ten)
        graph_options(ten, folder)
        generations(folder)
        linters(ten)
        comparisons(ten, eight)
        workbooks(ten, folder)
        archives(paths[11], folder)
        command_line(paths[9], folder)
        clocks()
        expected_frame(paths)
        for release in dialects.RELEASES:
            plan = trex.EnginePlan(paths[release]["layers"], paths[release]["profile"])
            check_onnx(plan, folder)
            check(isinstance(plan.df, pd.DataFrame) and plan.df["Metadata" if release > 8 else "Name"].notna().all(), f"TensorRT {release}: frame")
    print(f"lathe_explorer.trex: {len(failures)} checks failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
