# SPDX-License-Identifier: Apache-2.0
"""Reports and their dataframes. Everything is taken from analysis.json (docs/schema); nothing is computed here."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from typing import Any

import pandas as pd

from . import _core

Path = str | os.PathLike[str]


Text = tuple[str, str]  # a file's name and its content


def read_texts(paths: Sequence[Path], lathe: Path | None = None) -> list[Text]:
    """Files as text; of an archive (.tea) those of its files that say something of an engine; of an ONNX model its nodes, which
    the lathe program takes out of it."""
    texts: list[Text] = []
    for path in paths:
        if os.fspath(path).endswith(".onnx"):
            texts.append((os.fspath(path), _run([_program(lathe, "an ONNX model is read"), "inspect", "--graph", os.fspath(path)])))
            continue
        if zipfile.is_zipfile(path):
            texts += _archived(path)
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            texts.append((os.fspath(path), file.read()))
    return texts


_MOST_ARCHIVED = 1 << 30  # bytes of all files together


def _archived(path: Path) -> list[Text]:
    """Metadata is left out where the logs are that it was made from."""
    with zipfile.ZipFile(path) as archive:
        names = [n for n in archive.namelist() if n.endswith((".json", ".log", ".txt"))]
        if any(n.endswith(".log") for n in names):
            names = [n for n in names if not n.endswith(".metadata.json")]
        if sum(archive.getinfo(n).file_size for n in names) > _MOST_ARCHIVED:
            raise ValueError(f"{os.fspath(path)}: the files of the archive have more than 1 GiB")
        texts = [(f"{os.fspath(path)}/{name}", archive.read(name).decode("utf-8", "replace")) for name in names]
    return [(name, text) for name, text in texts if _core.is_known(name, text)]


_SHOWN = 10


def _three_digits(value: float | None) -> str:
    """As the explorer's texts say numbers: three significant digits, no exponent."""
    if value is None:
        return "-"
    digits = f"{value:.3g}"
    return f"{float(digits):.0f}" if "e+" in digits else digits


def _engine_line(engine: Engine) -> str:
    statistics = engine.statistics
    compute = statistics["compute"]
    parts = [f"{statistics['layer_count']} layer{'' if statistics['layer_count'] == 1 else 's'}"]
    if compute is not None:
        parts.append(f"{_three_digits(compute['median_ms'])} ms median")
    if statistics["layer_sum_ms"] is not None:
        parts.append(f"layers {_three_digits(statistics['layer_sum_ms'])} ms")
    parts.append(f"{len(engine.findings)} finding{'' if len(engine.findings) == 1 else 's'}")
    return ", ".join(parts)


def _findings_html(engine: Engine) -> str:
    items = "".join(f"<li>{escape(title)}</li>" for title in engine.findings["title"][:_SHOWN])
    return f"<ul>{items}</ul>" if items else ""


class Engine:
    """One engine of a report. `data` is its part of analysis.json."""

    def __init__(self, data: dict[str, Any], report: Report, index: int):
        self.data, self._report, self._index = data, report, index

    @property
    def name(self) -> str:
        return self.data["name"]

    @property
    def measurement(self) -> dict[str, Any]:
        """Whether the times can be used, and why not."""
        return self.data["measurement"]

    @property
    def context(self) -> dict[str, str]:
        """What ran where and when, in words."""
        return self.data["context"]

    def __repr__(self) -> str:
        lines = [f"Engine {self.name}: {_engine_line(self)}"]
        if not self.measurement["usable"]:
            lines.append("  " + self.measurement["text"])
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        context = " · ".join(escape(part) for part in self.context.values() if part)
        warning = "" if self.measurement["usable"] else f'<p style="border-left:4px solid #b3261e;padding:2px 8px"><b>{escape(self.measurement["text"])}</b></p>'
        slowest = self.layers.reindex(columns=["label", "type", "precision", "average_ms", "percent_of_roof", "tactic"])
        slowest = slowest.sort_values("average_ms", ascending=False, kind="stable").head(_SHOWN).dropna(axis="columns", how="all")
        more = len(self.layers) - len(slowest)
        return (f"<div><h4>{escape(self.name)}: {escape(_engine_line(self))}</h4><p>{context}</p>{warning}{slowest.to_html()}"
                f"{f'<p>and {more} more layers</p>' if more > 0 else ''}{_findings_html(self)}</div>")

    @property
    def statistics(self) -> dict[str, Any]:
        return self.data["statistics"]

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row per layer, in execution order; times, roofline and errors as columns of their own, missing values NaN."""
        rows = []
        for layer in self.data["layers"]:
            row = {k: v for k, v in layer.items() if k not in ("time", "roofline", "error", "origins", "attributes", "tuning")}
            row["onnx_nodes"] = [o["name"] for o in layer["origins"]]
            row.update(layer["time"] or {})
            row.update({k: v for k, v in layer["roofline"].items() if k != "precision"})
            row.update({f"error_{k}": v for k, v in (layer["error"] or {}).items() if k != "text"})
            rows.append(row)
        return pd.DataFrame(rows).set_index("index")

    @cached_property
    def tactics(self) -> pd.DataFrame:
        """One row per tactic that the builder timed or refused for a layer; empty when the file does not say."""
        rows = []
        for layer in self.data["layers"]:
            tuning = layer["tuning"] or {"timed": [], "refused": []}
            rows += [{"layer": layer["index"], **tactic, "reason": ""} for tactic in tuning["timed"]]
            rows += [{"layer": layer["index"], **tactic, "types": "", "ms": None, "chosen": False} for tactic in tuning["refused"]]
        return pd.DataFrame(rows, columns=["layer", "name", "runner", "types", "ms", "chosen", "reason"])

    @cached_property
    def layer_runs(self) -> pd.DataFrame:
        """One row per recorded run of the layer profile, one column per layer; empty when none was recorded."""
        runs = self.data["layer_runs"] or {"numbers": [], "times_ms": []}
        return pd.DataFrame(runs["times_ms"], index=pd.Index(runs["numbers"], name="run"), columns=range(len(self.data["layers"])))

    @cached_property
    def onnx_nodes(self) -> pd.DataFrame:
        """One row per ONNX node in a layer, with its flops and bytes."""
        rows = [{"layer": layer["index"], **origin} for layer in self.data["layers"] for origin in layer["origins"]]
        return pd.DataFrame(rows, columns=["layer", "name", "op_type", "flops", "bytes", "saved_bytes"])

    @cached_property
    def model_nodes(self) -> pd.DataFrame:
        """One row per node of the ONNX model that was loaded beside the engine: `layers` run it, or `fate` and `why` say where it
        went. Inputs and outputs by name, `output_shape` as the model has it. Empty when no model was loaded."""
        model = self.data.get("onnx")
        columns = ["name", "op_type", "domain", "fate", "why", "layers", "inputs", "outputs", "output_shape", "attributes"]
        if model is None:
            return pd.DataFrame(columns=columns)
        tensors = model["tensors"]
        rows = [{**node, "inputs": [tensors[t]["name"] if t >= 0 else "" for t in node["inputs"]],
                 "outputs": [tensors[t]["name"] if t >= 0 else "" for t in node["outputs"]],
                 "output_shape": next((tensors[t]["shape"] for t in node["outputs"] if t >= 0), None)} for node in model["nodes"]]
        return pd.DataFrame(rows, columns=columns)

    @cached_property
    def model_tensors(self) -> pd.DataFrame:
        """One row per tensor of that model: initializers with their bytes, inputs, outputs, and what lies between."""
        model = self.data.get("onnx")
        return pd.DataFrame(model["tensors"] if model else [], columns=["name", "type", "shape", "bytes", "role"])

    @cached_property
    def tensors(self) -> pd.DataFrame:
        return pd.DataFrame(self.data["tensors"])

    def _groups(self, by: str) -> pd.DataFrame:
        return pd.DataFrame(self.data["groups"][by]).drop(columns="layers", errors="ignore").set_index("key")

    @property
    def by_type(self) -> pd.DataFrame:
        return self._groups("by_type")

    @property
    def by_precision(self) -> pd.DataFrame:
        return self._groups("by_precision")

    @property
    def by_tactic(self) -> pd.DataFrame:
        return self._groups("by_tactic")

    @cached_property
    def findings(self) -> pd.DataFrame:
        return pd.DataFrame(self.data["findings"], columns=["id", "title", "severity", "confidence", "gain_ms", "evidence", "action", "command", "layers"])

    @cached_property
    def iterations(self) -> pd.DataFrame:
        """One row per measured query; empty without a times file."""
        return pd.DataFrame(self.data["iterations"] or {"latency_ms": [], "compute_ms": [], "start_ms": []})

    @property
    def hardware(self) -> str:
        """What is known of clocks, power and temperature while it ran, in a sentence."""
        return self.data["hardware_state"]["text"]

    @cached_property
    def hardware_samples(self) -> pd.DataFrame:
        """One row per reading; what the device does not tell is missing."""
        columns = ["at_ms", "core_mhz", "memory_mhz", "temperature_c", "power_w", "others_percent", "throttled"]
        return pd.DataFrame(self.data["hardware_state"]["samples"], columns=columns)

    @property
    def memory(self) -> pd.Series:
        """Bytes alive while each layer runs."""
        return pd.Series(self.data["memory"]["steps"], name="bytes")

    def dot(self) -> str:
        """The graph for Graphviz."""
        return self._report.analysis.dot(self._index)

    def svg(self) -> str:
        """The graph as a picture."""
        return self._report.analysis.svg(self._index)


def _change_line(pair: dict[str, Any]) -> str:
    latency = pair["latency"]
    if latency is not None:
        noise = "" if latency["significant"] else ", within the noise"
        return f"latency {_three_digits(latency['baseline_ms'])} to {_three_digits(latency['candidate_ms'])} ms, {latency['change_percent']:+.1f} %{noise}"
    if pair["delta_ms"] is None:
        return "no times to compare"
    return f"sum of layers {_three_digits(pair['baseline_sum_ms'])} to {_three_digits(pair['candidate_sum_ms'])} ms"


class Report:
    """What `load` returns: engines, and the comparison of the first with each other one."""

    def __init__(self, analysis: _core.Analysis):
        self.analysis = analysis
        self.data: dict[str, Any] = json.loads(analysis.json())
        self.engines = [Engine(data, self, i) for i, data in enumerate(self.data["engines"])]

    @property
    def engine(self) -> Engine:
        return self.engines[0]

    def __repr__(self) -> str:
        lines = [f"Report of {len(self.engines)} engine{'' if len(self.engines) == 1 else 's'}"]
        lines += ["  " + line for engine in self.engines for line in repr(engine).splitlines()]
        if self.comparison is not None:
            lines += [f"  {self.engines[pair['candidate']].name} against {self.engines[pair['baseline']].name}: {_change_line(pair)}" for pair in self.comparison["pairs"]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        pairs = [] if self.comparison is None else self.comparison["pairs"]
        changes = "".join(f"<li>{escape(self.engines[pair['candidate']].name)} against {escape(self.engines[pair['baseline']].name)}: {escape(_change_line(pair))}</li>" for pair in pairs)
        return f"<div>{f'<ul>{changes}</ul>' if changes else ''}{''.join(engine._repr_html_() for engine in self.engines)}</div>"

    @property
    def comparison(self) -> dict[str, Any] | None:
        return self.data["comparison"]

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The aligned layers of the first two engines."""
        return self.rows_of(1)

    def rows_of(self, candidate: int) -> pd.DataFrame:
        if self.comparison is None:
            raise ValueError("one engine has nothing to be compared with: load two")
        return pd.DataFrame(self.comparison["pairs"][candidate - 1]["rows"]).set_index("id")

    def waterfall(self, candidate: int = 1, by_type: bool = False) -> pd.DataFrame:
        """From the layer sum of the first engine to that of another; the bars add up exactly."""
        if self.comparison is None:
            raise ValueError("one engine has nothing to be compared with: load two")
        pair = self.comparison["pairs"][candidate - 1]
        return pd.DataFrame(pair["waterfall_by_type" if by_type else "waterfall"])

    def text(self) -> str:
        return self.analysis.text()

    def markdown(self) -> str:
        return self.analysis.markdown()

    def junit(self) -> str:
        return self.analysis.junit()

    def save(self, path: Path) -> None:
        """Writes analysis.json, which `lathe explore` does not need but every script can read."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.analysis.json())


def load(*files: Path | Sequence[Path], names: Sequence[str] = (), peaks: Mapping[str, float] | None = None,
         shape_profile: int | None = None, fail_if: str = "", lathe: Path | None = None) -> Report:
    """Reads the files of one engine, or one list of files per engine. The model itself ("m.onnx") may be among them: the
    report then knows what became of each of its nodes.

    peaks: the roof, for example {"FP16": 312e12, "memory": 1.5e12}; without it the best rates of the profile stand in.
    fail_if: conditions as of `lathe explore --fail-if`; the result is in `comparison["checks"]`.
    lathe: the program that reads ONNX models, by default the one on the PATH.
    Raises ValueError with file and field for what cannot be read.
    """
    lists = [f for f in files if not isinstance(f, (str, os.PathLike))]
    if lists and len(lists) != len(files):
        raise ValueError("load takes files of one engine, or one list per engine, but not both")
    engines = [list(group) for group in lists] if lists else [[f for f in files if isinstance(f, (str, os.PathLike))]]
    return analyse([read_texts(group, lathe) for group in engines], names, peaks, shape_profile, fail_if)


def analyse(engines: Sequence[Sequence[Text]], names: Sequence[str] = (), peaks: Mapping[str, float] | None = None,
            shape_profile: int | None = None, fail_if: str = "") -> Report:
    """As load, from texts that are in memory already."""
    return Report(_core.analyse(engines, list(names), dict(peaks or {}), shape_profile, fail_if))


def compare(*reports: Report, fail_if: str = "") -> Report:
    """The first engine of each report, the first of them as the baseline of the others."""
    return Report(_core.join([report.analysis for report in reports], fail_if))


def process(model: Path, folder: Path, *flags: str, lathe: Path | None = None) -> Report:
    """Builds and profiles a model with `lathe process` and loads what it wrote. `model` may be the name of a zoo's model;
    `lathe` is the program, by default the one on the PATH; flags are trtexec's ("--bf16", "--iterations=10")."""
    program = _program(lathe, "process builds and runs")
    os.makedirs(folder, exist_ok=True)
    file = os.fspath(model)
    if not file.endswith((".onnx", ".engine", ".plan")):
        file = os.path.join(os.fspath(folder), f"{model}.onnx")
        if not os.path.exists(file):
            _run([program, "zoo", os.fspath(model), "-o", file])
    _run([program, "process", file, os.fspath(folder), *flags])
    base = os.path.join(os.fspath(folder), os.path.basename(file)) + (".engine" if file.endswith(".onnx") else "")
    parts = ("graph.json", "profile.json", "timing.json", "build.log", "profile.log", "hardware.json", "model.json")
    return load(*(f"{base}.{part}" for part in parts if os.path.exists(f"{base}.{part}")))


def _program(lathe: Path | None, what: str) -> str:
    program = os.fspath(lathe) if lathe is not None else shutil.which("lathe")
    if program is None:
        raise FileNotFoundError(f"{what} with the lathe program, which is not on the PATH: give it with lathe=\"build/bin/lathe\"")
    return program


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr.strip() or done.stdout[-2000:]}")
    return done.stdout
