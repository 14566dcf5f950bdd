"""progcl transform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from progcl.cli.options import Command, add_allow_code, choose_run_folder, require_files


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run of `progcl embed`")
    parser.add_argument(
        "file", type=str, help="the new graph, in any format of `progcl embed`; nodes are known by name"
    )
    parser.add_argument("-o", "--out", type=str, help="folder of the result; a new one below runs/ if not given")
    parser.add_argument("--features", type=str, help="features of its nodes, with the columns that the run's graph had")
    parser.add_argument("--ids", type=str, help="names of the nodes, one a line, for arrays that have none")
    for flag, what in COLUMNS.items():
        parser.add_argument(f"--{flag}", type=str, metavar="NAME", help=f"column {what}; that of the run if not given")
    parser.add_argument("--force", action="store_true", help="overwrite the result in --out")
    add_allow_code(parser)


def _run(options: dict[str, Any]) -> None:
    run, out = Path(options["run"]), choose_run_folder(options, options["file"])
    require_files(*(options.get(name) for name in ("run", "file", "features", "ids")))
    from progcl.training.model_file import read_alike, require_free_result

    require_free_result(out, run, options.get("force", False))
    names = (flag.replace("-", "_") for flag in COLUMNS)
    columns = {name: options[name] for name in names if options.get(name) is not None}
    files = {key: options[key] for key in ("features", "ids", "allow_code") if key in options}
    content = read_alike(run, options["file"], columns=columns, **files)  # errors in files come before torch
    from progcl.transform import transform

    transform(run, options["file"], out, columns=columns, force=options.get("force", False), content=content, **files)
    print(out / "embeddings.npz")


COLUMNS = {  # flags that name a column
    "source": "of an edge list with one end of an edge",
    "target": "with the other end",
    "weight": "with the weights of edges; none uses no weights",
    "id-column": "that names the node in the table of features",
}
USAGE = "RUN GRAPH [-o DIR] [--features FILE] [options]"
SCREEN = """
  RUN                 folder of a finished run of `progcl embed`
  GRAPH               the new graph, in any format of `progcl embed`; nodes that
                      the run has embedded are known by their names
  -o, --out DIR       folder of the result; a new one below runs/ if not given
  --features FILE     features of its nodes, with the columns of the run's graph
  --ids FILE          names of the nodes, one a line, for arrays without them
  --source, --target, --weight, --id-column NAME
                      columns, where they are other than in the run
  --force             overwrite the result in --out
  --help-all          every option with its type and default

Directions and weights of edges are read as in the run; nothing is trained.

example: progcl transform runs/people grown.csv --features people.csv -o grown
"""
HELP = "Embed new nodes, or another graph, by what a run has learned."
TRANSFORM = Command(HELP, USAGE, _add_arguments, _run, SCREEN)
