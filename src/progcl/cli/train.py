"""progcl train."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

from jsonargparse import ArgumentParser

from progcl.cli.options import add_data_root, run_folder_for
from progcl.config.load import add_options, given, load_config
from progcl.errors import InputError


def _train_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", type=str, help="a preset, a data set or a YAML file: see `progcl ls presets`")
    parser.add_argument("--out", type=str, help="folder of the run; a new one below runs/ if not given")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--force", action="store_true", help="overwrite the run in --out")
    parser.add_argument("--tensorboard", action="store_true", help="log the run's curves in --out, too")
    add_data_root(parser)
    add_options(parser)


def _train(options: dict[str, Any]) -> None:
    config = load_config(options["source"], given(options))
    out = run_folder_for(options, options["source"])
    from progcl.distributed import processes
    from progcl.evaluation.scores import label, table
    from progcl.experiments.compare import compare
    from progcl.run import fit
    from progcl.training.tensorboard import TensorBoard

    if processes() > 1 and not options.get("out"):
        raise InputError("several processes need --out, so that a restart finds the run")
    if processes() > 1 and config.probe.compare:
        raise InputError("a comparison runs in one process", "add --probe.compare false")
    how = {key: options.get(key, False) for key in ("resume", "force")}
    if options.get("resume") and not out.exists():
        print(f"there is no run in {out} yet: starting one", file=sys.stderr)
    try:
        if options.get("tensorboard") and config.probe.compare:
            raise InputError("a comparison is several runs", "log one: add --probe.compare false")
        if config.probe.compare:
            print(table(compare(config, out, data_root=options.get("data_root"), **how)))
        else:
            with TensorBoard(out / "tensorboard") if options.get("tensorboard") else nullcontext() as log:
                result = fit(config, out=out, data_root=options.get("data_root"), progress=True, on_epoch=log, **how)
            if result.score:
                print(table({label(config, result.mixture): result.score}))
    except KeyboardInterrupt:
        print(f"\nto go on from the last checkpoint, add `--out {out} --resume` to the command", file=sys.stderr)
        raise
