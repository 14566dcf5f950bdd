"""progcl embed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from progcl.cli.options import (
    Command,
    add_allow_code,
    add_config_flags,
    choose_run_folder,
    config_overrides,
    resume_command,
)
from progcl.config import load_config, to_dict
from progcl.config.load import code_names
from progcl.errors import InputError


def _add_arguments(parser: ArgumentParser) -> None:
    tables, others = ".csv, .tsv, .txt, .edgelist or .parquet", ".npz, .npy, .pt, .safetensors, .mtx"
    networks = ".graphml, .gexf, .gml or node-link .json (text may be .gz), or a folder with nodes.csv and edges.csv"
    parser.add_argument("file", type=str, help=f"your graph: edges as {tables}; {others}, {networks}")
    parser.add_argument("-o", "--out", type=str, help="folder of the result; a new one below runs/ if not given")
    parser.add_argument("--features", type=str, help="table that names the node (.csv, .parquet, ...), or .npy, .npz")
    parser.add_argument("--labels", type=str, help="the same with classes: for the map and a score, not for training")
    parser.add_argument("--ids", type=str, help="names of the nodes, one a line, for arrays that have none")
    for flag, what in COLUMNS.items():
        parser.add_argument(f"--{flag}", type=str, metavar="NAME", help=f"column {what}")
    parser.add_argument("--directed", action="store_true", help="take hops also along the edges and against them")
    parser.add_argument("--budget", type=str, help="time limit for everything: 90s, 5m, 1h30m")
    parser.add_argument("--dim", type=int, help="reduce the embedding to so many numbers per node, by PCA")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in --out")
    parser.add_argument("--force", action="store_true", help="overwrite the result in --out")
    add_allow_code(parser)
    add_config_flags(parser)
    preset = to_dict(load_config("embed"))
    parser.set_defaults({f"{section}.{key}": value for section, keys in preset.items() for key, value in keys.items()})


def _run(options: dict[str, Any]) -> None:
    start = time.monotonic()
    out = choose_run_folder(options, options["file"])
    overrides = config_overrides(options)
    if options.get("dim") is not None:
        overrides["output.dim"] = options["dim"]
    for flag in COLUMNS:
        key = flag.replace("-", "_")
        overrides |= {f"data.{key}": options[key]} if options.get(key) is not None else {}
    if options.get("directed"):
        overrides["data.directed"] = True
    content = None if options.get("resume") else _read(options, overrides)
    from progcl.distributed import world_size
    from progcl.embed import embed, parse_duration
    from progcl.evaluation.scores import format_table, load_scores
    from progcl.training.signals import StopRequest

    if world_size() > 1:
        raise InputError("`progcl embed` runs in one process", "`progcl train` runs its config.yaml in several")
    budget = parse_duration(options["budget"]) - (time.monotonic() - start) if options.get("budget") else None
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
                again = resume_command("embed", options["file"], "--out", str(out), allow_code=names_code)
                print(f"\nto continue: {again}", file=sys.stderr)
            raise
    if result.score:
        print(format_table(load_scores(out) or {"this run": result.score}), file=sys.stderr)
    print(f"to see it, open {out / 'report.html'}", file=sys.stderr)
    print(out / "embeddings.npz")


def _read(options: dict[str, Any], overrides: dict[str, Any]) -> Any:
    """Read the files before torch is imported, so that errors in them come at once."""
    for name in ("file", "features", "labels", "ids"):
        if options.get(name) and not Path(options[name]).exists():
            raise InputError(f"there is no file `{options[name]}`", "paths are looked up from the current folder")
    from progcl.data.formats import read_node_data
    from progcl.data.join import JoinOptions

    given = {key: overrides.get(f"data.{key}") for key in ("id_column", "label_column", "scale")}
    files = {f"{name}_from": options.get(name) for name in ("features", "labels", "ids")}
    ends = {key: overrides.get(f"data.{key}") for key in ("source", "target", "weight")}
    choice = JoinOptions(given["id_column"], given["label_column"], given["scale"] is not False)
    return read_node_data(options["file"], **files, **ends, options=choice)


COLUMNS = {  # flags that name a column
    "source": "of an edge list with one end of an edge, if it is not named so and not the first",
    "target": "with the other end",
    "weight": "with the weights of edges; in other files an attribute of edges or an array; none uses no weights",
    "id-column": "that names the node in tables of features and labels",
    "label-column": "that holds the class, in --labels or among the features",
}
USAGE = "GRAPH [-o DIR] [--features FILE] [--labels FILE] [--dim N] [--budget TIME] [--SECTION.KEY VALUE ...]"
EMBED = Command("Embed the nodes of your own graph.", USAGE, _add_arguments, _run)
