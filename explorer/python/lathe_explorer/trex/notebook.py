# SPDX-License-Identifier: Apache-2.0
"""What notebooks show beside figures: headers, wide cells, tables."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd


def _display(*objects: Any) -> None:
    try:
        from IPython.display import display
    except ImportError:
        print(*objects)
    else:
        display(*objects)


def section_header(title: str) -> Any:
    from IPython.display import HTML
    return HTML(f'<div style="text-align:center;background:#0072B2;color:#ffffff;padding:20px;font-size:2em;">{title}</div>')


def set_wide_display(width_pct: int = 90) -> None:
    """Wider cells, for wide graphs and tables."""
    from IPython.display import HTML
    _display(HTML(f"<style>.container, .jp-Notebook {{width:{width_pct}% !important; max-width:none !important;}}</style>"))


table_display_backend: Callable[..., Any] = _display


def set_table_display_backend(tbl_display_fn: Callable[..., Any]) -> None:
    """The function that shows tables from now on: IPython's display until then."""
    global table_display_backend
    table_display_backend = tbl_display_fn


def display_df(df: pd.DataFrame, **kwargs: Any) -> None:
    """Shows a table. Arguments that the display function does not take (range_highlights) are left out."""
    try:
        table_display_backend(df, **kwargs)
    except TypeError:
        table_display_backend(df)
