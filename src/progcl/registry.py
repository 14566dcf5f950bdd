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
        if "." in name:
            raise InputError(f"unknown {what} `{name}`", f"your own? write `{':'.join(name.rsplit('.', 1))}`")
        return pick(table, name, what)
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        made: Callable[..., Value] = getattr(import_module(module), attribute)
    except Exception as error:  # whatever somebody's module may raise
        message = f"cannot import {what} `{name}`: {type(error).__name__}: {error}"
        raise InputError(message, "it is looked up as package.module:Class from the present folder") from error
    if not callable(made):
        raise InputError(f"{what} `{name}` is no class (got {made!r})", "write it as package.module:Class")
    return made


def build(make: Callable[..., Value], options: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> Value:
    """Call `make` with those of the options that it has, and with all of its `own`."""
    try:
        accepted = inspect.signature(make).parameters
    except ValueError:  # some of Python's own
        accepted = inspect.signature(lambda: None).parameters
    anything = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
    for name in own or {}:
        if name not in accepted and not anything:
            raise InputError(f"`{make.__name__}` has no option `{name}`", suggest(name, accepted))
    given = {name: value for name, value in options.items() if name in accepted} | dict(own or {})
    for name, each in accepted.items():
        required = each.default is each.empty and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        if required and name not in given:
            raise InputError(f"`{make.__name__}` needs an option `{name}`", f"--miner.options '{{\"{name}\": ...}}'")
    return make(**given)
