"""What else could tell true from false negatives, for method `neighbors` of `progcl embed`, on a fifth of the nodes.

    python benchmarks/signals.py [SEED ...]    run what is missing in results/signals.jsonl, and print
    python benchmarks/signals.py --table       print

A first training gives vectors; a second one, with the same seed, weighs the negatives of every step by p(true | pair)
of a signal, scaled to a mean of 1 in each row. All see the whole first training, more than a miner that fits at epoch
E. Reported are nodes that settings are chosen on: this decides what to build, and is no result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from graphs import TUNING, load_graph, make_tuning_splits
from ledger import append_entry, read_ledger
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.data import Data
from tqdm import tqdm

from progcl import load_config
from progcl.data.labels import labels_of
from progcl.embed import choose_settings
from progcl.evaluation.probe import probe_clean
from progcl.evaluation.significance import paired_difference
from progcl.graph.hop_features import stack_hops
from progcl.posteriors import BetaMixture
from progcl.training.trainer import Trainer, method_vectors

LEDGER = Path(__file__).parents[1] / "results" / "signals.jsonl"
SPLITS, SEEDS, OTHER_SEEDS = 10, (0, 1), (101, 102)
PAIRS = 200_000  # that mixtures are fitted to, and AUCs computed on
DEGREE_CLASSES = 3
SURE = 0.1  # p(true) below which a pair becomes a positive
Signal = Callable[[Tensor], Tensor]  # p(true) [n, n] of the pairs of some nodes [n]


class Mixed:
    """p(true | cosine) of vectors [N, d] by beta mixtures, one for each class [N] of the first node."""

    def __init__(self, vectors: Tensor, classes: Tensor | None = None) -> None:
        self.unit = normalize(vectors, dim=1)
        self.classes = torch.zeros(len(vectors), dtype=torch.long) if classes is None else classes
        generator = torch.Generator().manual_seed(0)
        self.tables = []
        for each in range(int(self.classes.max()) + 1):
            members = (self.classes == each).nonzero().flatten()
            first = members[torch.randint(len(members), (PAIRS,), generator=generator)]
            second = torch.randint(len(vectors), (PAIRS,), generator=generator)
            cosines = (self.unit[first] * self.unit[second]).sum(dim=1)[first != second].double().numpy()
            mixture = BetaMixture(iterations=50).fit(_to_share(cosines))
            grid = _to_share(np.linspace(-1, 1, 2001))
            self.tables.append(torch.from_numpy(mixture.predict_proba(grid)[:, 0]).float())

    def __call__(self, nodes: Tensor) -> Tensor:
        """Of the pairs of some nodes [n], [n, n]."""
        unit = self.unit[nodes]
        place = ((unit @ unit.T + 1) * 1000).round().long().clamp(0, 2000)
        return torch.stack(self.tables)[self.classes[nodes][:, None].expand_as(place), place]


def _to_share(cosines: np.ndarray) -> np.ndarray:
    return np.clip((cosines + 1) / 2, 1e-4, 1 - 1e-4)


class WeighedInfoNCE(torch.nn.Module):
    """InfoNCE over pairs whose negatives are weighed by a signal; sure false negatives may be positives instead."""

    def __init__(self, tau: float, signal: Signal, as_positives: bool = False) -> None:
        super().__init__()
        self.tau, self.signal, self.as_positives = tau, signal, as_positives

    def forward(self, h: Tensor, nodes: Tensor, positives: Tensor) -> Tensor:
        """Mean over positives (i, j) of log(e^s_ij + Σ_k w_ik e^s_ik) - s_ij, with k over the negatives of i."""
        unit = normalize(h, dim=1)
        s, chance = unit @ unit.T / self.tau, self.signal(nodes)
        is_positive = torch.zeros_like(s, dtype=torch.bool)
        is_positive[positives[0], positives[1]] = True
        own = torch.eye(len(s), dtype=torch.bool)
        weight = torch.ones_like(s)
        if self.as_positives:
            sure = chance.masked_fill(own | is_positive, 1.0)
            smallest = sure.flatten().topk(positives.size(1), largest=False)
            is_positive.view(-1)[smallest.indices[smallest.values < SURE]] = True
        else:
            weight = chance
        weight = weight.masked_fill(own | is_positive, 0.0)
        weight = weight * ((weight > 0).sum(dim=1) / weight.sum(dim=1).clamp_min(1e-9))[:, None]
        negatives = (weight * s.exp()).sum(dim=1)
        first, second = is_positive.nonzero().unbind(dim=1)
        pairs = s[first, second]
        return (torch.log(pairs.exp() + negatives[first]) - pairs).mean()


def make_signals(data: Data, smoothed: Tensor, plain: Tensor, others: Callable[[], list[Tensor]]) -> dict[str, Signal]:
    """The signals by name; `others` are smoothed vectors of trainings with other seeds."""
    labels = torch.from_numpy(labels_of(data))
    degree = torch.bincount(data.edge_index[0], minlength=len(labels)).float()
    bounds = degree.quantile(torch.linspace(0, 1, DEGREE_CLASSES + 1)[1:-1])
    mixed, several = Mixed(smoothed), [Mixed(each) for each in others()]
    return {
        "learned": Mixed(plain),
        "smoothed": mixed,
        "smoothed, by degree": Mixed(smoothed, torch.bucketize(degree, bounds)),
        "three seeds, smoothed": lambda nodes: torch.stack([each(nodes) for each in (mixed, *several)]).mean(dim=0),
        "smoothed, as positives": mixed,
        "labels (oracle)": lambda nodes: (labels[nodes][:, None] != labels[nodes]).float(),
    }


def train(data: Data, seed: int, criterion: torch.nn.Module | None = None) -> Trainer:
    """`progcl embed` with InfoNCE and weight 1 for the learned vectors, and another loss if one is given."""
    overrides = {"method.objective": "infonce", "output.blocks": "learned", "train.seed": seed}
    overrides |= {"probe.protocol": "none"}
    trainer = Trainer(load_config("embed", choose_settings(data, overrides)), data)
    if criterion is not None:
        trainer.method.criterion = criterion
    list(trainer.run(trainer.config.train.epochs))
    return trainer


def learned_vectors(trainer: Trainer, data: Data) -> tuple[Tensor, Tensor]:
    """Vectors of the method, centered; as they are, and [as they are, smoothed once]."""
    vectors = method_vectors(trainer.method, trainer.graph)
    vectors = vectors - vectors.mean(dim=0)
    return vectors, stack_hops(vectors, data, [0, 1])


def evaluate(name: str, seed: int) -> None:
    """Add a line for every signal that the ledger does not have."""
    done = {entry["signal"] for entry in read_ledger(LEDGER) if (entry["graph"], entry["seed"]) == (name, seed)}
    if "labels (oracle)" in done:
        return
    data = load_graph(name)
    base = train(data, seed)
    plain, both = learned_vectors(base, data)
    record(name, seed, "none", data, base, both, None)
    width = both.size(1) // 2
    signals = make_signals(
        data,
        both[:, width:],
        plain,
        lambda: [learned_vectors(train(data, other), data)[1][:, width:] for other in OTHER_SEEDS],
    )
    for signal, chances in signals.items():
        if signal not in done:
            trainer = train(data, seed, WeighedInfoNCE(base.config.loss.tau, chances, signal.endswith("positives")))
            record(name, seed, signal, data, trainer, learned_vectors(trainer, data)[1], chances)


def record(
    name: str, seed: int, signal: str, data: Data, trainer: Trainer, both: Tensor, chances: Signal | None
) -> None:
    """Add a line: accuracies of [Y, ÂY] and of all blocks, and how well the signal tells true from false negatives."""
    labels, splits = labels_of(data), make_tuning_splits(data)[:SPLITS]
    scores = {
        kind: [round(100 * each.accuracy, 3) for each in probe_clean(vectors, labels, splits)]
        for kind, vectors in (("learned", both), ("all", trainer.embed()))
    }
    entry: dict[str, Any] = {"graph": name, "seed": seed, "signal": signal, **scores}
    if chances is not None:
        nodes = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))[:1000]
        y = torch.from_numpy(labels)[nodes]
        pair = torch.triu_indices(len(nodes), len(nodes), 1)
        is_true = y[pair[0]] != y[pair[1]]
        entry["auc"] = round(float(roc_auc_score(is_true.numpy(), chances(nodes)[pair[0], pair[1]].numpy())), 4)
    append_entry(LEDGER, entry)


def format_rows() -> str:
    """Paired differences from plain InfoNCE over seeds and splits, with 95 % intervals; AUC of p over all pairs."""
    entries = read_ledger(LEDGER)
    names = list(dict.fromkeys(entry["signal"] for entry in entries if entry["signal"] != "none"))
    graphs = [name for name in TUNING if any(entry["graph"] == name for entry in entries)]
    lines = ["| signal | " + " | ".join(f"{name} | AUC" for name in graphs) + " |", "|-" * (1 + 2 * len(graphs)) + "|"]
    for kind in ("learned", "all"):
        for signal in names:
            cells = []
            for graph in graphs:
                found = {e["seed"]: e for e in entries if e["graph"] == graph and e["signal"] == signal}
                base = {e["seed"]: e for e in entries if e["graph"] == graph and e["signal"] == "none"}
                first = [found[seed][kind] for seed in sorted(found)]
                second = [base[seed][kind] for seed in sorted(found)]
                auc = np.mean([entry["auc"] for entry in found.values()]) if found else np.nan
                cells.append(f"{paired_difference(first, second)} | {auc:.2f}" if found else " | ")
            lines.append(
                f"| {signal}, {'learned and smoothed' if kind == 'learned' else 'all blocks'} | "
                + " | ".join(cells)
                + " |"
            )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print the table."""
    if sys.argv[1:] != ["--table"]:
        seeds = [int(seed) for seed in sys.argv[1:]] or list(SEEDS)
        for name, seed in tqdm([(name, seed) for seed in seeds for name in TUNING]):
            evaluate(name, seed)
    print(format_rows())


if __name__ == "__main__":
    main()
