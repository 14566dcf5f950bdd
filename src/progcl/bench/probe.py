"""Times the probe against scikit-learn: the same classifiers for every C, each fit started at the one before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from progcl.bench.measure import align_columns, time_by_turns, write_result
from progcl.data.datasets import load_dataset
from progcl.data.labels import labels_of
from progcl.data.splits import make_splits
from progcl.evaluation.probe import C_GRID, probe_clean
from progcl.progress import bar

CSBM: dict[str, Any] = {"nodes": 50_000, "classes": 58, "features": 512, "signal": 4.5}


@dataclass(frozen=True)
class ProbeBench:
    """What to measure.

    Args:
        data: the data set whose raw features are probed; `csbm` is one of 50,000 nodes, 58 classes and 512 features
        splits: number of random splits
        repeats: timed rounds; the median is reported
        data_root: folder of published data sets
    """

    data: str = "digits"
    splits: int = 5
    repeats: int = 3
    data_root: str | None = None

    def run(self, out: Path) -> str:
        """Measure, write probe.json, and return the table."""
        data = load_dataset(self.data, self.data_root, **(CSBM if self.data == "csbm" else {}))
        labels, splits = labels_of(data), make_splits(data, self.splits)
        accuracies: dict[str, list[float]] = {}

        def ours() -> None:
            accuracies["progcl"] = [each.accuracy for each in probe_clean(data.x, labels, splits)]

        def plain() -> None:
            x, accuracies["scikit-learn"] = normalize(data.x.double().numpy()), []
            for split in splits:
                model = LogisticRegression(max_iter=5000, tol=1e-5, warm_start=True)
                validation, test = [], []
                for strength in C_GRID:
                    model.set_params(C=strength).fit(x[split.train], labels[split.train])
                    validation.append(model.score(x[split.validation], labels[split.validation]))
                    test.append(float(model.score(x[split.test], labels[split.test])))
                accuracies["scikit-learn"].append(test[int(np.argmax(validation))])

        with bar(True, total=2 * (self.repeats + 1), desc="bench probe", unit="run") as progress:
            seconds = time_by_turns({"progcl": ours, "scikit-learn": plain}, self.repeats, progress)
        means = {name: float(100 * np.mean(values)) for name, values in accuracies.items()}
        speedup = seconds["scikit-learn"] / seconds["progcl"]
        path = write_result(out, "probe", vars(self), {"seconds": seconds, "speed-up": speedup, "accuracy": means})
        rows = [[name, f"{median:.2f} s", f"{means[name]:.2f}"] for name, median in seconds.items()]
        head = [f"clean on {self.data}, {self.splits} splits", "seconds", "accuracy"]
        return f"{align_columns(head, rows)}\nspeed-up: {speedup:.1f}x\n\nwritten: {path}"
