"""`progcl embed` as a user meets it: good files, odd ones and bad ones."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import torch
from torch_geometric.data import Data

from progcl import InputError, load_config
from progcl.cli.main import main
from progcl.data.synthetic import csbm
from progcl.embed import NARROW, WRITTEN, TimeBudget, by_size, embed, plan, seconds_of, suited_to
from progcl.training.checkpoint import load_embeddings

pytestmark = pytest.mark.filterwarnings("ignore:no mixture fitted", "ignore:no mining")

DATA = csbm(nodes=240, classes=3, degree=8, features=6, signal=3)
QUICK = ["--train.epochs=4", "--miner.start_epoch=2", "--encoder.hidden=16", "--probe.splits=2"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An edge list with names, a table of features, one of classes, and the same as one .npz; in the present folder."""
    monkeypatch.chdir(tmp_path)
    pairs = [(a, b) for a, b in DATA.edge_index.T.tolist() if a < b]
    Path("g.csv").write_text("source,target\n" + "".join(f"n{a},n{b}\n" for a, b in pairs))
    rows = [f"n{node}," + ",".join(f"{value:.4f}" for value in row) for node, row in enumerate(DATA.x.tolist())]
    Path("x.csv").write_text("\n".join(rows) + "\n")
    Path("y.csv").write_text("id,class\n" + "".join(f"n{node},kind {kind}\n" for node, kind in enumerate(DATA.y)))
    np.savez("g.npz", edge_index=DATA.edge_index.numpy(), x=DATA.x.numpy(), y=DATA.y.numpy())
    return tmp_path


def test_names_come_back_and_the_run_can_be_repeated(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["embed", "g.csv", "--features", "x.csv", "--labels", "y.csv", "-o", "out", *QUICK])
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "out/embeddings.npz"
    assert "features of up to 8 hops (no training)" in said.err
    report = Path("out/report.html").read_text()
    for part in ("n17", "kind 2", "240 nodes", "used in both", "Map of the embeddings"):
        assert part in report
    assert "240 nodes" in said.err
    vectors, ids = load_embeddings(Path("out/embeddings.npz"))
    assert ids == [f"n{node}" for node in range(240)]
    table = pyarrow.parquet.read_table("out/embeddings.parquet")
    assert table["node"].to_pylist() == ids
    np.testing.assert_array_equal(np.array(table["embedding"].to_pylist(), np.float32), vectors)
    Path("elsewhere").mkdir()
    with monkeypatch.context() as patch:
        patch.chdir("elsewhere")
        main(["train", "../out/config.yaml", "--out", "../again"])
    np.testing.assert_array_equal(load_embeddings(Path("again/embeddings.npz")).vectors, vectors)
    main(["eval", "out", "--protocol", "bgrl"])
    main(["report", "out", "--out", "told.html"])
    assert Path("told.html").read_text() == report
    main(["report", "again"])
    assert Path("again/report.html").exists()
    main(["neighbors", "out", "n7"])
    assert "n7\t" not in capsys.readouterr().out


def test_without_features_and_labels(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", "g.csv", *QUICK])
    said = capsys.readouterr()
    assert "no features given: 129 made of the edges" in said.err
    assert json.loads(Path("runs/g/result.json").read_text())["score"] is None
    main(["embed", "g.csv", *QUICK])  # nothing is overwritten
    assert Path("runs/g-2/embeddings.npz").exists()


def test_settings_follow_the_size() -> None:
    tiny, middle, large = (load_config("embed", by_size(nodes)) for nodes in (30, 2_000, 5_000_000))
    assert tiny.batch.size is None
    assert middle.batch.size == large.batch.size == 512
    assert middle.batch.steps == 4
    assert large.batch.steps == 10
    for config in (tiny, middle, large):
        assert config.miner.start_epoch < config.train.epochs
    assert "all at once" in plan(tiny, DATA)
    assert "in batches of 512" in plan(middle, DATA)


def test_settings_follow_the_width_of_the_features(files: Path) -> None:
    wide, narrow = (Data(x=torch.ones(40, columns), num_nodes=40) for columns in (257, 256))
    hops, gcn = (load_config("embed", {"encoder.name": name}).encoder for name in ("hops", "gcn"))
    for data, encoder in ((wide, hops), (narrow, gcn)):
        assert load_config("embed", suited_to(data, encoder)).method.walk == 0
    assert load_config("embed", suited_to(narrow, hops)).method.drop_features == (0.0, 0.0)
    plans = []
    for name, changes in (("narrow", {}), ("wide", {"encoder.rank": 1}), ("own", {"method.walk": 0, "train.lr": 0.5})):
        config = embed("g.npz", Path(name), changes={"train.epochs": 2, **changes}, progress=False).config
        plans.append((config.method.walk, max(config.method.drop_features), config.train.lr))
        assert ("steps away" in Path(name, "report.html").read_text()) == (name == "narrow")
        assert ("steps away" in plan(config, DATA)) == (name == "narrow")
    assert plans == [(2, 0.0, NARROW["train.lr"]), (0, 0.4, 5e-5), (0, 0.4, 0.5)]


def test_a_budget_plans_fewer_epochs(files: Path) -> None:
    result = embed("g.npz", Path("out"), budget=6, changes={"train.epochs": 10**6}, progress=False)
    planned = result.config.train.epochs
    assert len(result.losses) <= planned < 10**6
    with pytest.raises(InputError, match="does not suffice for one epoch"):
        embed("g.npz", Path("none"), budget=1e-3, progress=False)
    assert not Path("none").exists()
    resumed = embed("g.npz", Path("out"), resume=True, changes={"train.epochs": len(result.losses) + 1}, progress=False)
    assert len(resumed.losses) == len(result.losses) + 1


def test_time_is_spared_for_what_follows_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    small, large = TimeBudget(end=150.0, written=1e6), TimeBudget(end=150.0, written=30 * WRITTEN)
    assert (small.left(), small.training(), small.scoring()) == (50.0, 30.0, 40.0)
    assert (large.training(), large.scoring()) == (20.0, 35.0)


def test_without_time_left_there_is_no_score(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(TimeBudget, "scoring", lambda self: 0.0)
    result = embed("g.npz", Path("late"), budget=60, changes={"train.epochs": 2}, progress=True)
    assert result.score is None
    assert "no time was left to score" in capsys.readouterr().err
    assert Path("late/report.html").exists()


def test_a_run_that_was_stopped_while_it_read_keeps_nothing(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(config: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("progcl.embed.read", stop)
    with pytest.raises(SystemExit, match="130"):
        main(["embed", "g.csv", "--features", "x.csv", "-o", "early"])
    assert "to go on" not in capsys.readouterr().err
    assert not Path("early").exists()


def test_a_stopped_run_says_how_to_go_on(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from progcl import run as train

    keep = train._keep

    def stop(folder: Path, training: Any, record: Any, config: Any) -> None:
        keep(folder, training, record, config)
        if record.epoch == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(train, "_keep", stop)
    given = ["--features", "x.csv", "--labels", "y.csv"]
    command = ["embed", "g.csv", "--out", "out", *given, *QUICK, "--train.checkpoint_every=1"]
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 130
    assert "to go on: progcl embed g.csv --out out --resume" in capsys.readouterr().err
    monkeypatch.setattr(train, "_keep", keep)
    with pytest.raises(SystemExit):
        main(["embed", "g.npz", "--out", "out", "--resume"])
    assert "was not made of" in capsys.readouterr().err
    main(["embed", "g.csv", "--out", "out", "--resume"])
    main([*command[:3], "whole", *command[4:]])
    whole, resumed = (load_embeddings(Path(name, "embeddings.npz")).vectors for name in ("whole", "out"))
    np.testing.assert_array_equal(resumed, whole)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("0.5h", 1800), ("1m5s", 65)]
)
def test_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-5m", "5d"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InputError, match="is not a duration"):
        seconds_of(text)


def arrays(**changes: Any) -> Callable[[], object]:
    content = {"edge_index": DATA.edge_index.numpy(), "x": DATA.x.numpy(), **changes}
    return lambda: np.savez("bad.npz", **{name: value for name, value in content.items() if value is not None})


def spoiled(value: float) -> Any:
    rows = DATA.x.numpy().copy()
    rows[3, 2] = value
    return rows


BAD: dict[str, tuple[Callable[[], object], list[str], str]] = {
    "missing": (lambda: None, ["nowhere.csv"], "there is no file"),
    "format": (lambda: Path("bad.xls").write_text("?"), ["bad.xls"], "unknown ending"),
    "truncated": (lambda: Path("bad.npz").write_bytes(Path("g.npz").read_bytes()[:900]), ["bad.npz"], "cannot be read"),
    "objects": (arrays(x=np.array([[object()]])), ["bad.npz"], "objects are never loaded"),
    "pickle": (lambda: Path("bad.pt").write_bytes(b"\x80\x02cos\nsystem\n."), ["bad.pt"], "objects are never loaded"),
    "stranger": (arrays(edge_index=np.array([[0, 999], [1, 2]])), ["bad.npz"], "node `999`, which does not exist"),
    "negative": (arrays(edge_index=np.array([[0, -1], [1, 2]])), ["bad.npz"], "not negative"),
    "nan": (arrays(x=spoiled(np.nan)), ["bad.npz"], "NaN or infinite"),
    "inf": (arrays(x=spoiled(np.inf)), ["bad.npz"], "NaN or infinite"),
    "rows": (
        lambda: np.save("bad.npy", DATA.x[:100]),
        ["g.npz", "--features", "bad.npy"],
        "100 rows of features",
    ),
    "no edges": (arrays(edge_index=np.zeros((2, 0), int)), ["bad.npz"], "no edges"),
    "one node": (arrays(edge_index=np.array([[0], [0]]), x=np.ones((1, 3))), ["bad.npz"], "at least 2 nodes"),
    "labels": (arrays(y=np.zeros(7)), ["bad.npz"], "7 labels for 240 nodes"),
    "labels beside": (lambda: np.save("bad.npy", np.zeros(7)), ["g.npz", "--labels", "bad.npy"], "7 rows of labels"),
    "budget": (lambda: None, ["g.npz", "--budget", "soon"], "is not a duration"),
    "typo": (lambda: None, ["g.npz", "--featurs", "x.csv"], "unknown option"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_line_a_hint_and_exit_code_2(name: str, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write, arguments, message = BAD[name]
    write()
    with pytest.raises(SystemExit) as stopped:
        main(["embed", *arguments, "-o", "out"])
    said = capsys.readouterr()
    assert stopped.value.code == 2
    assert message in said.err
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err
    assert "\n\nhint: " in said.err
    assert said.out == ""
    assert not Path("out").exists()


def test_an_output_is_overwritten_only_by_force(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["embed", "g.npz", "-o", "out", *QUICK])
    before = Path("out/result.json").read_text()
    with pytest.raises(SystemExit):
        main(["embed", "g.npz", "-o", "out", *QUICK])
    assert "--force" in capsys.readouterr().err
    assert Path("out/result.json").read_text() == before
    main(["embed", "g.npz", "-o", "out", *QUICK, "--force", "--train.seed=1"])
    assert Path("out/result.json").read_text() != before


def test_no_room_on_the_disk(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("progcl.embed.shutil.disk_usage", lambda folder: SimpleNamespace(free=1_000_000))
    with pytest.raises(SystemExit) as stopped:
        main(["embed", "g.npz", "-o", "out"])
    assert stopped.value.code == 2
    assert "1 MB are free" in capsys.readouterr().err
    assert not Path("out").exists()


def test_odd_graphs_are_embedded_and_it_is_said(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = [[0, 0, 1, 1, 2, 3, 4, 5], [1, 1, 2, 0, 0, 3, 5, 4]]
    np.savez("odd.npz", edge_index=np.array(edges), x=np.ones((8, 3)))
    main(["embed", "odd.npz", "-o", "out", *QUICK])
    said = capsys.readouterr().err
    for part in (
        "self-loop",
        "duplicate edge",
        "both directions",
        "isolated",
        "parts without edges",
        "the same for all nodes",
    ):
        assert part in said
    assert np.isfinite(load_embeddings(Path("out/embeddings.npz")).vectors).all()
