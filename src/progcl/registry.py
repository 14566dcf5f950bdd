"""Look components up by name: in a table, or a user's own class as `package.module:Class`."""

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
    """The table's entry `name`; raises `InputError` with a suggestion if there is none."""
    if name not in table:
        raise InputError(f"unknown {what} `{name}`", suggest(str(name), table))
    return table[name]


def find(table: Mapping[str, Callable[..., Value]], name: str, what: str) -> Callable[..., Value]:
    """Look `name` up in a table, or import it if it is package.module:Class."""
    return import_target(name, what) if ":" in name else pick_own(table, name, what)


def pick_own(table: Mapping[str, Value], name: str, what: str) -> Value:
    """The same as `pick`, for tables beside which users have classes of their own."""
    if "." in name:
        raise InputError(f"unknown {what} `{name}`", f"your own? write `{':'.join(name.rsplit('.', 1))}`")
    return pick(table, name, what)


def import_target(name: str, what: str) -> type[Any]:
    """Import package.module:Class; a user's own also from the current folder. What is no class is not called."""
    module, _, attribute = name.partition(":")
    if not module.startswith("progcl.") and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        target: Any = getattr(import_module(module), attribute)
    except Exception as error:  # whatever somebody's module may raise
        message = f"cannot import {what} `{name}`: {type(error).__name__}: {error}"
        raise InputError(message, "it is looked up as package.module:Class from the current folder") from error
    if not isinstance(target, type):
        raise InputError(f"{what} `{name}` is no class (got {target!r})", "write it as package.module:Class")
    return target


def require_subclass(target: Any, base: type[Value], name: str) -> type[Value]:
    """The class `target`; raises `InputError` unless it derives from `base`, before anything calls it."""
    if not (isinstance(target, type) and issubclass(target, base)):
        home = base.__module__.rpartition(".")[0]
        raise InputError(f"`{name}` is no {base.__name__}", f"derive the class from {home}.{base.__name__}")
    return target


def build(make: Callable[..., Value], options: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> Value:
    """Call `make` with those `options` that its signature has, and with all of its `own` options.

    Raises `InputError` if it does not have one of its `own` options, or needs one that is missing.
    """
    try:
        accepted = inspect.signature(make).parameters
    except ValueError:  # some built-in classes have no signature
        accepted = inspect.signature(lambda: None).parameters
    has_kwargs = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    for name in own or {}:
        if name not in accepted and not has_kwargs:
            raise InputError(f"`{make.__name__}` has no option `{name}`", suggest(name, accepted))
    arguments = {name: value for name, value in options.items() if name in accepted} | dict(own or {})
    for name, parameter in accepted.items():
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        required = parameter.default is parameter.empty and is_named
        if required and name not in arguments:
            raise InputError(f"`{make.__name__}` needs an option `{name}`", f"--miner.options '{{\"{name}\": ...}}'")
    return make(**arguments)
