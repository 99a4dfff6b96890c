# SPDX-License-Identifier: Apache-2.0
"""The plan and its diagrams as an Excel workbook. Diagrams are charts of the workbook, drawn from cells beside them, and not
pictures: they can be changed there, and no browser is needed to make them.
"""
from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from .engine_plan import EnginePlan
from .report_card import report_card_memory_footprint, report_card_perf_overview

MAX_PERMISSIBLE_NAME_LENGTH = 31
_BINS = 30


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, dict)) else value


class ExcelSummary:
    """Sheets until save(), which a `with` block calls by itself."""

    def __init__(self, plan: EnginePlan, path: str | os.PathLike[str] = "engine_summary.xlsx"):
        try:
            import xlsxwriter  # noqa: F401
        except ImportError:
            raise ImportError("Excel files need xlsxwriter: pip install 'lathe-explorer[excel]'") from None
        self.plan, self.path = plan, os.fspath(path)
        self.Excelwriter = pd.ExcelWriter(self.path, engine="xlsxwriter", engine_kwargs={"options": {"nan_inf_to_errors": True}})
        self.supported_reports = {"report_card_perf_overview": report_card_perf_overview, "report_card_memory_footprint": report_card_memory_footprint}
        self._names: set[str] = set()

    def __enter__(self) -> ExcelSummary:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.save()

    def _sheet_name(self, name: str) -> str:
        """Excel allows 31 characters, some not at all, and each name once."""
        base = re.sub(r"[\[\]:*?/\\]", " ", name).strip()[:MAX_PERMISSIBLE_NAME_LENGTH]
        result, number = base, 1
        while result.lower() in self._names:
            number += 1
            result = f"{base[:MAX_PERMISSIBLE_NAME_LENGTH - 3]} {number}"
        self._names.add(result.lower())
        return result

    def add_dataframes(self, df_dict: Mapping[str, pd.DataFrame]) -> None:
        for name, frame in df_dict.items():
            frame.map(_cell).to_excel(self.Excelwriter, sheet_name=self._sheet_name(name), index=False, startrow=3, startcol=1)

    def add_images(self, image_dict: Mapping[str, str | os.PathLike[str]]) -> None:
        for name, file in image_dict.items():
            if not os.path.exists(file):
                raise FileNotFoundError(f"{file}: no such picture for the sheet {name!r}")
            self.Excelwriter.book.add_worksheet(self._sheet_name(name)).insert_image("A1", os.fspath(file))

    def add_report(self, report_name: str) -> None:
        """One sheet with a chart per diagram of a report."""
        if report_name not in self.supported_reports:
            raise ValueError(f"{report_name} is not a report: there are {', '.join(self.supported_reports)}")
        for title, draw in self.supported_reports[report_name](self.plan).items():
            self.add_figure(title, draw(title=title, do_show=False))

    def add_figure(self, title: str, figure: go.Figure) -> None:
        """A plotly figure of bars, histograms, donuts or sunbursts as charts of Excel."""
        name = self._sheet_name(title)
        sheet = self.Excelwriter.book.add_worksheet(name)
        sheet.write(0, 0, title)
        edges = np.histogram_bin_edges(np.concatenate([np.asarray(t.x, dtype=float) for t in figure.data if t.type == "histogram"] or [np.zeros(1)]), _BINS)
        bars = self.Excelwriter.book.add_chart({"type": "column", "subtype": "stacked"})
        column, below = 0, 0
        for trace in figure.data:
            labels, values, colours = _numbers(trace, edges)
            column, row = self._write_columns(sheet, column, str(trace.name or ""), labels, values), len(labels)
            series: dict[str, Any] = {"name": str(trace.name or title), "categories": [name, 3, column - 3, 2 + row, column - 3], "values": [name, 3, column - 2, 2 + row, column - 2]}
            if colours:
                series["points"] = [{"fill": {"color": c}} for c in colours]
            elif isinstance(getattr(trace.marker, "color", None), str):
                series["fill"] = {"color": trace.marker.color}
            if trace.type in ("pie", "sunburst"):
                chart = self.Excelwriter.book.add_chart({"type": "doughnut"})
                chart.add_series(series)
                chart.set_title({"name": str(trace.name or title)})
                sheet.insert_chart(2 + below, 10, chart, {"x_scale": 1.2, "y_scale": 1.4})
                below += 22
            else:
                bars.add_series(series | {"gap": 20})
        if below == 0:
            bars.set_title({"name": title})
            bars.set_legend({"none": len(figure.data) < 2})
            sheet.insert_chart(2, max(column, 4), bars, {"x_scale": 2.5, "y_scale": 1.8})

    @staticmethod
    def _write_columns(sheet: Any, column: int, name: str, labels: list[Any], values: list[float]) -> int:
        sheet.write_row(2, column, ["name", name or "value"])
        sheet.write_column(3, column, [str(label) for label in labels])
        sheet.write_column(3, column + 1, [v if v == v else "" for v in values])
        return column + 3

    def generate_default_summary(self, save: bool = True) -> None:
        self.add_dataframes({"Plan": self.plan.df})
        for report in self.supported_reports:
            self.add_report(report)
        if save:
            self.save()

    def save(self) -> None:
        """Writes the file; it cannot be added to afterwards."""
        self.Excelwriter.close()
        print(f"{self.path} has been saved")


def _numbers(trace: Any, edges: np.ndarray) -> tuple[list[Any], list[float], list[str]]:
    """Names, values and colours of a trace; histograms are counted here."""
    if trace.type == "histogram":
        counts, _ = np.histogram(np.asarray(trace.x, dtype=float), bins=edges)
        return [f"{low:.4g}" for low in edges[:-1]], [int(c) for c in counts], []
    if trace.type == "bar":
        names, values = (trace.x, trace.y) if trace.orientation != "h" else (trace.y, trace.x)
        colours = [c for c in trace.marker.color if isinstance(c, str) and c.startswith("#")] if isinstance(trace.marker.color, (list, tuple)) else []
        return list(names), [float(v) for v in values], colours
    if trace.type == "sunburst":  # its outer ring
        inner = set(trace.parents)
        kept = [i for i, name in enumerate(trace.ids) if name not in inner]
        return [trace.ids[i] for i in kept], [float(trace.values[i]) for i in kept], []
    return list(trace.labels), [float(v) for v in trace.values], [c for c in trace.marker.colors or () if c.startswith("#")]
