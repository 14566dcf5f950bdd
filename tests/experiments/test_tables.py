"""Experiments as data: every cell of the package's tables, selections, short versions."""

from pathlib import Path

import pytest

from progcl import InputError
from progcl.config import to_dict
from progcl.config.load import PRESETS, load_config
from progcl.config.methods import METHODS
from progcl.config.miners import ProGCLMixOptions
from progcl.embed import settings_by_size
from progcl.experiments.ledger import hash_settings
from progcl.experiments.tables import PROTOCOLS, Cell, load_tables, shorten
from support.tables import CELLS, write_tables

TABLES = load_tables()
CELLS_OF_PACKAGE = [cell for table in TABLES.values() for cell in table.select()]
RESOLVED = [cell for cell in CELLS_OF_PACKAGE if cell.data in ("cora", "facebook", "ogbn-arxiv")]
TRAINING_FREE = {"raw", "propagated", "hops", "spectral", "walk-vectors", "random-init"}
SUPERVISED = {"mlp", "gcn", "gat", "sage-supervised", "fastgcn"}


def test_figures_name_their_protocol_and_cells_their_source() -> None:
    for cell in CELLS_OF_PACKAGE:
        assert cell.source, cell.name
        if cell.published:
            assert 10 < cell.published.value < 100, cell.name
            assert cell.published.protocol in (*PROTOCOLS, "supervised", None), cell.name
            assert cell.published.source, cell.name


def test_published_figures_are_those_of_the_paper() -> None:
    """Samples of each table, typed from the paper a second time."""
    values = {cell.name: cell.published and (cell.published.value, cell.published.std) for cell in CELLS_OF_PACKAGE}
    assert values["table2/photo/progcl-mix"] == (93.64, 0.13)
    assert values["table2/computers/gca"] == (87.82, 0.11)
    assert values["table2/cs/dgi"] == (92.15, 0.63)
    assert values["table2/wikics/progcl-weight"] == (78.68, 0.12)
    assert values["table3/flickr/progcl-mix"] == (50.0, 0.3)
    assert values["table3/reddit/raw"] == (58.5, None)
    assert values["arxiv/ogbn-arxiv/progcl-mix"] == (72.56, 0.20)
    assert values["table2/cora/gca"] is None


def test_every_method_and_every_row_without_training_is_there() -> None:
    photo = TABLES["table2"].columns["photo"].cells
    named = {"gca-degree": "gca", "gca-pagerank": "gca", "gca-own": "gca", "progcl-weight": "gca", "progcl-mix": "gca"}
    assert {named.get(row, row) for row in photo} - SUPERVISED == METHODS.keys() - SUPERVISED - {"simclr"}  # images
    for table in TABLES.values():
        for column in table.columns.values():
            training_free = {row for row in column.cells if not table.rows[row].training}
            unknown = {"spectral", "walk-vectors"} if table.name == "table3" else set()  # of unseen nodes
            assert training_free | unknown == TRAINING_FREE, column.title


@pytest.mark.parametrize(
    ("data", "nodes"), [("photo", 7650), ("computers", 13752), ("cs", 18333), ("wikics", 11701), ("cora", 2708)]
)
def test_the_cells_of_our_own_method_are_what_embed_chooses(data: str, nodes: int) -> None:
    settings = TABLES["table2"].columns[data].cells["neighbors"].settings
    chosen = settings_by_size(nodes)
    assert settings == {"data.name": data} | {key: chosen[key] for key in settings if key != "data.name"}


@pytest.mark.parametrize("cell", RESOLVED, ids=lambda cell: cell.name)
def test_cells_resolve(cell: Cell) -> None:
    """Others differ from these in the name of the data and in numbers."""
    if cell.preset not in PRESETS:
        with pytest.raises(InputError, match="unknown preset"):
            cell.config()
        return
    config = cell.config(seed=3)
    assert config.data.name == cell.data
    assert config.train.seed == 3
    assert config.probe.protocol == "none"
    assert config.probe.nodes == ("all" if cell.table == "table2" else "heldout")
    assert config.train.epochs <= 1000, "longer runs are cut, and say so"
    assert not (getattr(config.method, "windows", 0) and config.train.anchors), "a window is contrasted as a whole"
    assert not cell.settings or cell.settings.keys() - {"data.name"} or cell.preset != cell.data


def test_a_run_of_1000_epochs_says_what_was_published() -> None:
    for cell in CELLS_OF_PACKAGE:
        if cell.settings.get("train.epochs") == 1000:
            assert cell.length, cell.name


def test_a_selection_has_the_rows_without_training(tmp_path: Path) -> None:
    table = write_tables(tmp_path)
    assert [cell.row for cell in table.select(rows=["hcl"])] == ["raw", "random-init", "hcl"]
    assert [cell.row for cell in table.select(["csbm"])] == list(CELLS)


@pytest.mark.parametrize(
    ("data", "rows", "hint"), [(["fotos"], [], "did you mean `photo`?"), ([], ["gcaa"], "did you mean `gca`?")]
)
def test_unknown_names_are_refused_with_a_suggestion(data: list[str], rows: list[str], hint: str) -> None:
    with pytest.raises(InputError) as error:
        TABLES["table2"].select(data, rows)
    assert error.value.hint == hint


def test_a_cell_with_an_unknown_key_or_base_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tiny/csbm/raw"):
        _ = write_tables(tmp_path, {"raw": {"publisht": 3}}).columns
    with pytest.raises(InputError, match="unknown base of tiny/csbm/raw `grce`"):
        _ = write_tables(tmp_path, {"raw": {"base": "grce"}, "grace": {}}).columns


def test_a_short_version_is_another_configuration() -> None:
    config = load_config("photo", {"miner.name": "progcl-mix"})
    short = shorten(config)
    assert short.train.epochs == 50
    assert short.train.anchors == 1024
    assert isinstance(short.miner, ProGCLMixOptions)
    assert short.miner.start_epoch == 8  # 400 of 2,500 epochs
    assert short.probe.splits == 5
    assert hash_settings(to_dict(short)) != hash_settings(to_dict(config))
    assert shorten(load_config("facebook")).batch.steps == 10
