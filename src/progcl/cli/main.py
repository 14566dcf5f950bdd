"""The command line: parse, call, print. Data goes to stdout, progress to stderr; torch is imported when needed."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from jsonargparse import ArgumentParser, DefaultHelpFormatter
from tqdm import tqdm

from progcl.cli.bench import _bench, _bench_arguments
from progcl.cli.embed import _embed, _embed_arguments
from progcl.cli.inspect import (
    _eval,
    _eval_arguments,
    _export,
    _export_arguments,
    _ls,
    _ls_arguments,
    _neighbors,
    _neighbors_arguments,
    _report,
    _report_arguments,
    _show,
    _show_arguments,
)
from progcl.cli.train import _train, _train_arguments
from progcl.config.load import explain
from progcl.errors import InputError

EPILOG = """examples:
  progcl embed my_graph.csv --features x.npy      your own graph
  progcl train digits                             a graph that comes with the package
  progcl train photo --miner.name progcl-mix      a preset with one option changed
  progcl train photo --out runs/a --resume        go on after a crash
  progcl eval runs/a --protocol bgrl              probe again, by another protocol
  progcl neighbors runs/a 17                      nodes most similar to node 17
  progcl export runs/a --format word2vec          embeddings for another tool
  torchrun --nproc-per-node 2 -m progcl train physics --out runs/p     in two processes, or on many machines
  progcl report runs/a                            the run on one page, with a map of the nodes
  progcl bench loss                               time and memory against dense autograd
  progcl ls presets"""


class Help(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Types and defaults of every option, and the examples as they are written."""


def main(argv: list[str] | None = None) -> None:
    """Run one command; bad input ends with a line, a hint and exit code 2."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: tqdm.write(f"warning: {message}", file=sys.stderr)
        if os.environ.get("RANK", "0") != "0":  # torchrun's first process speaks for all
            warnings.simplefilter("ignore")
        try:
            _run(sys.argv[1:] if argv is None else argv)
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
        except OSError as error:
            print(f"error: {error}\n\nhint: check the path, its permissions, and the room on the disk", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            print("\nstopped", file=sys.stderr)
            sys.exit(130)


def _run(argv: list[str]) -> None:
    parser, commands = _parsers()
    flags = commands[argv[0]].flags if argv and argv[0] in commands else list(commands)
    try:
        parsed = parser.parse_args(argv, defaults=False).as_dict()
    except argparse.ArgumentError as error:
        raise explain(error, flags) from None
    name = parsed.get("command")
    if name is None:
        parser.print_help()
        return
    COMMANDS[name][0](parsed.get(name) or {})


class Parser(ArgumentParser):
    """A parser that raises instead of exiting, and takes full option names only."""

    def __init__(self, **options: Any) -> None:
        super().__init__(exit_on_error=False, allow_abbrev=False, formatter_class=Help, **options)

    @property
    def flags(self) -> list[str]:
        """Every option that it knows."""
        return [flag for action in self._actions for flag in action.option_strings]


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(
        prog="progcl",
        description="Node embeddings without labels, with negatives chosen by probability (ProGCL).",
        epilog=EPILOG,
        version=version("progcl"),
    )
    subcommands = parser.add_subcommands(dest="command", required=False)
    commands = {}
    for name, (_, help_text, add_arguments) in COMMANDS.items():
        commands[name] = Parser(description=help_text)
        add_arguments(commands[name])
        subcommands.add_subcommand(name, commands[name], help=help_text)
    return parser, commands


COMMANDS: dict[str, tuple[Callable[[dict[str, Any]], None], str, Callable[[ArgumentParser], None]]] = {
    "embed": (_embed, "Embed the nodes of your own graph.", _embed_arguments),
    "train": (_train, "Train on a graph, embed its nodes and probe the embedding.", _train_arguments),
    "eval": (_eval, "Probe the embedding of a finished run again.", _eval_arguments),
    "neighbors": (_neighbors, "Print the nodes most similar to one, by the embedding of a run.", _neighbors_arguments),
    "export": (_export, "Write the embedding of a run in the format of another tool.", _export_arguments),
    "report": (_report, "Tell a run on one page: map, curves, neighbors, scores.", _report_arguments),
    "bench": (_bench, "Measure time and memory against straightforward versions, by turns.", _bench_arguments),
    "ls": (_ls, "List data sets, methods, miners, estimators or presets.", _ls_arguments),
    "show": (_show, "Print a preset with all its options.", _show_arguments),
}
