"""Versions of the code: raised by what changes numbers, and by nothing else."""

from pathlib import Path

import pytest

from progcl import load_config
from progcl.experiments import behavior, versions
from progcl.experiments.behavior import differs, list_cases, measure, update
from progcl.experiments.versions import code_version, load_versions
from progcl.methods.autoencoder import Gae


@pytest.mark.parametrize("part", [*list_cases(), "probe"])
def test_numbers_are_those_of_the_version(part: str) -> None:
    message = "results of this part change: run `python -m progcl.experiments.behavior`, which raises its version"
    assert not differs(part, measure(part)), message


def test_a_changed_loss_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Gae.loss
    monkeypatch.setattr(Gae, "loss", lambda self, batch: 1.01 * original(self, batch))
    assert differs("method gae", measure("method gae"))


def test_an_update_raises_the_version_of_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"method a": [1.0, 2.0], "probe": [90.0]}
    monkeypatch.setattr(versions, "VERSIONS", tmp_path / "behavior.json")
    monkeypatch.setattr(behavior, "VERSIONS", tmp_path / "behavior.json")
    monkeypatch.setattr(behavior, "list_cases", lambda: {"method a": []})
    monkeypatch.setattr(behavior, "measure", numbers.__getitem__)
    load_versions.cache_clear()
    try:
        assert update() == ["method a", "probe"]
        assert update() == []
        numbers["method a"] = [1.0, 2.1]
        assert update() == ["method a"]
        assert {part: each["version"] for part, each in load_versions().items()} == {"method a": 2, "probe": 1}
    finally:
        load_versions.cache_clear()


def test_the_version_of_a_run_names_its_parts() -> None:
    version = code_version(load_config("csbm", {"miner.name": "hcl"}))
    assert [part.rsplit(" ", 1)[0] for part in version.split(", ")] == [
        *("method grace", "encoder gcn", "miner hcl", "probe")
    ]
    assert not version.endswith(" 0")
