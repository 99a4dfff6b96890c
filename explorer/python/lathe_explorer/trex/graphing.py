# SPDX-License-Identifier: Apache-2.0
"""The graph for Graphviz, with trex's options. The `graphviz` package writes DOT and calls the `dot` program for pictures;
`plan.as_svg()` draws a plainer one without any program.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import graphviz

from .activations import Activation
from .colors import precision_colormap
from .engine_plan import EnginePlan
from .layer import Layer
from .node_labels import (layer_node_configurable_renderer, layer_node_formatters, layer_node_highlighter, layer_node_renderer_keras,
                          layer_node_renderer_simple, layer_node_renderers, layer_precision_formatter, layer_type_formatter, precision_formatter,
                          region_precision_formatter)
from .onnx_graph import OnnxGraph
from .plan_graph import Edge, LayerNode, MemoryNode, PlanGraph, PortDesc, Region, RegionGeneration, regions_factory

__all__ = ["DotGraph", "Edge", "LayerNode", "MemoryNode", "OnnxGraph", "PlanGraph", "PortDesc", "Region", "RegionGeneration", "latency_types",
           "layer_node_configurable_renderer", "layer_node_formatters", "layer_node_highlighter", "layer_node_renderer_keras", "layer_node_renderer_simple",
           "layer_node_renderers", "layer_precision_formatter", "layer_type_formatter", "precision_formatter", "region_precision_formatter", "regions_factory",
           "render_dot", "to_dot"]

latency_types = ("avg_time", "median_time", "time")


class DotGraph:
    """The DOT graph of a plan is `dot`. `only`: the names of the nodes to draw (PlanGraph.beam and query give some)."""

    def __init__(self, plan: EnginePlan, layer_node_formatter: Callable[[Layer], dict[str, str]],
                 layer_node_highlighter: Callable[..., dict[str, str]] = layer_node_highlighter,
                 layer_node_renderer: Callable[..., str] = layer_node_configurable_renderer,
                 region_formatter: Callable[[Activation, bool], dict[str, str]] = region_precision_formatter,
                 display_layer_names: bool = True, stack_layer_names: bool = True, display_regions: bool = False, display_forking_regions: bool = False,
                 expand_layer_details: bool = False, display_constants: bool = False, display_latency: bool = True, latency_type: str = "avg_time",
                 display_region_reuse: bool = False, display_region_names: bool = False, display_edge_name: bool = False, display_edge_details: bool = True,
                 highlight_layers: Sequence[str] | None = None, remove_disconnected_layers: bool = False, display_metadata: bool = True,
                 only: Callable[[PlanGraph], Iterable[str]] | None = None):
        if latency_type not in latency_types:
            raise ValueError(f"latency_type is {latency_type!r}: it can be {', '.join(latency_types)}")
        self.graph = PlanGraph(plan, display_regions, display_constants, display_forking_regions)
        if remove_disconnected_layers:
            self.graph.remove_disconnected_layers()
        if only is not None:
            self.graph.keep(only(self.graph))
        self.dot = graphviz.Digraph()
        self._ids: dict[str, str] = {}
        for memory in self.graph.memory_nodes:
            self._add_memory(memory, region_formatter, display_region_names, display_region_reuse)
        latency = dict(zip(plan.df["Name"], plan.df[f"latency.{latency_type}"])) if display_latency else {}
        for node in self.graph.layer_nodes:
            layer = node.layer
            ms = latency.get(layer.name)
            label = layer_node_renderer(layer, ms if ms == ms else None, display_layer_names=display_layer_names, expand_layer_details=expand_layer_details,
                                        stack_layer_names=stack_layer_names, display_metadata=display_metadata)
            look = layer_node_formatter(layer) | layer_node_highlighter(layer.name, highlight_layers)
            self.dot.node(self._id(layer.name), label, **{k: _quoted(v) for k, v in look.items()})
        for edge in self.graph.edges_list:
            texts = [edge.tensor.name] if display_edge_name else []
            texts += [edge.tensor.tooltip()] if display_edge_details else []
            self.dot.edge(self._ids[edge.src.layer_name], self._ids[edge.dst.layer_name], _quoted("\\n".join(texts)), color=precision_colormap[edge.tensor.precision])
        self._join_train_stations()

    def _id(self, name: str) -> str:
        """Nodes have numbers: a name may hold anything, a colon would be taken for a port."""
        return self._ids.setdefault(name, f"n{len(self._ids)}")

    def _add_memory(self, node: MemoryNode, formatter: Callable[[Activation, bool], dict[str, str]], names: bool, reuse: bool) -> None:
        text = node.tensor.name if names or node.is_user else ""
        if reuse and node.region_gen > 0:
            text = f"{text} (gen={node.region_gen})".strip()
        label = f"{text}\\n{node.tensor.tooltip()}" if text else node.tensor.tooltip()
        look: dict[str, Any] = {k: _quoted(v) for k, v in formatter(node.tensor, node.is_user).items()}
        self.dot.node(self._id(node.name), _quoted(label), shape="rectangle", **look, **({"fillcolor": "gray"} if node.is_user else {}))

    def _join_train_stations(self) -> None:
        """Dashed edges keep a train station in its place between its neighbours."""
        layers = [n.layer for n in self.graph.layer_nodes]
        for before, after in zip(layers, layers[1:]):
            if "TrainStation" in (before.type, after.type):
                self.dot.edge(self._ids[before.name], self._ids[after.name], color="lightgray", style="dashed")


def _quoted(text: str) -> str:
    """A text as Graphviz reads it back: a trailing backslash or a lone one would swallow the quote."""
    return text.replace("\\n", "\n").replace("\\", "\\\\").replace("\n", "\\n")


def to_dot(*args: Any, **kwargs: Any) -> graphviz.Digraph:
    """The arguments are DotGraph's: to_dot(plan, layer_type_formatter, display_regions=True)."""
    return DotGraph(*args, **kwargs).dot


def render_dot(dot_graph: graphviz.Digraph, engine_name: str | os.PathLike[str], output_format: str) -> str:
    """Writes `engine_name.output_format` and returns its path. "dot" needs no program, all others Graphviz's."""
    path = os.path.abspath(f"{os.fspath(engine_name)}.{output_format}")
    if output_format == "dot":
        with open(path, "w", encoding="utf-8") as file:
            file.write(dot_graph.source)
    else:
        try:
            picture = dot_graph.pipe(format=output_format)
        except graphviz.ExecutableNotFound:
            raise RuntimeError(f"{path}: pictures need Graphviz's dot program (Debian: apt install graphviz); plan.as_svg() draws without it") from None
        with open(path, "wb") as out:
            out.write(picture)
    print(f"Created file://{path}")
    return path
