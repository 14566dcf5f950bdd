"""Scores over splits: stored in a run folder, and formatted as a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from progcl.checksums import REWRITE, read_file, read_json
from progcl.config.schema import Config
from progcl.training.files import write_json

ACRONYMS = {  # among methods
    *("grace", "gca", "merit", "bgrl", "dgi", "mvgrl", "gae", "vgae", "coles", "gmi", "signa"),
    *("mlp", "gcn", "gat"),
}
MAJORITY = "always the largest class"


@dataclass(frozen=True)
class Score:
    """Test scores in percent, one per split.

    Attributes:
        protocol: of the probe
        accuracies: share of nodes whose class is predicted
        macro_f1: mean over the classes of F1, in which small classes count as much as large ones
        roc_auc: of two classes; empty for more
        majority: share of the largest class, the accuracy of predicting it always
        nodes: number of nodes with labels
    """

    protocol: str
    accuracies: tuple[float, ...]
    macro_f1: tuple[float, ...] = ()
    roc_auc: tuple[float, ...] = ()
    majority: float | None = None
    nodes: int | None = None

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Score:
        """Read back what `asdict` gives; further keys are left aside.

        Raises:
            ValueError: if these are no scores
        """
        fields: dict[str, Any] = {key: stored[key] for key in cls.__dataclass_fields__ if key in stored}
        fields |= {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
        score = cls(**fields)
        shares = (*score.accuracies, *score.macro_f1, *score.roc_auc, 0 if score.majority is None else score.majority)
        is_valid = all(isinstance(share, (int, float)) and 0 <= share <= 100 for share in shares)
        if not is_valid or not score.accuracies or not isinstance(score.protocol, str):
            raise ValueError("scores are shares in percent, one for each split")
        return replace(score, nodes=None if score.nodes is None else int(score.nodes))

    @property
    def mean(self) -> float:
        """Mean over the splits."""
        return float(np.mean(self.accuracies))

    @property
    def std(self) -> float:
        """Standard deviation over the splits."""
        return float(np.std(self.accuracies))

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.std:.2f}"


def save_scores(scores: dict[str, Score], run: Path) -> None:
    """Write a comparison to `comparison.json` in a run folder."""
    stored = {name: asdict(score) for name, score in scores.items()}
    write_json(run / "comparison.json", stored)


def load_scores(run: Path) -> dict[str, Score]:
    """Read the scores in the folder of a run, and of what it is compared with; empty if it was not scored."""
    path = run / "comparison.json"
    if path.exists():
        return read_file(path, lambda: {name: Score.from_dict(row) for name, row in read_json(path).items()}, REWRITE)
    path = run / "result.json"
    if not path.exists():
        return {}

    def read_own() -> Score | None:
        own = read_json(path)["score"]
        return Score.from_dict(own) if own else None

    score = read_file(path, read_own, REWRITE)
    return {"this run": score} if score else {}


def describe_run(config: Config, facts: dict[str, Any]) -> str:
    """Name a run for a table: method, miner, and whether a mixture was fitted."""
    name, miner = config.method.name, config.miner.name
    if "blocks" in facts and "learned" not in facts["blocks"]:
        return f"no training: {', '.join(facts['blocks'])}"
    base = name.upper() if name in ACRONYMS else name
    if config.method.needs_labels:
        return f"{base} (trained with labels)"
    if miner == "none":
        return f"{base}, no mining" if config.method.takes_miner else base
    estimator, mixture = getattr(config.miner, "estimator", None), facts.get("mixture")
    if estimator and (mixture is None or mixture["degenerate"]):
        return f"{base} + {miner} (no mixture, so no mining)"
    return f"{base} + {miner}" + (" (oracle: trained with labels)" if estimator == "oracle" else "")


def format_table(scores: dict[str, Score]) -> str:
    """Format scores as aligned text, one row per method, and a last one for predicting the largest class always.

    Rows of fewer splits than the first say so.
    """
    first = next(iter(scores.values()))
    nodes = "" if first.nodes is None else f", {first.nodes:,} nodes with labels"
    head = f"mean ± std of {len(first.accuracies)} splits, protocol `{first.protocol}`{nodes}"
    rows = [["", *(name for name, _ in list_columns(first))]]
    rows += [
        [name + note_splits(score, first), *(text for _, text in list_columns(score))] for name, score in scores.items()
    ]
    if first.majority is not None:
        rows.append([MAJORITY, f"{first.majority:.2f}"])
    widths = [max(len(row[place]) for row in rows if place < len(row)) for place in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)) for row in rows]
    return "\n".join([head, *(f"  {line}".rstrip() for line in lines)])


def note_splits(score: Score, first: Score) -> str:
    """How many splits a score is of, if they are not as many as those of the first."""
    number = len(score.accuracies)
    return "" if number == len(first.accuracies) else f" ({number} split{'s' if number != 1 else ''})"


def list_columns(score: Score) -> list[tuple[str, str]]:
    """The measures of a score, by name: accuracy, macro-F1, and ROC-AUC of two classes."""
    columns = [("accuracy", str(score))]
    columns += [("macro-F1", f"{np.mean(score.macro_f1):.2f}")] if score.macro_f1 else []
    columns += [("ROC-AUC", f"{np.mean(score.roc_auc):.2f}")] if score.roc_auc else []
    return columns
