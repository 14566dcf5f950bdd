"""Whether an embedding is worth having: signs of collapse, of mining that did nothing, and of harm, with what to try.

That links do not connect similar nodes is told before training, by `progcl.data.homophily`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from progcl.evaluation.scores import Score

PAIRS, PARTS = 4096, 16  # of nodes, whose cosines are looked at, a part of them at a time
COLLAPSED = 0.98  # absolute cosine that nearly all pairs exceed in a collapsed embedding
FEW = 0.05  # share of pairs that may be below
MIN_HARM = 0.5  # points of accuracy
MIN_SPLITS = 3  # that say whether an embedding is below features of several hops, which are close to it
RAW = "raw features"  # rows of a comparison
REST = "the embedding without its learned part (no training)"
FEATURES = (RAW, REST, "propagated features (no training)", "features of up to")  # which need no training
UNTRAINED = (*FEATURES, "untrained encoder")


def list_warnings(vectors: NDArray[np.float32], facts: dict[str, Any], scores: dict[str, Score]) -> list[str]:
    """What a reader should know before trusting an embedding [N, d]: empty if nothing is wrong."""
    return [*describe_collapse(vectors), *describe_mixture(facts.get("mixture") or {}), *describe_harm(scores)]


def describe_collapse(vectors: NDArray[np.float32], seed: int = 0) -> list[str]:
    """A warning if nearly all pairs of nodes have the same direction, or opposite ones."""
    generator = np.random.default_rng(seed)
    first = generator.integers(len(vectors), size=PAIRS)
    second = (first + generator.integers(1, max(2, len(vectors)), size=PAIRS)) % len(vectors)
    lengths, products = np.empty(PAIRS), np.empty(PAIRS)
    for part in np.array_split(np.arange(PAIRS), PARTS):
        one, other = (vectors[ends[part]].astype(np.float64) for ends in (first, second))
        lengths[part] = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        products[part] = np.abs((one * other).sum(axis=1))
    cosines = products / np.maximum(lengths, 1e-30)
    if not lengths.any():
        found = "all vectors are zero"
    elif min(vectors.shape) > 1 and len(vectors) > 2 and np.quantile(cosines, FEW) > COLLAPSED:
        found = f"nearly all pairs of nodes have a cosine above {COLLAPSED} (median {np.median(cosines):.3f})"
    else:
        return []
    hint = "try a smaller --train.lr or --loss.tau, or vectors that need no training: --output.blocks untrained"
    return [f"the embedding has collapsed: {found}, so that it tells nodes hardly apart; {hint}"]


def describe_mixture(mixture: dict[str, Any]) -> list[str]:
    """A warning if no mixture was fitted, or one that tells little."""
    hint = "try a later --miner.start_epoch, another --miner.estimator, or --miner.name none"
    if mixture.get("degenerate"):
        given_up = "the similarities of negatives have no two modes, and the mixture was given up"
        return [f"this run is plain InfoNCE: {given_up}, so that every negative counts as a true one; {hint}"]
    if mixture.get("unimodal"):
        found = "the similarities have one mode: the fitted mixture tells little of true and false negatives"
        return [f"{found}; {hint}, or give such a mixture up with --miner.require_two_modes true"]
    return []


def describe_harm(scores: dict[str, Score]) -> list[str]:
    """A warning for every trained row that scores below features without training, on the same splits."""
    features = {name: score for name, score in scores.items() if name.startswith(FEATURES)}
    hint = "try --output.blocks own (the features as they are) or untrained (several hops, no training)"
    texts = []
    for name, score in scores.items():
        splits = len(score.accuracies)
        known = [other for other in features if other == RAW or splits >= MIN_SPLITS]
        better = [other for other in known if _is_below(score, features[other])]
        if better and not name.startswith(UNTRAINED):
            best = max(better, key=lambda other: features[other].mean)
            texts.append(f"{name} scores {score.mean:.2f}, below {best}, {features[best].mean:.2f}: {hint}")
    return texts


def _is_below(score: Score, other: Score) -> bool:
    """Whether the first is lower by more than half a point and two standard errors over the splits of both."""
    pairs = zip(score.accuracies, other.accuracies, strict=False)
    differences = np.array([second - first for first, second in pairs])
    return bool(differences.mean() > max(MIN_HARM, 2 * differences.std() / len(differences) ** 0.5))
