# SPDX-License-Identifier: Apache-2.0
"""A layer as an object: the fields of the file (`raw_dict`) with tensors, type, precision and sizes."""
from __future__ import annotations

from typing import Any

from .. import _core
from .activations import Activation


def _constant(raw_dict: dict[str, Any], key: str) -> tuple[int, str | None, int]:
    """Count, type and bytes of Weights or Bias."""
    value = raw_dict.get(key)
    if not isinstance(value, dict):
        return 0, None, 0
    count, kind = int(value.get("Count", 0)), value.get("Type")
    return count, kind, count * _core.element_bits(_core.element_type(str(kind))) // 8


class Layer:
    """`facts` is what the core found out about the layer; without it the file's fields alone speak."""

    def __init__(self, raw_dict: dict[str, Any], facts: dict[str, Any] | None = None):
        self.raw_dict = raw_dict
        self.name: str = facts["name"] if facts else raw_dict["Name"]
        self.subtype: str = raw_dict["LayerType"]
        self.type: str = facts["type"] if facts else raw_dict.get("ParameterType", self.subtype)
        self.metadata: str | None = raw_dict.get("Metadata")
        self.inputs = [Activation(t) for t in raw_dict["Inputs"]]
        self.outputs = [Activation(t) for t in raw_dict["Outputs"]]
        self.weights_cnt, self.weights_type, self.weights_size = _constant(raw_dict, "Weights")
        self.bias_cnt, self.bias_type, self.bias_size = _constant(raw_dict, "Bias")
        self.inputs_size_bytes = sum(t.size_bytes for t in self.inputs)
        self.outputs_size_bytes = sum(t.size_bytes for t in self.outputs)
        self.precision: str | None = self.inputs[0].precision if self.inputs else None
        if facts is not None:
            self.precision = facts["precision"] or None
            # Constant operands of generated kernels are weights; a layer that lists Weights has them there.
            operands = sum(u["bytes"] or 0 for u in facts["inputs"] if u["role"] == "weights")
            self.inputs_size_bytes = sum(u["bytes"] or 0 for u in facts["inputs"] if u["role"] != "weights")
            if not self.weights_cnt:
                self.weights_size = operands
        self.total_io_size_bytes = self.inputs_size_bytes + self.outputs_size_bytes
        self.total_footprint_bytes = self.total_io_size_bytes + self.weights_size

    def tooltip(self) -> str:
        skipped = ("Inputs", "Outputs", "ParameterType", "OnnxNodes")
        return "\\n".join(f"{key}: {value}" for key, value in sorted(self.raw_dict.items()) if key not in skipped)

    def __repr__(self) -> str:
        return f"Layer({self.name})"
