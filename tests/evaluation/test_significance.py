"""Paired differences against a loop, and against what is known of normal numbers."""

import numpy as np
import pytest
from numpy.typing import NDArray

from progcl import InputError
from progcl.evaluation.significance import paired_difference

GENERATOR = np.random.default_rng(0)
BASE = 90 + GENERATOR.normal(0, 1, (1, 20)) + GENERATOR.normal(0, 0.1, (3, 20))


def test_a_difference_that_all_splits_share_is_found_where_means_overlap() -> None:
    """Splits differ by a point, methods by a tenth."""
    difference = paired_difference(BASE + 0.1, BASE)
    assert difference.mean == pytest.approx(0.1)
    assert (difference.low, difference.high) == pytest.approx((0.1, 0.1))
    assert str(difference) == "+0.10 [+0.10, +0.10]"


def test_the_interval_is_that_of_a_bootstrap_over_seeds_and_splits() -> None:
    values = GENERATOR.normal(0.2, 1, (3, 12))
    means = []
    draws = np.random.default_rng(1)
    for _ in range(4000):
        rows, columns = draws.integers(0, 3, 3), draws.integers(0, 12, 12)
        means.append(np.mean([[values[row, column] for column in columns] for row in rows]))
    difference = paired_difference(values, np.zeros((3, 12)))
    assert difference.mean == pytest.approx(values.mean())
    assert (difference.low, difference.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.05)
    assert difference.low < difference.mean < difference.high


def test_a_method_without_seeds_is_compared_with_every_seed() -> None:
    assert paired_difference(BASE, BASE[:1]).mean == pytest.approx(float((BASE - BASE[0]).mean()))


@pytest.mark.parametrize("other", [BASE[:2], BASE[:, :5]])
def test_other_seeds_or_splits_are_refused(other: NDArray[np.float64]) -> None:
    with pytest.raises(InputError, match="same seeds and splits"):
        paired_difference(BASE, other)
