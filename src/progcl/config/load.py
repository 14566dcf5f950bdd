"""Configurations: presets, files and overrides merged, validated, and written."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser

from progcl.checksums import KEY, DamagedFile, seal, unseal
from progcl.config.methods import METHODS, MethodOptions
from progcl.config.miners import MINER_ENTRIES, OwnMinerOptions
from progcl.config.options import Entry, Options, refuse_foreign_keys
from progcl.config.schema import Config
from progcl.errors import InputError, suggest
from progcl.files import read_file
from progcl.registry import import_target, pick, pick_own

PRESETS = {path.stem: path for path in sorted((Path(__file__).parent / "presets").glob("*.yaml"))}
SECTIONS = tuple(field.name for field in fields(Config))
DEFAULTS = Config()
# Sections whose keys depend on `name`
TABLES: dict[str, Mapping[str, Entry[Any]]] = {"method": METHODS, "miner": MINER_ENTRIES}
YAML_HINT = "a section is written `train: {epochs: 100}`; `progcl show digits` prints a whole file"
OWN_MINER = {"package.module:Class": Entry(OwnMinerOptions, "")}


def load_config(
    source: str | Path = "digits",
    overrides: Mapping[str, Any] | None = None,
    strict: bool = True,
    allow_code: bool | Collection[str] = False,
) -> Config:
    """Load a preset, a data set's defaults or a YAML file, with overrides by dotted key.

    Where an override names another method or miner, options that it shares with the one before stay. An option that
    the method or miner does not have is an error; for sweeps over several, `strict=False` ignores it.

    Args:
        source: name or file
        overrides: they may name classes of your own, as package.module:Class
        strict: refuse options that do not belong to the method or miner
        allow_code: whether the file may name such classes, too, which are imported and run; or which of them

    >>> load_config("digits", {"train.epochs": 5, "miner.name": "none"}).train.epochs
    5
    """
    merged: dict[str, dict[str, Any]] = {}
    layers = [_read(str(source)), _nest(overrides or {})]
    for layer in layers:
        _validate_sections(layer)
    if allow_code is not True:
        _refuse_code(str(source), layers[0], {*(allow_code or ()), *code_names(layers[1])})
    for layer in layers:
        _merge(merged, layer)
    if not strict:
        for section in merged.keys() & TABLES.keys():
            known = options_type(section, str(merged[section].get("name", getattr(DEFAULTS, section).name)))
            merged[section] = {key: each for key, each in merged[section].items() if key in known.option_names()}
    return _build(merged)


def change_miner(config: Config, name: str) -> Config:
    """The same run with another miner: it takes the options it shares with the present one, and its own in `others`."""
    if name == config.miner.name:
        return config
    kind = MINER_ENTRIES[name].options
    shared = {key: value for key, value in asdict(config.miner).items() if key in kind.option_names() and key != "name"}
    return replace(config, miner=kind(**{**shared, **config.miner.others.get(name, {})}))


def explain(error: argparse.ArgumentError, suggest_flag: Callable[[str], str] = str) -> InputError:
    """Turn the parser's error into one line and a hint; `suggest_flag` gives the one for an unknown option."""
    text = " ".join(str(error).split())
    bad = re.search(r'Parser key "([^"]+)": (.*?)(?: Errors: .*)?$', text)
    if bad:
        wrong = re.search(r"(?:Got value|Given value): (.*)$", text)
        kinds = sorted(set(re.findall(r"\b(int|float|str|bool)\b", bad.group(2)))) or ["another value"]
        choices = re.search(r"Literal\[(.*?)\]", text)
        expected = f"one of {choices.group(1)}" if choices else " or ".join(kinds)
        expected = f"int or {choices.group(1)}" if choices and "int" in kinds else expected
        expected = 'two numbers, as in "[0.3, 0.4]"' if "tuple" in text else expected
        expected = 'whole numbers, as in "[10, 10, 25]"' if bad.group(1).endswith("fanouts") else expected
        expected = """names and values, as in '{"above": 0.4}'""" if "dict" in text else expected
        message = f"`{bad.group(1)}` needs {expected}" + (f" (got {wrong.group(1)})" if wrong else "")
        return InputError(message, "`--help-all` after the command lists every option with its type")
    unknown = re.search(r"--([\w.-]+)", text)
    if "nrecognized" in text and unknown:
        return InputError(f"unknown option `--{unknown.group(1)}`", suggest_flag(f"--{unknown.group(1)}"))
    choice = re.search(r"argument (--[\w.-]+).*: invalid choice: (\S+) \(choose from (.*)\)", text)
    if choice:
        flag, given, known = choice.groups()
        return InputError(f"`{flag}` has no choice {given}", f"known: {known}")
    return InputError(re.sub(r"required: \w+\.", "required: ", text))


def to_dict(config: Config) -> dict[str, Any]:
    """Plain lists, numbers and strings, ready for JSON and YAML."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return plain


def from_dict(sections: dict[str, Any], source: str, allow_code: bool | Collection[str] = False) -> Config:
    """The configuration that `to_dict` made plain, and that `source` holds; `allow_code` as in `load_config`."""
    _validate_sections(sections)
    if allow_code is not True:
        _refuse_code(source, sections, allow_code or ())
    return _build(sections)


def to_yaml(config: Config, checksum: bool = False) -> str:
    """The resolved configuration, one section a block; with a checksum, by which `load_config` recognizes damage."""
    content = seal(to_dict(config)) if checksum else to_dict(config)
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=110)


def code_names(config: Config | Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Classes outside of this package that a configuration names, as package.module:Class."""
    sections = to_dict(config) if isinstance(config, Config) else config
    named = {key: dict(sections[key]) for key in TABLES if isinstance(sections.get(key), Mapping)}
    own = {text for text in _strings({key: {**each, "options": None} for key, each in named.items()}) if ":" in text}
    return {name for name in own if not name.startswith(("progcl.", "progcl:"))}


def options_type(section: str, name: str) -> type[Options]:
    """The dataclass that holds the options of a method or miner; `name` may be package.module:Class."""
    if ":" not in name:
        options: type[Options] = pick_own(TABLES[section], name, section).options
        return options
    return OwnMinerOptions if section == "miner" else _own_method_options(name)


def _own_method_options(name: str) -> type[Options]:
    options = getattr(import_target(name, "method"), "Options", None)
    if not (isinstance(options, type) and issubclass(options, MethodOptions)):
        hint = "class Options(progcl.config.methods.MethodOptions), a frozen dataclass"
        raise InputError(f"method `{name}` declares no `Options`", hint)
    return options


class PlainLoader(yaml.SafeLoader):
    """YAML without aliases (`*name`), of which a few lines can make a billion values."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse an alias where a value is expected."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (`*name`) are not read: write the values out")
        return super().compose_node(parent, index)


def _read(source: str) -> dict[str, Any]:
    if source not in PRESETS and not source.endswith((".yaml", ".yml")):
        return {"data": {"name": source}}
    path = PRESETS.get(source, Path(source))
    content = read_file(Path(source), lambda: yaml.load(path.read_text("utf-8"), PlainLoader), YAML_HINT, "is not YAML")
    if not isinstance(content, dict):
        raise InputError(f"`{source}` holds no sections", f"sections: {', '.join(SECTIONS)}")
    try:
        return unseal(content) if KEY in content else content
    except ValueError:
        hint = f"if you have edited it, remove its line `{KEY}`; else copy it again"
        raise DamagedFile(f"`{source}` is not as it was written: its checksum does not match", hint) from None


def _refuse_code(source: str, layer: Mapping[str, Mapping[str, Any]], trusted: Collection[str]) -> None:
    """A file may come from a stranger: only names that the user gave are imported."""
    for name in sorted(code_names(layer) - set(trusted)):
        hint = f"only if you trust it: add --allow-code, in Python allow_code=True, or name `{name}` yourself"
        raise InputError(f"`{source}` names `{name}`, code from outside of progcl that would be run", hint)


def _strings(value: Any) -> Iterator[str]:
    """All keys and values that are strings, at any depth."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from (*_strings(key), *_strings(each))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _strings(each)
    elif isinstance(value, str):
        yield value


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


def _validate_sections(layer: Mapping[str, Any]) -> None:
    for name, section in layer.items():
        pick({key: key for key in SECTIONS}, str(name), "section")
        if not isinstance(section, Mapping):
            raise InputError(f"section `{name}` needs to hold options (got `{section}`)")
        if name in TABLES:
            continue
        known = [f"{name}.{key}" for key in asdict(getattr(DEFAULTS, name))]
        for key in section:
            if f"{name}.{key}" not in known:
                raise InputError(f"unknown key `{name}.{key}`", suggest(f"{name}.{key}", known))


def _merge(merged: dict[str, dict[str, Any]], layer: Mapping[str, Mapping[str, Any]]) -> None:
    """Lay one layer over those before, in place."""
    for section, values in layer.items():
        before = merged.get(section, {})
        if section in TABLES and values.get("name", before.get("name")) != before.get("name"):
            before = _carry_over(section, before, str(values["name"]), values.get("others"))
        merged[section] = {**before, **values}
        if isinstance(before.get("others"), Mapping) and isinstance(values.get("others"), Mapping):
            meant = {**before["others"], **values["others"]}
            merged[section]["others"] = {name: {**before["others"].get(name, {}), **meant[name]} for name in meant}
    if "method" in layer and "name" not in layer.get("miner", {}):
        name = str(merged["method"].get("name", DEFAULTS.method.name))
        if "miner" not in getattr(options_type("method", name), "supports", ()):
            merged["miner"] = {**layer.get("miner", {}), "name": "none"}


def _carry_over(section: str, before: Mapping[str, Any], name: str, others: Any) -> dict[str, Any]:
    """Options that stay when another method or miner takes the place of the one before, and those meant for it.

    What a miner's successor has no key for is kept in `others`, for the miners of a comparison.
    """
    known = options_type(section, name).option_names()
    shared = {key: value for key, value in before.items() if key in known}
    for meant in (before.get("others"), others):
        shared |= meant.get(name, {}) if isinstance(meant, Mapping) else {}
    lost = {key: value for key, value in before.items() if key not in known}
    if section == "miner" and lost:
        shared["others"] = dict(before.get("others") or {})
        for other, entry in MINER_ENTRIES.items():
            has = entry.options.option_names()
            if other != name and any(key in has for key in lost):
                own = {key: value for key, value in before.items() if key in has and key not in ("name", "others")}
                shared["others"][other] = {**own, **shared["others"].get(other, {})}
    return shared


def _build(merged: Mapping[str, Mapping[str, Any]]) -> Config:
    parser = ArgumentParser(exit_on_error=False)
    kinds: dict[str, type[Any]] = {section: type(getattr(DEFAULTS, section)) for section in SECTIONS}
    for section, table in TABLES.items():
        values = {"name": getattr(DEFAULTS, section).name, **merged.get(section, {})}
        kinds[section] = options_type(section, str(values["name"]))
        refuse_foreign_keys(section, kinds[section], values, {**table, **(OWN_MINER if section == "miner" else {})})
        for other, options in (values.get("others") or {}).items():
            refuse_foreign_keys(section, options_type(section, other), {"name": other, **options}, table)
    for section, kind in kinds.items():
        parser.add_class_arguments(kind, section)
    try:
        parsed = parser.parse_object({section: dict(values) for section, values in merged.items()})
    except argparse.ArgumentError as error:
        raise explain(error) from None
    return Config(
        **{section: _instantiate(section, kind, parsed[section].as_dict()) for section, kind in kinds.items()}
    )


def _instantiate(section: str, kind: type[Any], values: dict[str, Any]) -> Any:
    """Make a section; errors name an option with its section, as on the command line."""
    try:
        return kind(**values)
    except InputError as error:
        message = re.sub(r"^`(\w+)`", rf"`{section}.\1`", str(error.args[0]))
        raise InputError(message, error.hint) from None
