# SPDX-License-Identifier: Apache-2.0
"""Runs inside the environment that has the wheel (run.py)."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
from decimal import Decimal

import lathe_explorer
import lathe_explorer.trex as trex

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "explorer"))
import dialects  # noqa: E402

# The columns that every trex frame has.
COLUMNS = ["Name", "type", "subtype", "tactic", "Inputs", "Outputs", "output_precision", "total_io_size_bytes", "weights_size", "total_footprint_bytes",
           "precision", "latency.time", "latency.avg_time", "latency.median_time", "latency.pct_time"]
failures = []


def check(condition, text):
    if not condition:
        failures.append(text)
        print("FAILED", text)


def reports(paths):
    total = float(sum(Decimal(repr(average)) for _, average, _ in dialects.TIMES))
    for release, files in paths.items():
        report = lathe_explorer.load(files["layers"], files["profile"], files["times"], files["log"])
        frame = report.engine.layers
        check(list(frame["name"]) == [n for n, _, _ in dialects.TIMES], f"TensorRT {release}: layers")
        check(report.engine.statistics["layer_sum_ms"] == total, f"TensorRT {release}: sum")
        check(abs(report.engine.by_type["time_ms"].sum() - total) < 1e-12, f"TensorRT {release}: groups")
        check(len(report.engine.iterations) == 50 and len(report.engine.onnx_nodes) == 10, f"TensorRT {release}: iterations or nodes")
        check("<svg" in report.engine.svg() and "digraph" in report.engine.dot() and "ten" not in report.text()[:20], f"TensorRT {release}: views")
    ab = lathe_explorer.load([paths[9]["layers"], paths[9]["profile"]], [paths[11]["layers"], paths[11]["profile"]], names=["nine", "eleven"], fail_if="latency>1%")
    check([e.name for e in ab.engines] == ["nine", "eleven"] and len(ab.rows) == 7 and ab.waterfall()["delta_ms"].sum() == 0, "comparison")
    check(ab.comparison["failed"] is False and len(ab.comparison["checks"]) == 1, "checks")
    peaks = lathe_explorer.load(paths[10]["layers"], paths[10]["profile"], peaks={"FP16": 312e12, "memory": 1.5e12})
    check(peaks.engine.data["peaks"]["source"] == "given" and peaks.engine.layers["roof_ms"].notna().any(), "peaks")


def shown(paths, folder):
    """What a notebook shows of a report: text and HTML, whatever the names are, and the warning where times cannot be used."""
    hostile = json.loads(pathlib.Path(paths[10]["layers"]).read_text())
    hostile["Layers"][0]["Tuning"] = {"Timed": [{"Name": "a", "Runner": "R", "Ms": 0.5, "Chosen": "yes"}], "Refused": [{"Name": "b", "Reason": "no AMX"}], "LeftOut": 0}
    (folder / "<b>bold.json").write_text(json.dumps(hostile))
    (folder / "hardware.json").write_text('{"schema": "lathe-hardware", "text": "", "samples": [{"at_ms": 1, "others_percent": 80}]}')
    report = lathe_explorer.load(folder / "<b>bold.json", paths[10]["profile"], paths[10]["times"], folder / "hardware.json")
    engine = report.engine
    check(not engine.measurement["usable"] and "other programs had 80 %" in repr(engine), f"repr: {engine!r}")
    check(repr(report).startswith("Report of 1 engine\n  Engine <b>bold: 7 layers, ") and " ms median, layers 0.192 ms" in repr(report), f"repr: {report!r}")
    html = report._repr_html_()
    check("&lt;b&gt;bold" in html and "<b>bold" not in html and "<table" in html and "not usable" in html, f"html: {html}")
    check(engine.findings["gain_ms"].isna().all(), "gains of times that cannot be used")
    check(engine.tactics[["name", "ms", "reason"]].fillna("").values.tolist() == [["a", 0.5, ""], ["b", "", "no AMX"]], f"tactics: {engine.tactics}")
    check(engine.layer_runs.empty and "tuning" not in engine.layers, "runs that nobody recorded")
    two = lathe_explorer.load([paths[9]["layers"], paths[9]["profile"]], [paths[11]["layers"], paths[11]["profile"]])
    check("against" in repr(two) and "0.192 to 0.192 ms" in repr(two), f"repr of two: {two!r}")


def models(paths, folder):
    """The model beside an engine: as JSON, and as ONNX through the lathe program, which the PATH has."""
    nodes = [{"name": name, "op_type": "Conv", "inputs": ["x"], "outputs": [name]} for name in ("conv1", "conv2")]
    model = {"schema": "lathe-model", "inputs": ["x"], "outputs": ["conv1"], "nodes": [*nodes, {"name": "lost", "op_type": "Relu", "inputs": ["x"], "outputs": ["l"]}]}
    (folder / "model.json").write_text(json.dumps(model))
    report = lathe_explorer.load(paths[10]["layers"], paths[10]["profile"], folder / "model.json")
    frame = report.engine.model_nodes.set_index("name")
    check(frame["layers"].tolist() == [[1], [2], []] and frame.loc["lost", "fate"] == "unused" and frame.loc["conv1", "inputs"] == ["x"], f"model: {frame}")
    check(report.engine.onnx_nodes.set_index("name").loc["conv1", "op_type"] == "Conv", "operators come from the model")
    check(report.engine.model_tensors["role"].tolist() == ["input", "output", "value", "value"], "tensors of the model")
    check(lathe_explorer.load(paths[10]["layers"]).engine.model_nodes.empty, "nodes without a model")
    subprocess.run(["lathe", "zoo", "mobilenet_v2", "-o", folder / "r.onnx"], check=True, capture_output=True)
    try:
        lathe_explorer.load(paths[10]["layers"], folder / "r.onnx")
        check(False, "another network's model is accepted")
    except ValueError as error:
        check("not of this model" in str(error), f"another network's model: {error}")


def errors(folder):
    bad = folder / "bad.json"
    bad.write_text('{"Layers": [{"Name": 3, "LayerType": "x"}]}')
    for act, words in ((lambda: lathe_explorer.load(bad), "Layers[0].Name"), (lambda: lathe_explorer.load([bad], bad), "one list per engine")):
        try:
            act()
            check(False, f"no error: {words}")
        except ValueError as error:
            check(words in str(error), f"{error} does not say {words}")


def plans(paths):
    for release, files in paths.items():
        plan = trex.EnginePlan(files["layers"], files["profile"])
        check(all(c in plan.df for c in COLUMNS), f"TensorRT {release}: columns {[c for c in COLUMNS if c not in plan.df]}")
        check(plan.df["latency.avg_time"].tolist() == [a for _, a, _ in dialects.TIMES], f"TensorRT {release}: times")
        check(plan.df["latency.median_time"].isna().all() == (release == 8), f"TensorRT {release}: medians")
        check(plan.bindings == ["x", "y"] and plan.find("fc").name == "fc" and plan.find("none") is None, f"TensorRT {release}: find")
        convolutions = plan.get_layers_by_type("Convolution")
        check(convolutions["attr.macs"].tolist() == [16 * 256 * 8 * 9, 16 * 256 * 16 * 9], f"TensorRT {release}: {convolutions['attr.macs'].tolist()}")
        check(plan.get_layers_by_type("Reformat")["attr.origin"].tolist() == ["REFORMAT"], f"TensorRT {release}: reformats")
    plan = trex.EnginePlan(paths[10]["layers"], paths[10]["profile"], name="ten")
    by_type = trex.group_sum_attr(plan.df, "type", "latency.avg_time")
    check(abs(by_type["latency.avg_time"].sum() - plan.total_runtime) < 1e-12, "group_sum_attr")
    check(trex.group_count(plan.df, "type")["count"].sum() == 7, "group_count")
    shown = trex.clean_for_display(plan.df)
    check(shown.columns[0] == "Name" and isinstance(shown["Inputs"].iloc[0], str) and "subtype" not in shown, "clean_for_display")
    figures = [trex.plotly_bar2(plan.df, "t", "latency.pct_time", "Name", color="type", colormap=trex.layer_colormap, do_show=False),
               trex.plotly_hist(plan.df, "t", "latency.pct_time", "ms", "type", trex.layer_colormap, do_show=False),
               trex.plotly_pie2("t", [(by_type, "s", "latency.avg_time", "type")] * 4, do_show=False),
               trex.stacked_bars("t", ["a", "b"], [by_type, by_type], "type", "latency.avg_time", do_show=False)]
    check(all(len(f.data) for f in figures), "figures are empty")
    check(trex.ReformatLinter(plan).lint()["name"].tolist() == ["reformat"] and len(trex.QDQLinter(plan).lint()) == 0, "linters")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        plan.summary()
    check("Average time: 0.192 ms" in out.getvalue(), f"summary: {out.getvalue()}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        paths = dialects.write_all(folder)
        reports(paths)
        shown(paths, folder)
        models(paths, folder)
        errors(folder)
        plans(paths)
    print(f"explorer's Python package: {len(failures)} checks failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
