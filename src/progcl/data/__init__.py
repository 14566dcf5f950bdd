"""Graphs: named data sets, users' files, and `prepare`, which all of them pass."""

from progcl.data.datasets import load_data, load_dataset
from progcl.data.formats import read_graph
from progcl.data.prepare import prepare
from progcl.data.synthetic import csbm, digits

__all__ = ["csbm", "digits", "load_data", "load_dataset", "prepare", "read_graph"]
