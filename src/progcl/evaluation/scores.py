"""Accuracies over splits: stored in a run folder, and formatted as a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from progcl.checksums import read_json
from progcl.config.schema import Config
from progcl.training.checkpoint import write_json

ACRONYMS = {"grace", "gca", "merit", "bgrl", "dgi", "mvgrl", "gae", "vgae", "coles", "gmi", "signa"}  # among methods


@dataclass(frozen=True)
class Score:
    """Test accuracies in percent, one per split."""

    protocol: str
    accuracies: tuple[float, ...]

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
    """Read the comparison in a run folder; empty if there is none."""
    path = run / "comparison.json"
    rows = read_json(path) if path.exists() else {}
    return {name: Score(row["protocol"], tuple(row["accuracies"])) for name, row in rows.items()}


def describe_run(config: Config, facts: dict[str, Any]) -> str:
    """Name a run for a table: method, miner, and whether a mixture was fitted."""
    name, miner = config.method.name, config.miner.name
    if "blocks" in facts and "learned" not in facts["blocks"]:
        return f"no training: {', '.join(facts['blocks'])}"
    base = name.upper() if name in ACRONYMS else name
    if miner == "none":
        return f"{base}, no mining" if "miner" in config.method.supports else base
    estimator, mixture = getattr(config.miner, "estimator", None), facts.get("mixture")
    if estimator and (mixture is None or mixture["degenerate"]):
        return f"{base} + {miner} (no mixture, so no mining)"
    return f"{base} + {miner}" + (" (oracle: trained with labels)" if estimator == "oracle" else "")


def format_table(scores: dict[str, Score]) -> str:
    """Format scores as aligned text, one row per method."""
    first = next(iter(scores.values()))
    width = max(map(len, scores))
    head = f"accuracy, mean ± std of {len(first.accuracies)} splits, protocol `{first.protocol}`"
    return "\n".join([head, *(f"  {name:<{width}}  {score}" for name, score in scores.items())])
