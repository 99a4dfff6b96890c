# SPDX-License-Identifier: Apache-2.0
"""The options of the graph as check boxes and drop-down boxes, with buttons that write the picture and the ONNX file."""
from __future__ import annotations

from typing import Any

from . import graphing
from .engine_plan import EnginePlan

_BOXES = {  # option of to_dot -> (text, first value)
    "display_regions": ("Regions: draw them", False), "display_region_reuse": ("Regions: generations", True),
    "display_forking_regions": ("Regions: draw forks", True), "display_region_names": ("Regions: names", False),
    "display_layer_names": ("Layers: names", False), "stack_layer_names": ("Layers: stack names", True), "display_metadata": ("Layers: metadata", True),
    "expand_layer_details": ("Layers: details", True), "display_latency": ("Layers: latency", True), "display_constants": ("Graph: constants", False),
    "display_edge_name": ("Edges: names", False), "display_edge_details": ("Edges: details", True)}
_FORMATTERS = {"Layer Type": graphing.layer_type_formatter, "Layer Precision": graphing.layer_precision_formatter}


class GraphPanel:
    """`render_svg` and `write_onnx` do what the buttons do."""

    def __init__(self, plan: EnginePlan, engine_name: str):
        from IPython.display import display
        from ipywidgets import widgets
        self.plan, self.engine_name = plan, engine_name
        self.boxes = {option: widgets.Checkbox(value=value, description=text, indent=False) for option, (text, value) in _BOXES.items()}
        choose = lambda options, text: widgets.Dropdown(options=list(options), description=text)  # noqa: E731
        self.renderer = choose(graphing.layer_node_renderers, "Nodes")
        self.renderer.value = "Configurable"
        self.formatter, self.latency = choose(_FORMATTERS, "Colors"), choose(graphing.latency_types, "Latency")
        self.output = widgets.Output()
        svg, onnx = widgets.Button(description="Render SVG Graph"), widgets.Button(description="Render ONNX Graph")
        svg.on_click(lambda _: self._in_output(self.render_svg))
        onnx.on_click(lambda _: self._in_output(self.write_onnx))
        boxes = list(self.boxes.values())
        columns = [[self.renderer, self.formatter, self.latency], boxes[:4], boxes[4:8], boxes[8:]]
        display(widgets.VBox([widgets.HBox([widgets.VBox(column) for column in columns]), widgets.HBox([svg, onnx]), self.output]))

    def _in_output(self, act: Any) -> None:
        with self.output:
            self.output.clear_output(wait=True)
            act()

    def render_svg(self) -> str:
        graph = graphing.to_dot(self.plan, _FORMATTERS[self.formatter.value], layer_node_renderer=graphing.layer_node_renderers[self.renderer.value],
                                latency_type=self.latency.value, **{option: box.value for option, box in self.boxes.items()})
        return graphing.render_dot(graph, self.engine_name, "svg")

    def write_onnx(self) -> str:
        file = f"{self.engine_name}.graph.onnx"
        graphing.OnnxGraph(self.plan, display_forking_regions=False).save(file)
        print(f"Created {file}: open it with Netron")
        return file

    def _ipython_display_(self) -> None:
        """It was displayed when it was made."""
