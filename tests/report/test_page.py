"""The report shows and escapes what it is given, loads nothing from the network, and stays small."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from progcl import InputError
from progcl.evaluation.links import LinkScore
from progcl.export import nearest
from progcl.report.maps import MAX_NODES, STORED_NEIGHBORS, Map, make_map
from progcl.report.page import MAX_CLASSES, encode_json, render_page, sort_classes, write_report
from progcl.report.tables import choose_examples
from support.stories import HOSTILE, make_mixture, make_story


class Parsed(HTMLParser):
    """Texts, tags and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def unpacked(text: str, kind: str) -> list[int]:
    return [int(value) for value in np.frombuffer(base64.b64decode(text), kind)]


def test_every_field_is_shown() -> None:
    text = render_page(make_story())
    for word in ("GRACE + progcl-weight", "60 nodes", "2 nodes have no neighbors", "E = 2", "91.00 ± 1.00", "t-SNE"):
        assert word in text
    assert text.count("<figure") == 3
    assert "{{" not in text


def test_missing_fields_are_left_out_or_explained() -> None:
    text = render_page(
        make_story(facts={}, warnings=[], losses=[], start_epoch=None, mixture=None, labels=None, scores={}, score=None)
    )
    assert "No mixture was fitted" in text
    assert "No epoch had a finite loss" in text
    for word in ("Probe", "What was done", "Worth knowing", "Dashed", "E ="):
        assert word not in text
    assert [each["title"] for each in data_of(text)["groupings"]] == ["cluster"]


def test_the_same_story_gives_the_same_page() -> None:
    assert render_page(make_story()) == render_page(make_story())
    assert render_page(make_story(), seed=1) != render_page(make_story())


def test_texts_are_never_read_as_html() -> None:
    ids = [HOSTILE + str(index) for index in range(60)]
    story = make_story(
        title=HOSTILE,
        facts={HOSTILE: HOSTILE},
        warnings=[HOSTILE],
        ids=ids,
        labels=[HOSTILE, "b"] * 30,
        scores={HOSTILE: make_story().scores["GRACE"]},
        mixture=replace(make_mixture(), density={HOSTILE: np.ones(20)}),
    )
    text = render_page(story)
    hostile, plain = Parsed(text), Parsed(render_page(make_story()))
    assert set(hostile.tags) == set(plain.tags)
    assert hostile.tags.count("script") == 2
    assert "onerror" not in {name for name, _ in hostile.attributes}
    assert {HOSTILE, ids[0]} <= {*hostile.texts, *data_of(text)["ids"]}
    assert data_of(text)["ids"] == ids


def test_json_in_a_script_cannot_end_it() -> None:
    text = encode_json({"id": HOSTILE})
    assert not set(text) & set("<>&")
    assert json.loads(text) == {"id": HOSTILE}


def test_the_page_requests_nothing() -> None:
    text = render_page(make_story())
    links = [value or "" for name, value in Parsed(text).attributes if name in ("src", "href", "srcset", "action")]
    assert all(link.startswith("data:") for link in links)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|WebSocket|\bimport\b", text)
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)
    assert policy
    assert policy[1].startswith("default-src 'none';")
    for tag in ("style", "script"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        assert inside
        assert base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode() in policy[1]


def test_the_map_holds_its_nodes() -> None:
    story = make_story()
    data, chart = data_of(render_page(story)), make_map(story.embeddings, 3)
    assert data["ids"] == story.ids
    assert unpacked(data["positions"], "<u2") == chart.positions.ravel().tolist()
    assert unpacked(data["neighbors"], "<u2") == chart.neighbors.ravel().tolist()
    np.testing.assert_allclose(np.array(unpacked(data["cosines"], "<i2")) / 32767, chart.cosines.ravel(), atol=2e-5)
    label = data["groupings"][0]
    assert story.labels
    assert [label["names"][index] for index in unpacked(label["of"], "<u2")] == story.labels


def test_the_table_of_neighbors_agrees_with_export() -> None:
    story = make_story()
    text = render_page(story)
    for place in choose_examples(make_map(story.embeddings, 3), seed=0):
        row = re.search(rf'<tr><th scope="row"><button[^>]*>{story.ids[place]}</button>.*?</tr>', text)
        assert row
        found = re.findall(r'<span class="id">(.*?)</span>.*?class="number">(.*?)<', row[0])
        assert found == [(story.ids[node], f"{cosine:.3f}") for node, cosine in nearest(story.embeddings, place, 5)]


def test_clusters_are_counted_by_classes_only_where_they_are() -> None:
    assert "as many as there are classes" in render_page(make_story())
    assert "as many as there are classes" not in render_page(make_story(labels=None))
    assert "as many as there are classes" not in render_page(make_story(labels=[f"own {node}" for node in range(60)]))


def test_held_out_links_and_given_clusters_are_shown() -> None:
    scores = {"GRACE": LinkScore(0.9123, 0.2571, 500, 400), "raw <features>": LinkScore(0.7, 0.1, 500, 400)}
    clusters = np.arange(60) % 5
    page = render_page(make_story(links=scores, clusters=clusters, cluster_note="5 clusters, silhouette 0.25"))
    for text in ("<dt>link AUC</dt><dd>0.912</dd>", ">0.2571<", "raw &lt;features&gt;", "500 edges were held out"):
        assert text in page
    assert "end (of 400 of them), seen" in page
    assert "Clusters: 5 clusters, silhouette 0.25." in page
    grouping = data_of(page)["groupings"][1]
    assert grouping["names"] == ["1", "2", "3", "4", "5"]
    assert unpacked(grouping["of"], "<u2") == clusters.tolist()
    assert "held out" not in render_page(make_story())


def test_examples_come_from_all_clusters() -> None:
    chart = make_map(make_story().embeddings, 3)
    chosen = choose_examples(chart, seed=0)
    assert len(set(chosen)) == 6
    assert sorted(chart.clusters[chosen]) == [0, 0, 1, 1, 2, 2]


def test_classes_sort_by_their_numbers_and_many_by_size() -> None:
    assert sort_classes(["10", "2", "1", "2"]) == ["1", "2", "10"]
    assert sort_classes(["b 2", "a", "b 10", "Ä"]) == ["a", "b 2", "b 10", "Ä"]
    many = [f"class {index}" for index in range(MAX_CLASSES + 5)]
    assert sort_classes([*many, "class 7", "class 7", "class 9"])[:2] == ["class 7", "class 9"]


def fake_map(nodes: int) -> Map:
    """A random map of the size of a real one, which takes no time."""
    rng = np.random.default_rng(0)
    positions = rng.integers(0, 2**16, (nodes, 2)).astype(np.uint16)
    neighbors, cosines = (
        rng.integers(0, nodes, (nodes, STORED_NEIGHBORS)),
        rng.uniform(-1, 1, (nodes, STORED_NEIGHBORS)),
    )
    return Map(np.arange(nodes), positions, "t-SNE", rng.integers(0, 8, nodes), neighbors, cosines)


def test_20_000_nodes_take_less_than_3_mb(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("progcl.report.page.make_map", lambda *_, **__: fake_map(MAX_NODES))
    write_report(make_story(MAX_NODES, ids=[f"id{index:08d}" for index in range(MAX_NODES)]), tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 3_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_sampled_map_says_so() -> None:
    text = render_page(make_story(90), max_nodes=40)
    assert "A random sample of 40 of the 90 nodes" in text
    assert len(data_of(text)["ids"]) == 40
    assert '<span class="chip' in text  # neighbors that are not on the map cannot be clicked


@pytest.mark.parametrize("nodes", [1, 2, 3, 11])
@pytest.mark.parametrize("width", [1, 2, 30])
def test_tiny_graphs(nodes: int, width: int) -> None:
    for labels in (None, ["only"] * nodes):
        data = data_of(render_page(make_story(nodes, width, labels=labels)))
        assert len(data["ids"]) == nodes
        assert data["k"] == min(STORED_NEIGHBORS, nodes - 1)


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    write_report(make_story(2, ids=["\ud800", "ü"]), tmp_path / "report.html")
    assert data_of((tmp_path / "report.html").read_text("utf-8"))["ids"] == ["?", "ü"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ids": ["a"]}, "1 ids do not match 60"),
        ({"labels": ["a"] * 61}, "61 labels do not match 60"),
        ({"embeddings": np.full((60, 2), np.nan, np.float32)}, "not finite"),
        ({"embeddings": np.empty((0, 2), np.float32)}, "no embeddings"),
    ],
)
def test_fields_that_do_not_match_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        render_page(make_story(**changed))


def test_the_accuracy_at_the_top_is_the_runs_own() -> None:
    """In a comparison the first row is of raw features."""
    tiles = render_page(make_story()).split("</dl>")[0]
    assert "91.00 %" in tiles
    assert "55.00 %" not in tiles
