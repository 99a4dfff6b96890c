# SPDX-License-Identifier: Apache-2.0
"""trex's four linters as views of the core's findings: every hazard of a layer is kept, each with what to do."""
from __future__ import annotations

import pandas as pd

from .engine_plan import EnginePlan


class _Linter:
    rules: tuple[str, ...] = ()

    def __init__(self, plan: EnginePlan):
        self.plan = plan

    def lint(self) -> pd.DataFrame:
        rows = []
        for finding in self.plan.engine.data["findings"]:
            if finding["id"] not in self.rules:
                continue
            for index in finding["layers"]:
                layer = self.plan.layers[index]
                types = [layer["inputs"][0]["type"] if layer["inputs"] else "", layer["output_precision"]]
                shapes = [str(layer[s][0]["shape"]) if layer[s] else "" for s in ("inputs", "outputs")]
                rows.append({"name": layer["name"], "tactic": layer["tactic"], "subtype": layer["runner"], "origin": layer["attributes"].get("Origin", ""),
                             "type conversion": " -> ".join(types), "shape conversion": " -> ".join(shapes), "hazard": finding["title"],
                             "mitigation": finding["action"], "help": finding["command"]})
        return pd.DataFrame(rows, columns=["name", "tactic", "subtype", "origin", "type conversion", "shape conversion", "hazard", "mitigation", "help"])


class ConvLinter(_Linter):
    rules = ("no-tensor-core", "quantised-in-float-out", "channel-alignment")


class ReformatLinter(_Linter):
    """Reformats that change the type; those that change the layout alone are accepted."""
    rules = ("reformats",)

    def lint(self) -> pd.DataFrame:
        frame = super().lint()
        return frame[[len(set(text.split(" -> "))) > 1 for text in frame["type conversion"]]].reset_index(drop=True)


class SliceLinter(_Linter):
    rules = ("slice-conversion",)


class QDQLinter(_Linter):
    rules = ("dangling-qdq",)
