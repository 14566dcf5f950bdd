"""The model of a run before torch is imported: whether there is one, and another graph's files read as the run's."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from progcl.checksums import REWRITE, read_file
from progcl.config.load import load_config
from progcl.data.features import Feature
from progcl.data.formats import read_node_data
from progcl.data.join import NodeData
from progcl.data.node_rows import JoinOptions
from progcl.errors import InputError
from progcl.files import require_folder

MODEL_FILE = "model.safetensors"
REMAKE = "`progcl embed GRAPH -o RUN` writes one with every embedding"


def require_model(run: Path, allow_code: bool | Collection[str] = False) -> Path:
    """The file of a run's model; raise `InputError` that says why if there is none."""
    if (run / MODEL_FILE).exists():
        return run / MODEL_FILE
    if not (run / "config.yaml").exists():
        raise InputError(f"`{run}` is no folder of a run", REMAKE)
    if not (run / "result.json").exists():
        raise InputError(f"`{run}` holds no finished run", "finish it with --resume")
    method = load_config(run / "config.yaml", allow_code=allow_code).method
    if "inductive" not in method.supports or method.needs_labels:
        hint = "embed the new graph as a whole: `progcl embed`, whose own method can be carried over"
        raise InputError(f"method `{method.name}` embeds only the graph that it was trained on", hint)
    raise InputError(f"`{run}` has no {MODEL_FILE}: an earlier version made it, or a named data set", REMAKE)


def require_free_result(out: Path, run: Path, force: bool) -> None:
    """Raise `InputError` for a folder that holds a run, or a result that is not to be overwritten."""
    require_folder(out)
    if out.resolve() == run.resolve() or (out / "config.yaml").exists():
        raise InputError(f"`{out}` holds a run", "choose another --out")
    if (out / "embeddings.npz").exists() and not force:
        raise InputError(f"`{out}` holds a result already", "overwrite it with --force, or choose another --out")


def read_alike(
    run: Path,
    graph: str,
    features: str | None = None,
    ids: str | None = None,
    columns: Mapping[str, str] | None = None,
    allow_code: bool | Collection[str] = False,
) -> NodeData:
    """The files of another graph, with features made as those of a run, unless other columns are named.

    Raises:
        InputError: if the run has no model, or if files cannot be read, or have other columns
    """
    path = require_model(run, allow_code)
    values = read_file(path, lambda: _read_values(path), REWRITE)
    given = {**values["config"]["data"], **(columns or {})}
    plan = values["schema"]["plan"]
    ends = {key: given.get(key) for key in ("source", "target", "weight")}
    how = JoinOptions(
        id_column=given.get("id_column"),
        scale=given.get("scale", True),
        plan=None if plan is None else [Feature(**feature) for feature in plan],
    )
    return read_node_data(graph, features, None, ids, **ends, options=how)


def _read_values(path: Path) -> dict[str, Any]:
    """The plain values of a model; its numbers are checked when they are loaded."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        values: dict[str, Any] = json.loads((file.metadata() or {})["values"])
    return values
