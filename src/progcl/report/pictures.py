"""The pictures of a report, each with a sentence that says how to read it."""

from __future__ import annotations

from html import escape

import numpy as np

from progcl.report.charts import Axis, Chart, thinned
from progcl.report.mixture import MixturePlot


def draw_loss(losses: list[float], start_epoch: int | None = None) -> str:
    """The loss of every epoch, or of some where there are many, with E marked."""
    places, values = thinned(np.array(losses, dtype=np.float64))
    if not len(places):
        return _figure("Loss", "", "No epoch had a finite loss, so there is no curve.")
    spare = 0.05 * float(np.ptp(values)) or 0.5
    below = Axis("epoch", 1, max(len(losses), 2))
    left = Axis("loss", float(values.min()) - spare, float(values.max()) + spare)
    alt = f"Loss over {len(losses)} epochs, from {values[0]:.4g} to {values[-1]:.4g}"
    picture = Chart(alt, below, left)
    picture.line(places + 1, values, "tone-true")
    note = "How hard it is to tell a node's two views from all other nodes. It should fall and level off; how low "
    note += "it is does not say how good the embeddings are."
    if start_epoch is not None and 1 <= start_epoch <= below.high:
        picture.mark(start_epoch, f"E = {start_epoch}")
        note += " From epoch E on, negatives are chosen or weighed by how likely they are true ones. It is another"
        note += " loss from there, so a jump is no fault."
    return _figure("Loss", picture.svg(), note)


def draw_similarities(curves: MixturePlot) -> str:
    """Densities of negatives, the mixture over them, and p(true | s) on its own axis."""
    chance = None if curves.probability is None else Axis("p(true | s)", 0, 1)
    when = f" at epoch E = {curves.start_epoch}"
    left = Axis("density", 0, _top(curves))
    picture = Chart(f"Histogram of similarities of negatives{when}", Axis(f"similarity s{when}", 0, 1), left, chance)
    legend = {}
    for name, values in curves.density.items():
        picture.stairs(np.linspace(0, 1, len(values) + 1), values, _tone(name))
        legend[name] = _tone(name)
    for name, values in curves.fitted.items():
        picture.line(curves.grid, values, _tone(name))
        legend[f"fitted: {name}"] = f"line {_tone(name)}"
    note = "Two different nodes are a negative pair, and are pushed apart. The more similar a pair (right), the more "
    note += "likely it is a false one: two nodes of the same kind."
    if curves.fitted:
        note += " The curves are the two groups that the mixture found, without labels."
    if curves.probability is not None:
        picture.line(curves.grid, curves.probability, "tone-plain", right=True)
        legend["p(true | s)"] = "line dashed tone-plain"
        note += " Dashed: the chance that a pair of this similarity is a true negative."
    return _figure("Similarities of negatives", picture.svg(), note, legend)


def draw_chances(curves: MixturePlot) -> str:
    """How p(true) is spread over pairs; nothing, if that is not known."""
    if curves.chances is None:
        return ""
    percent = 100 * curves.chances
    left = Axis("% of pairs", 0, 1.05 * max(float(percent.max()), 1e-9))
    picture = Chart("Histogram of p(true) over pairs", Axis("p(true)", 0, 1), left)
    picture.stairs(np.linspace(0, 1, len(percent) + 1), percent, "tone-true")
    note = "How sure the run is that a negative pair is a true one. Pairs near 0 are taken for false negatives and "
    note += "count little; pairs near 1 count most."
    return _figure("Chance to be a true negative", picture.svg(), note)


def _figure(title: str, picture: str, note: str, legend: dict[str, str] | None = None) -> str:
    items = "".join(f'<li class="{tone}">{escape(name)}</li>' for name, tone in (legend or {}).items())
    listed = f"<ul>{items}</ul>" if items else ""
    return f'<figure class="card"><h3>{title}</h3>{listed}{picture}<figcaption>{note}</figcaption></figure>'


def _top(curves: MixturePlot) -> float:
    """High enough for all bars; a fitted curve may shoot up at its ends, where it is cut."""
    bars = max((float(values.max()) for values in curves.density.values()), default=0.0)
    finite = [values[np.isfinite(values)] for values in curves.fitted.values()]
    lines = max((float(np.quantile(values, 0.98)) for values in finite if len(values)), default=0.0)
    return 1.05 * max(bars, lines) or 1.0


def _tone(name: str) -> str:
    """False negatives and true ones keep their colors in all pictures."""
    return next((f"tone-{word}" for word in ("false", "true") if word in name), "tone-plain")
