"""ProGCL in scikit-learn's style: fit, transform, fit_transform, get_params, clone."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch_geometric.data import Data

from progcl.config.load import load_config
from progcl.data.formats import read_raw_graph
from progcl.data.prepare import fingerprint, prepare
from progcl.data.tables import RawGraph, as_array, assemble, edges_of, from_networkx, numbered_graph
from progcl.embed import choose_settings
from progcl.errors import InputError
from progcl.progress import bar
from progcl.training.trainer import Trainer, embed_graph

Vectors = NDArray[np.float32]


class ProGCL(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Node embeddings without labels.

    A graph is a file as `progcl embed` takes it, a PyG `Data`, a pair (adjacency, features) of scipy, numpy or torch
    matrices, or a networkx graph whose nodes have numbers as attributes. A plain array of features has no edges: its
    rows are connected to their nearest neighbors.

    Args:
        hidden: width of the learned vectors, which the embedding holds as they are and smoothed over the graph; None is
            512, or less on graphs of more than 300,000 nodes
        epochs: passes over the graph; None chooses by its size, as `progcl embed` does
        miner: choice of negatives: none, progcl-weight, progcl-mix, ...
        encoder: svd or mlp, which do not see the edges; hops, gcn or sage
        with_features: append features of several hops, which need no training; where these alone predict links
            that were kept from training better, the learned vectors are left out
        dim: reduce the embedding to so many numbers per node, by PCA
        n_neighbors: nearest neighbors of a row, if there is no graph
        random_state: seed
        verbose: show a progress bar
        options: any other option of `progcl train`, by dotted key

    Attributes:
        embedding_: of the fitted graph, [N, d]
        choice_: whether the learned vectors were used, and why, in plain numbers; None if there was no choice
        loss_curve_: loss of every epoch
        mixture_: the fitted mixture in plain numbers; None if there is none
        n_features_in_: number of features that a graph needs
    """

    def __init__(
        self,
        hidden: int | None = None,
        epochs: int | None = None,
        miner: str = "none",
        encoder: str = "svd",
        with_features: bool = True,
        dim: int | None = None,
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
        self.n_neighbors = n_neighbors
        self.random_state = random_state
        self.verbose = verbose
        self.options = options

    def fit(self, X: Any, y: Any = None) -> ProGCL:
        """Train on a graph; `y` is ignored."""
        data = self._prepare(X, reset=True)
        trainer = Trainer(load_config("embed", self._settings(data)), data)
        trainer.config.method.require("inductive")
        epochs = trainer.config.train.epochs
        records = bar(self.verbose, iterable=trainer.run(epochs), total=epochs, unit="epoch")
        self.loss_curve_ = [record.loss for record in records]
        self.mixture_ = trainer.method.facts().get("mixture")
        self.embedding_: Vectors = trainer.embed().numpy()
        self.choice_ = trainer.output.facts().get("choice")
        trainer.method.release()
        self.method_, self.loader_, self.output_ = trainer.method.eval(), trainer.loader, trainer.output
        return self

    def transform(self, X: Any) -> Vectors:
        """Embed a graph with the same features, also one that was not there when the encoder was trained."""
        check_is_fitted(self)
        data = self._prepare(X, reset=False)
        vectors: Vectors = embed_graph(self.method_, self.loader_, self.output_, data).numpy()
        return vectors

    def fit_transform(self, X: Any, y: Any = None) -> Vectors:
        """Train on a graph, and embed it."""
        return self.fit(X).embedding_

    def __sklearn_tags__(self) -> Tags:
        """Embeddings are float32, whatever the features are."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _settings(self, data: Data) -> dict[str, Any]:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        overrides: dict[str, Any] = {
            "encoder.name": self.encoder,
            "output.features": self.with_features,
            "output.structure": 0,  # walk vectors of another graph would not be comparable
            "output.dim": self.dim,
            "miner.name": self.miner,
            "train.seed": self.random_state if isinstance(self.random_state, Integral) else seed,
            "probe.protocol": "none",
        }
        if self.hidden is not None:
            overrides |= {"encoder.hidden": self.hidden, "encoder.projection": max(1, self.hidden // 2)}
        if self.epochs is not None:
            overrides["train.epochs"] = self.epochs
        return choose_settings(data, {**overrides, **(self.options or {})})

    def _prepare(self, X: Any, reset: bool) -> Data:
        """A user's graph, prepared; raise `InputError` if its features do not fit those of the fitted one."""
        raw = self._read(X, reset)
        data = prepare(raw if isinstance(raw, Data) else assemble(raw))
        if reset:
            self.n_features_in_ = data.x.size(1)
            self.graph_ = fingerprint(data) if data.structural else None
        elif data.structural and fingerprint(data) != self.graph_:
            hint = "features that both graphs have make them comparable"
            raise InputError("without features, only the graph that was fitted can be embedded", hint)
        elif data.x.size(1) != self.n_features_in_:
            given, needed = data.x.size(1), self.n_features_in_
            raise InputError(f"the graph has {given} features, {type(self).__name__} was fitted to {needed}")
        return data

    def _read(self, X: Any, reset: bool) -> RawGraph | Data:
        """A graph from any of the types that users have."""
        if isinstance(X, (str, Path)):
            return read_raw_graph(X)
        if scipy.sparse.issparse(X) and X.shape[0] == X.shape[1]:
            raise InputError("a sparse square matrix alone may be features or edges", "edges: give (matrix, None)")
        if isinstance(X, Data):
            return Data(**{key: X[key] for key in ("x", "edge_index", "num_nodes", "mapped") if X.get(key) is not None})
        if isinstance(X, networkx.Graph):
            return from_networkx(X)
        if isinstance(X, tuple) and len(X) == 2:
            edges, nodes = edges_of(as_array(X[0]))
            return numbered_graph(edges, None if X[1] is None else as_array(X[1]), nodes=nodes)
        rows = validate_data(self, X, reset=reset, dtype=np.float32, ensure_min_samples=2)
        nearest = kneighbors_graph(rows, min(self.n_neighbors, len(rows) - 1))
        return numbered_graph(edges_of(nearest)[0], rows)
