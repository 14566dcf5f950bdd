"""Charts: ticks, thinning, and pictures whose numbers stay inside."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from progcl.report.charts import HEIGHT, POINTS, WIDTH, Axis, Chart, spoken, strip, thinned, ticks
from progcl.report.mixture import MixturePlot
from progcl.report.pictures import draw_chances, draw_loss, draw_similarities
from support.stories import make_curves


def coordinates(svg: str) -> list[tuple[float, float]]:
    """Points of all curves and histograms."""
    found = [each.get("d") or "" for each in ET.fromstring(svg) if re.match("line|area", each.get("class") or "")]
    pairs = re.findall(r"(-?[\d.]+) (-?[\d.]+)", " ".join(found))
    return [(float(x), float(y)) for x, y in pairs]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_and_inside(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert 2 <= len(found) <= 7
    assert all(low - 1e-6 * span <= value <= low + span + 1e-6 * span for value in found)


def test_ticks_are_round() -> None:
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert ticks(1, 10_000) == [2000, 4000, 6000, 8000, 10_000]
    assert [spoken(value) for value in (10_000, 0.25, 3.0, 1e-7)] == ["10,000", "0.25", "3", "1e-07"]


def test_thinning_keeps_spikes_and_ends() -> None:
    values = np.linspace(9, 1, 10_000)
    values[[1234, 6789]] = 50, -50
    places, kept = thinned(values)
    assert len(places) <= POINTS
    assert {0, 1234, 6789, 9999} <= set(places.astype(int))
    np.testing.assert_array_equal(values[places.astype(int)], kept)


def test_thinning_drops_what_is_not_finite() -> None:
    places, kept = thinned(np.array([1, np.nan, 3, np.inf]))
    assert (places.tolist(), kept.tolist()) == ([0, 2], [1, 3])
    assert len(thinned(np.arange(POINTS, dtype=float))[0]) == POINTS


def test_a_line_runs_from_corner_to_corner() -> None:
    chart = Chart("<alt>", Axis("x", 0, 10), Axis("y", 0, 2))
    chart.line(np.array([0.0, 10.0]), np.array([0.0, 2.0]), "tone-true")
    chart.mark(9, "late")
    chart.mark(1, "<early>")
    svg = chart.svg()
    assert coordinates(svg) == [(44, 220), (408, 24)]
    assert ET.fromstring(svg).get("aria-label") == "<alt>"
    assert [each.get("text-anchor") for each in ET.fromstring(svg) if each.get("class") == "word"] == ["end", "start"]


def test_a_histogram_is_as_high_as_its_bars() -> None:
    chart = Chart("", Axis("x", 0, 2), Axis("y", 0, 4))
    chart.stairs(np.array([0.0, 1.0, 2.0]), np.array([4.0, 2.0]), "tone-true")
    assert [y for _, y in coordinates(chart.svg())] == [220, 24, 24, 122, 122, 220]


@pytest.mark.parametrize("losses", [[5.0], [5.0, 5.0], [7.0, float("nan"), 5.0], list(range(10_000))])
def test_any_loss_can_be_drawn(losses: list[float]) -> None:
    figure = draw_loss(losses, start_epoch=1)
    svg = figure[figure.index("<svg") : figure.index("</svg>") + 6]
    assert len(svg) < 20_000
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in coordinates(svg))
    assert "E = 1" in figure


def test_e_is_marked_only_where_it_is() -> None:
    assert "E =" not in draw_loss([3.0, 2.0], start_epoch=5)
    assert "E =" not in draw_loss([3.0, 2.0])


def test_similarities_with_and_without_a_mixture() -> None:
    full = draw_similarities(make_curves())
    for word in ("fitted: false", "p(true | s)", "E = 2", "line dashed tone-plain", "tone-false"):
        assert word in full
    bare = MixturePlot(2, {"negatives": np.zeros(2)}, np.ones(2), {}, None, None)
    assert "fitted" not in draw_similarities(bare)
    assert "p(true" not in draw_similarities(bare)
    assert draw_chances(bare) == ""
    assert "% of pairs" in draw_chances(make_curves())


def test_a_fitted_curve_that_shoots_up_does_not_flatten_the_bars() -> None:
    grid = np.linspace(0, 1, 200)
    curves = MixturePlot(2, {"negatives": np.ones(2)}, grid, {"true": 1 / (1 - grid + 1e-6)}, None, None)
    figure = draw_similarities(curves)
    points = coordinates(figure[figure.index("<svg") : figure.index("</svg>") + 6])
    assert min(y for _, y in points) >= 24
    assert max(y for _, y in points) - points[1][1] > 3  # the bars of height 1 can be seen


def test_a_strip_of_one_value() -> None:
    assert ET.fromstring(strip((90.0,), 90.0, 90.0)).get("aria-label") == "1 splits from 90.0 to 90.0"
