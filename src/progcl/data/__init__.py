"""Graphs: named data sets and users' files; `progcl.data.prepare.prepare` is what all of them pass."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from progcl.data.datasets import load_data, load_dataset
    from progcl.data.formats import read_graph
    from progcl.data.synthetic import csbm, digits

__all__ = ["csbm", "digits", "load_data", "load_dataset", "read_graph"]

_HOMES = {
    "csbm": "synthetic",
    "digits": "synthetic",
    "load_data": "datasets",
    "load_dataset": "datasets",
    "read_graph": "formats",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: users' files are read without torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'progcl.data' has no attribute '{name}'")
    return getattr(import_module(f"progcl.data.{_HOMES[name]}"), name)
