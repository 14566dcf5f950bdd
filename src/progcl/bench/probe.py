"""The probe against scikit-learn as it comes: the same classifiers, each fitted from scratch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from progcl.bench.measure import by_turns, table, write
from progcl.data.datasets import load_dataset
from progcl.data.labels import labels_of
from progcl.data.splits import make_splits
from progcl.evaluation.probe import STRENGTHS, clean
from progcl.progress import bar


@dataclass(frozen=True)
class ProbeBench:
    """What to measure.

    Args:
        data: the data set whose raw features are probed
        splits: random splits
        repeats: rounds; the median counts
        data_root: where published data is
    """

    data: str = "digits"
    splits: int = 5
    repeats: int = 3
    data_root: str | None = None

    def run(self, out: Path) -> str:
        """Measure, write probe.json, and return the table."""
        data = load_dataset(self.data, self.data_root)
        labels, splits = labels_of(data), make_splits(data, self.splits)
        accuracies: dict[str, list[float]] = {}

        def ours() -> None:
            accuracies["progcl"] = clean(data.x, labels, splits)

        def plain() -> None:
            x, accuracies["scikit-learn"] = normalize(data.x.double().numpy()), []
            for split in splits:
                models = [
                    LogisticRegression(C=strength, max_iter=5000, tol=1e-5).fit(x[split.train], labels[split.train])
                    for strength in STRENGTHS
                ]
                best = max(models, key=lambda model: float(model.score(x[split.validation], labels[split.validation])))
                accuracies["scikit-learn"].append(float(best.score(x[split.test], labels[split.test])))

        with bar(True, total=2 * (self.repeats + 1), desc="bench probe", unit="run") as progress:
            seconds = by_turns({"progcl": ours, "scikit-learn": plain}, self.repeats, progress)
        means = {name: float(100 * np.mean(values)) for name, values in accuracies.items()}
        speedup = seconds["scikit-learn"] / seconds["progcl"]
        path = write(out, "probe", vars(self), {"seconds": seconds, "speed-up": speedup, "accuracy": means})
        rows = [[name, f"{taken:.2f} s", f"{means[name]:.2f}"] for name, taken in seconds.items()]
        head = [f"clean on {self.data}, {self.splits} splits", "seconds", "accuracy"]
        return f"{table(head, rows)}\nspeed-up: {speedup:.1f}x\n\nwritten: {path}"
