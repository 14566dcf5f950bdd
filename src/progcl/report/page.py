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

from progcl.errors import InputError
from progcl.evaluation.scores import Score
from progcl.export import nearest
from progcl.report.charts import strip
from progcl.report.maps import Map, make_map
from progcl.report.mixture import MixturePlot
from progcl.report.pictures import draw_chances, draw_loss, draw_similarities
from progcl.training.checkpoint import replace

EXAMPLES, NEIGHBORS = 6, 5  # rows of the table of nearest neighbors, and neighbors in a row
CLASSES = 40  # the page has colors and shapes for that many


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
    curves: MixturePlot | None
    embeddings: NDArray[np.float32]
    ids: list[str]
    labels: list[str] | None
    scores: dict[str, Score]


def write(story: Story, path: Path, seed: int = 0, quick: bool = False) -> None:
    """Write the report in one step; a `quick` one has a map by PCA."""
    text = page(story, seed, quick)
    replace(path, lambda part: part.write_text(text, encoding="utf-8"))


def page(story: Story, seed: int = 0, quick: bool = False) -> str:
    """The report as HTML; the same story gives the same page.

    Raises:
        InputError: ids or labels do not belong to the embeddings, or those are not finite
    """
    _check(story)
    names = class_names(story.labels) if story.labels else None
    chart = make_map(story.embeddings, min(len(names), CLASSES) if names else None, seed, quick=quick)
    style, script = _asset("page.css"), _asset("search.js") + _asset("map.js")
    summary = _facts(story.facts) + _probe(story.scores)
    parts = {
        "title": escape(story.title),
        "policy": _policy(style, script),
        "style": style,
        "script": script,
        "tiles": _tiles(story),
        "warnings": _warnings(story.warnings),
        "summary": f'<div class="pair">{summary}</div>' if summary else "",
        "map_alt": f"Map of {len(chart.nodes):,} nodes; the search box above finds them by their ids",
        "map_note": _map_note(story, chart),
        "neighbors": _neighbors(story, chart, seed),
        "charts": _charts(story),
        "version": version("progcl"),
        "data": in_script(_data(story, chart, names)),
    }
    whole = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))  # once: text may hold braces
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
    return files("progcl.report").joinpath(name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """Only our own style and script, known by their hashes, and nothing from elsewhere."""

    def known(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    rules = f"default-src 'none'; style-src {known(style)}; script-src {known(script)}; img-src data:"
    return f"{rules}; base-uri 'none'; form-action 'none'"


def _tiles(story: Story) -> str:
    """The numbers one looks for first."""
    nodes, width = story.embeddings.shape
    tiles = {"nodes": f"{nodes:,}", "dimensions": f"{width:,}", "epochs": f"{len(story.losses):,}"}
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
    return f'<section class="warnings" role="note"><h2>Worth knowing</h2><ul>{items}</ul></section>'


def _facts(facts: dict[str, str]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    return f'<section class="card"><h2>What was done</h2><dl class="facts">{rows}</dl></section>' if facts else ""


def _probe(scores: dict[str, Score]) -> str:
    if not scores:
        return ""
    every = [value for score in scores.values() for value in score.accuracies]
    rows = [
        f'<tr><th scope="row">{escape(name)}</th><td data-name="protocol">{escape(score.protocol)}</td>'
        f'<td class="number" data-name="accuracy">{score} %</td>'
        f"<td>{strip(score.accuracies, min(every), max(every))}</td></tr>"
        for name, score in scores.items()
    ]
    head = ["embeddings", "protocol", "accuracy", f"splits, {min(every):.1f} to {max(every):.1f}"]
    note = (
        "A linear classifier reads the labels off the embeddings, trained on few nodes and tested on others. "
        "Each dot is one split into such nodes; accuracy is their mean ± standard deviation."
    )
    return _table("Probe", head, rows, note)


def _map_note(story: Story, chart: Map) -> str:
    total, shown = len(story.embeddings), len(chart.nodes)
    how = {
        "t-SNE": "Laid out by t-SNE: dots side by side have similar embeddings, while the distance between groups, "
        "and their size, mean little.",
        "PCA": "Laid out by PCA: the two directions in which the embeddings differ most; nodes that differ otherwise "
        "may fall together.",
    }
    sample = f"A random sample of {shown:,} of the {total:,} nodes; neighbors on the map are the nearest among these."
    same = len(set(story.labels or [])) == int(chart.clusters.max()) + 1
    number = ", as many as there are classes" if same else ""
    clusters = f"Clusters were found by k-means in the embeddings{number}."
    return " ".join(["Each dot is a node.", how[chart.method], *([sample] if shown < total else []), clusters])


def _neighbors(story: Story, chart: Map, seed: int) -> str:
    """A table of a few nodes and those most similar to them among all nodes."""
    if len(story.ids) < 2:
        return ""
    place_of = {int(node): place for place, node in enumerate(chart.nodes)}
    rows = []
    for place in examples(chart, seed):
        node = int(chart.nodes[place])
        chips = "".join(
            f"<li>{_chip(story, node, other, cosine, place_of.get(other))}</li>"
            for other, cosine in nearest(story.embeddings, node, NEIGHBORS)
        )
        name = f'<button type="button" class="id" data-node="{place}">{escape(story.ids[node])}</button>'
        label = f'<td data-name="label">{escape(story.labels[node])}</td>' if story.labels else ""
        rows.append(f'<tr><th scope="row">{name}</th>{label}<td><ul class="chips">{chips}</ul></td></tr>')
    titles = ["node", *(["label"] if story.labels else []), "nearest, with their cosines"]
    note = "Drawn at random from the clusters. A cosine of 1 means the same direction, 0 nothing in common."
    note += " Dashed: a neighbor with another label." if story.labels else ""
    return _table("Nearest neighbors of a few nodes", titles, rows, note)


def _table(title: str, titles: list[str], rows: list[str], note: str) -> str:
    head = "".join(f'<th scope="col">{each}</th>' for each in titles)
    table = f'<table class="wide"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<section class="card"><h2>{title}</h2>{table}<p class="note">{note}</p></section>'


def _chip(story: Story, node: int, other: int, cosine: float, place: int | None) -> str:
    """A neighbor; to be clicked if it is on the map."""
    labels = story.labels
    kind = "chip differs" if labels and labels[node] != labels[other] else "chip"
    name, label = escape(story.ids[other]), f"<small>{escape(labels[other])}</small>" if labels else ""
    inside = f'<span class="id">{name}</span>{label}<small class="number">{cosine:.3f}</small>'
    if place is None:
        return f'<span class="{kind}" title="{name}">{inside}</span>'
    return f'<button type="button" class="{kind}" title="{name}" data-node="{place}">{inside}</button>'


def _charts(story: Story) -> str:
    """The pictures of the training, and a word on those that there are not."""
    pictures = draw_loss(story.losses, story.start_epoch)
    if story.curves is None:
        note = "No mixture was fitted in this run, so there are no similarities of negatives to show."
        return f'<div class="charts">{pictures}</div><p class="note">{note}</p>'
    pictures += draw_similarities(story.curves) + draw_chances(story.curves)
    return f'<div class="charts">{pictures}</div>'


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
