# SPDX-License-Identifier: Apache-2.0
"""The files one by one, under trex's names; the core reads them."""
from __future__ import annotations

import json
import os
from typing import Any

from .. import _core

Path = str | os.PathLike[str]


def read_json(path: Path) -> Any:
    with open(path, encoding="utf-8") as file:
        try:
            return json.load(file, strict=False)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def read_timing_file(timing_json_file: Path) -> list[float]:
    """Latencies of all measured queries, in ms."""
    return [record["latencyMs"] for record in read_json(timing_json_file)]


def read_profiling_file(profiling_file: Path) -> list[dict[str, Any]]:
    """The records of a profile, whatever keys they have; the count of iterations is not one."""
    return [record for record in read_json(profiling_file) if "name" in record]


def read_layer_objects(graph_file: Path) -> list[dict[str, Any]]:
    """The layer objects of a layer file, constants and no-ops included; names alone become objects."""
    with open(graph_file, encoding="utf-8", errors="replace") as file:
        return layer_objects(os.fspath(graph_file), file.read())


def layer_objects(name: str, text: str) -> list[dict[str, Any]]:
    items = json.loads(_core.layer_objects(name, text))
    return [item if isinstance(item, dict) else {"Name": item, "LayerType": "", "Inputs": [], "Outputs": []} for item in items]
