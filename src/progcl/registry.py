"""Parts by name: from a table, or a user's own by `package.module:Class`."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

from progcl.errors import InputError, suggest

Value = TypeVar("Value")


def pick(table: Mapping[str, Value], name: str, what: str) -> Value:
    """Look `name` up in a table; raise `InputError` with a suggestion if it is not there."""
    if name not in table:
        raise InputError(f"unknown {what} `{name}`", suggest(str(name), table))
    return table[name]


def find(table: Mapping[str, Callable[..., Value]], name: str, what: str) -> Callable[..., Value]:
    """The same, for parts that may also be a user's own: `package.module:Class`, looked up from the present folder."""
    if ":" not in name:
        return pick(table, name, what)
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        made: Callable[..., Value] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"cannot import {what} `{name}`: {error}", "write it as package.module:Class") from None
    return made


def build(make: Callable[..., Value], options: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> Value:
    """Call `make` with those of the options that it has, and with all of its `own`."""
    accepted = inspect.signature(make).parameters
    for name in own or {}:
        if name not in accepted:
            raise InputError(f"`{make.__name__}` has no option `{name}`", suggest(name, accepted))
    return make(**{name: value for name, value in options.items() if name in accepted} | dict(own or {}))
