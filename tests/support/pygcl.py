"""Stand-ins for the compiled packages that PyGCL imports and does not need here."""

import sys
import types

import pytest


class StandIn(types.ModuleType):
    """A module of which every name is there, and nothing is."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def stand_in_for_compiled_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dgl", "torch_scatter", "torch_sparse"):
        monkeypatch.setitem(sys.modules, name, StandIn(name))
