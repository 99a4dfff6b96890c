# SPDX-License-Identifier: Apache-2.0
"""The plan as an ONNX file, for viewers: one node per layer with all fields of the file as attributes. It cannot be run.

ONNX wants each value written once. A tensor that several layers write (slices of a concatenation, in-place updates) becomes
one value per writer, which a Region node per generation gathers under the name that readers use.
"""
from __future__ import annotations

import json
import os
from typing import Any

from .activations import Activation
from .engine_plan import EnginePlan
from .layer import Layer
from .plan_graph import PlanGraph

_TYPES = {"FP32": "FLOAT", "FP16": "FLOAT16", "BF16": "BFLOAT16", "FP64": "DOUBLE", "FP8": "FLOAT8E4M3FN", "INT8": "INT8", "INT16": "INT16", "INT32": "INT32",
          "INT64": "INT64", "UINT8": "UINT8", "UINT16": "UINT16", "UINT32": "UINT32", "UINT64": "UINT64", "BOOL": "BOOL"}
_STANDARD = {"Convolution": "Conv", "Deconvolution": "ConvTranspose", "MatrixMultiply": "MatMul", "gemm": "Gemm", "SoftMax": "Softmax"}
_SKIPPED = ("Inputs", "Outputs", "Name", "ParameterType", "LayerName")


def _op_type(layer: Layer) -> str:
    if layer.type == "Pooling":
        return {"AVERAGE": "AveragePool", "Max": "MaxPool", "MAX": "MaxPool"}.get(layer.raw_dict.get("PoolingType", ""), "Pooling")
    return _STANDARD.get(layer.type, layer.type) or "Layer"


def _attribute(value: Any) -> Any:
    """Numbers, texts and lists of one of them stay; anything else becomes its JSON text."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, list) and value and all(type(v) is type(value[0]) and isinstance(v, (int, float, str)) for v in value):
        return value
    return json.dumps(value)


class OnnxGraph:
    """`onnx_model` is the model; save(file) writes it."""

    def __init__(self, plan: EnginePlan, display_forking_regions: bool = False):
        try:
            import onnx
        except ImportError:
            raise ImportError("the ONNX export needs the onnx package: pip install 'lathe-explorer[onnx]'") from None
        self.plan = plan
        self.plan_graph = PlanGraph(plan, include_forking_regions=display_forking_regions)
        helper = onnx.helper
        self._inputs: dict[tuple[str, int | None], str] = {}
        self._outputs: dict[tuple[str, int | None], str] = {}
        regions = self._name_values(display_forking_regions)
        self.onnx_nodes = []
        for layer in plan.layers:
            reads = [self._inputs.get((layer.name, i), "") for i in range(len(layer.inputs))]
            writes = [self._outputs[layer.name, i] for i in range(len(layer.outputs))]
            node = helper.make_node(_op_type(layer), reads, writes, layer.name)
            node.attribute.extend(helper.make_attribute(k, _attribute(v)) for k, v in sorted(layer.raw_dict.items()) if k not in _SKIPPED)
            self.onnx_nodes.append(node)
            written = set(writes)
            for region in [r for r in regions if r[0] and r[0][-1] in written]:  # its last writer has run
                self.onnx_nodes.append(helper.make_node("Region", region[0], [region[1]], region[1]))
        inputs, outputs = plan.get_bindings()

        def info(tensor: Activation) -> Any:
            kind = getattr(onnx.TensorProto, _TYPES.get(tensor.precision, "UNDEFINED"))
            return helper.make_tensor_value_info(tensor.name, kind, [d if d >= 0 else None for d in tensor.shape])

        graph = helper.make_graph(self.onnx_nodes, plan.name or "engine", [info(t) for t in inputs], [info(t) for t in outputs])
        self.onnx_model = helper.make_model(graph, producer_name="lathe")

    def _name_values(self, forks: bool) -> list[tuple[list[str], str]]:
        """Names every value; returns the region nodes as (values gathered, name that readers use)."""
        gathered = []
        for region in self.plan_graph.regions:
            if not region.writers() and region.name not in self.plan.bindings:
                continue  # constants are not drawn
            # An updated network input keeps its name for what comes in, any other tensor for what is left in the end.
            owner = region.generations[0 if not region.generations[0].writers else -1]
            before: str | None = None
            for generation in region.generations:
                name = region.name if generation is owner else f"{region.name}.{generation.id}"
                parts = [name]
                if len(generation.writers) > 1 or (generation.writers and before is not None) or (forks and generation.is_forked and generation.writers):
                    parts = [f"{name}.part{i}" for i in range(len(generation.writers))]
                    gathered.append(([*([before] if before else []), *parts], name))
                self._outputs.update({writer: parts[i] for i, writer in enumerate(generation.writers)})
                self._inputs.update({reader: name for reader in generation.readers})
                before = name
        return gathered

    def save(self, file: str | os.PathLike[str]) -> None:
        import onnx
        onnx.save(self.onnx_model, os.fspath(file))
