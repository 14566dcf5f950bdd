"""Commands that look at what there is: ls, show, and for a finished run eval and report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from progcl.cli.options import Command, add_allow_code, add_data_root, require_data_files
from progcl.config.load import PRESETS, TABLES, load_config, options_type, to_yaml
from progcl.errors import InputError
from progcl.registry import pick


def _add_eval_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("--protocol", type=str, help="clean, gca or bgrl; the run's own if not given")
    parser.add_argument("--splits", type=int, help="number of splits; the run's own if not given")
    parser.add_argument("--seed", type=int, help="seed of the splits; the run's own if not given")
    parser.add_argument("--nodes", type=str, help="all, tuning or rest; the run's own if not given")
    add_data_root(parser)
    add_allow_code(parser)


def _eval(options: dict[str, Any]) -> None:
    from progcl.export import load_run_embeddings, require_run

    run = Path(options["run"])
    load_run_embeddings(run)  # raises if there is no finished run
    require_run(run)
    overrides = {f"probe.{key}": options[key] for key in ("protocol", "splits", "seed", "nodes") if key in options}
    config = load_config(run / "config.yaml", overrides, allow_code=options.get("allow_code", False))
    if config.method.needs_labels:
        hint = "its score is that of its own predictions: see result.json"
        raise InputError(f"`{config.method.name}` was trained with labels, which a probe of its embedding leaks", hint)
    if config.probe.protocol == "none":
        raise InputError("the run has no protocol to probe by", "name one with --protocol: clean, gca or bgrl")
    require_data_files(config)
    from progcl.data.datasets import load_data
    from progcl.evaluation.scores import format_table
    from progcl.result import rescore

    data = load_data(config.data, options.get("data_root"), run)
    print(format_table(rescore(run, config, data, keep=not overrides)))


def _add_report_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("--out", type=str, help="file to write; report.html in the run folder if not given")
    add_data_root(parser)
    add_allow_code(parser)


def _report(options: dict[str, Any]) -> None:
    from progcl.export import load_run_embeddings, require_run

    run = Path(options["run"])
    load_run_embeddings(run)  # raises if there is no finished run
    require_run(run)
    config = load_config(run / "config.yaml", allow_code=options.get("allow_code", False))
    require_data_files(config)
    from progcl.data.datasets import load_data
    from progcl.report import load_story, write_report

    data = load_data(config.data, options.get("data_root"), run)
    out = Path(options["out"]) if options.get("out") else run / "report.html"
    write_report(load_story(run, data, config), out)
    print(out)


def _add_ls_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", type=str, choices=list(LISTS), help="what to list")


def _ls(options: dict[str, Any]) -> None:
    _print_columns(LISTS[options["what"]]())


def _list_data() -> list[tuple[str, ...]]:
    from progcl.data.datasets import BUILTIN, PUBLISHED, is_here

    rows: list[tuple[str, ...]] = [(name, _summary(make)) for name, make in BUILTIN.items()]
    for name, entry in PUBLISHED.items():
        rows.append((name, f"{entry.counts}; {'here' if is_here(name) else 'not here, downloaded when used'}"))
    return rows


def _list_methods() -> list[tuple[str, ...]]:
    from progcl.config.methods import METHODS
    from progcl.methods import method_type

    rows: list[tuple[str, ...]] = [("name", "labels", "batches", "miner", "paper")]
    for name, entry in METHODS.items():
        options, kind = entry.options, method_type(name)
        answers = (options.needs_labels, *(each in options.supports for each in ("batches", "miner")))
        paper = _paper(kind) or f"none: {_summary(kind)}"
        rows.append((name, *("yes" if answer else "no" for answer in answers), paper))
    return rows


def _list_miners() -> list[tuple[str, ...]]:
    from progcl.miners import MINERS

    return [(name, _summary(kind)) for name, kind in MINERS.items()]


def _list_estimators() -> list[tuple[str, ...]]:
    from progcl.posteriors import POSTERIORS

    return [(name, _summary(kind)) for name, kind in POSTERIORS.items()]


def _list_presets() -> list[tuple[str, ...]]:
    return [(name, path.read_text().splitlines()[0].lstrip("# ")) for name, path in PRESETS.items()]


def _add_show_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("preset", type=str, nargs="?", help="a preset or a YAML file")
    parser.add_argument("--method", type=str, help="a method: print its options, their meaning and default")
    parser.add_argument("--miner", type=str, help="the same for a miner")
    add_allow_code(parser)


def _show(options: dict[str, Any]) -> None:
    preset = options.get("preset")
    named = {section: options[section] for section in TABLES if options.get(section)}
    if not preset and not named:
        raise InputError("nothing to show", "name a preset, --method NAME or --miner NAME")
    if preset:
        if not preset.endswith((".yaml", ".yml")):
            pick(PRESETS, preset, "preset")
        print(to_yaml(load_config(preset, allow_code=options.get("allow_code", False))), end="")
    for section, name in named.items():
        kind = options_type(section, name)
        defaults: Any = kind(name=name)
        rows = [
            (f"{section}.{key}", json.dumps(getattr(defaults, key)), meaning)
            for key, meaning in kind.meanings().items()
            if key in kind.option_names()
        ]
        _print_columns([("option", "default", "meaning"), *rows])


def _print_columns(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for *cells, last in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), last]))


def _paper(documented: object) -> str:
    """The paper that a docstring names as `First, Second: Title (year)`; empty if it names none."""
    text = " ".join((documented.__doc__ or "").split())
    found = re.search(r"([A-Z][\w-]+)((?:, [A-Z][\w -]+)*): (\S.*?) \((\d{4})\)", text)
    if not found:
        return ""
    first, others, title, year = found.groups()
    authors = first + (" et al." if others.count(",") > 1 else others.replace(",", " and"))
    return f"{authors}, {title} ({year})"


def _summary(documented: object) -> str:
    return (documented.__doc__ or "").strip().splitlines()[0]


LISTS: dict[str, Callable[[], list[tuple[str, ...]]]] = {
    "data": _list_data,
    "methods": _list_methods,
    "miners": _list_miners,
    "estimators": _list_estimators,
    "presets": _list_presets,
}
EVAL = Command(
    "Probe the embedding of a finished run again, for its report.",
    "RUN [options]",
    _add_eval_arguments,
    _eval,
)
REPORT = Command(
    "Write the report of a run: map, curves, neighbors, scores.", "RUN [--out FILE]", _add_report_arguments, _report
)
LS = Command(
    "List data sets, methods, miners, estimators or presets.",
    "{data,methods,miners,estimators,presets}",
    _add_ls_arguments,
    _ls,
)
SHOW = Command(
    "Print a preset with all its options, or the options of a method or miner.",
    "[PRESET] [--method NAME] [--miner NAME]",
    _add_show_arguments,
    _show,
)
