"""progcl embed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from progcl.budget import Budget, parse_duration
from progcl.cli.options import (
    EVERYDAY,
    Command,
    add_allow_code,
    add_config_flags,
    add_memory,
    choose_run_folder,
    config_overrides,
    explain_stop,
    limit_from,
    require_files,
    require_free_folder,
    resume_command,
)
from progcl.config import load_config, to_dict
from progcl.config.load import code_names
from progcl.errors import InputError
from progcl.progress import show_reading


def add_file_arguments(parser: ArgumentParser, what: str) -> None:
    """Add the graph, and the options on files beside it and on their columns."""
    parser.add_argument("file", type=str, help=what)
    parser.add_argument("--features", type=str, help="table that names the node (.csv, .parquet, ...), or .npy, .npz")
    parser.add_argument("--labels", type=str, help="the same with classes: for the map and a score, not for training")
    parser.add_argument("--ids", type=str, help="names of the nodes, one a line, for arrays that have none")
    for flag, meaning in COLUMNS.items():
        parser.add_argument(f"--{flag}", type=str, metavar="NAME", help=f"column {meaning}")


def column_options(options: dict[str, Any]) -> dict[str, Any]:
    """The columns that were named, by the key of the configuration."""
    keys = [flag.replace("-", "_") for flag in COLUMNS]
    return {f"data.{key}": options[key] for key in keys if options.get(key) is not None}


def _add_arguments(parser: ArgumentParser) -> None:
    tables, others = ".csv, .tsv, .txt, .edgelist or .parquet", ".npz, .npy, .pt, .safetensors, .mtx"
    networks = ".graphml, .gexf, .gml or node-link .json (text may be .gz), or a folder with nodes.csv and edges.csv"
    add_file_arguments(parser, f"your graph: edges as {tables}; {others}, {networks}")
    parser.add_argument("-o", "--out", type=str, help="folder of the result; a new one below runs/ if not given")
    parser.add_argument("--directed", action="store_true", help="take hops also along the edges and against them")
    parser.add_argument("--budget", type=str, help="time limit for everything: 90s, 5m, 1h30m")
    parser.add_argument("--evaluate", type=str, choices=["links"], help=EVALUATE)
    parser.add_argument("--from", type=str, metavar="RUN", help=FROM)
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in --out")
    parser.add_argument("--force", action="store_true", help="overwrite the result in --out")
    add_memory(parser)
    add_allow_code(parser)
    add_config_flags(parser)
    preset = to_dict(load_config("embed"))
    parser.set_defaults({f"{section}.{key}": value for section, keys in preset.items() for key, value in keys.items()})


def _run(options: dict[str, Any]) -> None:
    with limit_from(options):
        _embed(options)


def _embed(options: dict[str, Any]) -> None:
    budget = Budget(parse_duration(options["budget"])) if options.get("budget") else None
    out = choose_run_folder(options, options["file"])
    require_free_folder(out, options)
    overrides = config_overrides(options)
    if options.get("evaluate"):
        overrides.setdefault("data.holdout", HELD_OUT)
    overrides |= column_options(options)
    if options.get("directed"):
        overrides["data.directed"] = True
    if options.get("from"):
        overrides["train.start_from"] = str(Path(options["from"]).absolute())
    content = _read_before_torch(options, overrides)
    from progcl.distributed import world_size
    from progcl.embed import embed
    from progcl.evaluation.clusters import describe_run_clusters
    from progcl.evaluation.links import format_link_table, load_link_scores
    from progcl.evaluation.scores import format_table, load_scores
    from progcl.training.signals import StopRequest

    if world_size() > 1:
        raise InputError("`progcl embed` runs in one process", "`progcl train` runs its config.yaml in several")
    names = ("features", "labels", "ids", "resume", "force", "allow_code")
    shared: dict[str, Any] = {key: options[key] for key in names if key in options}
    with StopRequest() as stop:
        try:
            result = embed(
                options["file"], out, budget=budget, overrides=overrides, content=content, stop=stop, **shared
            )
        except KeyboardInterrupt:
            if (out / "config.yaml").exists():
                names_code = bool(options.get("allow_code") or code_names(options))
                limit = ["--memory", options["memory"]] if options.get("memory") else []
                again = resume_command("embed", options["file"], "--out", str(out), *limit, allow_code=names_code)
                explain_stop(out, again)
            raise
    if result.score:
        print(format_table(load_scores(out)), file=sys.stderr)
    if result.links:
        print(format_link_table(load_link_scores(out)), file=sys.stderr)
    if clusters := describe_run_clusters(out, len(result.embeddings)):
        print(clusters, file=sys.stderr)
    print(f"to see it, open {out / 'report.html'}", file=sys.stderr)
    print(out / "embeddings.npz")


def _read_before_torch(options: dict[str, Any], overrides: dict[str, Any]) -> Any:
    """Check what can be checked, and read the files, before torch is imported; None if a run says how to read them."""
    if options.get("resume"):
        return None
    require_files(*(options.get(name) for name in FILES), options.get("from"))
    if options.get("from"):
        from progcl.training.model_file import require_model

        require_model(Path(options["from"]), options.get("allow_code", False))
    if overrides.get("train.start_from"):
        return None
    given = {key: value for key, value in overrides.items() if key.split(".")[0] in CHECKED}
    load_config("embed", {"output.blocks": "learned", **given})  # for others, more is needed than is known yet
    return read_files(options, overrides)


def read_files(options: dict[str, Any], overrides: dict[str, Any]) -> Any:
    """Read the files before torch is imported, so that errors in them come at once."""
    require_files(*(options.get(name) for name in FILES))
    from progcl.data.formats import read_node_data
    from progcl.data.node_rows import JoinOptions

    given = {key: overrides.get(f"data.{key}") for key in ("id_column", "label_column", "scale")}
    files = {f"{name}_from": options.get(name) for name in ("features", "labels", "ids")}
    ends = {key: overrides.get(f"data.{key}") for key in ("source", "target", "weight")}
    choice = JoinOptions(given["id_column"], given["label_column"], given["scale"] is not False)
    with show_reading():
        return read_node_data(options["file"], **files, **ends, options=choice)


COLUMNS = {  # flags that name a column
    "source": "of an edge list with one end of an edge, if not the first",
    "target": "with the other end",
    "weight": "with the weights of edges; in other files an attribute of edges or an array; none uses no weights",
    "id-column": "that names the node in tables of features and labels",
    "label-column": "that holds the class, in --labels or among the features",
}
CHECKED = ("data", "probe", "output", "train")  # sections whose values depend on no choice of method or encoder
FILES = ("file", "features", "labels", "ids")
HELD_OUT = 0.1  # share of the edges, for --evaluate links
EVALUATE = "links: hold out a tenth of the edges before anything is computed, and score the embedding by them"
FROM = "folder of an earlier run, to start from its weights and rotate the result onto its embedding"
USAGE = "GRAPH [-o DIR] [--features FILE] [--labels FILE] [options]"
SCREEN = """
  GRAPH               edges as .csv, .tsv, .txt, .edgelist or .parquet; .npz,
                      .npy, .pt, .safetensors, .mtx, .graphml, .gexf, .gml,
                      .json; or a folder with nodes.csv and edges.csv
  -o, --out DIR       folder of the result; a new one below runs/ if not given
  --features FILE     features of the nodes: a table that names them, .npy, .npz
  --labels FILE       classes: for the map and a score, never for training
  --source, --target, --id-column, --label-column NAME
                      columns, where they are not named so
  --weight NAME       column, attribute or array with the weights of edges
  --directed          take hops also along the edges and against them
  --dim N             reduce the embedding to N numbers per node, by PCA
  --clusters K        add clusters to tables and report: a number, or auto
  --evaluate links    hold out a tenth of the edges, score the embedding by them
  --from RUN          start from an earlier run, and stay comparable with it
  --budget TIME       time limit for everything: 90s, 5m, 1h30m
  --memory SIZE       limit for the whole process, as in 4GB
  --epochs N          passes over the graph; chosen by its size if not given
  --seed N            another seed, another embedding
  --device NAME       auto, cpu, cuda or mps
  --resume, --force   continue from the checkpoint in --out, or overwrite it
  --help-all          every option with its type and default

Every setting has a flag, as in --encoder.hidden 128 or --miner progcl-weight.

example: progcl embed edges.csv --features people.csv --dim 64 -o people
"""
NAMES = {**EVERYDAY, "--clusters": "output.clusters"}
EMBED = Command("Embed the nodes of your own graph.", USAGE, _add_arguments, _run, SCREEN, NAMES)
