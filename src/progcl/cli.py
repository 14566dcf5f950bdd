"""The command line: parse, call, print. Data goes to stdout, progress to stderr; torch is imported when needed."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, DefaultHelpFormatter
from tqdm import tqdm

from progcl.config import PRESETS, add_options, explain, given, load_config, to_dict, to_yaml
from progcl.errors import InputError, in_range
from progcl.registry import pick

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


def _train_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("source", type=str, help="a preset, a data set or a YAML file: see `progcl ls presets`")
    parser.add_argument("--out", type=str, help="folder of the run; a new one below runs/ if not given")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in --out")
    parser.add_argument("--force", action="store_true", help="overwrite the run in --out")
    parser.add_argument("--tensorboard", action="store_true", help="log the run's curves in --out, too")
    _add_data_root(parser)
    add_options(parser)


def _train(options: dict[str, Any]) -> None:
    config = load_config(options["source"], given(options))
    out = _folder(options, options["source"])
    from progcl.compare import compare, label, table
    from progcl.distributed import processes
    from progcl.logs import TensorBoard
    from progcl.train import fit

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
    out = _folder(options, options["file"])
    changes: dict[str, Any] = {
        f"{section}.{key}": value for section, part in given(options).items() for key, value in part.items()
    }
    if options.get("with_features"):
        changes["encoder.with_features"] = True
    if not Path(options["file"]).exists():  # said before anything is imported that takes its time
        raise InputError(f"there is no file `{options['file']}`", "paths are looked up from the current folder")
    from progcl.compare import kept_scores, table
    from progcl.distributed import processes
    from progcl.embed import embed, seconds_of

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
        print(table(kept_scores(out) or {"this run": result.score}), file=sys.stderr)
    print(f"to see it, open {out / 'report.html'}", file=sys.stderr)
    print(out / "embeddings.npz")


def _eval_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("--protocol", type=str, help="clean, gca or bgrl; the run's own if not given")
    parser.add_argument("--splits", type=int, help="number of splits; the run's own if not given")
    parser.add_argument("--seed", type=int, help="seed of the splits; the run's own if not given")
    parser.add_argument("--nodes", type=str, help="all, tuning or rest; the run's own if not given")
    _add_data_root(parser)


def _eval(options: dict[str, Any]) -> None:
    from progcl.export import embeddings_of

    run = Path(options["run"])
    vectors = embeddings_of(run).vectors
    changes = {f"probe.{key}": options[key] for key in ("protocol", "splits", "seed", "nodes") if key in options}
    config = load_config(str(run / "config.yaml"), changes)
    if config.probe.protocol == "none":
        raise InputError("`none` is no protocol to probe by", "name one with --protocol: clean, gca or bgrl")
    import torch

    from progcl.compare import label, table
    from progcl.data import load
    from progcl.probe import probe

    embeddings = torch.from_numpy(vectors)
    data = load(config.data.name, options.get("data_root"), config.data.normalize, **config.data.options())
    mixture = json.loads((run / "result.json").read_text())["mixture"]
    print(table({label(config, mixture): probe(embeddings, data, **config.probe.options(), progress=True)}))


def _neighbors_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("node", type=str, help="name of a node, or its number from 0 if nodes have no names")
    parser.add_argument("--number", type=int, default=10, help="how many neighbours to print")


def _neighbors(options: dict[str, Any]) -> None:
    from progcl.export import embeddings_of, nearest, place_of

    vectors, ids = embeddings_of(Path(options["run"]))
    found = nearest(vectors, place_of(options["node"], ids), options.get("number", 10))
    print("\n".join(["node\tcosine", *(f"{ids[node]}\t{cosine:.4f}" for node, cosine in found)]))


def _export_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("--format", type=str, default="npz", help="npz, parquet, word2vec or tensorboard")
    parser.add_argument("--out", type=str, help="file (tensorboard: folder) to write; beside the run if not given")
    parser.add_argument("--force", action="store_true", help="overwrite what is there")


def _export(options: dict[str, Any]) -> None:
    from progcl.export import export

    out = Path(options["out"]) if options.get("out") else None
    print(export(Path(options["run"]), options.get("format", "npz"), out, options.get("force", False)))


def _report_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=str, help="folder of a finished run")
    parser.add_argument("--out", type=str, help="file to write; report.html in the folder of the run if not given")
    _add_data_root(parser)


def _report(options: dict[str, Any]) -> None:
    from progcl.data import load
    from progcl.export import embeddings_of
    from progcl.report import story_of, write

    run = Path(options["run"])
    embeddings_of(run)  # says if there is no finished run
    how = load_config(str(run / "config.yaml")).data
    data = load(how.name, options.get("data_root"), how.normalize, **how.options())
    out = Path(options["out"]) if options.get("out") else run / "report.html"
    write(story_of(run, data), out)
    print(out)


def _bench_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", type=str, choices=list(BENCHMARKS), help="what to measure")
    parser.add_argument("--out", type=str, default=RESULTS, help="folder for the result")
    parser.add_argument("--repeats", type=int, help="rounds in which the sides take turns; the median counts")
    parser.add_argument("--nodes", type=int, help="loss: where all sides are compared; sampler: of the graph")
    parser.add_argument("--edges", type=int, help="sampler: undirected edges of the graph")
    parser.add_argument("--batch", type=int, help="sampler: seeds of a batch")
    parser.add_argument("--batches", type=int, help="sampler: drawn in a round")
    parser.add_argument("--width", type=int, help="loss: of the vectors; epoch: of the layer")
    parser.add_argument("--sizes", type=list[int], help="loss: where time and memory are measured: [2048, 4096]")
    parser.add_argument("--dense-up-to", type=int, help="loss: largest size that dense autograd is given")
    parser.add_argument("--data", type=str, help="epoch: preset or data set; probe: data set")
    parser.add_argument("--layer-data", type=str, help="epoch: data set for the GCN layer")
    parser.add_argument("--splits", type=int, help="probe: random splits")
    _add_data_root(parser)


def _bench(options: dict[str, Any]) -> None:
    name = options.pop("what")
    out = Path(options.pop("out", RESULTS))
    make = getattr(import_module(f"progcl.benchmarks.{name}"), BENCHMARKS[name])
    known = {field.name for field in fields(make)}
    for key, value in options.items():
        flag = f"--{key.replace('_', '-')}"
        if key not in known:
            raise InputError(f"`{flag}` is no option of `bench {name}`", "`progcl bench --help` says which is whose")
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int):
                in_range(flag, number, 2 if key in ("nodes", "sizes") else 1)
    print(make(**options).run(out))


def _ls_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("what", type=str, choices=list(LISTS), help="what to list")


def _ls(options: dict[str, Any]) -> None:
    rows = LISTS[options["what"]]()
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(f"{name:<{width}}  {text}")


def _list_data() -> list[tuple[str, str]]:
    from progcl.data import EMBEDDED, PUBLISHED, roots

    rows = [(name, _summary(make)) for name, make in EMBEDDED.items()]
    for name, entry in PUBLISHED.items():
        here = any(entry.present(place) for place in roots())
        rows.append((name, f"{entry.counts}; {'here' if here else 'not here, downloaded when used'}"))
    return rows


def _list_methods() -> list[tuple[str, str]]:
    from progcl.methods import METHODS

    return [(name, _summary(made)) for name, made in METHODS.items()]


def _list_miners() -> list[tuple[str, str]]:
    from progcl.miners import MINERS

    return [(name, _summary(made)) for name, made in MINERS.items()]


def _list_estimators() -> list[tuple[str, str]]:
    from progcl.mixtures import ESTIMATORS

    return [(name, _summary(made)) for name, made in ESTIMATORS.items()]


def _list_presets() -> list[tuple[str, str]]:
    return [(name, path.read_text().splitlines()[0].lstrip("# ")) for name, path in PRESETS.items()]


def _show_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("preset", type=str, help="a preset or a YAML file")


def _show(options: dict[str, Any]) -> None:
    if not options["preset"].endswith((".yaml", ".yml")):
        pick(PRESETS, options["preset"], "preset")
    print(to_yaml(load_config(options["preset"])), end="")


def _add_data_root(parser: ArgumentParser) -> None:
    parser.add_argument("--data-root", type=str, help="where published data is; else PROGCL_DATA, else the user cache")


def _folder(options: dict[str, Any], source: str) -> Path:
    """--out, else runs/NAME, or runs/NAME-2, ... if that is taken: nothing is overwritten without --force."""
    if options.get("out"):
        return Path(options["out"])
    if options.get("resume"):
        raise InputError("--resume needs --out, the folder of the run to go on with")
    name = Path(source).stem
    numbered = (Path("runs", name if index == 1 else f"{name}-{index}") for index in count(1))
    return next(folder for folder in numbered if not folder.exists())


def _summary(documented: object) -> str:
    return (documented.__doc__ or "").strip().splitlines()[0]


COMMANDS: dict[str, tuple[Callable[[dict[str, Any]], None], str, Callable[[ArgumentParser], None]]] = {
    "embed": (_embed, "Embed the nodes of your own graph.", _embed_arguments),
    "train": (_train, "Train on a graph, embed its nodes and probe the embedding.", _train_arguments),
    "eval": (_eval, "Probe the embedding of a finished run again.", _eval_arguments),
    "neighbors": (_neighbors, "Print the nodes most similar to one, by the embedding of a run.", _neighbors_arguments),
    "export": (_export, "Write the embedding of a run in the format of another tool.", _export_arguments),
    "report": (_report, "Tell a run on one page: map, curves, neighbours, scores.", _report_arguments),
    "bench": (_bench, "Measure time and memory against straightforward versions, by turns.", _bench_arguments),
    "ls": (_ls, "List data sets, methods, miners, estimators or presets.", _ls_arguments),
    "show": (_show, "Print a preset with all its options.", _show_arguments),
}

RESULTS = "benchmarks/results"
BENCHMARKS = {"loss": "LossBench", "epoch": "EpochBench", "probe": "ProbeBench", "sampler": "SamplerBench"}

LISTS: dict[str, Callable[[], list[tuple[str, str]]]] = {
    "data": _list_data,
    "methods": _list_methods,
    "miners": _list_miners,
    "estimators": _list_estimators,
    "presets": _list_presets,
}
