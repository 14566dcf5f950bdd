"""Which blocks `progcl embed` chooses without labels, and what each choice would have scored.

On graphs with strong, weak and no features, and on drawn ones from heterophilous to homophilous. Accuracies are of
protocol `clean` on a fifth of the nodes of real graphs (the one that settings are chosen on), and on all nodes of
drawn ones.

    python benchmarks/choice.py [GRAPH ...]     run what is missing in results/choice.jsonl, then print the table
"""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from graphs import load_graph, make_tuning_splits
from ledger import append_entry, read_ledger
from tqdm import tqdm

from progcl import load_config
from progcl.data.labels import labels_of
from progcl.data.splits import make_splits
from progcl.embed import choose_settings
from progcl.evaluation.probe import probe_clean
from progcl.graph.hop_features import HopFeatures
from progcl.training.choice import Choice
from progcl.training.trainer import Trainer

LEDGER = Path(__file__).parents[1] / "results" / "choice.jsonl"
GRAPHS = (
    *("cora", "photo", "computers", "digits"),
    *("cora 64 features", "cora 256 features", "photo 16 features", "photo 128 features", "photo 256 features"),
    *("computers 16 features", "computers 128 features", "digits 24 features", "photo noise 3", "computers noise 1"),
    *(f"csbm {homophily}" for homophily in (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)),
)
SPLITS = 10
BLOCKS = ("learned", "untrained", "own")


def main() -> None:
    """Run what is missing, and print the table."""
    names = sys.argv[1:] or GRAPHS
    done = {entry["graph"] for entry in read_ledger(LEDGER)}
    for name in tqdm([name for name in names if name not in done]):
        append_entry(LEDGER, run(name))
    print("| graph | AUC learned | hops | own | chosen | learned | untrained | own | hops | lost to the best |")
    print("|-|-|-|-|-|-|-|-|-|-|")
    for entry in read_ledger(LEDGER):
        if entry["graph"] in names:
            choice = Choice(**entry["auc"])
            scores = [float(np.mean(entry["accuracies"][block])) for block in BLOCKS]
            lost = max(scores) - scores[BLOCKS.index(choice.blocks)]
            auc = f"{choice.learned:.3f} | {choice.features:.3f} | {choice.own:.3f}"
            cells = " | ".join(f"{score:.2f}" for score in [*scores, float(np.mean(entry["accuracies"]["hops"]))])
            print(f"| {entry['graph']} | {auc} | {choice.blocks} | {cells} | {lost:.2f} |")


def run(name: str) -> dict[str, Any]:
    """Areas under the ROC curve of held-out links, and accuracies of every choice."""
    data = load_graph(name)
    trainer = Trainer(load_config("embed", {**choose_settings(data, {}), "probe.protocol": "none"}), data)
    list(trainer.run(trainer.config.train.epochs))
    trainer.embed()
    choice, config = trainer.output.choice, trainer.config
    assert choice is not None
    splits = make_splits(data, SPLITS) if name.startswith("csbm") else make_tuning_splits(data)[:SPLITS]
    accuracies = {}
    for blocks in BLOCKS:
        trainer.config = replace(config, output=replace(config.output, blocks=blocks))
        accuracies[blocks] = [100 * each.accuracy for each in probe_clean(trainer.embed(), labels_of(data), splits)]
    hops = HopFeatures.fit(data, config.hops).transform(data)
    accuracies["hops"] = [100 * each.accuracy for each in probe_clean(hops, labels_of(data), splits)]
    return {"graph": name, "auc": asdict(choice), "accuracies": accuracies}


if __name__ == "__main__":
    main()
