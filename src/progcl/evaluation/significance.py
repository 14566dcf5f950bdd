"""Whether one method is better than another: differences over the same seeds and splits, with an interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from progcl.errors import InputError

DRAWS = 10_000


class Difference(NamedTuple):
    """A mean difference of accuracies in points, and its interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def paired_difference(first: ArrayLike, second: ArrayLike, level: float = 0.95) -> Difference:
    """The mean of first - second, accuracies by seed and split [S, K], with a bootstrap interval over both.

    Seeds and splits are resampled independently of each other (Owen, "The pigeonhole bootstrap", 2007). A method
    without seeds has one row, which stands for every seed of the other. Splits of the same nodes overlap, so that the
    interval is rather too narrow for another graph of the same kind; it says how sure a difference is on this one.

    Raises:
        InputError: the numbers of splits differ, or both have several seeds but not as many
    """
    one, other = np.atleast_2d(np.asarray(first, float)), np.atleast_2d(np.asarray(second, float))
    seeds = {len(one), len(other)} - {1}
    if one.shape[1] != other.shape[1] or len(seeds) > 1:
        shapes = f"{list(one.shape)} and {list(other.shape)}"
        raise InputError(f"only the same seeds and splits can be compared (got {shapes})")
    difference = one - other
    means = _resample_means(difference)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Difference(float(difference.mean()), float(low), float(high))


def _resample_means(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of [S, K] values with rows and columns drawn with replacement."""
    generator = np.random.default_rng(0)
    seeds, splits = values.shape
    rows = generator.multinomial(seeds, np.full(seeds, 1 / seeds), size=DRAWS) / seeds
    columns = generator.multinomial(splits, np.full(splits, 1 / splits), size=DRAWS) / splits
    means: NDArray[np.float64] = np.einsum("ds,sk,dk->d", rows, values, columns)
    return means
