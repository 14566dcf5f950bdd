"""The ledger: whole lines under any circumstances, and entries that are found only by what they depend on."""

import json
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from progcl import InputError, load_config
from progcl.config import to_dict
from progcl.experiments import ledger as module
from progcl.experiments.ledger import Ledger, Run, append_line, hash_settings, read_lines
from support.tables import append_many, make_entry

CONFIG = load_config("csbm", {"miner.name": "none"})
RUN = Run("tiny/csbm/grace", CONFIG, data=7)
LINES = 100


@pytest.mark.processes(seconds=2)
def test_two_processes_append_whole_lines(tmp_path: Path) -> None:
    """Lines are longer than a page, so that unlocked writes would mix."""
    path, spawn = tmp_path / "results" / "ledger.jsonl", get_context("spawn")
    workers = [spawn.Process(target=append_many, args=(path, name, LINES)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    lines = read_lines(path)
    for name in "ab":
        assert [line["index"] for line in lines if line["name"] == name] == list(range(LINES))


def test_a_torn_line_is_not_read_and_the_next_entry_replaces_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    append_line(path, {"index": 0})
    with path.open("a") as file:
        file.write('{"index": 1, "sco')
    assert read_lines(path) == [{"index": 0}]
    append_line(path, {"index": 2})
    assert [json.loads(line)["index"] for line in path.read_text().splitlines()] == [0, 2]


def test_no_file_is_an_empty_ledger_and_another_file_is_refused(tmp_path: Path) -> None:
    assert Ledger(tmp_path / "none.jsonl").entries == []
    for text in ('{"settings": {}}\n', "not json\n"):
        (tmp_path / "other.jsonl").write_text(text)
        with pytest.raises(InputError, match="is no ledger"):
            Ledger(tmp_path / "other.jsonl")


def test_an_entry_is_found_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    assert ledger.find(RUN).entry is None
    ledger.append(make_entry(RUN))
    found = Ledger(ledger.path).find(RUN)
    assert found.is_current
    assert found.entry == make_entry(RUN)
    assert Ledger(ledger.path).find(replace(RUN, cell="other/csbm/grace")).is_current, "another table may use it"
    assert Ledger(ledger.path).find(replace(RUN, data=None)).is_current, "no graph was read"
    other_seed = replace(CONFIG, train=replace(CONFIG.train, seed=1))
    assert Ledger(ledger.path).find(replace(RUN, config=other_seed)).entry is None


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"data": 8}, ("data",)),
        ({"code": "method grace 0"}, ("code",)),
        ({"config": to_dict(load_config("csbm", {"miner.name": "none", "loss.tau": 0.5}))}, ("settings",)),
        ({"data": 8, "code": "method grace 0"}, ("data", "code")),
    ],
)
def test_an_entry_of_other_settings_data_or_code_is_stale(
    changes: dict[str, Any], differs: tuple[str, ...], tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(make_entry(RUN, **changes))
    found = ledger.find(RUN)
    assert not found.is_current
    assert found.differs == differs
    assert ledger.find(replace(RUN, cell="other/csbm/grace")).entry is None, "stale entries are of the same cell"
    ledger.append(make_entry(RUN))
    ledger.append(make_entry(RUN, **changes))
    assert ledger.find(RUN).is_current, "a newer stale entry hides nothing"


def test_a_short_run_is_never_a_stale_long_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.append(make_entry(RUN, fast=True, code="method grace 0"))
    assert ledger.find(RUN).entry is None


def test_what_changes_no_result_is_no_setting() -> None:
    base = hash_settings(to_dict(CONFIG))
    same = {"train.checkpoint_every": 3, "loss.memory": 5.0, "probe.protocol": "gca", "train.seed": 4}
    assert hash_settings(to_dict(load_config("csbm", {"miner.name": "none", **same}))) == base
    for changes in ({"train.epochs": 7}, {"probe.splits": 3}, {"data.homophily": 0.7}, {"method.drop_edges": [0, 0]}):
        assert hash_settings(to_dict(load_config("csbm", {"miner.name": "none", **changes}))) != base, changes


def test_a_new_option_leaves_entries_valid_and_a_changed_default_does_not() -> None:
    now = to_dict(CONFIG)
    before = json.loads(json.dumps(now))
    del before["train"]["patience"], before["hops"], before["method"]["walk"]  # options that were added since
    assert hash_settings(before) == hash_settings(now)
    before["train"]["patience"] = 50  # the default of that time
    assert hash_settings(before) != hash_settings(now)
    gone = {**now, "method": {"name": "a method of the past", "rate": 3}}
    assert hash_settings(gone) != hash_settings(now)


def test_a_version_of_the_code_is_part_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before = RUN.id
    monkeypatch.setattr(module, "code_version", lambda config: "method grace 99")
    assert RUN.id != before
