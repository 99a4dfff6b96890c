# SPDX-License-Identifier: Apache-2.0
"""How nodes of the graph look: three label styles, two colourings, the halo of highlighted layers.

Labels are Graphviz's HTML or record strings; every text from a file is escaped, so any name can be drawn.
"""
from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence

from .activations import Activation
from .colors import layer_colormap, precision_colormap
from .layer import Layer

_CODE, _FUSED = "#F0FFF0", "#ADD8E6"


def _record_text(text: str) -> str:
    return re.sub(r"([\\{}|<>])", r"\\\1", text)


def _html_text(text: str) -> str:
    """Nodes are records, and Graphviz reads a record's signs even in HTML labels."""
    return re.sub(r"[\\{}|]", lambda sign: f"&#{ord(sign.group())};", html.escape(text))


def layer_node_renderer_simple(layer: Layer, latency: float | None, display_layer_names: bool = True, expand_layer_details: bool = False,
                               stack_layer_names: bool = True, display_metadata: bool = True) -> str:
    """Type, and name."""
    return _record_text(layer.name) + "\\n" + layer.type if display_layer_names else layer.type


def layer_node_renderer_keras(layer: Layer, latency: float | None, display_layer_names: bool = True, expand_layer_details: bool = False,
                              stack_layer_names: bool = True, display_metadata: bool = True) -> str:
    """Name, metadata and type, then the shapes of inputs and outputs in cells."""
    lines = [_record_text(layer.name)] if display_layer_names else []
    lines += [_record_text(layer.metadata)] if display_metadata and layer.metadata else []
    cells = ["".join(str(t.shape) for t in tensors) for tensors in (layer.inputs, layer.outputs)]
    return "\\n".join([*lines, layer.type]) + f"|{{input:|output:}}|{{{{{cells[0]}}}|{{{cells[1]}}}}}"


def _operations(layer: Layer, key: str) -> list[tuple[str, str]]:
    if layer.raw_dict.get("ParameterSubType") != "PointWiseExpression" or not isinstance(layer.raw_dict.get(key), list):
        return []
    return [(re.sub(r"^(auto const|const auto) *", "", str(op)), _CODE) for op in layer.raw_dict[key]]


def _details(layer: Layer) -> list[tuple[str, str]]:
    """What is fused into the layer."""
    if layer.type == "PointWise":
        return _operations(layer, "Operations")
    if layer.type not in ("Convolution", "Deconvolution"):
        return []
    rows = [("Conv(input0) + input1", _FUSED)] if len(layer.inputs) == 2 else []
    activation = layer.raw_dict.get("Activation")
    if activation in (None, "", "NONE"):
        return rows
    return rows + (_operations(layer, "PointWiseExpressionOperations") if activation == "GENERIC" else []) or rows + [(str(activation), _FUSED)]


def layer_node_configurable_renderer(layer: Layer, latency: float | None, display_layer_names: bool = True, expand_layer_details: bool = False,
                                     stack_layer_names: bool = True, display_metadata: bool = True) -> str:
    """A table: type, latency, names stacked at '+', metadata, origin of reformats, and what is fused in."""
    rows: list[tuple[str, str]] = [(f"{latency} ms", "")] if latency else []
    for text in (layer.name if display_layer_names else "", (layer.metadata or "") if display_metadata else ""):
        rows += [(part.strip(), "") for part in (text.split("+") if stack_layer_names else [text]) if part.strip()]
    if layer.type == "Reformat" and "Origin" in layer.raw_dict:
        rows.append((str(layer.raw_dict["Origin"]), ""))
    if expand_layer_details:
        rows += _details(layer)
    cells = [f"<TR><TD><B>{_html_text(layer.type) or '-'}</B></TD></TR>"]
    cells += [f'<TR><TD{f" BGCOLOR={chr(34)}{fill}{chr(34)}" if fill else ""}>{_html_text(text)}</TD></TR>' for text, fill in rows]
    return '<<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4" COLOR="transparent">' + "".join(cells) + "</TABLE>>"


def _layer_look(layer: Layer, fill: str) -> dict[str, str]:
    return {"shape": "Mrecord", "style": "filled", "tooltip": layer.tooltip(), "fillcolor": fill, "color": "lightgray", "fontname": "Helvetica"}


def layer_precision_formatter(layer: Layer) -> dict[str, str]:
    return _layer_look(layer, precision_colormap[layer.precision or ""])


def layer_type_formatter(layer: Layer) -> dict[str, str]:
    """By type; a reformat that quantises has the colour of Quantize."""
    quantises = layer.type == "Reformat" and layer.raw_dict.get("Origin") == "QDQ"
    return _layer_look(layer, layer_colormap["Quantize" if quantises else layer.type])


precision_formatter = layer_precision_formatter


def layer_node_highlighter(node_name: str, highlighted_layer_names: Sequence[str] | None) -> dict[str, str]:
    return {"penwidth": "6", "color": "red"} if node_name in (highlighted_layer_names or ()) else {}


def region_precision_formatter(tensor: Activation, is_user: bool) -> dict[str, str]:
    return {"style": "filled" if is_user else "dashed", "tooltip": tensor.name, "penwidth": "3", "color": precision_colormap[tensor.precision], "fontname": "Helvetica"}


layer_node_formatters: dict[str, Callable[[Layer], dict[str, str]]] = {"layer_type": layer_type_formatter, "layer_precision_formatter": layer_precision_formatter}
layer_node_renderers: dict[str, Callable[..., str]] = {
    "Minimal": layer_node_renderer_simple, "Keras": layer_node_renderer_keras, "Configurable": layer_node_configurable_renderer}
