"""Base methods: what is contrasted with what. One file a family, and the table of their names."""

from __future__ import annotations

from collections.abc import Callable

from progcl.methods.grace import Gca, Grace
from progcl.methods.merit import Merit

__all__ = ["METHODS", "Gca", "Grace", "Merit"]

METHODS: dict[str, Callable[..., Grace | Merit]] = {"grace": Grace, "gca": Gca, "merit": Merit}
