"""Charts: ticks, downsampling, and curves that stay inside the plot area."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from progcl.report.charts import (
    HEIGHT,
    MAX_POINTS,
    WIDTH,
    Axis,
    Chart,
    choose_ticks,
    downsample,
    draw_loss,
    draw_strip,
    format_number,
)
from support.stories import points_of


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_two_to_seven_ticks_are_inside_the_range(low: float, span: float) -> None:
    ticks = choose_ticks(low, low + span)
    assert 2 <= len(ticks) <= 7
    assert all(low - 1e-6 * span <= value <= low + span + 1e-6 * span for value in ticks)


def test_ticks_are_round() -> None:
    assert choose_ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert choose_ticks(1, 10_000) == [2000, 4000, 6000, 8000, 10_000]
    assert [format_number(value) for value in (10_000, 0.25, 3.0, 1e-7)] == ["10,000", "0.25", "3", "1e-07"]


def test_downsampling_keeps_spikes_and_ends() -> None:
    values = np.linspace(9, 1, 10_000)
    values[[1234, 6789]] = 50, -50
    indices, kept = downsample(values)
    assert len(indices) <= MAX_POINTS
    assert {0, 1234, 6789, 9999} <= set(indices.astype(int))
    np.testing.assert_array_equal(values[indices.astype(int)], kept)


def test_downsampling_drops_what_is_not_finite() -> None:
    indices, kept = downsample(np.array([1, np.nan, 3, np.inf]))
    assert (indices.tolist(), kept.tolist()) == ([0, 2], [1, 3])
    assert len(downsample(np.arange(MAX_POINTS, dtype=float))[0]) == MAX_POINTS


def test_a_line_runs_from_corner_to_corner() -> None:
    chart = Chart("<alt>", Axis("x", 0, 10), Axis("y", 0, 2))
    chart.line(np.array([0.0, 10.0]), np.array([0.0, 2.0]), "tone-true")
    chart.mark(9, "late")
    chart.mark(1, "<early>")
    svg = chart.to_svg()
    assert points_of(svg) == [(44, 220), (408, 24)]
    assert ET.fromstring(svg).get("aria-label") == "<alt>"
    labels = [each for each in ET.fromstring(svg) if each.get("class") == "mark-label"]
    assert [(each.text, each.get("text-anchor")) for each in labels] == [("late", "end"), ("<early>", "start")]


def test_a_histogram_is_as_high_as_its_bars() -> None:
    chart = Chart("", Axis("x", 0, 2), Axis("y", 0, 4))
    chart.stairs(np.array([0.0, 1.0, 2.0]), np.array([4.0, 2.0]), "tone-true")
    assert [y for _, y in points_of(chart.to_svg())] == [220, 24, 24, 122, 122, 220]


def test_a_file_escapes_its_texts_and_makes_room_for_the_legend() -> None:
    chart = Chart("<alt>", Axis("<x>", 0, 2), Axis("y", 0, 4))
    plain = ET.fromstring(chart.to_file())
    for label in ("<one>", "two", "three"):
        chart.line(np.array([0.0, 2.0]), np.array([1.0, 2.0]), "tone-true", label)
    root = ET.fromstring(chart.to_file())
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<one>", "two", "three", "<x>"} <= set(words)
    assert root[0].text == "<alt>"
    heights = [int((each.get("viewBox") or "").split()[3]) for each in (plain, root)]
    assert heights[1] - heights[0] == 2 * 17


@pytest.mark.parametrize("losses", [[5.0], [5.0, 5.0], [7.0, float("nan"), 5.0], list(range(10_000))])
def test_any_loss_can_be_drawn(losses: list[float]) -> None:
    chart = draw_loss(losses, start_epoch=1)
    assert chart is not None
    svg = chart.to_svg()
    assert len(svg) < 20_000
    points = points_of(svg)
    assert points
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    assert "E = 1" in svg


def test_e_is_marked_if_it_is_an_epoch_of_the_run() -> None:
    for start_epoch, marked in ((5, False), (None, False), (0, False), (2, True)):
        chart = draw_loss([3.0, 2.0], start_epoch)
        assert chart is not None
        assert ("E =" in chart.to_svg()) is marked
    assert draw_loss([float("nan")], 1) is None


def test_a_strip_has_a_dot_per_value_and_a_line_at_the_mean() -> None:
    assert ET.fromstring(draw_strip((90.0,), 90.0, 90.0)).get("aria-label") == "1 split from 90.0 to 90.0"
    strip = ET.fromstring(draw_strip((90.0, 92.0), 90.0, 92.0))
    assert [each.get("cx") for each in strip.iter("circle")] == ["6.0", "154.0"]
    assert strip[-1].get("d") == "M80.0 2V18"
