"""Plot data of a fitted mixture, and its one chart on the page and in mixture.svg."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from progcl import InfoNCE, ProGCLWeight
from progcl.data.synthetic import csbm
from progcl.report.mixture import MixturePlot, draw_mixture, draw_probabilities, plot_data, save_mixture
from support.stories import make_mixture, points_of

BARE = MixturePlot(2, {"negatives": np.zeros(2)}, np.ones(2), {}, None, None)


@pytest.fixture(scope="module")
def fitted() -> tuple[ProGCLWeight, Data]:
    data = csbm(nodes=120, classes=3, signal=4)
    miner = ProGCLWeight(start_epoch=0)
    noise = 0.3 * torch.randn(120, 32, generator=torch.Generator().manual_seed(0))
    InfoNCE(0.4, miner)(data.x, data.x + noise)
    return miner, data


def test_with_labels_true_and_false_negatives_are_told_apart(fitted: tuple[ProGCLWeight, Data]) -> None:
    miner, data = fitted
    assert list(MixturePlot.from_miner(miner, data, pairs=1000).density) == [
        "true negatives (by label)",
        "false negatives (by label)",
    ]
    assert list(MixturePlot.from_miner(miner, None, pairs=1000).density) == ["negatives"]


def test_densities_and_shares_add_up(fitted: tuple[ProGCLWeight, Data]) -> None:
    plot = MixturePlot.from_miner(*fitted, pairs=20_000)
    assert plot.chances is not None
    assert plot.chances.sum() == pytest.approx(1)
    assert sum(density.mean() for density in plot.density.values()) == pytest.approx(1)


def test_plot_data_is_restored_from_json(fitted: tuple[ProGCLWeight, Data]) -> None:
    plot = MixturePlot.from_miner(*fitted, pairs=20_000)
    restored = MixturePlot.from_json(plot.to_json())
    assert restored.start_epoch == 0
    for name in ("grid", "probability", "chances"):
        np.testing.assert_allclose(getattr(restored, name), getattr(plot, name), rtol=1e-5)
    for name, values in {**plot.density, **plot.fitted}.items():
        np.testing.assert_allclose({**restored.density, **restored.fitted}[name], values, rtol=1e-5)


def test_plot_data_finds_the_fitted_miner_in_a_module(fitted: tuple[ProGCLWeight, Data]) -> None:
    miner, data = fitted
    losses = torch.nn.ModuleList([InfoNCE(0.4), InfoNCE(0.4, ProGCLWeight()), InfoNCE(0.4, miner)])
    plot = plot_data(losses, data)
    assert plot is not None
    assert plot.to_json() == MixturePlot.from_miner(miner, data).to_json()
    assert plot_data(losses[:2], data) is None


@pytest.mark.filterwarnings("ignore:no mixture")
@pytest.mark.parametrize("require_two_modes", [False, True])
def test_similarities_of_one_mode_are_drawn_although_the_mixture_is_given_up(require_two_modes: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(1000, 16, generator=generator)
    miner = ProGCLWeight(start_epoch=0, require_two_modes=require_two_modes)
    InfoNCE(0.4, miner)(h, h + 3 * torch.randn(1000, 16, generator=generator))
    assert miner.facts()["mixture"]["degenerate"] == require_two_modes
    plot = plot_data(miner, None)
    assert plot is not None
    assert plot.density["negatives"].mean() == pytest.approx(1)
    assert (plot.fitted, plot.probability is None, plot.chances is None)[1:] == (require_two_modes,) * 2
    curves = [] if require_two_modes else ["fitted: true", "fitted: false", "p(true | s)"]
    assert list(draw_mixture(plot).legend) == ["negatives", *curves]
    assert MixturePlot.from_json(plot.to_json()).fitted.keys() == plot.fitted.keys()


def test_a_chart_has_what_the_data_has() -> None:
    full = draw_mixture(make_mixture())
    assert full.legend == {
        "true negatives (by label)": "area tone-true",
        "false negatives (by label)": "area tone-false",
        "fitted: true": "line tone-true",
        "fitted: false": "line tone-false",
        "p(true | s)": "line dashed tone-plain",
    }
    assert "E = 2" in full.to_svg()
    assert list(draw_mixture(BARE).legend) == ["negatives"]
    assert "p(true" not in draw_mixture(BARE).to_svg()
    assert draw_probabilities(BARE) is None
    probabilities = draw_probabilities(make_mixture())
    assert probabilities is not None
    assert "% of pairs" in probabilities.to_svg()


def test_a_diverging_density_does_not_flatten_the_bars() -> None:
    grid = np.linspace(0, 1, 200)
    plot = replace(BARE, density={"negatives": np.ones(2)}, grid=grid, fitted={"true": 1 / (1 - grid + 1e-6)})
    points = points_of(draw_mixture(plot).to_svg())
    assert min(y for _, y in points) >= 24
    assert max(y for _, y in points) - points[1][1] > 3  # the bars of height 1 are visible


def test_the_file_is_the_chart_of_the_page_with_styles_and_legend(tmp_path: Path) -> None:
    save_mixture(make_mixture(), tmp_path / "mixture.svg")
    text = (tmp_path / "mixture.svg").read_text("utf-8")
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    chart = draw_mixture(make_mixture())
    for element in re.findall(r"<(?:path|text).*?/(?:text)?>", chart.to_svg()):
        assert element in text
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert set(chart.legend) <= set(words)
    assert "prefers-color-scheme: dark" in text
    rules = re.findall(
        r"([^{}]+)\{", re.sub(r"/\*.*?\*/|@media[^{]*\{", "", text.split("<style>")[1].split("</style>")[0], flags=re.S)
    )
    assert all(rule.strip().startswith(".progcl-chart ") for rule in rules)  # a notebook inlines the file
    assert "var(" not in text  # which many viewers of SVG do not support
    save_mixture(make_mixture(), tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "mixture.svg").read_bytes()


@pytest.mark.parametrize(("means", "modes"), [([0.5], 1), ([0.25, 0.75], 2), ([0.02], 1), ([0.1, 0.4, 0.9], 3)])
def test_modes_of_a_histogram_are_counted(means: list[float], modes: int) -> None:
    rng = np.random.default_rng(0)
    s = np.concatenate([rng.normal(mean, 0.05, 20_000) for mean in means])
    counts = np.histogram(s, 80, (0, 1))[0].astype(float)
    assert replace(BARE, density={"negatives": counts}).modes == modes


def test_the_share_of_false_negatives_is_that_of_the_most_similar_ones(fitted: tuple[ProGCLWeight, Data]) -> None:
    rng = np.random.default_rng(1)
    s, false = rng.random(50_000), rng.random(50_000)
    is_false = false < 0.5 * s**2
    density = {
        "true negatives (by label)": np.histogram(s[~is_false], 80, (0, 1))[0] / 50_000,
        "false negatives (by label)": np.histogram(s[is_false], 80, (0, 1))[0] / 50_000,
    }
    plot = replace(BARE, density=density)
    hardest = is_false[s.argsort()[::-1]]
    for share in (0.01, 0.1, 1.0):
        assert plot.false_share(share) == pytest.approx(hardest[: int(50_000 * share)].mean(), abs=0.02)
    assert BARE.false_share() is None
    miner, data = fitted
    same = data.y[:, None] == data.y
    expected = (same.sum().item() - 120) / (120 * 119)
    assert MixturePlot.from_miner(miner, data).false_share() == pytest.approx(expected, abs=0.01)
