"""The parser and its errors. Data goes to stdout, progress to stderr; torch is imported when a command needs it."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from importlib.metadata import version
from typing import Any

from jsonargparse import ArgumentParser, DefaultHelpFormatter
from tqdm import tqdm

from progcl.cli.bench import BENCH
from progcl.cli.embed import EMBED
from progcl.cli.info import INFO
from progcl.cli.inspect import EVAL, EXPORT, LS, NEIGHBORS, REPORT, SHOW
from progcl.cli.options import Command
from progcl.cli.reproduce import REPRODUCE
from progcl.cli.train import TRAIN
from progcl.config.load import explain
from progcl.errors import InputError

EPILOG = """examples:
  progcl embed my_graph.csv --features x.npy      your own graph
  progcl info my_graph.csv                        what it is like, and how long that takes
  progcl train digits                             a graph that comes with the package
  progcl train photo --miner.name progcl-mix      a preset with one option changed
  progcl train photo --out runs/a --resume        continue after a crash
  progcl eval runs/a --protocol bgrl              probe again, by another protocol
  progcl neighbors runs/a 17                      nodes most similar to node 17
  progcl export runs/a --format word2vec          embeddings for another tool
  torchrun --nproc-per-node 2 -m progcl train physics --out runs/p     in two processes, or on many machines
  progcl report runs/a                            the run on one page, with a map of the nodes
  progcl reproduce table2 --data photo --dry-run  a table of the paper: what is there, what is missing
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
        except KeyboardInterrupt as error:
            print("\nstopped", file=sys.stderr)
            sys.exit(getattr(error, "exit_code", 130))  # 143 after SIGTERM


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
    COMMANDS[name].run(parsed.get(name) or {})


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
    for name, command in COMMANDS.items():
        commands[name] = Parser(description=command.help, usage=f"progcl {name} {command.usage}")
        command.add_arguments(commands[name])
        subcommands.add_subcommand(name, commands[name], help=command.help)
    return parser, commands


COMMANDS: dict[str, Command] = {
    "embed": EMBED,
    "info": INFO,
    "train": TRAIN,
    "eval": EVAL,
    "neighbors": NEIGHBORS,
    "export": EXPORT,
    "report": REPORT,
    "reproduce": REPRODUCE,
    "bench": BENCH,
    "ls": LS,
    "show": SHOW,
}
