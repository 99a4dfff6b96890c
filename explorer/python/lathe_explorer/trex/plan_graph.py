# SPDX-License-Identifier: Apache-2.0
"""The plan as a graph of layers and memory.

A *region* is all that shares a tensor name. Layers are walked in execution order: a write after a read opens a new
*generation*, a state of the buffer that others may read; writes in a row (slices of a concatenation) are one generation. So
in-place updates are unrolled and the graph has no cycles. A generation is a node when it is an input or output of the
network, when its region has several, or on request; elsewhere its writers are joined to its readers.
"""
from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .activations import Activation
from .engine_plan import EnginePlan
from .layer import Layer


class PortDesc(NamedTuple):
    """An input or output of a layer; `port` is None at a network input or output."""
    layer_name: str
    port: int | None


class Edge(NamedTuple):
    src: PortDesc
    dst: PortDesc
    tensor: Activation
    region_gen: int


@dataclass
class RegionGeneration:
    tensor: Activation  # the largest that was seen
    id: int
    is_user: bool = False
    is_forked: bool = False
    writers: list[PortDesc] = field(default_factory=list)
    readers: list[PortDesc] = field(default_factory=list)


@dataclass
class Region:
    name: str
    generations: list[RegionGeneration] = field(default_factory=list)

    def nb_generations(self) -> int:
        return len(self.generations)

    def writers(self) -> list[PortDesc]:
        return [w for generation in self.generations for w in generation.writers]

    def readers(self) -> list[PortDesc]:
        return [r for generation in self.generations for r in generation.readers]


class MemoryNode(NamedTuple):
    name: str
    tensor: Activation
    region_gen: int
    is_user: bool


class LayerNode(NamedTuple):
    layer: Layer


def regions_factory(plan: EnginePlan) -> list[Region]:
    """All regions with their generations."""
    regions: dict[str, Region] = {}
    written_last: dict[str, bool] = {}

    def touch(tensor: Activation, port: PortDesc, writes: bool) -> None:
        region = regions.setdefault(tensor.name, Region(tensor.name))
        if not region.generations or (writes and not written_last[tensor.name]):
            region.generations.append(RegionGeneration(tensor, len(region.generations)))
        generation = region.generations[-1]
        (generation.writers if writes else generation.readers).append(port)
        if tensor.size_bytes > generation.tensor.size_bytes:
            generation.tensor = tensor
        written_last[tensor.name] = writes

    for layer in plan.layers:
        for i, tensor in enumerate(layer.inputs):
            touch(tensor, PortDesc(layer.name, i), False)
        for i, tensor in enumerate(layer.outputs):
            touch(tensor, PortDesc(layer.name, i), True)
    for region in regions.values():
        for generation in region.generations:
            last = generation is region.generations[-1]
            binding = region.name in plan.bindings
            generation.is_user = binding and (last or not generation.readers or not generation.writers)
            generation.is_forked = len(generation.writers) > 1 or len(generation.readers) > 1
    return list(regions.values())


class PlanGraph:
    """Nodes and edges; edges refer to nodes by name."""

    def __init__(self, plan: EnginePlan, include_regions: bool = False, include_constants: bool = False, include_forking_regions: bool = False):
        self.include_regions, self.include_constants, self.include_forking_regions = include_regions, include_constants, include_forking_regions
        self.regions = regions_factory(plan)
        self.layer_nodes = [LayerNode(layer) for layer in (plan.all_layers if include_constants else plan.layers)]
        self.memory_nodes: list[MemoryNode] = []
        self.edges_list: list[Edge] = []
        makers = {t.name: PortDesc(layer.name, i) for layer in plan.constants for i, t in enumerate(layer.outputs)}
        for region in self.regions:
            constant = not region.writers() and region.name not in plan.bindings
            if constant and not include_constants:
                continue
            if constant and region.name in makers:
                region.generations[0].writers.append(makers[region.name])
            for generation in region.generations:
                self._add_generation(region, generation, constant)
            for before, after in zip(region.generations, region.generations[1:]):
                self.edges_list.append(Edge(PortDesc(self.node_name(region, before), 0), PortDesc(self.node_name(region, after), 0), after.tensor, after.id))

    @staticmethod
    def node_name(region: Region, generation: RegionGeneration) -> str:
        return region.name if generation.is_user else f"{region.name}.{generation.id}"

    def _add_generation(self, region: Region, generation: RegionGeneration, constant: bool) -> None:
        forked = self.include_forking_regions and generation.is_forked
        shown = self.include_regions or generation.is_user or region.nb_generations() > 1 or forked or (constant and not generation.writers)
        sources = generation.writers
        if shown:
            name = self.node_name(region, generation)
            self.memory_nodes.append(MemoryNode(name, generation.tensor, generation.id, generation.is_user))
            node = PortDesc(name, None if generation.is_user else 0)
            self.edges_list += [Edge(writer, node, generation.tensor, generation.id) for writer in generation.writers]
            sources = [node]
        self.edges_list += [Edge(source, reader, generation.tensor, generation.id) for source in sources for reader in generation.readers]

    def remove_disconnected_layers(self) -> None:
        """Layers without inputs and outputs go, train stations stay."""
        self.layer_nodes = [n for n in self.layer_nodes if n.layer.inputs or n.layer.outputs or n.layer.type == "TrainStation"]

    def keep(self, names: Iterable[str]) -> None:
        """Only these nodes and the edges between them."""
        kept = set(names)
        self.layer_nodes = [n for n in self.layer_nodes if n.layer.name in kept]
        self.memory_nodes = [n for n in self.memory_nodes if n.name in kept]
        self.edges_list = [e for e in self.edges_list if e.src.layer_name in kept and e.dst.layer_name in kept]

    def beam(self, center: str, radius: int) -> set[str]:
        """The nodes that lead to `center` or come from it in at most `radius` steps."""
        if center not in {n.layer.name for n in self.layer_nodes} | {n.name for n in self.memory_nodes}:
            raise ValueError(f"there is no layer or tensor {center!r} in the graph")
        found = {center}
        for forward in (True, False):
            steps: dict[str, set[str]] = {}
            for edge in self.edges_list:
                here, there = (edge.src, edge.dst) if forward else (edge.dst, edge.src)
                steps.setdefault(here.layer_name, set()).add(there.layer_name)
            front, seen = {center}, {center}
            for _ in range(radius):
                front = {n for node in front for n in steps.get(node, ())} - seen
                seen |= front
            found |= seen
        return found

    def query(self, pattern: str) -> set[str]:
        """The nodes whose name or attributes match a regular expression, and their neighbours."""
        matches = [n.layer.name for n in self.layer_nodes if re.search(pattern, n.layer.name) or re.search(pattern, n.layer.tooltip())]
        matches += [n.name for n in self.memory_nodes if re.search(pattern, n.name)]
        if not matches:
            raise ValueError(f"nothing in the graph matches {pattern!r}")
        return {name for match in matches for name in self.beam(match, 1)}
