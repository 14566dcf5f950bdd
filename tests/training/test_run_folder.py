"""The folder of a run; tests/test_run.py has what `fit` refuses to overwrite."""

from pathlib import Path

import pytest

from progcl import InputError, fit, load_config
from progcl.training.run_folder import clear_folder, is_restart, write_job_id
from support.runs import small


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


def test_what_a_kill_leaves_behind_neither_keeps_a_run_from_going_on_nor_stays(tmp_path: Path) -> None:
    fit(small(), out=tmp_path)
    (tmp_path / ".abc.part").mkdir()
    (tmp_path / ".abc.part" / ".tmpAbCdEf").write_text("half of a checkpoint")
    (tmp_path / ".log.jsonl.12.part").write_text("half of a log")
    fit(small(), out=tmp_path, resume=True)
    assert not list(tmp_path.glob(".*"))


def test_a_checkpoint_without_its_configuration_is_not_continued_with_any_options(tmp_path: Path) -> None:
    fit(small(), out=tmp_path)
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(InputError, match=r"no config\.yaml that says what it was made with"):
        fit(small(train__lr=0.5), out=tmp_path, resume=True)
    fit(small(), out=tmp_path, force=True)


@pytest.mark.parametrize("name", ["config.yaml", "embeddings.npz", "sub/x.npy"])
def test_mapped_features_take_no_place_of_a_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the run has files of its own"):
        fit(small(data__mapped=str(tmp_path / name)), out=tmp_path)
    fit(small(data__mapped=str(tmp_path / "x.npy")), out=tmp_path)
    fit(small(data__mapped=str(tmp_path / "x.npy")), out=tmp_path, resume=True)
