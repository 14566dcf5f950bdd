"""progcl train."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser

from progcl.cli.options import (
    EVERYDAY,
    Command,
    add_allow_code,
    add_config_flags,
    add_data_root,
    add_memory,
    choose_run_folder,
    config_overrides,
    explain_stop,
    limit_from,
    require_data_files,
    require_free_folder,
    resume_command,
)
from progcl.config import Config, load_config
from progcl.config.load import code_names
from progcl.errors import InputError

if TYPE_CHECKING:
    from progcl.training.signals import StopRequest


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", type=str, help="a preset, a data set or a YAML file: see `progcl ls presets`")
    parser.add_argument("--out", type=str, help="run folder; a new one below runs/ if not given")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in --out")
    parser.add_argument("--force", action="store_true", help="overwrite the run in --out")
    parser.add_argument("--tensorboard", action="store_true", help="also log the run's curves for TensorBoard in --out")
    add_memory(parser)
    add_allow_code(parser)
    add_data_root(parser)
    add_config_flags(parser)


def _run(options: dict[str, Any]) -> None:
    config = load_config(options["source"], config_overrides(options), allow_code=options.get("allow_code", False))
    require_data_files(config)
    out = choose_run_folder(options, options["source"])
    if "RANK" not in os.environ:  # a process that torchrun restarts goes on by itself
        require_free_folder(out, options)
    _validate(config, options)
    if options.get("resume") and not out.exists():
        print(f"there is no run in {out} yet: starting one", file=sys.stderr)
    from progcl.training.signals import StopRequest

    with limit_from(options), StopRequest() as stop:
        try:
            print(_train(config, out, options, stop), end="")
        except KeyboardInterrupt:
            _explain_stop(config, out, options)
            raise


def _explain_stop(config: Config, out: Path, options: dict[str, Any]) -> None:
    """Say how to continue, in the first process, if there is something to continue."""
    stored = out / "config.yaml"
    if not stored.exists() or os.environ.get("RANK", "0") != "0":
        return
    root = ["--data-root", options["data_root"]] if options.get("data_root") else []
    root += ["--memory", options["memory"]] if options.get("memory") else []
    extra = [*root, *(["--tensorboard"] if options.get("tensorboard") else [])]
    again = resume_command("train", str(stored), "--out", str(out), *extra, allow_code=bool(code_names(config)))
    if config.probe.compare:  # other runs are to follow
        print(f"\nto continue: {again}", file=sys.stderr)
    else:
        explain_stop(out, again)


def _validate(config: Config, options: dict[str, Any]) -> None:
    from progcl.distributed import world_size

    if world_size() > 1 and not options.get("out"):
        raise InputError("several processes need --out, so that a restart finds the run")
    if world_size() > 1 and config.probe.compare:
        raise InputError("a comparison runs in one process", "add --probe.compare false")
    if options.get("tensorboard") and config.probe.compare:
        raise InputError("a comparison is several runs", "log one: add --probe.compare false")


def _train(config: Config, out: Path, options: dict[str, Any], stop: StopRequest) -> str:
    """Train, and return the table of scores, if there are any."""
    from progcl.evaluation.links import format_link_table
    from progcl.evaluation.scores import describe_run, format_table
    from progcl.experiments.compare import compare
    from progcl.run import fit
    from progcl.training.tensorboard import TensorBoard

    shared: dict[str, Any] = {key: options.get(key, False) for key in ("resume", "force")}
    shared |= {"data_root": options.get("data_root"), "stop": stop}
    if config.probe.compare:
        return format_table(compare(config, out, **shared)) + "\n"
    with TensorBoard(out / "tensorboard") if options.get("tensorboard") else nullcontext() as log:
        result = fit(config, out=out, progress=True, on_epoch=log, **shared)
    name = describe_run(config, result.facts)
    tables = [format_table({name: result.score})] if result.score else []
    tables += [format_link_table({name: result.links})] if result.links else []
    return "".join(f"{table}\n" for table in tables)


USAGE = "SOURCE [--out DIR] [--resume | --force] [options]"
SCREEN = """
  SOURCE              a preset, a data set or a YAML file: `progcl ls presets`
  --out DIR           run folder; a new one below runs/ if not given
  --resume, --force   continue from the checkpoint in --out, or overwrite it
  --method NAME       what is learned: see `progcl ls methods`
  --miner NAME        how negatives are chosen: see `progcl ls miners`
  --epochs N          passes over the graph
  --lr X              learning rate
  --dim N             reduce the embedding to N numbers per node, by PCA
  --seed N            another seed, another run
  --device NAME       auto, cpu, cuda or mps
  --splits N          random splits of the linear evaluation
  --tensorboard       also log the run's curves for TensorBoard
  --data-root DIR     where published data is
  --help-all          every option with its type and default

Every setting has a flag, as in --loss.tau 0.2 or --encoder.hidden 128:
`progcl show SOURCE` prints them all.

examples:
  progcl train digits
  progcl train photo --miner progcl-mix --epochs 500 --seed 1
  torchrun --nproc-per-node 2 -m progcl train physics --out runs/p
"""
HELP = "Train on a graph, embed its nodes and probe the embedding."
TRAIN = Command(HELP, USAGE, _add_arguments, _run, SCREEN, EVERYDAY)
