"""AUC and MRR of held-out links against scikit-learn and a naive loop."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import cosine_similarity
from torch.nn.functional import normalize

from progcl import fit, hold_out_links, load_config, score_links
from progcl.data.prepare import prepare
from progcl.data.synthetic import csbm
from progcl.evaluation import links as links_module
from progcl.evaluation.links import LinkScore, format_link_table, load_link_scores, save_link_scores, score_heldout
from progcl.graph.negatives import NonEdges
from progcl.training.choice import rank_targets
from progcl.training.files import write_json

DATA = hold_out_links(csbm(nodes=90, classes=3, degree=8, features=5, signal=3, homophily=0.9))


def naive_mrr(x: np.ndarray, heldout: list[tuple[int, int]], edges: set[tuple[int, int]]) -> float:
    """Mean of 1 / rank in both directions; nodes that are linked otherwise do not compete, ties count half."""
    cosines = cosine_similarity(x.astype(np.float64))
    known = edges | {(b, a) for a, b in edges} | set(heldout) | {(b, a) for a, b in heldout}
    total = 0.0
    for source, target in [*heldout, *((b, a) for a, b in heldout)]:
        rivals = [node for node in range(len(x)) if node not in (source, target) and (source, node) not in known]
        larger = sum(cosines[source, node] > cosines[source, target] + 1e-12 for node in rivals)
        equal = sum(abs(cosines[source, node] - cosines[source, target]) <= 1e-12 for node in rivals)
        total += 1 / (1 + larger + equal / 2)
    return total / (2 * len(heldout))


def pairs(edges: torch.Tensor) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in edges.T.tolist()]


def test_mrr_is_that_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("progcl.training.choice.MAX_SIMILARITIES", 7 * 90)  # blocks of 7 links
    expected = naive_mrr(DATA.x.numpy(), pairs(DATA.heldout), set(pairs(DATA.edge_index)))
    x = DATA.x.double()
    both = torch.cat([DATA.heldout, DATA.heldout.flip(0)], dim=1)
    known = torch.cat([DATA.edge_index, both], dim=1)
    assert float(rank_targets(normalize(x, dim=1), both, known).reciprocal().mean()) == pytest.approx(expected, 1e-10)
    score = score_links(DATA.x, DATA.heldout, DATA.edge_index[:, DATA.edge_index[0] < DATA.edge_index[1]])
    assert score.mrr == pytest.approx(expected, rel=1e-5)
    assert score.links == score.ranked == DATA.heldout.size(1)


def test_equal_vectors_share_their_mean_rank() -> None:
    x = torch.ones(90, 2)
    score = score_links(x, DATA.heldout, DATA.edge_index)
    assert score.auc == 0.5
    assert score.mrr == pytest.approx(naive_mrr(x.numpy(), pairs(DATA.heldout), set(pairs(DATA.edge_index))), rel=1e-5)


def test_auc_is_scikit_learns_over_pairs_without_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[torch.Tensor] = []
    sample = NonEdges.sample

    def record(non_edges: NonEdges, number: int, generator: torch.Generator) -> torch.Tensor:
        drawn.append(sample(non_edges, number, generator))
        return drawn[-1]

    monkeypatch.setattr(NonEdges, "sample", record)
    score = score_links(DATA.x, DATA.heldout, DATA.edge_index)
    (others,) = drawn
    known = set(pairs(torch.cat([DATA.edge_index, DATA.heldout, DATA.heldout.flip(0)], dim=1)))
    assert others.size(1) == DATA.heldout.size(1)
    assert not known & set(pairs(others))
    assert bool((others[0] != others[1]).all())
    cosines = cosine_similarity(DATA.x.double().numpy())
    scores = [cosines[a, b] for a, b in [*pairs(DATA.heldout), *pairs(others)]]
    assert score.auc == pytest.approx(roc_auc_score([1] * others.size(1) + [0] * others.size(1), scores), abs=1e-12)
    assert score.auc > 0.6


def test_large_graphs_rank_fewer_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "MIN_RANKED", 3)
    monkeypatch.setattr(links_module, "MAX_SIMILARITIES", 90 * 2 * 5)
    score = score_links(DATA.x, DATA.heldout, DATA.edge_index)
    assert (score.ranked, score.links) == (5, DATA.heldout.size(1))
    assert "MRR of 5 of them" in format_link_table({"x": score})


def test_a_run_holds_out_links_before_everything_and_reports_them(tmp_path: Path) -> None:
    small = {"data.nodes": 200, "data.degree": 12, "train.epochs": 3, "encoder.hidden": 8, "miner.start_epoch": 2}
    config = load_config("csbm", {**small, "data.holdout": 0.1, "probe.protocol": "none", "miner.name": "none"}, False)
    result = fit(config, out=tmp_path / "run")
    assert result.links is not None
    assert result.links.links == pytest.approx(0.1 * 200 * 12 / 2, rel=0.2)
    assert load_link_scores(tmp_path / "run") == {"this run": result.links}
    again = fit(config, data=prepare(csbm(nodes=200, degree=12)))  # a graph of one's own
    assert again.links is not None
    assert again.links.links == result.links.links
    assert fit(load_config("csbm", {**small, "probe.protocol": "none", "miner.name": "none"}, False)).links is None


def test_scores_are_stored_and_printed(tmp_path: Path) -> None:
    write_json(tmp_path / "result.json", {"links": None})
    assert load_link_scores(tmp_path) == {}
    scores = {"this one": LinkScore(0.91234, 0.25, 500, 500), "features": LinkScore(0.8, 0.1, 500, 500)}
    save_link_scores(scores, tmp_path)
    assert load_link_scores(tmp_path) == scores
    lines = format_link_table(scores).splitlines()
    assert lines[0] == "500 links that were kept from everything"
    assert lines[2].split() == ["this", "one", "0.9123", "0.2500"]
    assert score_heldout(DATA.x, csbm(nodes=90)) is None
