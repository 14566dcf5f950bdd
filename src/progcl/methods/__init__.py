"""Methods: one file a family. The table of their names is `progcl.config.methods.METHODS`."""

from __future__ import annotations

from progcl.config.methods import METHODS
from progcl.methods.base import Context, Method
from progcl.registry import import_target, pick_own, require_subclass

__all__ = ["Context", "Method", "make_method", "method_type"]


def method_type(name: str) -> type[Method]:
    """The class of a method, by its name or as package.module:Class."""
    target = import_target(name if ":" in name else pick_own(METHODS, name, "method").target, "method")
    return require_subclass(target, Method, name)


def make_method(context: Context) -> Method:
    """The configured method."""
    return method_type(context.config.method.name)(context)
