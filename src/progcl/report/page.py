"""report.html: a run on one page that needs no network, for readers who never saw the paper."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from progcl.data.labels import NO_LABEL
from progcl.errors import InputError
from progcl.report.charts import Chart, draw_loss, load_styles
from progcl.report.maps import MAX_NODES, Map, make_map
from progcl.report.mixture import MixturePlot, draw_mixture, draw_probabilities
from progcl.report.story import Story
from progcl.report.tables import render_links, render_neighbors, render_scores
from progcl.training.files import write_atomically

MAX_CLASSES = 40  # the page has that many combinations of color and shape
HARDEST = 0.01  # most similar negatives, of which the share of false ones is told


def write_report(story: Story, path: Path, seed: int = 0, quick: bool = False, max_nodes: int = MAX_NODES) -> None:
    """Write the report atomically; the map has at most so many nodes, `quick` by PCA instead of t-SNE."""
    text = render_page(story, seed, quick, max_nodes)
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def render_page(story: Story, seed: int = 0, quick: bool = False, max_nodes: int = MAX_NODES) -> str:
    """The report as HTML; equal stories give equal pages.

    Raises:
        InputError: ids or labels do not match the embeddings, or the embeddings are not finite
    """
    _validate(story)
    classes = sort_classes(story.labels) if story.labels else None
    known = len([name for name in classes if name != NO_LABEL]) if classes else 0
    groups = min(known, MAX_CLASSES) or None
    chart = make_map(story.embeddings, groups, seed, max_nodes, quick=quick, clusters=story.clusters)
    style, script = load_styles() + _load_asset("page.css"), _load_asset("search.js") + _load_asset("map.js")
    summary = _render_facts(story.facts) + render_scores(story.scores) + render_links(story.links)
    fields = {
        "title": escape(story.title),
        "policy": _make_policy(style, script),
        "style": style,
        "script": script,
        "tiles": _render_tiles(story),
        "warnings": _render_warnings(story.warnings),
        "summary": f'<div class="pair">{summary}</div>' if summary else "",
        "map_alt": f"Map of {len(chart.nodes):,} nodes; the search box above finds them by their ids",
        "map_note": _describe_map(story, chart),
        "neighbors": render_neighbors(story, chart, seed),
        "charts": _render_charts(story),
        "version": version("progcl"),
        "data": encode_json(_pack_map(story, chart, classes)),
    }
    # One pass, because the values may contain braces themselves.
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: fields[match[1]], _load_asset("page.html"))
    return page.encode("utf-8", "replace").decode()  # ids from damaged files may hold lone surrogates


def encode_json(content: Any) -> str:
    """JSON that cannot end the script element it is written into."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def sort_classes(labels: list[str]) -> list[str]:
    """The distinct classes in natural order (2 before 10), or by size if there are too many to show; no label last."""
    names, sizes = np.unique(np.array(labels, dtype=object), return_counts=True)
    if len(names) > MAX_CLASSES:
        ordered = [str(names[index]) for index in np.argsort(-sizes, kind="stable")]
    else:
        ordered = sorted(map(str, names), key=lambda name: [(int(n or -1), text) for n, text in _split_digits(name)])
    return sorted(ordered, key=lambda name: name == NO_LABEL)


def _validate(story: Story) -> None:
    nodes = len(story.embeddings)
    if not nodes:
        raise InputError("there are no embeddings to report on")
    for name, values in (("ids", story.ids), ("labels", story.labels)):
        if values is not None and len(values) != nodes:
            raise InputError(f"{len(values)} {name} do not match {nodes} embeddings")
    if not np.isfinite(story.embeddings).all():
        raise InputError("the embeddings are not finite", "training has diverged: try a smaller --train.lr")


def _load_asset(name: str) -> str:
    return files("progcl.report").joinpath(name).read_text("utf-8")


def _make_policy(style: str, script: str) -> str:
    """Content security policy: the page's own style and script, identified by their hashes, and nothing else."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    rules = f"default-src 'none'; style-src {digest(style)}; script-src {digest(script)}; img-src data:"
    return f"{rules}; base-uri 'none'; form-action 'none'"


def _render_tiles(story: Story) -> str:
    """The key figures at the top of the page."""
    nodes, dimensions = story.embeddings.shape
    tiles = {"nodes": f"{nodes:,}", "dimensions": f"{dimensions:,}", "epochs": f"{len(story.losses):,}"}
    if story.losses:
        tiles["last loss"] = f"{story.losses[-1]:.4g}"
    if story.score:
        tiles["accuracy"] = f"{story.score.mean:.2f} % <small>± {story.score.std:.2f}</small>"
    if story.links:
        tiles["link AUC"] = f"{next(iter(story.links.values())).auc:.3f}"
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in tiles.items())


def _render_warnings(warnings: list[str]) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    return f'<section class="warnings" role="note"><h2>Worth knowing</h2><ul>{items}</ul></section>'


def _render_facts(facts: dict[str, str]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    return f'<section class="card"><h2>What was done</h2><dl class="facts">{rows}</dl></section>' if facts else ""


def _describe_map(story: Story, chart: Map) -> str:
    total, shown = len(story.embeddings), len(chart.nodes)
    methods = {
        "t-SNE": "Laid out by t-SNE: dots side by side have similar embeddings, while the distance between groups, "
        "and their size, mean little.",
        "PCA": "Laid out by PCA: the two directions in which the embeddings differ most. Nodes that differ in other "
        "directions may lie on top of each other.",
    }
    sample = f"A random sample of {shown:,} of the {total:,} nodes; neighbors on the map are the nearest among these."
    by_class = len(set(story.labels or []) - {NO_LABEL}) == int(chart.clusters.max()) + 1
    number = ", as many as there are classes" if by_class else ""
    clusters = f"Clusters are those of k-means in the embeddings{number}."
    if story.cluster_note:
        clusters = f"Clusters: {story.cluster_note}."
    return " ".join(["Each dot is a node.", methods[chart.method], *([sample] if shown < total else []), clusters])


def _render_charts(story: Story) -> str:
    """The charts of the training, each with a caption that says how to read it."""
    figures = _render_loss(story)
    if story.mixture is None:
        note = "No mixture was fitted in this run, so there are no similarities of negatives to show."
        return f'<div class="charts">{figures}</div><p class="note">{note}</p>'
    figures += _render_mixture(story.mixture)
    probabilities = draw_probabilities(story.mixture)
    if probabilities:
        note = (
            "How sure the run is that a negative pair is a true one. Pairs near 0 are taken for false negatives and "
            "count little; pairs near 1 count most."
        )
        figures += _render_figure("Probability of a true negative", probabilities, note)
    return f'<div class="charts">{figures}</div>'


def _render_loss(story: Story) -> str:
    chart = draw_loss(story.losses, story.start_epoch)
    if chart is None:
        return _render_figure("Loss", None, "No epoch had a finite loss, so there is no curve.")
    note = (
        "How hard it is to tell what belongs to a node from all other nodes. It should fall and level off; how low "
        "it is does not say how good the embeddings are."
    )
    if story.start_epoch is not None and 1 <= story.start_epoch <= len(story.losses):
        note += (
            " From epoch E on, negatives are chosen or weighted by how likely they are true ones. That is a different "
            "loss, so a jump at E is expected."
        )
    return _render_figure("Loss", chart, note)


def _render_mixture(plot: MixturePlot) -> str:
    note = (
        "Two different nodes are a negative pair, and are pushed apart. The more similar a pair (right), the more "
        "likely it is a false negative: two nodes of the same kind."
    )
    if plot.fitted:
        note += " The curves are the two groups that the mixture found, without labels."
    if plot.probability is not None:
        note += " Dashed: the probability that a pair of this similarity is a true negative."
    share, base = plot.false_share(HARDEST), plot.false_share()
    if share is not None and base is not None:
        note += f" By label, {share:.0%} of the most similar {HARDEST:.0%} are false negatives, and {base:.0%} of all."
    return _render_figure("Similarities of negatives", draw_mixture(plot), note)


def _render_figure(title: str, chart: Chart | None, note: str) -> str:
    legend = "".join(
        f'<li><i class="{classes}"></i>{escape(label)}</li>'
        for label, classes in (chart.legend if chart else {}).items()
    )
    content = (f'<ul class="progcl-chart">{legend}</ul>' if legend else "") + (chart.to_svg() if chart else "")
    return f'<figure class="card"><h3>{title}</h3>{content}<figcaption>{note}</figcaption></figure>'


def _pack_map(story: Story, chart: Map, classes: list[str] | None) -> dict[str, Any]:
    """The data that the page's script draws the map from."""
    groupings = []
    if classes is not None and story.labels:
        number = {name: index for index, name in enumerate(classes)}
        class_of = np.array([number[story.labels[node]] for node in chart.nodes])
        groupings.append({"title": "label", "names": classes, "of": _encode_array(class_of, "<u2")})
    clusters = [str(index + 1) for index in range(int(chart.clusters.max()) + 1)]
    groupings.append({"title": "cluster", "names": clusters, "of": _encode_array(chart.clusters, "<u2")})
    return {
        "ids": [story.ids[node] for node in chart.nodes],
        "positions": _encode_array(chart.positions, "<u2"),
        "neighbors": _encode_array(chart.neighbors, "<u2"),
        "cosines": _encode_array((32767 * chart.cosines).round(), "<i2"),
        "k": chart.neighbors.shape[1],
        "groupings": groupings,
    }


def _encode_array(values: NDArray[Any], dtype: str) -> str:
    return base64.b64encode(values.astype(dtype).tobytes()).decode()


def _split_digits(name: str) -> list[tuple[str, str]]:
    """Digits and other text in turn, so that names sort by their numbers."""
    return re.findall(r"(\d*)(\D*)", name)
