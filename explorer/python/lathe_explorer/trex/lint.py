# SPDX-License-Identifier: Apache-2.0
"""trex's four linters as views of the core's findings: every hazard of a layer is kept, each with what to do."""
from __future__ import annotations

import pandas as pd

from .engine_plan import EnginePlan

_HAZARDS = {
    "no-tensor-core": "Convolution or product without tensor cores", "quantised-in-float-out": "Quantised inputs, float outputs",
    "channel-alignment": "Channels that tensor cores cannot use whole", "reformats": "Reformat that changes the type", "io-formats": "Reformat that changes the type",
    "slice-conversion": "Slice that changes the type", "dangling-qdq": "Quantise or dequantise that nothing took in"}
_COLUMNS = ["name", "tactic", "subtype", "origin", "type conversion", "shape conversion", "hazard", "mitigation", "help"]


class _Linter:
    rules: tuple[str, ...] = ()

    def __init__(self, plan: EnginePlan):
        self.plan = plan

    def lint(self) -> pd.DataFrame:
        """One row per layer and hazard, indexed by the layer's name."""
        rows = []
        for finding in self.plan.engine.data["findings"]:
            if finding["id"] not in self.rules:
                continue
            for index in finding["layers"]:
                layer = self.plan.layers[index]
                tensors = [side[0] if side else None for side in (layer.inputs, layer.outputs)]
                words = [[t.format.split(" ")[0], str(t.shape)] if t else ["", ""] for t in tensors]
                rows.append([layer.name, layer.raw_dict.get("TacticName", ""), layer.subtype, layer.raw_dict.get("Origin", ""),
                             f"{words[0][0]} -> {words[1][0]}", f"{words[0][1]} -> {words[1][1]}", _HAZARDS[finding["id"]], finding["action"], finding["command"]])
        return pd.DataFrame(rows, columns=_COLUMNS, index=[row[0] for row in rows])


class ConvLinter(_Linter):
    rules = ("no-tensor-core", "quantised-in-float-out", "channel-alignment")


class ReformatLinter(_Linter):
    """Reformats that change the type; those that change the layout alone are accepted."""
    rules = ("reformats", "io-formats")

    def lint(self) -> pd.DataFrame:
        frame = super().lint()
        return frame[[len(set(text.split(" -> "))) > 1 for text in frame["type conversion"]]]


class SliceLinter(_Linter):
    rules = ("slice-conversion",)


class QDQLinter(_Linter):
    rules = ("dangling-qdq",)
