"""Options of methods: declared once, carried over, refused with the name of the method that has them."""

from typing import Any

import pytest

from progcl import InputError, load_config
from progcl.config.load import to_dict
from progcl.config.methods import ABILITIES, METHODS
from progcl.methods import method_type


def test_the_table_agrees_with_the_classes() -> None:
    for name, entry in METHODS.items():
        options: Any = entry.options
        assert options().name == name
        assert method_type(name).Options is options
        assert options.supports <= set(ABILITIES), name
        assert set(options.option_names()) <= set(options.meanings()), name


def test_a_shared_option_has_one_type() -> None:
    types: dict[str, Any] = {}
    for entry in METHODS.values():
        for key, hint in entry.options.types().items():
            assert types.setdefault(key, hint) == hint, key


def test_another_method_keeps_the_options_it_shares_and_mines_only_if_it_can() -> None:
    config = load_config("photo", {"method.name": "bgrl"})
    assert to_dict(config)["method"]["drop_edges"] == [0.6, 0.3]
    assert "centrality" not in to_dict(config)["method"]
    assert config.miner.name == "none"


def test_a_users_method_declares_its_options() -> None:
    options = load_config("digits", {"method.name": "support.methods:Constant", "method.level": 2}).method
    assert to_dict(load_config("digits"))["method"].get("level") is None
    assert options.level == 2  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="declares no `Options`"):
        load_config("digits", {"method.name": "support.methods:WithoutOptions"})
