"""Plot data of a fitted mixture, and its chart: one drawing for report.html and mixture.svg."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.signal import find_peaks
from torch import nn
from torch_geometric.data import Data

from progcl.miners.frozen import FrozenPosterior
from progcl.posteriors.base import Posterior
from progcl.posteriors.mixture import Mixture
from progcl.report.charts import Axis, Chart

Array = NDArray[np.float64]

DENSITY_BINS, PROBABILITY_BINS = 80, 40
MODE_WIDTH, MODE_PROMINENCE = 2, 0.05  # bins that a mode is smoothed by, and how far it stands out, of the highest
PAIRS = 1_000_000  # sampled negatives
PAIRS_AT_ONCE = 2**14  # whose vectors are gathered together


@dataclass(frozen=True)
class MixturePlot:
    """Similarities s of negatives at epoch E in [0, 1], the mixture fitted to them, and p(true | s).

    Attributes:
        start_epoch: E
        density: histograms of the negatives in equal bins, [bins] each: all, or true and false ones by label
        grid: similarities at which the curves are evaluated, [g]
        fitted: weighted densities of the mixture's components, [g] each; empty if the estimator is not a mixture, or
            its fit was given up
        probability: p(true | s), [g]; None if it depends on the two nodes and not on s alone, or was given up
        chances: share of negatives by p(true), in equal bins of [0, 1]; None as above
    """

    start_epoch: int
    density: dict[str, Array]
    grid: Array
    fitted: dict[str, Array]
    probability: Array | None
    chances: Array | None

    @classmethod
    def from_miner(cls, miner: FrozenPosterior, data: Data | None, pairs: int = PAIRS) -> MixturePlot:
        """Sample negatives of a fitted miner; with labels in `data`, true and false ones are told apart."""
        s, same_class = _sample_negatives(miner, data, pairs)
        groups = {"negatives": np.ones(len(s), dtype=bool)}
        if same_class is not None:
            groups = {"true negatives (by label)": ~same_class, "false negatives (by label)": same_class}
        density = {
            name: np.histogram(s[members], DENSITY_BINS, (0, 1))[0] / len(s) * DENSITY_BINS
            for name, members in groups.items()
        }
        grid, estimator = np.linspace(0.002, 0.998, 250), miner.estimator
        components = estimator.density(grid) if isinstance(estimator, Mixture) and miner.active else ()
        fitted = dict(zip(("true", "false"), components, strict=False))
        probability = chances = None
        depends_on_s = type(estimator).for_pairs is Posterior.for_pairs  # which is not overridden
        if miner.active and depends_on_s:
            probability = estimator.posterior(torch.from_numpy(grid)).numpy()
            p = estimator.posterior(torch.from_numpy(s)).numpy()
            chances = np.histogram(p, PROBABILITY_BINS, (0, 1))[0] / len(s)
        return cls(miner.start_epoch, density, grid, fitted, probability, chances)

    @property
    def modes(self) -> int:
        """Number of modes of the histogram of all negatives.

        Peaks of the bins after smoothing, which stand out by at least 5 % of the highest.
        """
        smooth = gaussian_filter1d(np.sum([*self.density.values()], axis=0), MODE_WIDTH, mode="constant")
        peaks, _ = find_peaks(np.pad(smooth, 1), prominence=MODE_PROMINENCE * smooth.max())
        return len(peaks)

    def false_share(self, hardest: float = 1.0) -> float | None:
        """Share of false negatives among the given share of most similar ones; None without labels.

        Within a bin, true and false ones count as evenly spread.
        """
        false = next((values for name, values in self.density.items() if name.startswith("false")), None)
        if false is None:
            return None
        together = np.sum([*self.density.values()], axis=0)
        every, false = (np.cumsum([0, *values[::-1]]) for values in (together, false))
        number = hardest * every[-1]
        return float(np.interp(number, every, false) / number)

    def to_json(self) -> str:
        """All fields, to six digits."""
        return json.dumps(asdict(self), default=lambda values: [float(f"{value:.6g}") for value in values]) + "\n"

    @classmethod
    def from_json(cls, text: str) -> MixturePlot:
        """Read what `to_json` wrote; raise ValueError, or what follows from it, if that is something else."""
        content = json.loads(text)
        sizes = {"density": DENSITY_BINS, "chances": PROBABILITY_BINS}
        content["grid"] = _numbers(content["grid"], len(content["grid"]))
        for name in ("density", "fitted"):
            size = sizes.get(name, len(content["grid"]))
            content[name] = {key: _numbers(values, size, name == "density") for key, values in content[name].items()}
        for name in ("probability", "chances"):
            size = sizes.get(name, len(content["grid"]))
            content[name] = None if content[name] is None else _numbers(content[name], size)
        return cls(**{**content, "start_epoch": int(content["start_epoch"])})


def _numbers(values: Any, size: int, finite: bool = True) -> Array:
    """Numbers [size] from a list; a density alone may be infinite."""
    array = np.array(values)
    if array.shape != (size,) or size < 2 or array.dtype.kind not in "if" or (finite and not np.isfinite(array).all()):
        raise ValueError(f"{size} numbers are needed (got {array.dtype} {list(array.shape)})")
    return array


def plot_data(module: nn.Module, data: Data | None) -> MixturePlot | None:
    """Plot data of the first miner in `module` that has fitted one mixture to all nodes, or has given it up.

    Similarities of one mode, which no mixture fits, are shown without it. None if there is none.

    Args:
        module: a method, a loss or a miner
        data: the graph that was trained on; with labels, true and false negatives are told apart; None to ignore them
    """
    for miner in module.modules():
        if isinstance(miner, FrozenPosterior) and miner.is_fitted and not miner.per_batch:
            return MixturePlot.from_miner(miner, data)
    return None


def draw_mixture(plot: MixturePlot) -> Chart:
    """Draw densities of negatives, the fitted mixture over them, and p(true | s) on the right axis."""
    epoch = f"at epoch E = {plot.start_epoch}"
    right = None if plot.probability is None else Axis("p(true | s)", 0, 1)
    y = Axis("density", 0, _density_limit(plot))
    chart = Chart(
        f"Histogram of similarities of negatives {epoch}", Axis(f"normalized similarity s {epoch}", 0, 1), y, right
    )
    for name, values in plot.density.items():
        chart.stairs(np.linspace(0, 1, len(values) + 1), values, _choose_tone(name), name)
    for name, values in plot.fitted.items():
        chart.line(plot.grid, values, _choose_tone(name), f"fitted: {name}")
    if plot.probability is not None:
        chart.line(plot.grid, plot.probability, "tone-plain", "p(true | s)", right=True)
    return chart


def draw_probabilities(plot: MixturePlot) -> Chart | None:
    """Draw the histogram of p(true) over negatives; None if it is not known."""
    if plot.chances is None:
        return None
    percent = 100 * plot.chances
    y = Axis("% of pairs", 0, 1.05 * max(float(percent.max()), 1e-9))
    chart = Chart("Histogram of p(true) over pairs", Axis("p(true)", 0, 1), y)
    chart.stairs(np.linspace(0, 1, len(percent) + 1), percent, "tone-true")
    return chart


def save_mixture(plot: MixturePlot, path: Path) -> None:
    """Write the chart of a mixture as an SVG file; equal data gives equal bytes."""
    path.write_text(draw_mixture(plot).to_file(), encoding="utf-8")


def _sample_negatives(miner: FrozenPosterior, data: Data | None, pairs: int) -> tuple[Array, NDArray[np.bool_] | None]:
    """Normalized similarities of random inter-view negatives, and whether the two nodes share a class, [pairs] each."""
    generator = torch.Generator().manual_seed(0)
    first_view, second_view = miner.snapshot
    known = miner.known_nodes
    chosen = torch.randint(0, len(known), (pairs,), generator=generator)
    others = (chosen + torch.randint(1, len(known), (pairs,), generator=generator)) % len(known)
    first, second = known[chosen], known[others]
    batches = zip(first.split(PAIRS_AT_ONCE), second.split(PAIRS_AT_ONCE), strict=True)
    cosines = torch.cat([(first_view[i] * second_view[j]).sum(dim=1) for i, j in batches])
    s = miner.normalize(cosines).double().cpu().numpy()
    labels = None if data is None else data.get("y")
    if labels is None:
        return s, None
    labels = labels.to(first.device)
    has_labels = ((labels[first] >= 0) & (labels[second] >= 0)).cpu().numpy()
    return (
        (s, None)
        if not has_labels.any()
        else (s[has_labels], (labels[first] == labels[second]).cpu().numpy()[has_labels])
    )


def _density_limit(plot: MixturePlot) -> float:
    """Upper limit of the density axis: above all bars; fitted curves may diverge at their ends, where they are cut."""
    bars = max((float(values.max()) for values in plot.density.values()), default=0.0)
    finite = [values[np.isfinite(values)] for values in plot.fitted.values()]
    lines = max((float(np.quantile(values, 0.98)) for values in finite if len(values)), default=0.0)
    return 1.05 * max(bars, lines) or 1.0


def _choose_tone(name: str) -> str:
    """The color class of true or false negatives, the same in all charts."""
    return next((f"tone-{kind}" for kind in ("false", "true") if kind in name), "tone-plain")
