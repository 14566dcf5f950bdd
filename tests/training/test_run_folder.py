"""The folder of a run; tests/test_run.py has what `fit` refuses to overwrite."""

from pathlib import Path

import pytest

from progcl import load_config
from progcl.training.run_folder import clear_folder, is_restart, write_job_id


def test_only_a_restart_of_the_same_job_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job_id(tmp_path)
    assert not is_restart(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert is_restart(tmp_path)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
    assert not is_restart(tmp_path)
    assert not is_restart(tmp_path / "nothing")


def test_a_cleared_folder_is_empty(tmp_path: Path) -> None:
    clear_folder(tmp_path / "missing", load_config("csbm"))
    (tmp_path / "run" / "compare").mkdir(parents=True)
    (tmp_path / "run" / "compare" / "log.jsonl").write_text("")
    (tmp_path / "run" / "log.jsonl").write_text("")
    clear_folder(tmp_path / "run", load_config("csbm"))
    assert list((tmp_path / "run").iterdir()) == []
