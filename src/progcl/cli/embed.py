"""progcl embed."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from progcl.cli.options import run_folder_for
from progcl.config.load import add_options, given, load_config, to_dict
from progcl.errors import InputError


def _embed_arguments(parser: ArgumentParser) -> None:
    formats = ".npz, edge list as .csv, .tsv or .txt, .parquet, .safetensors, .pt or .graphml"
    parser.add_argument("file", type=str, help=f"your graph: {formats}")
    parser.add_argument("-o", "--out", type=str, help="folder of the result; a new one below runs/ if not given")
    parser.add_argument("--features", type=str, help=".npy with a row a node, or a table that names the node first")
    parser.add_argument("--labels", type=str, help="the same with classes: for the map and a score, not for training")
    parser.add_argument("--budget", type=str, help="time that all may take: 90s, 5m, 1h30m")
    parser.add_argument("--with-features", action="store_true", help="put features beside the embedding, see the docs")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--force", action="store_true", help="overwrite the result in --out")
    add_options(parser)
    preset = to_dict(load_config("embed"))
    parser.set_defaults({f"{section}.{key}": value for section, part in preset.items() for key, value in part.items()})


def _embed(options: dict[str, Any]) -> None:
    start = time.monotonic()
    out = run_folder_for(options, options["file"])
    changes: dict[str, Any] = {
        f"{section}.{key}": value for section, part in given(options).items() for key, value in part.items()
    }
    if options.get("with_features"):
        changes["encoder.with_features"] = True
    if not Path(options["file"]).exists():  # said before anything is imported that takes its time
        raise InputError(f"there is no file `{options['file']}`", "paths are looked up from the current folder")
    from progcl.distributed import processes
    from progcl.embed import embed, seconds_of
    from progcl.evaluation.scores import load_scores, table

    if processes() > 1:
        raise InputError("`progcl embed` runs in one process", "`progcl train` runs its config.yaml in several")
    budget = seconds_of(options["budget"]) - (time.monotonic() - start) if options.get("budget") else None
    how: dict[str, Any] = {key: options[key] for key in ("features", "labels", "resume", "force") if key in options}
    try:
        result = embed(options["file"], out, budget=budget, changes=changes, **how)
    except KeyboardInterrupt:
        if (out / "config.yaml").exists():
            again = shlex.join(["progcl", "embed", options["file"], "--out", str(out), "--resume"])
            print(f"\nto go on: {again}", file=sys.stderr)
        raise
    if result.score:
        print(table(load_scores(out) or {"this run": result.score}), file=sys.stderr)
    print(f"to see it, open {out / 'report.html'}", file=sys.stderr)
    print(out / "embeddings.npz")
