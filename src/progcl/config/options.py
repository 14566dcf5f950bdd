"""What the options of methods and miners share; an option of another one is refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

from docstring_parser import parse

from progcl.errors import InputError, suggest

OptionsT = TypeVar("OptionsT", bound="Options")


@dataclass(frozen=True)
class Options:
    """The keys of one section that one method or miner has."""

    name: str

    @classmethod
    def option_names(cls) -> list[str]:
        """Names of all options, `name` first."""
        return [field.name for field in fields(cls)]

    @classmethod
    def types(cls) -> dict[str, Any]:
        """Type of every option."""
        hints = get_type_hints(cls)
        return {key: hints[key] for key in cls.option_names()}

    @classmethod
    @cache
    def meanings(cls) -> dict[str, str]:
        """What every option means: the Args of the docstrings, of base classes too."""
        found: dict[str, str] = {}
        for kind in reversed(cls.__mro__):
            for entry in parse(inspect.cleandoc(vars(kind).get("__doc__") or "")).params:
                found[entry.arg_name] = " ".join((entry.description or "").split())
        return found


class Entry(NamedTuple, Generic[OptionsT]):
    """A line of a table: the options, and the class as package.module:Class, imported when it is used.

    So the command line knows every option without importing torch.
    """

    options: type[OptionsT]
    target: str


def refuse_foreign_keys(
    what: str, kind: type[Options], values: Mapping[str, Any], table: Mapping[str, Entry[Any]]
) -> None:
    """Raise `InputError` for a key that this method or miner does not have; say which one has it."""
    for key in values:
        if key in kind.option_names():
            continue
        owners = [name for name, entry in table.items() if key in entry.options.option_names()]
        if owners:
            *first, last = (f"`{owner}`" for owner in owners)
            having = f"{', '.join(first)} and {last} have" if first else f"{last} has"
            raise InputError(
                f"{what} `{values['name']}` has no option `{key}`", f"{having} it: --{what}.name {owners[0]}"
            )
        kinds = [kind, *(entry.options for entry in table.values())]
        known = {f"{what}.{option}" for other in kinds for option in other.option_names()}
        raise InputError(f"unknown key `{what}.{key}`", suggest(f"{what}.{key}", known))
