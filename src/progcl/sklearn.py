"""ProGCL in scikit-learn's style: fit, transform, fit_transform, get_params, clone."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import Tags, check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data
from torch_geometric.data import Data, HeteroData

from progcl.config.load import load_config
from progcl.data.edges import choose_edge_weight
from progcl.data.formats import read_node_data
from progcl.data.frames import (
    is_edges,
    is_frame,
    is_names,
    is_numeric,
    looks_like_adjacency,
    read_edge_value,
    read_node_table,
)
from progcl.data.join import NodeData, join
from progcl.data.networks import from_networkx
from progcl.data.node_rows import JoinOptions
from progcl.data.prepare import prepare
from progcl.data.tables import edges_of, numbered_graph
from progcl.data.weights import UnusedWeights
from progcl.embed import choose_settings
from progcl.errors import InputError, ProgclWarning
from progcl.precision import single_precision
from progcl.progress import bar
from progcl.saved_estimator import load_estimator, save_estimator
from progcl.training.trainer import Trainer

Vectors = NDArray[np.float32]


class ProGCL(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Node embeddings without labels.

    A graph is a file as `progcl embed` takes it, a PyG `Data`, a networkx graph, edges, or a pair (edges, features).
    Edges are a table (pandas, polars, pyarrow) with columns such as `source` and `target`, an integer array [2, E] or
    [E, 2], or, in a pair, a square adjacency matrix; features are an array with a row for each node, or a table whose
    index or column `id` names the node. Other arrays and tables are features without edges: their rows are connected
    to their nearest neighbors.

    Args:
        hidden: width of the learned vectors, which the embedding holds as they are and smoothed over the graph; None is
            512, or less on graphs of more than 300,000 nodes
        epochs: passes over the graph; None chooses by its size, as `progcl embed` does
        miner: choice of negatives: none, progcl-weight, progcl-mix, ...; with one, the loss is InfoNCE, of 400 steps
        encoder: svd or mlp, which do not see the edges; hops, gcn or sage
        with_features: append features of several hops and walk vectors of a graph, which need no training; where hop
            features alone predict links that were kept from training better, the learned vectors are left out
        dim: reduce the embedding to so many numbers per node, by PCA
        weight: column of a table of edges, attribute of edges or array with the weights of edges; `edge_weight` of a
            `Data` and the entries of an adjacency matrix are weights unless it is "none"
        directed: take features of several hops also along the edges and against them
        n_neighbors: nearest neighbors of a row, if there is no graph
        random_state: seed
        verbose: show a progress bar
        options: any other option of `progcl train`, by dotted key; `data.source`, `data.id_column` and the like tell
            how files and tables are read

    Attributes:
        ids_: names of the nodes of the fitted graph, [N]
        remarks_: what is unusual about the fitted graph, and how it was read, one sentence each
        embedding_: of the fitted graph, [N, d]
        choice_: whether the learned vectors were used, and why, in plain numbers; None if there was no choice
        loss_curve_: loss of every epoch
        mixture_: the fitted mixture in plain numbers; None if there is none
        n_features_in_: number of features that a graph needs
        model_: what was learned and fitted, by which other graphs are embedded
    """

    def __init__(
        self,
        hidden: int | None = None,
        epochs: int | None = None,
        miner: str = "none",
        encoder: str = "svd",
        with_features: bool = True,
        dim: int | None = None,
        weight: str | None = None,
        directed: bool = False,
        n_neighbors: int = 10,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.miner = miner
        self.encoder = encoder
        self.with_features = with_features
        self.dim = dim
        self.weight = weight
        self.directed = directed
        self.n_neighbors = n_neighbors
        self.random_state = random_state
        self.verbose = verbose
        self.options = options

    @single_precision()
    def fit(self, X: Any, y: Any = None) -> ProGCL:
        """Train on a graph; `y` is ignored."""
        data = self._prepare(X, reset=True)
        trainer = Trainer(load_config("embed", self._settings(data, self._is_graph(X))), data)
        trainer.config.method.require("inductive")
        epochs = trainer.config.train.epochs
        records = bar(self.verbose, iterable=trainer.run(epochs), total=epochs, unit="epoch")
        self.ids_ = np.array(data.get("ids") or [str(node) for node in range(int(data.num_nodes))], dtype=object)
        self.remarks_: list[str] = list(data.remarks)
        self.loss_curve_ = [record.loss for record in records]
        self.mixture_ = trainer.method.facts().get("mixture")
        self.embedding_: Vectors = trainer.embed().numpy()
        self.choice_ = trainer.output.facts().get("choice")
        model = trainer.model()
        self.model_ = replace(model, schema=replace(model.schema, normalize=False))  # `data` is about files
        return self

    def transform(self, X: Any) -> Vectors:
        """Embed a graph with the same features, also one that was not there when the encoder was trained.

        Nodes of the fitted graph are known by their names, or by their numbers if they have none. Where nodes have no
        features, some need to be known.
        """
        check_is_fitted(self)
        data = self._prepare(X, reset=False)
        vectors: Vectors = self.model_.embed(data).numpy()
        named: Vectors = self._with_names(vectors, X, data.get("ids"))
        return named

    def fit_transform(self, X: Any, y: Any = None) -> Vectors:
        """Train on a graph, and embed it."""
        named: Vectors = self._with_names(self.fit(X).embedding_, X, self.ids_)
        return named

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a safetensors file, which holds no code."""
        check_is_fitted(self)
        save_estimator(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, allow_code: bool = False) -> ProGCL:
        """Read what `save` wrote; classes of your own, which options may name, are imported if `allow_code` is set.

        Raises:
            InputError: if the file is damaged, or holds no estimator
        """
        return load_estimator(cls(), Path(path), allow_code)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def _with_names(self, vectors: Vectors, X: Any, ids: Any) -> Any:
        """With pandas as `set_output`, a table whose rows are named by the nodes; rows of features keep their names."""
        if not self._is_graph(X) or _get_output_config("transform", self)["dense"] != "pandas":
            return vectors
        import pandas

        return pandas.DataFrame(vectors, index=pandas.Index(ids, name="node") if ids is not None else None)

    @property
    def _directed(self) -> bool:
        return bool((self.options or {}).get("data.directed", self.directed))

    def _is_graph(self, X: Any) -> bool:
        """Whether X has edges; an array or table without them holds features."""
        by_option = is_frame(X) and (self.options or {}).get("data.source") is not None
        return isinstance(X, (str, Path, Data, networkx.Graph, tuple)) or by_option or is_edges(X)

    def __sklearn_tags__(self) -> Tags:
        """Embeddings are float32, whatever the features are."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _settings(self, data: Data, is_graph: bool) -> dict[str, Any]:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        overrides: dict[str, Any] = {
            "encoder.name": self.encoder,
            "output.features": self.with_features,
            "output.dim": self.dim,
            "data.directed": self._directed,
            "miner.name": self.miner,
            "train.seed": self.random_state if isinstance(self.random_state, Integral) else seed,
            "probe.protocol": "none",
        }
        if not is_graph or not self.with_features:  # rows of features are no nodes that another graph may have, too
            overrides["output.structure"] = 0
        if self.hidden is not None:
            overrides |= {"encoder.hidden": self.hidden, "encoder.projection": max(1, self.hidden // 2)}
        if self.epochs is not None:
            overrides["train.epochs"] = self.epochs
        return choose_settings(data, {**overrides, **(self.options or {})})

    def _prepare(self, X: Any, reset: bool) -> Data:
        """A user's graph, prepared; raise `InputError` if its features do not fit those of the fitted one."""
        raw = self._read(X, reset)
        raw = raw if isinstance(raw, Data) else raw.to_data()
        if not reset:
            return self.model_.schema.prepare(raw)
        data = prepare(raw, self._directed)
        if unused := [remark for remark in data.remarks if isinstance(remark, UnusedWeights)]:
            what = unused[0].partition(":")[0]
            message = f'{what}: ProGCL(weight="NAME") makes it the weights of edges, weight="none" goes without'
            warnings.warn(message, ProgclWarning, stacklevel=3)
        if self.verbose:
            print("".join(f"note: {remark}\n" for remark in data.remarks), file=sys.stderr, end="")
        self.n_features_in_ = data.x.size(1)
        return data

    def _read(self, X: Any, reset: bool) -> NodeData | Data:
        """A graph from any of the types that users have."""
        given = {key.removeprefix("data."): value for key, value in (self.options or {}).items() if key[:5] == "data."}
        columns = {key: given.pop(key) for key in ("id_column", "label_column", "scale") if key in given}
        how = JoinOptions(**columns, plan=None if reset else self.model_.schema.plan)
        given.setdefault("weight", self.weight)
        ends = {key: given.get(key) for key in ("source", "target", "weight")}
        if isinstance(X, (str, Path)):
            given.pop("directed", None)
            return read_node_data(X, **given, options=how)
        if scipy.sparse.issparse(X) and X.shape[0] == X.shape[1]:
            raise InputError("a sparse square matrix alone may be features or edges", "edges: give (matrix, None)")
        if isinstance(X, Data):
            kept = ("x", "edge_index", "edge_forward", "num_nodes", "mapped", "ids")
            weights = choose_edge_weight(X, ends["weight"])
            return Data(**{key: X[key] for key in kept if X.get(key) is not None}, **weights)
        if isinstance(X, networkx.Graph):
            return join(from_networkx(X, ends["weight"]), options=how)
        if isinstance(X, HeteroData):
            raise InputError(
                "a HeteroData has several kinds of edges", "give X.to_homogeneous(), or one kind as a pair"
            )
        if isinstance(X, tuple) and len(X) == 2 and isinstance(X[0], (str, Path)):
            given.pop("directed", None)
            return read_node_data(X[0], X[1], **given, options=how)
        if isinstance(X, tuple) and len(X) == 2:
            return join(read_edge_value(X[0], **ends), None if X[1] is None else read_node_table(X[1]), options=how)
        if self._is_graph(X):
            X = X if is_frame(X) or hasattr(X, "shape") else np.asarray(X)
            if not is_frame(X) and X.shape[1] == 2 and not is_names(X):
                message = f"whole numbers {list(X.shape)} are read as edges, not as features"
                warnings.warn(f"{message}: to have features, give X.astype(float)", ProgclWarning, stacklevel=4)
            return join(read_edge_value(X, **ends), options=how)
        if is_frame(X) and not is_numeric(X):
            hint = 'edges: give (table, None), or ProGCL(options={"data.source": ..., "data.target": ...})'
            raise InputError("a table with text is neither edges by its names nor features of numbers", hint)
        if looks_like_adjacency(X):
            message = "a symmetric square matrix with zeros on its diagonal is read as features"
            warnings.warn(f"{message}: to have edges, give (matrix, None)", ProgclWarning, stacklevel=4)
        rows = validate_data(self, X, reset=reset, dtype=np.float32, ensure_min_samples=2)
        nearest = kneighbors_graph(rows, min(self.n_neighbors, len(rows) - 1))
        return join(numbered_graph(edges_of(nearest)[0], rows), options=JoinOptions(scale=False))
