"""What `progcl embed` chooses without labels, and what each choice would have scored.

On graphs with strong, weak and no features, graphs of nearest neighbors, and drawn ones from heterophilous to
homophilous, and small. Accuracies are of protocol `clean` on a fifth of the nodes of graphs in the tables (the one that
settings are chosen on), and on all nodes of other ones.

    python benchmarks/choice.py [GRAPH ...]     run what is missing in results/choice.jsonl, then print the table
    python benchmarks/choice.py --table         print

A graph is a name, or the path of a file that `progcl embed` reads: docs/recipes.md says where those files come from.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from embed_table import LEDGER as EMBED_LEDGER
from embed_table import UNTRAINED, describe_version
from graphs import TUNING, load_graph, make_tuning_splits
from ledger import append_entry, read_ledger
from tqdm import tqdm

from progcl import load_config
from progcl.data.labels import labels_of
from progcl.data.splits import make_splits
from progcl.embed import choose_settings
from progcl.evaluation.probe import probe_clean
from progcl.training.choice import Choice
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "choice.jsonl"
GRAPHS = (
    *("cora", "photo", "computers", "digits"),
    *("cora 64 features", "cora 256 features", "photo 16 features", "photo 128 features", "photo 256 features"),
    *("computers 16 features", "computers 128 features", "digits 24 features", "photo noise 3", "computers noise 1"),
    *(f"csbm {homophily}" for homophily in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)),
    *(f"small {nodes} {seed}" for nodes in (300, 1000) for seed in range(4)),
)
REPORTED = ("facebook", "cs", "physics")
SPLITS = 10
OUTPUTS = ("auto", "learned", "untrained", "own")


def main() -> None:
    """Run what is missing, and print the table."""
    names = () if sys.argv[1:] == ["--table"] else sys.argv[1:] or GRAPHS
    done = {entry["graph"] for entry in read_ledger(LEDGER)}
    for name in tqdm([name for name in names if short(name) not in done]):
        append_entry(LEDGER, run(name))
    print(
        "| graph | AUC learned | hops | own | nearest | weight | embed | learned | untrained | own | lost to the best |"
    )
    print("|-|-|-|-|-|-|-|-|-|-|-|")
    for entry in read_ledger(LEDGER):
        choice = Choice(**entry["choice"])
        scores = [float(np.mean(entry["accuracies"][output])) for output in OUTPUTS]
        weight = "own" if choice.blocks == "own" else f"{choice.weight:.2f}"
        print(format_row(entry["graph"], [choice.learned, choice.features, choice.own], choice.nearest, weight, scores))
    reported = [entry for entry in read_ledger(EMBED_LEDGER) if entry["graph"] in REPORTED]
    for name in dict.fromkeys(entry["graph"] for entry in reported if entry["row"] == "embed"):
        print(format_reported(name, [entry for entry in reported if entry["graph"] == name]))


def format_row(name: str, areas: list[float], nearest: float, weight: str, scores: list[float]) -> str:
    """A line of the table; the last score may be missing."""
    cells = [*(f"{area:.3f}" for area in areas), f"{nearest:.2f}", weight, *(f"{score:.2f}" for score in scores)]
    cells += [""] * (len(OUTPUTS) - len(scores))
    return f"| {name} | " + " | ".join(cells) + f" | {max(scores) - scores[0]:.2f} |"


def format_reported(name: str, entries: list[dict[str, Any]]) -> str:
    """The line of a graph that decided nothing, from the runs of `embed_table.py`: no further look at its labels."""
    choices = [entry["choice"] for entry in entries if entry["row"] == "embed"]
    areas = [float(np.mean([choice["auc"][key] for choice in choices])) for key in ("learned", "features", "own")]
    nearest, weight = (float(np.mean([choice[key] for choice in choices])) for key in ("nearest", "weight"))
    rows = ("embed", "all blocks", UNTRAINED)
    scores = [float(np.mean([entry["mean"] for entry in entries if entry["row"] == row])) for row in rows]
    return format_row(name, areas, nearest, f"{weight:.2f}", scores)


def short(name: str) -> str:
    """A graph's name in the table: that of its file, without folder and extension."""
    return Path(name).stem if "/" in name else name


def run(name: str) -> dict[str, Any]:
    """How the learned vectors were judged, and accuracies of every output."""
    data = load_graph(name)
    trainer = Trainer(load_config("embed", {**choose_settings(data, {}), "probe.protocol": "none"}), data)
    list(trainer.run(trainer.config.train.epochs))
    trainer.embed()
    choice, config = trainer.output.choice, trainer.config
    assert choice is not None
    splits = make_tuning_splits(data)[:SPLITS] if name.split(" ")[0] in TUNING else make_splits(data, SPLITS)
    accuracies = {}
    for blocks in OUTPUTS:
        trainer.config = replace(config, output=replace(config.output, blocks=blocks))
        found = probe_clean(trainer.embed(), labels_of(data), splits)
        accuracies[blocks] = [round(100 * each.accuracy, 3) for each in found]
    return {"graph": short(name), **describe_version(config), "choice": asdict(choice), "accuracies": accuracies}


if __name__ == "__main__":
    main()
