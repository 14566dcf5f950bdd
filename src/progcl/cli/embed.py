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
    formats = ".npz, edge list as .csv, .tsv or .txt, .parquet, .safetensors, .pt or .graphml"
    parser.add_argument("file", type=str, help=f"your graph: {formats}")
    parser.add_argument("-o", "--out", type=str, help="folder of the result; a new one below runs/ if not given")
    parser.add_argument("--features", type=str, help=".npy with a row a node, or a table that names the node first")
    parser.add_argument("--labels", type=str, help="the same with classes: for the map and a score, not for training")
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
    if not Path(options["file"]).exists():  # before anything slow is imported
        raise InputError(f"there is no file `{options['file']}`", "paths are looked up from the current folder")
    from progcl.distributed import world_size
    from progcl.embed import embed, parse_duration
    from progcl.evaluation.scores import format_table, load_scores
    from progcl.training.signals import StopRequest

    if world_size() > 1:
        raise InputError("`progcl embed` runs in one process", "`progcl train` runs its config.yaml in several")
    budget = parse_duration(options["budget"]) - (time.monotonic() - start) if options.get("budget") else None
    names = ("features", "labels", "resume", "force", "allow_code")
    shared: dict[str, Any] = {key: options[key] for key in names if key in options}
    with StopRequest() as stop:
        try:
            result = embed(options["file"], out, budget=budget, overrides=overrides, stop=stop, **shared)
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


USAGE = "GRAPH [-o DIR] [--features FILE] [--labels FILE] [--dim N] [--budget TIME] [--SECTION.KEY VALUE ...]"
EMBED = Command("Embed the nodes of your own graph.", USAGE, _add_arguments, _run)
