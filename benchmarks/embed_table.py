"""`progcl embed` with default options against what needs no training, and with ProGCL's miners: docs/graph.md.

    python benchmarks/embed_table.py [GRAPH ...] [--seeds N] [--groups G,H]    run what is missing, then print
    python benchmarks/embed_table.py --table                                    print from results/embed.jsonl

Scores are of protocol `clean`, 20 splits: on all nodes of graphs that decided nothing, else on the four fifths that no
setting was chosen on. There a classifier has a tenth of four fifths for training; to compare with published figures,
rows are also scored with a tenth of all nodes for training, tested on the same four fifths. Rows of one training are
made by one process. GRACE is its GCN with the settings published for Cora, 200 epochs, on all graphs; on graphs of more
than 8,192 nodes it contrasts 2,048 anchors per step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graphs import load_graph
from ledger import append_entry, format_markdown, read_ledger
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric.data import Data
from tqdm import tqdm

from progcl import load_config
from progcl.config import to_dict
from progcl.config.schema import Config
from progcl.data.labels import labels_of
from progcl.data.splits import Split, make_splits, select_nodes
from progcl.embed import choose_settings
from progcl.evaluation.probe import linear_probe, probe_clean
from progcl.evaluation.significance import paired_difference
from progcl.experiments.ledger import hash_settings
from progcl.experiments.versions import code_version
from progcl.report.mixture import plot_data
from progcl.training.trainer import Trainer, peak_mb

LEDGER = Path(__file__).parents[1] / "results" / "embed.jsonl"
GRAPHS = {  # which nodes are reported on
    **dict.fromkeys(("photo", "computers", "cora", "digits", "facebook"), "rest"),
    **dict.fromkeys(("cs", "physics"), "all"),
    **dict.fromkeys(("cora without features", "facebook without features"), "rest"),
}
MAX_WHOLE_NODES, ANCHORS = 8192, 2048
LEARNED: dict[str, Any] = {"blocks": "learned", "features": False, "structure": 0}
OUTPUTS: dict[str, dict[str, Any]] = {  # rows of one training, by section `output`
    "learned, not smoothed": {**LEARNED, "smooth": [0]},
    "learned and smoothed": {**LEARNED, "smooth": [0, 1]},
    "embed": {},
    "all blocks": {"blocks": "learned"},
}
INFONCE = "InfoNCE"  # the objective of trainings with miners, and of those that they are compared with
MINED_ROWS = ("learned and smoothed", "all blocks")
METHODS = {  # rows without training, by options of the method
    "raw features": {"method.name": "raw"},
    "Â²·SVD256": {"method.name": "propagated"},
    "features of five hops": {"method.name": "hops"},
    "spectral vectors": {"method.name": "spectral"},
}
DEEPWALK = {"method.name": "deepwalk", "method.walk_length": 80, "encoder.hidden": 128}
MINERS = ("progcl-weight", "progcl-mix")
UNTRAINED = "hops and walk vectors"
BASELINES = (*METHODS, "walk vectors", UNTRAINED)
GROUPS = ("no training", "walk vectors", "untrained encoder", "deepwalk", "embed", INFONCE, *MINERS, "GRACE")
WITHOUT_SEED = ("no training", "walk vectors", "untrained encoder")
LEARNED_ROWS = tuple(row for row in OUTPUTS if row != "embed")
ROWS = (*BASELINES, "deepwalk", "untrained encoder", "GRACE", *LEARNED_ROWS, f"embed + {INFONCE}", "embed")
PUBLISHED_ROWS = ("features of five hops", UNTRAINED, "embed")


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("graphs", nargs="*")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--groups", default=",".join(group for group in GROUPS if group != "GRACE"))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        for entry in run(options.one[0], options.one[1], int(options.one[2])):
            print(json.dumps(entry), flush=True)
        return
    if not options.table:
        run_missing(options.graphs or list(GRAPHS), options.groups.split(","), options.seeds)
    print_tables(read_ledger(LEDGER))


def run_missing(names: list[str], groups: list[str], seeds: int) -> None:
    """Run each missing group of rows in a process of its own, so that its peak of memory is its own."""
    done = {(entry["graph"], entry["group"], entry["seed"]) for entry in read_ledger(LEDGER)}
    wanted = [
        (name, group, seed)
        for seed in range(seeds)
        for group in groups
        for name in names
        if (seed == 0 or group not in WITHOUT_SEED)
        and not (group in (INFONCE, *MINERS) and name.endswith("without features"))
    ]  # without features, nothing is trained
    for name, group, seed in tqdm([cell for cell in wanted if cell not in done], unit="run"):
        command = [sys.executable, __file__, "--one", name, group, str(seed)]
        lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        for line in lines:
            append_entry(LEDGER, json.loads(line))


def run(name: str, group: str, seed: int) -> Iterator[dict[str, Any]]:
    """The entries of one group of rows."""
    data = load_graph(name)
    last, score = torch.empty(0), None
    for row, vectors, facts in make_rows(data, group, seed):
        facts = {**facts, "peak_mb": peak_mb()}
        if vectors is not last or score is None:
            last, score = vectors, linear_probe(vectors, data, "clean", nodes=GRAPHS[name])
        entry = {
            **{"graph": name, "group": group, "row": row, "seed": seed, **facts},
            **{"mean": score.mean, "accuracies": [round(each, 3) for each in score.accuracies]},
        }
        if row in PUBLISHED_ROWS and GRAPHS[name] == "rest":
            found = probe_clean(vectors, labels_of(data), make_published_splits(data))
            entry["published"] = [round(100 * each.accuracy, 3) for each in found]
        yield entry


def make_published_splits(data: Data) -> list[Split]:
    """A tenth of all nodes for training, a tenth to choose on; tested on nodes that no setting was chosen on."""
    tuning = select_nodes(int(data.num_nodes), "tuning")
    return [Split(each.train, each.validation, np.setdiff1d(each.test, tuning)) for each in make_splits(data)]


def make_rows(data: Data, group: str, seed: int) -> Iterator[tuple[str, Tensor, dict[str, Any]]]:
    """Name, embeddings [N, d] and facts of each row of a group."""
    if group == "no training":
        for row, changes in METHODS.items():
            yield row, *embed_untrained(make_untrained_config(changes), data)
        return
    if group == "walk vectors":
        yield group, *embed_untrained(make_untrained_config({"method.name": "walk-vectors"}), data)
        untrained = {"output.blocks": "untrained", "method.holdout": 0.0}
        yield UNTRAINED, *embed_untrained(make_config(data, untrained, seed), data)
        return
    if group == "untrained encoder":
        yield group, *embed_untrained(make_config(data, {"output.blocks": "learned"}, seed), data)
        return
    config = make_group_config(data, group, seed)
    trainer = Trainer(config, data)
    if group == "embed" and trainer.optimizer is None:  # nothing is trained; further rows show what training would give
        start = time.perf_counter()
        vectors = trainer.embed()
        seconds = {"seconds": 0.0, "embed_seconds": round(time.perf_counter() - start, 1)}
        yield "embed", vectors, {**describe_version(config), **seconds}
        trainer = Trainer(make_config(data, {"output.blocks": "learned", "method.holdout": 0.0}, seed), data)
        list(trainer.run(trainer.config.train.epochs))
        yield "all blocks", trainer.embed(), describe_version(trainer.config)
        return
    start = time.perf_counter()
    list(trainer.run(config.train.epochs))
    seconds = round(time.perf_counter() - start, 1)
    facts = {**describe_version(config), "seconds": seconds, **describe_mixture(trainer)}
    if group in ("deepwalk", "GRACE"):
        yield group, trainer.embed(), facts
        return
    rows = MINED_ROWS if group in MINERS else tuple(OUTPUTS)
    outputs = {name_row(row, group): OUTPUTS[row] for row in rows}
    for row, output in outputs.items():
        trainer.config = replace(config, output=replace(config.output, **output))
        start = time.perf_counter()
        vectors = trainer.embed()
        facts["embed_seconds"] = round(time.perf_counter() - start, 1)
        choice = trainer.output.facts().get("choice")
        yield row, vectors, {**facts, **({"choice": choice} if choice else {})}
        if row == name_row("embed", group) and trainer.output.weight == 1:  # the last row is the same
            yield name_row("all blocks", group), vectors, facts
            return


def name_row(output: str, group: str) -> str:
    """The row of one output of a group's training."""
    return output if group == "embed" else f"{output} + {group}"


def embed_untrained(config: Config, data: Data) -> tuple[Tensor, dict[str, Any]]:
    """Embeddings [N, d] without training, and what they were made by."""
    return Trainer(config, data).embed(), describe_version(config)


def describe_version(config: Config) -> dict[str, Any]:
    """The settings, as a hash, and the version of the code that a run depends on."""
    return {"settings": hash_settings(to_dict(config)), "code": code_version(config)}


def make_untrained_config(changes: dict[str, Any]) -> Config:
    """The configuration of a method without training."""
    return load_config("csbm", {**changes, "probe.protocol": "none"})


def make_config(data: Data, changes: dict[str, Any], seed: int) -> Config:
    """The configuration of `progcl embed` with some changes."""
    return load_config("embed", {**choose_settings(data, changes), "train.seed": seed, "probe.protocol": "none"})


def make_group_config(data: Data, group: str, seed: int) -> Config:
    """The configuration of one training."""
    if group == "deepwalk":
        training = {"train.epochs": 10, "train.lr": 0.01, "train.seed": seed}  # ten walks from every node
        return load_config("csbm", {**DEEPWALK, **training, "probe.protocol": "none"})
    if group == "GRACE":
        anchors = ANCHORS if int(data.num_nodes) > MAX_WHOLE_NODES else None
        options = {"miner.name": "none", "train.seed": seed, "probe.protocol": "none", "train.anchors": anchors}
        return load_config("grace-cora", options)
    changes = {"embed": {}, INFONCE: {"method.objective": "infonce"}}.get(group, {"miner.name": group})
    return make_config(data, changes, seed)


def describe_mixture(trainer: Trainer) -> dict[str, Any]:
    """How well the fitted p(true | s) tells true from false negatives by label: AUC and calibration error."""
    plot = plot_data(trainer.method, trainer.train_data)
    if plot is None or plot.probability is None:
        return {}
    true, false = (values / values.size for values in plot.density.values())  # shares of all pairs
    centers = (np.arange(true.size) + 0.5) / true.size
    p = np.interp(centers, plot.grid, plot.probability)
    kinds = np.repeat([1, 0], true.size)
    auc = roc_auc_score(kinds, np.tile(p, 2), sample_weight=np.concatenate([true, false]))
    error = float(np.abs(true - p * (true + false)).sum())
    values = {"auc": float(auc), "calibration error": error, "true": float(true.sum())}
    return {"mixture": {name: round(value, 4) for name, value in values.items()}}


Cells = dict[tuple[str, str], dict[int, list[float]]]  # accuracies by row and graph, and by seed


def print_tables(entries: list[dict[str, Any]]) -> None:
    """All rows; trained ones against the best without training; what `embed` costs; ProGCL's miners against none."""
    cells: Cells = {}
    for entry in entries:
        cells.setdefault((entry["row"], entry["graph"]), {})[entry["seed"]] = entry["accuracies"]
    names = [name for name in GRAPHS if any(cell[1] == name for cell in cells)]
    rows = [row for row in ROWS if any(cell[0] == row for cell in cells)]
    print(format_markdown(rows, names, lambda *cell: [float(np.mean(each)) for each in cells.get(cell, {}).values()]))
    print("\ndifference to the best row without training, 95 % interval over seeds and splits\n")
    print("| | " + " | ".join(names) + " |\n|-" + "|-" * len(names) + "|")
    best = {name: find_best(cells, name) for name in names}
    print("| best without training | " + " | ".join(best.values()) + " |")
    for row in rows:
        if row not in BASELINES:
            print(f"| {row} | " + " | ".join(compare(cells, name, row, best[name]) for name in names) + " |")
    print("\n| | seconds, one core | memory |\n|-|-|-|")
    for name in names:
        if ("embed", name) in cells:
            print(f"| {name} | {describe_cost(entries, name)} |")
    print("\nwith a tenth of all nodes to train classifiers, as in published tables, tested on the same nodes\n")
    published: Cells = {}
    for entry in entries:
        if "published" in entry:
            published.setdefault((entry["row"], entry["graph"]), {})[entry["seed"]] = entry["published"]
    columns = [name for name in names if ("embed", name) in published]
    means = {cell: [float(np.mean(each)) for each in found.values()] for cell, found in published.items()}
    print(format_markdown(PUBLISHED_ROWS, columns, lambda *cell: means.get(cell, [])))
    print("\nProGCL - no mining, 95 % interval over seeds and splits; how well p tells true negatives, by label\n")
    print("| | learned and smoothed | all blocks | AUC of p | calibration error | seeds |\n|-|-|-|-|-|-|")
    for name in names:
        for miner in MINERS:
            gains = [compare(cells, name, name_row(row, miner), name_row(row, INFONCE)) for row in MINED_ROWS]
            found = [entry for entry in entries if (entry["graph"], entry["group"]) == (name, miner)]
            if found:
                mixtures = [entry["mixture"] for entry in found if entry.get("mixture")]
                means = [np.mean([each[key] for each in mixtures]) for key in ("auc", "calibration error") if mixtures]
                facts = [f"{mean:.2f}" for mean in means] or ["no mixture"] * 2
                seeds = len({entry["seed"] for entry in found})
                print(f"| {name}, {miner} | " + " | ".join([*gains, *facts, str(seeds)]) + " |")


def find_best(cells: Cells, name: str) -> str:
    """The row without training that has the highest accuracy on a graph."""
    known = [row for row in BASELINES if (row, name) in cells]
    return max(known, key=lambda row: float(np.mean(list(cells[row, name].values()))), default="")


def compare(cells: Cells, name: str, row: str, other: str) -> str:
    """The difference of two rows over the seeds that both have; a row without training has one for all seeds."""
    one, two = cells.get((row, name), {}), cells.get((other, name), {})
    if other in BASELINES and two:
        two = dict.fromkeys(one, next(iter(two.values())))
    shared = sorted(one.keys() & two.keys())
    if not shared:
        return ""
    return str(paired_difference([one[seed] for seed in shared], [two[seed] for seed in shared]))


def describe_cost(entries: list[dict[str, Any]], name: str) -> str:
    """Median seconds of training and of embedding, and the largest peak of memory."""
    runs = [entry for entry in entries if (entry["graph"], entry["row"]) == (name, "embed")]
    train, embed = (float(np.median([run[key] for run in runs])) for key in ("seconds", "embed_seconds"))
    return f"{train:.0f} + {embed:.0f} | {max(run['peak_mb'] for run in runs) / 1000:.1f} GB"


if __name__ == "__main__":
    main()
