"""report.html: a run told on one page that needs no network, for readers who never saw the paper."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from progcl.charts import Axis, Chart, strip, thinned
from progcl.checkpoint import replace
from progcl.errors import InputError
from progcl.export import nearest
from progcl.maps import Array, Map, make_map
from progcl.probe import Score

EXAMPLES, NEIGHBOURS = 6, 5  # rows of the table of nearest neighbours, and neighbours in a row
CLASSES = 40  # the page has colours and shapes for that many


@dataclass(frozen=True)
class Curves:
    """Similarities of negatives at epoch E as densities over [0, 1].

    Attributes:
        edges: of the bins, [bins + 1]
        density: by name, [bins] each: of all negatives, or of true and false ones by their labels
        grid: where the curves are known, [G]
        fitted: the mixture's components by name, [G] each; may be empty
        probability: p(true | s) on the grid, [G]
        chances: share of pairs by their p(true), in equal bins of [0, 1]
    """

    edges: Array
    density: dict[str, Array]
    grid: Array
    fitted: dict[str, Array]
    probability: Array | None
    chances: Array | None


@dataclass(frozen=True)
class Story:
    """What a report tells.

    Attributes:
        title: what was trained on what
        facts: what was done, in words, by its name
        warnings: what the reader has to know before trusting the rest
        losses: one an epoch
        start_epoch: E, marked in the loss curve; None without mining
        curves: None if no similarities were looked at
        embeddings: [N, d]
        ids: what the user calls the nodes, [N]
        labels: names of their classes, [N]
        scores: rows of the probe's table
    """

    title: str
    facts: dict[str, str]
    warnings: list[str]
    losses: list[float]
    start_epoch: int | None
    curves: Curves | None
    embeddings: NDArray[np.float32]
    ids: list[str]
    labels: list[str] | None
    scores: dict[str, Score]


def write(story: Story, path: Path, seed: int = 0) -> None:
    """Write the report in one step."""
    text = page(story, seed)
    replace(path, lambda part: part.write_text(text, encoding="utf-8"))


def page(story: Story, seed: int = 0) -> str:
    """The report as HTML; the same story gives the same page.

    Raises:
        InputError: ids or labels do not belong to the embeddings, or those are not finite
    """
    _check(story)
    names = class_names(story.labels) if story.labels else None
    chart = make_map(story.embeddings, names and min(len(names), CLASSES), seed)
    style, script = _asset("report.css"), _asset("report.js")
    parts = {
        "title": escape(story.title),
        "policy": _policy(style, script),
        "style": style,
        "script": script,
        "tiles": _tiles(story),
        "warnings": _warnings(story.warnings),
        "facts": _facts(story.facts),
        "probe": _probe(story.scores),
        "map_alt": f"Map of {len(chart.nodes):,} nodes; the search box beside it reads the same by keyboard",
        "map_note": _map_note(story, chart),
        "neighbours": _neighbours(story, chart, seed),
        "charts": _loss(story) + _similarities(story) + _chances(story.curves),
        "version": version("progcl"),
        "data": in_script(_data(story, chart, names)),
    }
    whole = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("report.html"))  # once: text may hold braces
    return whole.encode("utf-8", "replace").decode()  # ids read from odd files may hold halves of characters


def in_script(content: Any) -> str:
    """JSON that no browser mistakes for the end of its element."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def class_names(labels: list[str]) -> list[str]:
    """Each class once: 2 before 10; those of many by size, since the page shows the small ones as one."""
    names, sizes = np.unique(np.array(labels, dtype=object), return_counts=True)
    if len(names) > CLASSES:
        return [str(names[index]) for index in np.argsort(-sizes, kind="stable")]
    return sorted(map(str, names), key=lambda name: [(int(n or -1), text) for n, text in _pieces(name)])


def examples(chart: Map, seed: int, number: int = EXAMPLES) -> list[int]:
    """Places on the map of a few nodes, drawn at random but from all clusters in turn."""
    order = np.random.default_rng(seed).permutation(len(chart.nodes))
    turns: dict[int, int] = {}
    ranked = []
    for place in order.tolist():
        group = int(chart.clusters[place])
        turns[group] = turns.get(group, -1) + 1
        ranked.append((turns[group], group, place))
    return [place for _, _, place in sorted(ranked)[:number]]


def _check(story: Story) -> None:
    nodes = len(story.embeddings)
    if not nodes:
        raise InputError("there are no embeddings to report on")
    for name, values in (("ids", story.ids), ("labels", story.labels)):
        if values is not None and len(values) != nodes:
            raise InputError(f"{len(values)} {name} do not belong to {nodes} embeddings")
    if not np.isfinite(story.embeddings).all():
        raise InputError("the embeddings are not finite", "training has diverged: try a smaller --train.lr")


def _asset(name: str) -> str:
    return files("progcl").joinpath(name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """Only our own style and script, known by their hashes, and nothing from elsewhere."""

    def known(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    rules = f"default-src 'none'; style-src {known(style)}; script-src {known(script)}; img-src data:"
    return f"{rules}; base-uri 'none'; form-action 'none'"


def _tiles(story: Story) -> str:
    """The numbers one looks for first."""
    nodes, width = story.embeddings.shape
    tiles = {"nodes": f"{nodes:,}", "numbers per node": f"{width:,}", "epochs": f"{len(story.losses):,}"}
    if story.losses:
        tiles["last loss"] = f"{story.losses[-1]:.4g}"
    if story.scores:
        score = next(iter(story.scores.values()))
        tiles["accuracy"] = f"{score.mean:.2f} % <small>± {score.std:.2f}</small>"
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles.items())


def _warnings(warnings: list[str]) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    return f'<section class="warnings" role="note"><h2>Before you trust this</h2><ul>{items}</ul></section>'


def _facts(facts: dict[str, str]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    return f'<section class="card"><h2>What was done</h2><dl class="facts">{rows}</dl></section>' if facts else ""


def _probe(scores: dict[str, Score]) -> str:
    if not scores:
        return ""
    every = [value for score in scores.values() for value in score.accuracies]
    rows = [
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(score.protocol)}</td><td class="number">{score} %</td>'
        f"<td>{strip(score.accuracies, min(every), max(every))}</td></tr>"
        for name, score in scores.items()
    ]
    head = "".join(f'<th scope="col">{name}</th>' for name in ("embeddings", "protocol", "accuracy", "splits"))
    note = (
        "A linear classifier reads the labels off the embeddings, trained on few nodes and tested on others. "
        "Each dot is one random split; mean ± standard deviation. Training itself never saw a label."
    )
    table = f'<table class="wide"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<section class="card"><h2>Probe</h2>{table}<p class="note">{note}</p></section>'


def _map_note(story: Story, chart: Map) -> str:
    total, shown = len(story.embeddings), len(chart.nodes)
    how = {
        "t-SNE": "Laid out by t-SNE: dots side by side have similar embeddings, while the distance between groups, "
        "and their size, mean little.",
        "PCA": "Laid out by PCA: the two directions in which the embeddings differ most; nodes that differ otherwise "
        "may fall together.",
    }
    sample = f"A random sample of {shown:,} of the {total:,} nodes; neighbours on the map are the nearest among these."
    clusters = "Clusters were found by k-means in the embeddings, without labels."
    return " ".join(["Each dot is a node.", how[chart.method], *([sample] if shown < total else []), clusters])


def _neighbours(story: Story, chart: Map, seed: int) -> str:
    """A table of a few nodes and those most similar to them among all nodes."""
    if len(story.ids) < 2:
        return ""
    place_of = {int(node): place for place, node in enumerate(chart.nodes)}
    rows = []
    for place in examples(chart, seed):
        node = int(chart.nodes[place])
        chips = "".join(
            f"<li>{_chip(story, node, other, cosine, place_of.get(other))}</li>"
            for other, cosine in nearest(story.embeddings, node, NEIGHBOURS)
        )
        name = f'<button type="button" class="id" data-node="{place}">{escape(story.ids[node])}</button>'
        label = f"<td>{escape(story.labels[node])}</td>" if story.labels else ""
        rows.append(f'<tr><th scope="row">{name}</th>{label}<td><ul class="chips">{chips}</ul></td></tr>')
    titles = ["node", *(["label"] if story.labels else []), "nearest, with their cosines"]
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    note = "Drawn at random from the clusters. A cosine of 1 means the same direction, 0 nothing in common."
    note += " Dashed: a neighbour with another label." if story.labels else ""
    table = f'<table class="wide"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<section class="card"><h2>Nearest neighbours of a few nodes</h2>{table}<p class="note">{note}</p></section>'


def _chip(story: Story, node: int, other: int, cosine: float, place: int | None) -> str:
    """A neighbour; to be clicked if it is on the map."""
    labels = story.labels
    kind = "chip differs" if labels and labels[node] != labels[other] else "chip"
    words = f"{labels[other]} · {cosine:.3f}" if labels else f"{cosine:.3f}"
    inside = f'<span class="id">{escape(story.ids[other])}</span><small>{escape(words)}</small>'
    if place is None:
        return f'<span class="{kind}">{inside}</span>'
    return f'<button type="button" class="{kind}" data-node="{place}">{inside}</button>'


def _figure(title: str, picture: str, note: str, legend: dict[str, str] | None = None) -> str:
    items = "".join(f'<li class="{tone}">{escape(name)}</li>' for name, tone in (legend or {}).items())
    listed = f"<ul>{items}</ul>" if items else ""
    return f'<figure class="card"><h3>{title}</h3>{listed}{picture}<figcaption>{note}</figcaption></figure>'


def _loss(story: Story) -> str:
    places, values = thinned(np.array(story.losses, dtype=np.float64))
    if not len(places):
        return _figure("Loss", "", "No epoch had a finite loss, so there is no curve.")
    spare = 0.05 * float(np.ptp(values)) or 0.5
    below = Axis("epoch", 1, max(len(story.losses), 2))
    picture = Chart(
        f"Loss over {len(story.losses)} epochs, from {values[0]:.4g} to {values[-1]:.4g}",
        below,
        Axis("loss", float(values.min()) - spare, float(values.max()) + spare),
    )
    picture.line(places + 1, values, "tone-true")
    note = "How hard it still is to tell a node's two views from all other nodes: the lower, the better."
    if story.start_epoch is not None and 1 <= story.start_epoch <= below.high:
        picture.mark(story.start_epoch, f"E = {story.start_epoch}")
        note += " From epoch E on, negatives are weighed by how likely they are true ones; the loss is then another"
        note += " one, so a jump there is no fault."
    return _figure("Loss", picture.svg(), note)


def _similarities(story: Story) -> str:
    """Densities of negatives, the mixture over them, and p(true | s) on its own axis."""
    curves, title = story.curves, "Similarities of negatives"
    if curves is None:
        return _figure(title, "", "No mixture was fitted in this run, so there are no similarities to show.")
    known = [*curves.density.values(), *(values[np.isfinite(values)] for values in curves.fitted.values())]
    top = 1.05 * max((float(np.quantile(values, 0.99)) for values in known if len(values)), default=1.0)
    top = max(top, *(float(values.max()) for values in curves.density.values()), 1e-9)
    chance = None if curves.probability is None else Axis("p(true | s)", 0, 1)
    when = "" if story.start_epoch is None else f" at epoch E = {story.start_epoch}"
    picture = Chart(f"Histogram of the similarities of negatives{when}", Axis(f"similarity s{when}", 0, 1),
                    Axis("density", 0, 1.03 * top), chance)  # fmt: skip
    legend: dict[str, str] = {}
    for name, values in curves.density.items():
        picture.stairs(curves.edges, values, _tone(name))
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
    return _figure(title, picture.svg(), note, legend)


def _chances(curves: Curves | None) -> str:
    if curves is None or curves.chances is None:
        return ""
    edges = np.linspace(0, 1, len(curves.chances) + 1)
    percent = 100 * curves.chances
    top = 1.05 * max(float(percent.max()), 1e-9)
    picture = Chart("Histogram of p(true) over pairs", Axis("p(true)", 0, 1), Axis("% of pairs", 0, top))
    picture.stairs(edges, percent, "tone-true")
    note = "How sure the run is that a negative pair is a true one. Pairs near 0 are taken for false negatives and "
    note += "hardly pushed apart; pairs near 1 count in full."
    return _figure("Chance to be a true negative", picture.svg(), note)


def _tone(name: str) -> str:
    """False negatives and true ones keep their colours in all pictures."""
    return next((f"tone-{word}" for word in ("false", "true") if word in name), "tone-plain")


def _data(story: Story, chart: Map, names: list[str] | None) -> dict[str, Any]:
    """What the page's script draws from."""
    groupings = []
    if names is not None and story.labels:
        number = {name: index for index, name in enumerate(names)}
        of_label = np.array([number[story.labels[node]] for node in chart.nodes])
        groupings.append({"title": "label", "names": names, "of": _packed(of_label, "<u2")})
    clusters = [str(index + 1) for index in range(int(chart.clusters.max()) + 1)]
    groupings.append({"title": "cluster", "names": clusters, "of": _packed(chart.clusters, "<u2")})
    return {
        "ids": [story.ids[node] for node in chart.nodes],
        "spots": _packed(chart.spots, "<u2"),
        "near": _packed(chart.near, "<u2"),
        "cosines": _packed((32767 * chart.cosines).round(), "<i2"),
        "k": chart.near.shape[1],
        "groupings": groupings,
    }


def _packed(values: NDArray[Any], kind: str) -> str:
    return base64.b64encode(values.astype(kind).tobytes()).decode()


def _pieces(name: str) -> list[tuple[str, str]]:
    """Digits and other text in turn, so that names sort by their numbers."""
    return re.findall(r"(\d*)(\D*)", name)
