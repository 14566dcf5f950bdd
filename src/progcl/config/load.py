"""Configurations: read from presets, files and flags, checked, and written."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser

from progcl.config.schema import Config
from progcl.errors import InputError, suggest
from progcl.registry import pick

PRESETS = {path.stem: path for path in sorted((Path(__file__).parent / "presets").glob("*.yaml"))}


SECTIONS = tuple(section.name for section in fields(Config))


def known_keys() -> list[str]:
    """Every dotted key, as on the command line."""
    return [f"{name}.{key}" for name in SECTIONS for key in asdict(getattr(Config(), name))]


def add_options(parser: ArgumentParser) -> None:
    """Give a parser one dotted flag per key."""
    parser.add_class_arguments(Config, as_group=True)


def given(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """The sections out of what a parser with `add_options` has parsed."""
    sections = {name: dict(parsed[name]) for name in SECTIONS if name in parsed}
    for section in sections.values():
        section.pop("__path__", None)  # where `--train FILE` was read from
    return sections


def load_config(source: str | Path = "digits", overrides: Mapping[str, Any] | None = None) -> Config:
    """A preset, a data set or a YAML file, with changes by dotted key.

    >>> load_config("digits", {"train.epochs": 5, "miner.name": "none"}).train.epochs
    5
    """
    layers = [_read(str(source)), _nest(overrides or {})]
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        _refuse_unknown(layer)
        for name, section in layer.items():
            merged.setdefault(name, {}).update(section)
    parser = ArgumentParser(exit_on_error=False)
    add_options(parser)
    try:
        parsed = parser.instantiate(parser.parse_object(merged))
    except argparse.ArgumentError as error:
        raise explain(error) from None
    return Config(**{name: parsed[name] for name in SECTIONS})


def explain(error: argparse.ArgumentError, flags: Iterable[str] = ()) -> InputError:
    """The parser's complaint as one line and a hint."""
    text = " ".join(str(error).split())
    bad = re.search(r'Parser key "([^"]+)": (.*?)(?: Errors: .*)?$', text)
    if bad:
        wrong = re.search(r"(?:Got value|Given value): (.*)$", text)
        kinds = sorted(set(re.findall(r"\b(int|float|str|bool)\b", bad.group(2)))) or ["another value"]
        choices = re.search(r"Literal\[(.*?)\]", text)
        expected = f"one of {choices.group(1)}" if choices else " or ".join(kinds)
        expected = 'two numbers, as in "[0.3, 0.4]"' if "tuple" in text else expected
        expected = 'whole numbers, as in "[10, 10, 25]"' if bad.group(1).endswith("fanouts") else expected
        expected = """names and values, as in '{"above": 0.4}'""" if "dict" in text else expected
        message = f"`{bad.group(1)}` needs {expected}" + (f" (got {wrong.group(1)})" if wrong else "")
        return InputError(message, "`--help` after the command lists every option with its type")
    unknown = re.search(r"--([\w.-]+)", text)
    if "nrecognized" in text and unknown:
        return InputError(f"unknown option `--{unknown.group(1)}`", suggest(f"--{unknown.group(1)}", flags))
    return InputError(re.sub(r"required: \w+\.", "required: ", text))


def to_dict(config: Config) -> dict[str, Any]:
    """Plain lists, numbers and strings, ready for JSON and YAML."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return plain


def to_yaml(config: Config) -> str:
    """The resolved configuration, one section a block."""
    return yaml.safe_dump(to_dict(config), sort_keys=False, default_flow_style=None, width=110)


def _read(source: str) -> dict[str, Any]:
    if source not in PRESETS and not source.endswith((".yaml", ".yml")):
        return {"data": {"name": source}}
    path = PRESETS.get(source, Path(source))
    try:
        content = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise InputError(f"there is no file `{source}`") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"`{source}` is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise InputError(f"`{source}` holds no sections", f"sections: {', '.join(SECTIONS)}")
    return content


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        section, dot, option = key.partition(".")
        value = value.item() if hasattr(value, "item") else value  # numpy's numbers
        if dot:
            nested.setdefault(section, {})[option] = value
        else:
            nested[section] = value
    return nested


def _refuse_unknown(layer: Mapping[str, Any]) -> None:
    for name, section in layer.items():
        pick({key: key for key in SECTIONS}, str(name), "section")
        if not isinstance(section, Mapping):
            raise InputError(f"section `{name}` needs to hold options (got `{section}`)")
        for key in section:
            if f"{name}.{key}" not in known_keys():
                raise InputError(f"unknown key `{name}.{key}`", suggest(f"{name}.{key}", known_keys()))
