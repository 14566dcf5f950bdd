"""What a fitted miner has seen, in numbers that pictures are made of."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from progcl.miners.frozen import FrozenPosterior
from progcl.posteriors.base import Posterior
from progcl.posteriors.mixture import Mixture

Array = NDArray[np.float64]


BINS = 80


@dataclass(frozen=True)
class MixturePlot:
    """Similarities of negatives at epoch E over [0, 1], what was fitted to them, and p(true | s).

    Attributes:
        start_epoch: E
        density: of the negatives in equal bins, [bins] each: of all, or of true and false ones by label
        grid: similarities at which the curves are known
        fitted: the mixture's components at these; none for estimators that are no mixture
        probability: p(true | s) at these; None where it depends on the two nodes
        chances: share of negatives by p(true), in equal bins of [0, 1]
    """

    start_epoch: int
    density: dict[str, Array]
    grid: Array
    fitted: dict[str, Array]
    probability: Array | None
    chances: Array | None

    @classmethod
    def of(cls, miner: FrozenPosterior, data: Data | None, pairs: int = 1_000_000) -> MixturePlot:
        """Those of a fitted miner; with `data` and its labels, true and false negatives are told apart."""
        s, same_class = _sample(miner, data, pairs)
        names = {"negatives": np.ones(len(s), dtype=bool)}
        if same_class is not None:
            names = {"true negatives (by label)": ~same_class, "false negatives (by label)": same_class}
        density = {name: np.histogram(s[members], BINS, (0, 1))[0] / len(s) * BINS for name, members in names.items()}
        grid, estimator = np.linspace(0.002, 0.998, 250), miner.estimator
        parts = zip(("true", "false"), estimator.density(grid), strict=True) if isinstance(estimator, Mixture) else ()
        probability = chances = None
        if type(estimator).for_pairs is Posterior.for_pairs:  # it looks at s, not at the nodes
            probability = estimator.posterior(torch.from_numpy(grid)).numpy()
            chances = np.histogram(estimator.posterior(torch.from_numpy(s)).numpy(), 40, (0, 1))[0] / len(s)
        return cls(miner.start_epoch, density, grid, dict(parts), probability, chances)

    def to_json(self) -> str:
        """All of it, to six digits."""
        return json.dumps(asdict(self), default=lambda values: [float(f"{value:.6g}") for value in values]) + "\n"

    @classmethod
    def from_json(cls, text: str) -> MixturePlot:
        """What `to_json` wrote."""
        content = json.loads(text)
        for name in ("density", "fitted"):
            content[name] = {key: np.array(values) for key, values in content[name].items()}
        for name in ("grid", "probability", "chances"):
            content[name] = None if content[name] is None else np.array(content[name])
        return cls(**content)


def _sample(miner: FrozenPosterior, data: Data | None, pairs: int) -> tuple[Array, NDArray[np.bool_] | None]:
    """Normalized similarities of random inter-view negatives, and whether the two nodes share a class."""
    generator = torch.Generator().manual_seed(0)
    own, other = miner.snapshot
    known = miner.known
    chosen = torch.randint(0, len(known), (pairs,), generator=generator)
    others = (chosen + torch.randint(1, len(known), (pairs,), generator=generator)) % len(known)
    first, second = known[chosen], known[others]
    parts = zip(first.split(2**14), second.split(2**14), strict=True)
    s = miner.normalize(torch.cat([(own[i] * other[j]).sum(dim=1) for i, j in parts])).double().cpu().numpy()
    labels = None if data is None else data.get("y")
    return s, None if labels is None else (labels[first] == labels[second]).cpu().numpy()
