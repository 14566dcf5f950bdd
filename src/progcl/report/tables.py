"""Tables of the report: scores, and nearest neighbors of a few nodes."""

from __future__ import annotations

from html import escape

import numpy as np

from progcl.data.labels import NO_LABEL
from progcl.evaluation.links import LinkScore
from progcl.evaluation.scores import MAJORITY, Score, list_columns, note_splits
from progcl.export import nearest
from progcl.report.charts import draw_strip
from progcl.report.maps import Map
from progcl.report.story import Story

EXAMPLE_NODES, EXAMPLE_NEIGHBORS = 6, 5  # rows of the table of nearest neighbors, and neighbors per row


def render_scores(scores: dict[str, Score]) -> str:
    """Table of the probe's scores, and of predicting the largest class always."""
    if not scores:
        return ""
    accuracies = [value for score in scores.values() for value in score.accuracies]
    low, high = min(accuracies), max(accuracies)
    first = next(iter(scores.values()))
    measures = [name for name, _ in list_columns(first)]
    rows = [
        f'<tr><th scope="row">{escape(name + note_splits(score, first))}</th>'
        + f'<td data-name="protocol">{escape(score.protocol)}</td>'
        + "".join(f'<td class="number" data-name="{what}">{text} %</td>' for what, text in list_columns(score))
        + f"<td>{draw_strip(score.accuracies, low, high)}</td></tr>"
        for name, score in scores.items()
    ]
    if first.majority is not None:
        cells = f'<td class="number" data-name="accuracy">{first.majority:.2f} %</td>' + "<td></td>" * len(measures)
        rows.append(f'<tr><th scope="row">{MAJORITY}</th><td></td>{cells}</tr>')
    head = ["embeddings", "protocol", *measures, f"splits, {low:.1f} to {high:.1f}"]
    note = (
        "A linear classifier predicts the labels from the embeddings. It is trained on a few labeled nodes and tested "
        "on others. Each dot is one such split of the nodes; accuracy is the mean ± standard deviation over splits."
    )
    if first.macro_f1:
        note += " Macro-F1 counts small classes as much as large ones."
    if first.nodes is not None:
        note += f" {first.nodes:,} nodes have labels; the others are not scored."
    return _render_table("Probe", head, rows, note)


def render_links(scores: dict[str, LinkScore]) -> str:
    """Table of how well held-out links are predicted."""
    if not scores:
        return ""
    first = next(iter(scores.values()))
    rows = [
        f'<tr><th scope="row">{escape(name)}</th><td class="number" data-name="AUC">{score.auc:.4f}</td>'
        f'<td class="number" data-name="MRR">{score.mrr:.4f}</td></tr>'
        for name, score in scores.items()
    ]
    ranked = "" if first.ranked == first.links else f" (of {first.ranked:,} of them)"
    note = (
        f"{first.links:,} edges were held out before anything was computed. AUC: the probability that such an "
        "edge has a larger cosine than two random nodes without one; 0.5 is chance. MRR: the mean of 1 / rank of one "
        f"end{ranked}, seen from the other, among all nodes but those it is linked to otherwise. Without labels, these "
        "are the numbers to trust."
    )
    return _render_table("Links that were held out", ["embeddings", "AUC", "MRR"], rows, note)


def render_neighbors(story: Story, chart: Map, seed: int) -> str:
    """Table of a few nodes and their nearest neighbors among all nodes."""
    if len(story.ids) < 2:
        return ""
    map_index = {int(node): index for index, node in enumerate(chart.nodes)}
    rows = []
    for index in choose_examples(chart, seed):
        node = int(chart.nodes[index])
        chips = "".join(
            f"<li>{_render_chip(story, node, other, cosine, map_index.get(other))}</li>"
            for other, cosine in nearest(story.embeddings, node, EXAMPLE_NEIGHBORS)
        )
        name = f'<button type="button" class="id" data-node="{index}">{escape(story.ids[node])}</button>'
        label = f'<td data-name="label">{escape(story.labels[node])}</td>' if story.labels else ""
        rows.append(f'<tr><th scope="row">{name}</th>{label}<td><ul class="chips">{chips}</ul></td></tr>')
    head = ["node", *(["label"] if story.labels else []), "nearest neighbors and their cosine similarities"]
    note = "Random nodes from all clusters. A cosine of 1 means the same direction, 0 nothing in common."
    note += " Dashed: a neighbor with another label." if story.labels else ""
    return _render_table("Nearest neighbors of a few nodes", head, rows, note)


def choose_examples(chart: Map, seed: int, number: int = EXAMPLE_NODES) -> list[int]:
    """Indices into the map's nodes of a few random ones, from all clusters in turn."""
    order = np.random.default_rng(seed).permutation(len(chart.nodes))
    drawn: dict[int, int] = {}  # nodes of each cluster so far
    ranked = []
    for index in order.tolist():
        group = int(chart.clusters[index])
        drawn[group] = drawn.get(group, -1) + 1
        ranked.append((drawn[group], group, index))
    return [index for _, _, index in sorted(ranked)[:number]]


def _render_chip(story: Story, node: int, other: int, cosine: float, index: int | None) -> str:
    """A neighbor of a node; a button if it is on the map."""
    labels = story.labels
    known = labels and NO_LABEL not in (labels[node], labels[other])
    kind = "chip differs" if labels and known and labels[node] != labels[other] else "chip"
    name, label = escape(story.ids[other]), f"<small>{escape(labels[other])}</small>" if labels else ""
    content = f'<span class="id">{name}</span>{label}<small class="number">{cosine:.3f}</small>'
    if index is None:
        return f'<span class="{kind}" title="{name}">{content}</span>'
    return f'<button type="button" class="{kind}" title="{name}" data-node="{index}">{content}</button>'


def _render_table(title: str, head: list[str], rows: list[str], note: str) -> str:
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    table = f'<table class="wide"><thead><tr>{columns}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<section class="card"><h2>{title}</h2>{table}<p class="note">{note}</p></section>'
