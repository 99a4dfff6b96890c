# SPDX-License-Identifier: Apache-2.0
"""Tensors of layers as objects. Types and bytes are the core's; what is made here is the short label of a format
("Channel major FP16 format where channel % 8 == 0" is "FP16 NHWC8"), by the words of the phrase and not by a table of phrases.
"""
from __future__ import annotations

import re
from typing import Any

import pandas as pd

from .. import _core

_WIDE = {"Two wide": 2, "Four wide": 4, "Eight wide": 8, "Sixteen wide": 16, "Thirty-two wide": 32}
_SPELLED = {"INT8": "Int8", "INT64": "Int64", "UINT8": "UInt8", "BOOL": "Bool"}


def _layout(words: str) -> str:
    """NCHW, NHWC8, NC/32HW32 ...; '' for a phrase that names no layout."""
    space = "DHW" if "3 spatial" in words else "HW"
    for phrase, width in _WIDE.items():
        if phrase in words:
            return f"NC/{width}{space}{width}"
    if words.startswith("Channel major"):
        vector = re.search(r"channel (?:%|==) (\d+)", words)
        return f"N{space}C{vector.group(1) if vector else ''}"
    return f"NC{space}" if words.startswith("Row major") else ""


def format_label(words: str, element_type: str) -> str:
    """The label of a format phrase; words that are none (Float, Half) stay as they are."""
    layout = _layout(words)
    if layout and element_type:
        return f"{_SPELLED.get(element_type, element_type)} {layout}"
    return words or element_type or "Unknown format"


class Activation:
    """A tensor as a layer reads or writes it.

    Its size counts what a vectorised layout pads; it is 0 where the type or a dimension is not known.
    """

    def __init__(self, raw_dict: dict[str, Any]):
        words, layout = (str(raw_dict.get(key) or "") for key in ("Format/Datatype", "Format"))
        # A bare "Float" says nothing of the layout; where the file has that apart, it is the one that counts, as in the core.
        words = (layout if layout and " " not in words else words).replace(".", "")
        kind = raw_dict.get("Datatype") or raw_dict.get("DataType") or words
        self.name: str = raw_dict["Name"]
        self.shape: list[int] = list(raw_dict.get("Dimensions", []))
        element_type = _core.element_type(kind)
        self.precision: str = element_type or "Unknown"
        bits = _core.element_bits(element_type)
        self.data_size: int | float = bits // 8 if bits % 8 == 0 else bits / 8
        self.format: str = format_label(words, element_type)
        self.size_bytes: int = _core.tensor_bytes(self.shape, element_type, words) or 0

    def tooltip(self) -> str:
        return f"{self.shape}\\n{self.format}"

    def __repr__(self) -> str:
        return f"{self.name}: {self.shape}x{self.format}"


def create_activations(layer: pd.Series) -> tuple[list[Activation], list[Activation]]:
    """Inputs and outputs of a row of a plan's dataframe."""
    return [Activation(tensor) for tensor in layer["Inputs"]], [Activation(tensor) for tensor in layer["Outputs"]]
