"""The parser and its errors. Data goes to stdout, progress to stderr; torch is imported when a command needs it."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import warnings
from importlib.metadata import version
from typing import Any

from jsonargparse import ArgumentParser, DefaultHelpFormatter
from tqdm import tqdm

from progcl.cli.bench import BENCH
from progcl.cli.embed import EMBED
from progcl.cli.info import INFO
from progcl.cli.inspect import EVAL, LS, REPORT, SHOW
from progcl.cli.links import EXPORT, LINKS, NEIGHBORS
from progcl.cli.options import Command, expand_everyday, suggest_flag
from progcl.cli.reproduce import REPRODUCE
from progcl.cli.train import TRAIN
from progcl.cli.transform import TRANSFORM
from progcl.config.load import explain
from progcl.errors import InputError
from progcl.memory import is_out_of_memory
from progcl.registry import pick

EXAMPLES = """examples:
  progcl embed my_graph.csv --features x.npy     your own graph
  progcl info my_graph.csv                       its size and oddities
  progcl transform runs/my_graph grown.csv       new nodes, without training
  progcl links runs/my_graph --top 20            its most probable missing edges
  progcl train photo --miner progcl-mix          a preset, one option changed
  progcl train photo --out runs/a --resume       continue after a crash
  progcl export runs/a --format word2vec         embeddings for another tool
  progcl COMMAND --help                          the options of a command"""
WIDTH = 80  # of the help, in columns


class Help(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Types and defaults of every option, and the examples as they are written."""


class HelpAll(argparse.Action):
    """Print every option with its type and default, where --help has those that people use."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "nargs": 0, "default": argparse.SUPPRESS})

    def __call__(self, parser: Any, *_: Any, **__: Any) -> None:
        """Print, and end."""
        parser.screen = ""
        parser.print_help()
        parser.exit()


def main(argv: list[str] | None = None) -> None:
    """Run one command; bad input ends with a line, a hint and exit code 2."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: tqdm.write(f"warning: {message}", file=sys.stderr)
        if os.environ.get("RANK", "0") != "0":  # torchrun's first process speaks for all
            warnings.simplefilter("ignore")
        try:
            _run(sys.argv[1:] if argv is None else argv)
        except InputError as error:
            error.hint = error.hint or _point_to_help(sys.argv[1:] if argv is None else argv)
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)
        except BrokenPipeError:  # whoever read stdout has seen enough, as in `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at its end
            sys.exit(141)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            hint = "a smaller graph or --batch.size; --memory 4GB refuses before starting what would not fit"
            print(f"error: there is not enough memory\n\nhint: {hint}", file=sys.stderr)
            sys.exit(2)
        except OSError as error:
            print(f"error: {error}\n\nhint: check the path, its permissions, and the room on the disk", file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt as error:
            print("\nstopped", file=sys.stderr)
            sys.exit(getattr(error, "exit_code", 130))  # 143 after SIGTERM


def _point_to_help(argv: list[str]) -> str:
    """The hint of an error that has none."""
    command = next((word for word in argv if word in COMMANDS), "COMMAND")
    return f"`progcl {command} --help` lists the options and an example"


def _run(argv: list[str]) -> None:
    parser, commands = _parsers()
    if argv and not argv[0].startswith("-"):
        pick(COMMANDS, argv[0], "command")
    known = COMMANDS.get(argv[0]) if argv else None
    flags = [*commands[argv[0]].flags, *known.everyday] if known else parser.flags
    try:
        words = expand_everyday(argv, known.everyday) if known else argv
        parsed = parser.parse_args(words, defaults=False).as_dict()
    except argparse.ArgumentError as error:
        raise explain(error, lambda flag: suggest_flag(flag, flags)) from None
    name = parsed.get("command")
    if name is None:
        parser.print_help()
        return
    COMMANDS[name].run(parsed.get(name) or {})


class Parser(ArgumentParser):
    """A parser that raises instead of exiting, takes full option names only, and has --help on one screen.

    Attributes:
        screen: what --help prints below the usage, instead of all options
    """

    def __init__(self, screen: str = "", **options: Any) -> None:
        super().__init__(exit_on_error=False, allow_abbrev=False, formatter_class=Help, **options)
        self.screen = screen
        if screen:
            self.add_argument("--help-all", action=HelpAll, help="every option with its type and default")

    def format_help(self, *formatter: Any) -> str:
        """The screen, or every option."""
        if not self.screen:
            return super().format_help(*formatter)
        return f"usage: {self.usage}\n\n{self.description}\n\n{self.screen.strip(chr(10))}\n"

    @property
    def flags(self) -> list[str]:
        """Every option that it knows."""
        return [flag for action in self._actions for flag in action.option_strings]


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(
        screen=_describe_commands(),
        prog="progcl",
        usage="progcl [--version] COMMAND ...",
        description="Node embeddings without labels, with negatives chosen by probability (ProGCL).",
        version=version("progcl"),
    )
    subcommands = parser.add_subcommands(dest="command", required=False)
    commands = {}
    for name, command in COMMANDS.items():
        names = ", ".join(f"{flag} is --{key}" for flag, key in command.everyday.items())
        epilog = textwrap.fill(f"everyday names: {names}", WIDTH) if names else None
        shown: dict[str, Any] = {"screen": command.screen, "description": command.help, "epilog": epilog}
        commands[name] = Parser(**shown, usage=f"progcl {name} {command.usage}")
        command.add_arguments(commands[name])
        subcommands.add_subcommand(name, commands[name], help=command.help)
    return parser, commands


def _describe_commands() -> str:
    """A line for each command, and examples."""
    lines = [
        textwrap.fill(command.help, WIDTH, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13)
        for name, command in COMMANDS.items()
    ]
    return "\n".join([*lines, "", EXAMPLES])


COMMANDS: dict[str, Command] = {
    "embed": EMBED,
    "transform": TRANSFORM,
    "info": INFO,
    "train": TRAIN,
    "eval": EVAL,
    "neighbors": NEIGHBORS,
    "links": LINKS,
    "export": EXPORT,
    "report": REPORT,
    "reproduce": REPRODUCE,
    "bench": BENCH,
    "ls": LS,
    "show": SHOW,
}
