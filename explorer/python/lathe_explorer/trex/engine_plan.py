# SPDX-License-Identifier: Apache-2.0
"""EnginePlan: an engine with the attributes and the dataframe columns that trex users know.

Where trex is wrong we are not: times are joined by name, a layer without a record has NaN and not 0, BOOL and long BFloat16
have bytes, `precision` is that of the arithmetic, constant operands are weights. The other columns carry the same values.
"""
from __future__ import annotations

import os
from typing import Any

import pandas as pd

from ..report import load

_RENAMED = {"LayerType", "ParameterType", "TacticName"}
_INTEGERS = ("Groups", "OutMaps", "HasBias", "HasReLU", "AllowSparse", "NbInputArgs", "NbOutputVars", "NbParams", "NbLiterals")
# Typed views: column of the file -> name in the view, by layer type.
_ATTRIBUTES = {
    "Convolution": {"Groups": "groups", "OutMaps": "out_maps", "Stride": "stride", "Kernel": "kernel", "Dilation": "dilation", "HasBias": "has_bias",
                    "HasReLU": "has_relu", "Activation": "activation", "PointWiseExpressionOperations": "operations", "NbOperations": "n_operations"},
    "PointWise": {"Operations": "operations", "NbOperations": "n_operations", "NbInputArgs": "n_input_args"},
    "Reformat": {"Origin": "origin"},
    "Pooling": {"PoolingType": "pooling_type", "WindowSize": "window_size", "PaddingMode": "padding_mode", "Stride": "stride"},
    "Scale": {"Mode": "mode", "Shift": "shift", "Scale": "scale", "Power": "power", "Activation": "activation", "ChannelAxis": "ch_axis"},
    "Shuffle": {"FirstTranspose": "first_transpose", "SecondTranspose": "second_transpose", "Reshape": "reshape"},
    "Resize": {"ResizeMode": "mode", "ResizeScales": "scales", "NNRounding": "scale"},
    "Slice": {"Start": "start", "Stride": "stride", "Size": "size", "Mode": "mode"},
}
_COMMON = ["Name", "type", "subtype", "precision", "tactic", "latency.pct_time", "latency.avg_time", "total_io_size_bytes", "total_footprint_bytes", "Inputs", "Outputs"]


def _tensors(data: dict[str, Any], uses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"Name": data["tensors"][u["tensor"]]["name"], "Dimensions": u["shape"], "Format/Datatype": u["format"], "Datatype": u["type"]} for u in uses]


def _row(data: dict[str, Any], layer: dict[str, Any]) -> dict[str, Any]:
    time = layer["time"] or {}
    io_bytes = sum(u["bytes"] or 0 for side in ("inputs", "outputs") for u in layer[side] if u["role"] != "weights")
    row = {"Name": layer["name"], "type": layer["type"], "subtype": layer["runner"], "tactic": layer["tactic"] or "TensorRT",
           "Inputs": _tensors(data, layer["inputs"]), "Outputs": _tensors(data, layer["outputs"]), "TacticValue": layer["tactic_id"],
           "StreamId": layer["stream"], "Metadata": "\x1e".join(f"[ONNX Layer: {o['name']}]" for o in layer["origins"])}
    row.update({k: v for k, v in layer["attributes"].items() if k not in _RENAMED and k not in row})
    row.update({"output_precision": layer["output_precision"], "total_io_size_bytes": io_bytes, "weights_size": layer["weights_bytes"],
                "total_footprint_bytes": io_bytes + layer["weights_bytes"], "precision": layer["precision"],
                "latency.time": time.get("total_ms"), "latency.avg_time": time.get("average_ms"),
                "latency.median_time": time.get("median_ms"), "latency.pct_time": time.get("percent")})
    return row


class EnginePlan:
    """A plan, as trex's class of that name takes its files."""

    def __init__(self, graph_file: str | os.PathLike[str], profiling_file: str | os.PathLike[str] | None = None,
                 profiling_metadata_file: str | os.PathLike[str] | None = None, build_metadata_file: str | os.PathLike[str] | None = None,
                 name: str | None = None, profile_id: int | None = None):
        files = [graph_file] + [f for f in (profiling_file, profiling_metadata_file, build_metadata_file) if f is not None and os.path.exists(f)]
        self.report = load(*files, names=[name] if name else [], shape_profile=profile_id)
        self.engine = self.report.engine
        data = self.engine.data
        self.name: str = name or os.path.basename(os.fspath(graph_file))
        self.bindings: list[str] = [b["name"] for b in data["bindings"]]
        self.df = self._make_frame(data)
        self.total_runtime: float = data["statistics"]["layer_sum_ms"] or 0.0
        self.total_act_size = int(self.df["total_io_size_bytes"].sum())
        self.total_weights_size = int(self.df["weights_size"].sum())
        self.device_properties: dict[str, str] = data["device"]["properties"]
        self.performance_summary: dict[str, str] = data["statistics"]["summary"]
        self.builder_cfg: dict[str, str] = {**data["model"]["options"], **data["build_options"]}

    @staticmethod
    def _make_frame(data: dict[str, Any]) -> pd.DataFrame:
        frame = pd.DataFrame([_row(data, layer) for layer in data["layers"]])
        for column in _INTEGERS:
            if column in frame:
                frame[column] = pd.to_numeric(frame[column]).fillna(0).astype("int32")
        timed = [c for c in frame.columns if c.startswith("latency.")]
        frame[timed] = frame[timed].astype("float64")
        others = [c for c in frame.columns if c not in timed]
        frame[others] = frame[others].astype("object").where(frame[others].notna(), 0)
        for column in ("total_io_size_bytes", "weights_size", "total_footprint_bytes"):
            frame[column] = frame[column].astype("int64")
        return frame

    @property
    def layers(self) -> list[dict[str, Any]]:
        return self.engine.data["layers"]

    def find(self, layer_name: str) -> dict[str, Any] | None:
        return next((layer for layer in self.layers if layer["name"] == layer_name), None)

    def get_bindings(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Inputs and outputs of the network."""
        bindings = self.engine.data["bindings"]
        return [b for b in bindings if b["io"] == "input"], [b for b in bindings if b["io"] == "output"]

    def get_layers_by_type(self, layer_type: str) -> pd.DataFrame:
        """The layers of one type with their typed attributes as attr.*; convolutions as implicit products, too."""
        frame = self.df[self.df["type"] == layer_type]
        names = _ATTRIBUTES.get(layer_type, {})
        columns = _COMMON + [c for c in names if c in frame] + (["Weights"] if layer_type == "Convolution" and "Weights" in frame else [])
        view = frame[columns].rename(columns={k: f"attr.{v}" for k, v in names.items()}).copy()
        return self._add_products(view) if layer_type == "Convolution" and len(view) else view

    def _add_products(self, view: pd.DataFrame) -> pd.DataFrame:
        rows = []
        for _, layer in view.iterrows():
            n, c, _, _ = layer["Inputs"][0]["Dimensions"]
            _, k, p, q = layer["Outputs"][0]["Dimensions"]
            r, s = layer["attr.kernel"]
            groups = layer["attr.groups"]
            macs = n * k * p * q * c * r * s // groups
            moved, ms = layer["total_footprint_bytes"], layer["latency.avg_time"]
            rows.append({"attr.macs": macs, "attr.arithmetic_intensity": macs / moved if moved else 0.0, "attr.compute_efficiency": macs / ms if ms > 0 else 0.0,
                         "attr.memory_efficiency": moved / ms if ms > 0 else 0.0, "attr.M": n * p * q, "attr.N": k, "attr.K": c // groups * r * s})
        return view.join(pd.DataFrame(rows, index=view.index))

    def summary_dict(self) -> dict[str, Any]:
        inputs, outputs = self.get_bindings()
        text = lambda bindings: [f"{b['name']}: {b['shape']} {b['type']}" for b in bindings]  # noqa: E731
        return {"Inputs": text(inputs), "Outputs": text(outputs), "Average time (ms)": self.total_runtime, "Layers": len(self.df),
                "Weights (MB)": self.total_weights_size / 1024**2, "Activations (MB)": self.total_act_size / 1024**2}

    def summary(self) -> None:
        """Prints model, device, builder configuration and performance."""
        for title, values in (("Model", self.summary_dict()), ("Device Properties", self.device_properties),
                              ("Builder Configuration", self.builder_cfg), ("Performance Summary", self.performance_summary)):
            print(f"{title}:")
            for key, value in values.items():
                print(f"\t{key}: {value}")

    def as_dot(self) -> str:
        return self.engine.dot()

    def as_svg(self) -> str:
        return self.engine.svg()
