"""Score an embedding beside what it has to beat: bounded in time, and kept after every split."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from progcl.config.schema import Config, ProbeConfig
from progcl.data.datasets import FILE
from progcl.evaluation.health import RAW, REST
from progcl.evaluation.probe import linear_probe
from progcl.evaluation.scores import Score
from progcl.graph.hop_features import HopFeatures
from progcl.methods import method_type
from progcl.methods.features import raw

MIN_SECONDS = 30.0  # for scoring, however short the training was

Vectors = Mapping[str, Callable[[], Tensor]]
Scores = dict[str, Score]


def score_each(
    vectors: Vectors,
    data: Data,
    probe: ProbeConfig,
    keep: Callable[[Scores], object],
    seconds: float = math.inf,
    clock: Callable[[], float] = time.monotonic,
    progress: bool = False,
) -> Scores:
    """Score one kind of vectors after the other.

    Args:
        vectors: functions that make vectors [N, d], by name; the first is what the others are compared with
        data: the graph, with labels
        probe: protocol and splits; none of the others gets more splits than the first
        keep: called after every split with all scores so far, so that nothing is lost where scoring ends early
        seconds: time limit; each kind may take an equal share of what is left, the first at least one split
        clock: tells the time in seconds
        progress: show a progress bar on stderr
    """
    end, splits, longest, scores = clock() + seconds, probe.splits, 0.0, dict[str, Score]()
    for index, (name, make) in enumerate(vectors.items()):
        start = clock()
        if index and start + longest >= end:  # no time for a split
            break
        share = (end - start) / (len(vectors) - index)

        def keep_split(score: Score, name: str = name) -> None:
            scores[name] = score
            keep(dict(scores))

        made = make()
        limits = {"splits": splits, "seconds": start + share - clock(), "clock": clock}
        score = linear_probe(made, data, **{**probe.options(), **limits}, progress=progress, on_split=keep_split)
        splits = min(splits, len(score.accuracies))
        longest = max(longest, (clock() - start) / len(score.accuracies))
    return scores


def limit_seconds(probe: ProbeConfig, training: float) -> float:
    """Seconds that scoring may take after so many seconds of training."""
    return math.inf if probe.limit is None else max(MIN_SECONDS, probe.limit * training)


def baselines(config: Config, data: Data, embeddings: Tensor, facts: Mapping[str, Any]) -> Vectors:
    """What the embedding [N, D] of a user's graph has to beat.

    These are its own columns that needed no training, if there are others; the features as they are; and features of
    several hops.
    """
    if config.data.name != FILE:
        return {}
    learned = facts.get("learned columns", 0) if method_type(config.method.name).trained else 0
    rest: Vectors = {REST: lambda: embeddings[:, learned:]} if 0 < learned < embeddings.size(1) else {}
    hops = f"features of up to {config.hops.powers[-1]} hops (no training)"
    return {**rest, RAW: partial(raw, data), hops: lambda: HopFeatures.fit(data, config.hops).transform(data)}
