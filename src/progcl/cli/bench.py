"""progcl bench."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from progcl.cli.options import Command, add_data_root
from progcl.errors import InputError, in_range


def _add_arguments(parser: ArgumentParser) -> None:
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
    add_data_root(parser)


def _run(options: dict[str, Any]) -> None:
    name = options.pop("what")
    out = Path(options.pop("out", RESULTS))
    make = getattr(import_module(f"progcl.bench.{name}"), BENCHMARKS[name])
    known = {field.name for field in fields(make)}
    for key, value in options.items():
        flag = f"--{key.replace('_', '-')}"
        if key not in known:
            raise InputError(f"`{flag}` is no option of `bench {name}`", "`progcl bench --help` says which is whose")
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int):
                in_range(flag, number, 2 if key in ("nodes", "sizes") else 1)
    print(make(**options).run(out))


RESULTS = "results/bench"
BENCHMARKS = {"loss": "LossBench", "epoch": "EpochBench", "probe": "ProbeBench", "sampler": "SamplerBench"}
USAGE = "{loss,epoch,probe,sampler} [options]"
SCREEN = """
  --out DIR           folder for the result
  --repeats N         rounds in which the sides take turns; the median counts
  --data NAME         epoch: preset or data set; probe: data set
  --nodes N           loss: where all sides are compared; sampler: of the graph
  --width N           loss: of the vectors; epoch: of the layer
  --sizes LIST        loss: where time and memory are measured: "[2048, 4096]"
  --splits N          probe: random splits
  --data-root DIR     where published data is
  --help-all          every option with its type and default
"""
HELP = "Measure time and memory against straightforward versions, by turns."
BENCH = Command(HELP, USAGE, _add_arguments, _run, SCREEN)
