# SPDX-License-Identifier: Apache-2.0
"""Drop-down boxes over a dictionary of choices. `render` shows one without a click, for scripts and tests."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


class _Choices:
    def __init__(self, choices: Mapping[str, Any], description: str):
        self.choices = dict(choices)
        try:
            from IPython.display import display
            from ipywidgets import widgets
        except ImportError:
            raise ImportError("drop-down boxes need ipywidgets: pip install 'lathe-explorer[notebook]'") from None
        names = list(self.choices)
        self.choice_widget = widgets.Dropdown(options=names, value=names[0], description=description)
        display(self.choice_widget, widgets.interactive_output(self.render, {"choice": self.choice_widget}))

    def render(self, choice: str) -> Any:
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        """It was displayed when it was made."""


class InteractiveDiagram(_Choices):
    """`diagram_renderer(choice, *values)` draws what is chosen."""

    def __init__(self, diagram_renderer: Callable[..., Any], choices: Mapping[str, Any], description: str):
        self.diagram_renderer = diagram_renderer
        super().__init__(choices, description)

    def render(self, choice: str) -> Any:
        values = self.choices[choice]
        return self.diagram_renderer(choice, *(values if isinstance(values, (list, tuple)) else (values,)))


class InteractiveDiagram_2(_Choices):
    """Each choice is a function that takes its title."""

    def render(self, choice: str) -> Any:
        return self.choices[choice](title=choice)
