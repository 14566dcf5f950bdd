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
from progcl.embed import start_epoch, suited_to
from progcl.errors import InputError
from progcl.methods.grace import Grace
from progcl.progress import bar
from progcl.training.trainer import Trainer, mixture_facts

Vectors = NDArray[np.float32]


class ProGCL(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Node embeddings without labels.

    A graph is a file as `progcl embed` takes it, a PyG `Data`, a pair (adjacency, features) of scipy, numpy or torch
    matrices, or a networkx graph whose nodes have numbers as attributes. A plain array of features has no edges: its
    rows are tied to their nearest ones.

    Args:
        hidden: width of the embedding
        epochs: passes over the graph; None chooses by its size, as `progcl embed` does
        miner: treatment of negatives: progcl-weight, progcl-mix, none, ...
        encoder: hops; or gcn, sage or mlp, which learn little at the step size that suits hops: set `train.lr` for them
        with_features: put what reaches a node in some hops beside its embedding
        n_neighbors: edges of a row, if there is no graph
        random_state: seed
        verbose: show a bar
        options: any other option of `progcl train`, by dotted key

    Attributes:
        embedding_: of the graph that was fitted, [N, hidden], or wider with features beside it
        loss_curve_: loss of every epoch
        mixture_: the fitted mixture in numbers; None if there was none
        n_features_in_: features that a graph needs to have
    """

    def __init__(
        self,
        hidden: int = 512,
        epochs: int | None = None,
        miner: str = "progcl-weight",
        encoder: str = "hops",
        with_features: bool = False,
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
        self.n_neighbors = n_neighbors
        self.random_state = random_state
        self.verbose = verbose
        self.options = options

    def fit(self, X: Any, y: Any = None) -> ProGCL:
        """Train on a graph; `y` is ignored."""
        data = self._graph(X, reset=True)
        training = Trainer(load_config("embed", self._settings(data)), data)
        if not isinstance(training.method, Grace):
            raise InputError("method `merit` embeds only the graph that it was trained on", "use `progcl train`")
        epochs = training.config.train.epochs
        records = bar(self.verbose, iterable=training.run(epochs), total=epochs, unit="epoch")
        self.loss_curve_ = [record.loss for record in records]
        self.mixture_ = mixture_facts(training.miner)
        self.lens_, self.encoder_ = training.lens, training.method.encoder
        self.embedding_: Vectors = training.embed().numpy()
        return self

    def transform(self, X: Any) -> Vectors:
        """Embed a graph with the same features, also one that was not there when the encoder was trained."""
        check_is_fitted(self)
        data = self._graph(X, reset=False)
        graph = self.lens_.graph(data)
        vectors: Vectors = self.lens_.finished(graph.embed(self.encoder_), graph, data).numpy()
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
        asked = {
            "encoder.name": self.encoder,
            "encoder.hidden": self.hidden,
            "encoder.projection": self.hidden,
            "encoder.with_features": self.with_features,
            "miner.name": self.miner,
            "train.seed": self.random_state if isinstance(self.random_state, Integral) else seed,
            "probe.protocol": "none",
        }
        if self.epochs is not None:
            asked |= {"train.epochs": self.epochs, "miner.start_epoch": start_epoch(self.epochs)}
        asked |= self.options or {}
        return {**suited_to(data, load_config("embed", asked).encoder, asked), **asked}

    def _graph(self, X: Any, reset: bool) -> Data:
        """Whatever a user has as a graph, with as many features as were there to fit."""
        if isinstance(X, (str, Path)):
            found = read_raw_graph(X)
        elif scipy.sparse.issparse(X) and X.shape[0] == X.shape[1]:
            raise InputError("a sparse square matrix alone may be features or edges", "edges: give (matrix, None)")
        elif isinstance(X, Data):
            if X.get("edge_index") is None:
                raise InputError(
                    "the graph has no `edge_index`", "Data(x=[N, F] features, edge_index=[2, E] node pairs)"
                )
            rows = None if X.get("x") is None else as_array(X.x)
            found = numbered_graph(as_array(X.edge_index), rows, nodes=None if rows is not None else X.num_nodes)
        elif isinstance(X, networkx.Graph):
            found = from_networkx(X)
        elif isinstance(X, tuple) and len(X) == 2:
            edges, nodes = edges_of(as_array(X[0]))
            found = numbered_graph(edges, None if X[1] is None else as_array(X[1]), nodes=nodes)
        else:
            found = self._tied(validate_data(self, X, reset=reset, dtype=np.float32, ensure_min_samples=2))
        data = prepare(assemble(found))
        if reset:
            self.n_features_in_ = data.x.size(1)
            self.graph_ = fingerprint(data) if data.made else None
        elif data.made and fingerprint(data) != self.graph_:
            hint = "features that both graphs have make them comparable"
            raise InputError("without features, only the graph that was fitted can be embedded", hint)
        elif data.x.size(1) != self.n_features_in_:
            given, needed = data.x.size(1), self.n_features_in_
            raise InputError(f"the graph has {given} features, {type(self).__name__} was fitted to {needed}")
        return data

    def _tied(self, rows: Vectors) -> RawGraph:
        ties = kneighbors_graph(rows, min(self.n_neighbors, len(rows) - 1))
        return numbered_graph(edges_of(ties)[0], rows)
