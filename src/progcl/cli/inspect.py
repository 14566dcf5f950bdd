"""What is known, and what a finished run holds: eval, neighbors, export, report, ls, show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from progcl.cli.options import add_data_root
from progcl.config.load import PRESETS, load_config, to_yaml
from progcl.errors import InputError
from progcl.registry import pick


def _eval_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("--protocol", type=str, help="clean, gca or bgrl; the run's own if not given")
    parser.add_argument("--splits", type=int, help="number of splits; the run's own if not given")
    parser.add_argument("--seed", type=int, help="seed of the splits; the run's own if not given")
    parser.add_argument("--nodes", type=str, help="all, tuning or rest; the run's own if not given")
    add_data_root(parser)


def _eval(options: dict[str, Any]) -> None:
    from progcl.export import embeddings_of

    run = Path(options["run"])
    vectors = embeddings_of(run).vectors
    changes = {f"probe.{key}": options[key] for key in ("protocol", "splits", "seed", "nodes") if key in options}
    config = load_config(str(run / "config.yaml"), changes)
    if config.probe.protocol == "none":
        raise InputError("`none` is no protocol to probe by", "name one with --protocol: clean, gca or bgrl")
    import torch

    from progcl.data.datasets import load_data
    from progcl.evaluation.probe import linear_probe
    from progcl.evaluation.scores import label, table

    embeddings = torch.from_numpy(vectors)
    data = load_data(config.data, options.get("data_root"))
    mixture = json.loads((run / "result.json").read_text())["mixture"]
    print(table({label(config, mixture): linear_probe(embeddings, data, **config.probe.options(), progress=True)}))


def _neighbors_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("node", type=str, help="name of a node, or its number from 0 if nodes have no names")
    parser.add_argument("--number", type=int, default=10, help="how many neighbours to print")


def _neighbors(options: dict[str, Any]) -> None:
    from progcl.export import embeddings_of, nearest, place_of

    vectors, ids = embeddings_of(Path(options["run"]))
    found = nearest(vectors, place_of(options["node"], ids), options.get("number", 10))
    print("\n".join(["node\tcosine", *(f"{ids[node]}\t{cosine:.4f}" for node, cosine in found)]))


def _export_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("--format", type=str, default="npz", help="npz, parquet, word2vec or tensorboard")
    parser.add_argument("--out", type=str, help="file (tensorboard: folder) to write; beside the run if not given")
    parser.add_argument("--force", action="store_true", help="overwrite what is there")


def _export(options: dict[str, Any]) -> None:
    from progcl.export import export

    out = Path(options["out"]) if options.get("out") else None
    print(export(Path(options["run"]), options.get("format", "npz"), out, options.get("force", False)))


def _report_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("--out", type=str, help="file to write; report.html in the folder of the run if not given")
    add_data_root(parser)


def _report(options: dict[str, Any]) -> None:
    from progcl.data.datasets import load_data
    from progcl.export import embeddings_of
    from progcl.report.page import write
    from progcl.report.story import story_of

    run = Path(options["run"])
    embeddings_of(run)  # says if there is no finished run
    how = load_config(str(run / "config.yaml")).data
    data = load_data(how, options.get("data_root"))
    out = Path(options["out"]) if options.get("out") else run / "report.html"
    write(story_of(run, data), out)
    print(out)


def _ls_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", type=str, choices=list(LISTS), help="what to list")


def _ls(options: dict[str, Any]) -> None:
    rows = LISTS[options["what"]]()
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")


def _list_data() -> list[tuple[str, str]]:
    from progcl.data.datasets import EMBEDDED, PUBLISHED, roots

    rows = [(name, _summary(make)) for name, make in EMBEDDED.items()]
    for name, entry in PUBLISHED.items():
        here = any(entry.present(place) for place in roots())
        rows.append((name, f"{entry.counts}; {'here' if here else 'not here, downloaded when used'}"))
    return rows


def _list_methods() -> list[tuple[str, str]]:
    from progcl.methods import METHODS

    return [(name, _summary(made)) for name, made in METHODS.items()]


def _list_miners() -> list[tuple[str, str]]:
    from progcl.miners import MINERS

    return [(name, _summary(made)) for name, made in MINERS.items()]


def _list_estimators() -> list[tuple[str, str]]:
    from progcl.posteriors import POSTERIORS

    return [(name, _summary(made)) for name, made in POSTERIORS.items()]


def _list_presets() -> list[tuple[str, str]]:
    return [(name, path.read_text().splitlines()[0].lstrip("# ")) for name, path in PRESETS.items()]


def _show_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("preset", type=str, help="a preset or a YAML file")


def _show(options: dict[str, Any]) -> None:
    if not options["preset"].endswith((".yaml", ".yml")):
        pick(PRESETS, options["preset"], "preset")
    print(to_yaml(load_config(options["preset"])), end="")


def _summary(documented: object) -> str:
    return (documented.__doc__ or "").strip().splitlines()[0]


LISTS: dict[str, Callable[[], list[tuple[str, str]]]] = {
    "data": _list_data,
    "methods": _list_methods,
    "miners": _list_miners,
    "estimators": _list_estimators,
    "presets": _list_presets,
}
