"""What commands are made of, and what several of them share: configuration flags, the data root, the run folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from difflib import SequenceMatcher
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from jsonargparse import ArgumentParser

from progcl.config.load import DEFAULTS, SECTIONS, TABLES
from progcl.config.schema import Config
from progcl.errors import InputError
from progcl.files import require_folder
from progcl.memory import limit_memory, parse_size


class Command(NamedTuple):
    """One command of `progcl`: its help, its arguments, and what it does with them.

    Attributes:
        screen: what --help prints of many options: those that people use, a line each; empty prints all
        everyday: short names of configuration keys, by flag
    """

    help: str
    usage: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[dict[str, Any]], None]
    screen: str = ""
    everyday: Mapping[str, str] = MappingProxyType({})


EVERYDAY = {
    "--epochs": "train.epochs",
    "--lr": "train.lr",
    "--seed": "train.seed",
    "--device": "train.device",
    "--dim": "output.dim",
    "--method": "method.name",
    "--miner": "miner.name",
    "--splits": "probe.splits",
}


def expand_everyday(argv: list[str], everyday: Mapping[str, str]) -> list[str]:
    """Replace everyday names by the flags of their configuration keys: `--epochs=5` is `--train.epochs=5`."""
    words = (word.partition("=") for word in argv)
    return [(f"--{everyday[flag]}" if flag in everyday else flag) + equals + value for flag, equals, value in words]


def suggest_flag(flag: str, flags: Iterable[str]) -> str:
    """The one option that an unknown flag is likely to mean, as a hint; else where to look.

    The last word of a dotted flag counts as its name: `--hiden` is `--encoder.hidden`. Sections, which take a whole
    file, are never meant.
    """
    known = [each for each in flags if each.startswith("--") and each.removeprefix("--") not in SECTIONS]
    wanted = flag.removeprefix("--").replace("_", "-").lower()
    scores = {}
    for each in known:
        full = each.removeprefix("--").replace("_", "-")
        names = (full, full.rpartition(".")[2])
        likeness = max(SequenceMatcher(None, wanted, name).ratio() for name in names)
        likeness = max(likeness, MIN_LIKENESS) if wanted.startswith(full) else likeness  # --output-folder is --out
        scores[each] = likeness - 0.01 * ("." in full)
    best = max(scores, key=lambda each: scores[each], default="")
    if best and scores[best] >= MIN_LIKENESS:
        return f"did you mean `{best}`?"
    return "`--help` after the command lists what people use, `--help-all` every option"


MIN_LIKENESS = 0.7  # of a flag to an unknown one, to suggest it


def add_config_flags(parser: ArgumentParser) -> None:
    """Add one dotted flag per configuration key, a group a section; those of methods and miners name their owners."""
    for section in SECTIONS:
        if section in TABLES:
            _add_named_options(parser, section)
        else:
            parser.add_class_arguments(type(getattr(DEFAULTS, section)), section)


def config_overrides(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration keys among parsed arguments, by dotted key."""
    sections = {section: parsed[section] for section in SECTIONS if section in parsed}
    flat = {f"{section}.{key}": value for section, values in sections.items() for key, value in values.items()}
    return {key: value for key, value in flat.items() if not key.endswith(".__path__")}  # of `--train FILE`


def add_memory(parser: ArgumentParser) -> None:
    """Add --memory."""
    meaning = "limit for the whole process: 2GB, 500MB; buffers are chosen to fit, what cannot is refused at once"
    parser.add_argument("--memory", type=str, help=meaning)


def limit_from(options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """The limit of --memory, if it is given."""
    return limit_memory(parse_size(options["memory"])) if options.get("memory") else nullcontext()


def add_data_root(parser: ArgumentParser) -> None:
    """Add --data-root."""
    parser.add_argument("--data-root", type=str, help="where published data is; else PROGCL_DATA, else the user cache")


def add_allow_code(parser: ArgumentParser) -> None:
    """Add --allow-code."""
    meaning = "let a configuration file name classes from outside of progcl (package.module:Class), which are then run"
    parser.add_argument("--allow-code", action="store_true", help=meaning)


def resume_command(*words: str, allow_code: bool) -> str:
    """What to type to continue a run."""
    return shlex.join(["progcl", *words, "--resume", *(["--allow-code"] if allow_code else [])])


def explain_stop(out: Path, again: str) -> None:
    """Say what a stopped run has given so far, and how to go on."""
    if not (out / "result.json").exists():
        print(f"\nto continue: {again}", file=sys.stderr)
        return
    from progcl.evaluation.scores import format_table, load_scores

    scores = load_scores(out)
    print(f"\nthe embeddings in {out} are complete" + ("; scores so far:" if scores else ""), file=sys.stderr)
    if scores:
        print(format_table(scores), file=sys.stderr)
    print(f"for what is left: {again}", file=sys.stderr)
    print(f"to see them: {shlex.join(['progcl', 'report', str(out)])}", file=sys.stderr)


def require_files(*paths: str | None) -> None:
    """Raise `InputError` for the first file that is not there; before torch is imported, so that it comes at once."""
    for path in filter(None, paths):
        if not Path(path).exists():
            raise InputError(f"there is no file `{path}`", "paths are looked up from the current folder")


def require_data_files(config: Config) -> None:
    """The same for the files that a configuration names."""
    data = config.data
    require_files(data.graph, data.features_from, data.labels_from, data.ids_from)


def require_free_folder(out: Path, options: Mapping[str, Any]) -> None:
    """Raise `InputError` if the folder holds a run that is neither resumed nor overwritten."""
    require_folder(out)
    if (out / "config.yaml").exists() and not (options.get("resume") or options.get("force")):
        hint = "continue with --resume, overwrite with --force, or choose another --out"
        raise InputError(f"`{out}` holds a run already", hint)


def choose_run_folder(options: dict[str, Any], source: str) -> Path:
    """--out, else runs/NAME, or runs/NAME-2, ... if that exists: nothing is overwritten without --force."""
    if options.get("out"):
        return Path(options["out"])
    if options.get("resume"):
        raise InputError("--resume needs --out, the folder of the run to continue")
    name = Path(source).name.removesuffix(".gz").rsplit(".", 1)[0] or "graph"
    numbered = (Path("runs", name if index == 1 else f"{name}-{index}") for index in count(1))
    return next(folder for folder in numbered if not folder.exists())


def _add_named_options(parser: ArgumentParser, section: str) -> None:
    """Flags of all methods or miners together; the help of each begins with those that have it."""
    table = TABLES[section]
    default = getattr(DEFAULTS, section).name
    group = parser.add_argument_group(f"{section}: see `progcl show --{section} NAME` for the options of one")
    flags: dict[str, dict[str, Any]] = {}
    for name, entry in table.items():
        for key, hint in entry.options.types().items():
            flag = flags.setdefault(key, {"type": hint, "help": entry.options.meanings()[key], "owners": []})
            flag["owners"].append(name)
    if section == "miner":
        flags["options"] = {
            "type": dict[str, Any],
            "help": "of your own miner, by name",
            "owners": ["package.module:Class"],
        }
    for key, flag in flags.items():
        owners = "" if len(flag["owners"]) == len(table) else f"[{', '.join(flag['owners'])}] "
        shown = {"default": default} if key == "name" else {}
        group.add_argument(f"--{section}.{key}", type=flag["type"], help=f"{owners}{flag['help']}", **shown)
