"""What a run gives, written to its folder: embeddings first, scores as they come."""

from __future__ import annotations

import platform
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from progcl.budget import Budget
from progcl.checksums import read_json
from progcl.config import Config, to_dict
from progcl.data.walk_factors import node_names
from progcl.errors import InputError, warn
from progcl.evaluation.health import describe_harm
from progcl.evaluation.links import LinkScore
from progcl.evaluation.scores import Score, describe_run, save_scores
from progcl.evaluation.scoring import Scores, Vectors, baselines, limit_seconds, score_each
from progcl.export import load_run_embeddings
from progcl.training.files import write_json
from progcl.training.lock import lock_folder

PACKAGES = ("progcl", "torch", "torch_geometric", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Result:
    """What a run gives: embeddings [N, hidden], the loss of every epoch, the probe's score if there was one.

    Attributes:
        facts: what the method has to say at the end, such as the fitted mixture
        seconds: of training, and of the probe with all that was scored
        beside: scores of what the embedding has to beat, by name
        links: how well links that `data.holdout` kept from everything are predicted; None without
    """

    config: Config
    embeddings: Tensor
    losses: list[float]
    score: Score | None
    facts: dict[str, Any]
    seconds: dict[str, float]
    beside: Scores = field(default_factory=dict)
    links: LinkScore | None = None

    @property
    def mixture(self) -> dict[str, Any] | None:
        """The fitted mixture in plain numbers; None if there is none."""
        return self.facts.get("mixture")

    def to_dict(self) -> dict[str, Any]:
        """Content of `result.json`: equal for equal seeds and versions, but for `seconds`."""
        return {
            "config": to_dict(self.config),
            "seed": self.config.train.seed,
            "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
            "loss": self.losses[-1] if self.losses else None,
            "facts": self.facts,
            "score": self.score and _plain(self.score),
            "links": self.links and asdict(self.links),
            "seconds": self.seconds,
        }

    def write(self, folder: Path) -> None:
        """Write result.json, which marks the embeddings as final, and comparison.json if there is something beside."""
        write_json(folder / "result.json", self.to_dict())
        if self.score and self.beside:
            save_scores({describe_run(self.config, self.facts): self.score, **self.beside}, folder)


def score_result(
    result: Result,
    data: Data,
    folder: Path | None = None,
    beside: Vectors | None = None,
    budget: Budget | None = None,
    progress: bool = False,
) -> Result:
    """Score the embeddings of a run; what is scored so far is in `folder` after every split.

    Args:
        result: of a run
        data: its graph, with labels
        folder: of the run
        beside: functions that make vectors [N, d] to compare with, by name
        budget: time to keep to, instead of `probe.limit`
        progress: show a bar on stderr
    """
    budget, start = budget or Budget(), time.perf_counter()
    own = describe_run(result.config, result.facts)
    limit = limit_seconds(result.config.probe, result.seconds["train"])
    seconds = budget.available() if budget.is_limited else limit

    def keep(scores: Scores) -> None:
        nonlocal result
        elapsed = {**result.seconds, "probe": time.perf_counter() - start}
        others = {name: score for name, score in scores.items() if name != own}
        result = replace(result, score=scores[own], beside=others, seconds=elapsed)
        if folder:
            result.write(folder)

    if seconds > 0:
        vectors = {own: lambda: result.embeddings, **(beside or {})}
        try:
            score_each(vectors, data, result.config.probe, keep, seconds, budget.clock, progress)
        except InputError as error:  # too few labels: the embeddings are none the worse for it
            warn(f"not scored: {error.args[0]}" + (f" ({error.hint})" if error.hint else ""))
    for text in describe_harm({own: result.score, **result.beside} if result.score else {}):
        warn(text)
    return result


def rescore(run: Path, config: Config, data: Data, keep: bool) -> Scores:
    """Score the embeddings in the folder of a run without a time limit, beside what they have to beat.

    Args:
        run: the folder
        config: of the run, perhaps with another section `probe`
        data: its graph
        keep: store the scores in the folder, where the report finds them

    Raises:
        InputError: if the graph has other nodes, or if scores are to be stored and the run is under way
    """
    with lock_folder(run) if keep else nullcontext():
        return _rescore(run, config, data, keep)


def _rescore(run: Path, config: Config, data: Data, keep: bool) -> Scores:
    vectors, stored = load_run_embeddings(run, node_names(data)).vectors, read_json(run / "result.json")
    config = replace(config, probe=replace(config.probe, limit=None))
    start, own = time.perf_counter(), describe_run(config, stored["facts"])

    def store(scores: Scores) -> None:
        seconds = {**stored["seconds"], "probe": time.perf_counter() - start}
        write_json(run / "result.json", {**stored, "score": _plain(scores[own]), "seconds": seconds})
        if len(scores) > 1:
            save_scores(scores, run)

    embeddings = torch.from_numpy(vectors)
    beside = baselines(config, data, embeddings, stored["facts"]) if keep else {}
    made = {own: lambda: embeddings, **beside}
    return score_each(made, data, config.probe, store if keep else lambda _: None, progress=True)


def _plain(score: Score) -> dict[str, Any]:
    """A score in `result.json`."""
    return {"mean": score.mean, "std": score.std, **asdict(score)}
