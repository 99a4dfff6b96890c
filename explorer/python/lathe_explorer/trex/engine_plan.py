# SPDX-License-Identifier: Apache-2.0
"""EnginePlan: an engine with the attributes and the dataframe columns that trex users know.

Where trex is wrong we are not (docs/explorer.md lists what differs): times are joined by name, a layer without a record has
NaN and not 0, BOOL and long BFloat16 have bytes, `precision` is that of the arithmetic, constant operands are weights. The
columns of the file are the file's.
"""
from __future__ import annotations

import json
import os
from typing import Any

import pandas as pd

from ..report import Report, analyse, read_texts
from .activations import Activation, create_activations
from .df_preprocessing import filter_by_layer
from .layer import Layer
from .parser import layer_objects

Path = str | os.PathLike[str]
_INTEGERS = ("Groups", "OutMaps", "HasBias", "HasReLU", "AllowSparse", "NbInputArgs", "NbOutputVars", "NbParams", "NbLiterals")
_CONTROLS = str.maketrans({"\x1e": "+", "\x1f": "+"})


def _value(text: str) -> Any:
    """Lists of numbers in a metadata file come as text."""
    if isinstance(text, str) and text.startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text


class EnginePlan:
    """A plan from the files that trex's class of that name takes; those that do not exist are left out."""

    def __init__(self, graph_file: Path | list[dict[str, Any]], profiling_file: Path | None = None, profiling_metadata_file: Path | None = None,
                 build_metadata_file: Path | None = None, name: str | None = None, profile_id: int | None = None):
        if isinstance(graph_file, list):
            layers = ("layers", json.dumps({"Layers": graph_file}))
            self.name = name or ""
        else:
            layers = read_texts([graph_file])[0]
            self.name = name or os.path.basename(os.fspath(graph_file))
        others = [f for f in (profiling_file, profiling_metadata_file, build_metadata_file) if f is not None and os.path.exists(f)]
        self.report: Report = analyse([[layers, *read_texts(others)]], names=[name] if name else [], shape_profile=profile_id)
        self.engine = self.report.engine
        data = self.engine.data
        self.bindings: list[str] = [b["name"] for b in data["bindings"]]
        self._make_layers(layer_objects(*layers))
        self.df = self._make_frame()
        self.total_runtime: float = data["statistics"]["layer_sum_ms"] or 0.0
        self.total_act_size = int(self.df["total_io_size_bytes"].sum())
        self.total_weights_size = int(self.df["weights_size"].sum())
        metadata = json.loads(self.report.analysis.metadata(0))
        self.device_properties: dict[str, Any] = metadata["device_information"]
        self.performance_summary: dict[str, Any] = {k: _value(v) for k, v in metadata["performance_summary"].items()}
        self.builder_cfg: dict[str, Any] = {**metadata["model_options"], **metadata["build_options"]}

    def _make_layers(self, objects: list[dict[str, Any]]) -> None:
        """`layers` read and write what is left after no-ops were folded; `all_layers` has the constants, too."""
        data = self.engine.data
        for raw in objects:
            for tensor in raw.get("Inputs", []) + raw.get("Outputs", []):
                if "Format/Datatype" not in tensor:
                    tensor["Format/Datatype"] = tensor.get("Format", "")
        placed: dict[int, Layer] = {}
        self._raw: list[dict[str, Any]] = []
        for facts, position in zip(data["layers"], self.report.analysis.file_positions(0)):
            raw = {**objects[position], "Name": facts["name"]}
            if "ParameterType" in raw:
                raw["ParameterType"] = facts["type"]  # a deconvolution says convolution
            if "Metadata" in raw:
                raw["Metadata"] = raw["Metadata"].translate(_CONTROLS)
            layer = Layer(raw, facts)
            for tensors, uses in ((layer.inputs, facts["inputs"]), (layer.outputs, facts["outputs"])):
                for tensor, use in zip(tensors, uses):
                    tensor.name = data["tensors"][use["tensor"]]["name"]
            self._raw.append(raw)
            placed[position] = layer
        self.layers: list[Layer] = list(placed.values())
        read = {t.name for layer in self.layers for t in layer.inputs}
        constants = {i: Layer(raw) for i, raw in enumerate(objects) if i not in placed and "Constant" in (raw["LayerType"], raw.get("ParameterType"))}
        self.constants: list[Layer] = [c for c in constants.values() if any(t.name in read for t in c.outputs)]
        self.all_layers: list[Layer] = [layer for _, layer in sorted({**constants, **placed}.items()) if layer in self.layers or layer in self.constants]

    def _make_frame(self) -> pd.DataFrame:
        frame = pd.DataFrame(self._raw).drop(columns="ParameterType", errors="ignore").rename(columns={"LayerType": "subtype", "TacticName": "tactic"})
        frame["type"] = [layer.type for layer in self.layers]
        frame["tactic"] = frame["tactic"].where(frame["tactic"].notna(), "TensorRT") if "tactic" in frame else "TensorRT"
        for column in frame:
            if column in _INTEGERS:
                frame[column] = pd.to_numeric(frame[column]).fillna(0).astype("int32")
            elif frame[column].isna().any():
                frame[column] = frame[column].astype("object").where(frame[column].notna(), 0)
        facts = self.engine.data["layers"]
        frame["output_precision"] = [f["output_precision"] for f in facts]
        for column, attribute in (("total_io_size_bytes", "total_io_size_bytes"), ("weights_size", "weights_size"), ("total_footprint_bytes", "total_footprint_bytes")):
            frame[column] = pd.Series([getattr(layer, attribute) for layer in self.layers], dtype="int64")
        frame["precision"] = [layer.precision for layer in self.layers]
        for column, key in (("time", "total_ms"), ("avg_time", "average_ms"), ("median_time", "median_ms"), ("pct_time", "percent")):
            frame[f"latency.{column}"] = pd.Series([(f["time"] or {}).get(key) for f in facts], dtype="float64")
        return frame

    def get_layers_by_type(self, layer_type: str) -> pd.DataFrame:
        return filter_by_layer(self.df, layer_type)

    def find(self, layer_name: str) -> Layer | None:
        return next((layer for layer in self.layers if layer.name == layer_name), None)

    def get_bindings(self) -> tuple[list[Activation], list[Activation]]:
        """Inputs and outputs of the network, in the order of its bindings."""
        data = self.engine.data
        sides: dict[str, list[Activation]] = {"input": [], "output": [], "unknown": []}
        for binding in data["bindings"]:
            sides[binding["io"]].append(Activation({"Name": binding["name"], "Dimensions": binding["shape"], "Format/Datatype": binding["format"], "Datatype": binding["type"]}))
        return sides["input"], sides["output"]

    def summary(self) -> None:
        """Prints model, device, builder configuration and performance."""
        print_summary(self)

    def as_dot(self) -> str:
        return self.engine.dot()

    def as_svg(self) -> str:
        return self.engine.svg()


def import_graph_file(graph_file: Path, profile_id: int | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """The layer objects of one shape profile, names unique, constants included and no-ops folded; and the bindings."""
    plan = EnginePlan(graph_file, profile_id=profile_id)
    return [layer.raw_dict for layer in plan.all_layers], plan.bindings


def summary_dict(plan: EnginePlan) -> dict[str, str]:
    """What the summary says of the model."""
    inputs, outputs = plan.get_bindings()
    return {"Inputs": "\n\t\t".join(map(str, inputs)), "Outputs": "\n\t\t".join(map(str, outputs)), "Average time": f"{plan.total_runtime:.3f} ms",
            "Layers": str(len(plan.df)), "Weights": f"{plan.total_weights_size / 2**20:.1f} MB", "Activations": f"{plan.total_act_size / 2**20:.1f} MB"}


def print_summary(plan: EnginePlan) -> None:
    for title, values in (("Model", summary_dict(plan)), ("Device Properties", plan.device_properties),
                          ("Builder Configuration", plan.builder_cfg), ("Performance Summary", plan.performance_summary)):
        print(f"{title}:")
        for key, value in values.items():
            print(f"\t{key}: {value}")


__all__ = ["EnginePlan", "create_activations", "import_graph_file", "print_summary", "summary_dict"]
