"""ProGCL in your own loop: three marked lines in a plain PyTorch and PyG script.

python examples/own_loop.py
"""

import torch
from torch import nn
from torch_geometric.nn import GCNConv
from torch_geometric.utils import dropout_edge, mask_feature

from progcl import InfoNCE, ProGCLWeight  # 1
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import linear_probe

EPOCHS = 60


class Encoder(nn.Module):
    """Two layers of GCN and a projector."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.first = GCNConv(features, 2 * hidden)
        self.second = GCNConv(2 * hidden, hidden)
        self.projector = nn.Sequential(nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, hidden))

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        """Embeddings [N, hidden]."""
        hidden: torch.Tensor = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        return hidden


def main() -> None:
    """Train, and print the accuracy of a linear probe before and after."""
    torch.manual_seed(0)
    data = csbm(nodes=800, degree=10, homophily=0.8, signal=2)
    encoder = Encoder(data.x.size(1), 32)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.005)
    criterion = InfoNCE(tau=0.4, miner=ProGCLWeight(start_epoch=20))  # 2
    untrained = linear_probe(encoder(data.x, data.edge_index).detach(), data, splits=5)
    for epoch in range(1, EPOCHS + 1):
        criterion.set_epoch(epoch)  # 3
        views = []
        for rate in (0.2, 0.3):
            edges, _ = dropout_edge(data.edge_index, rate)
            features, _ = mask_feature(data.x, rate)
            views.append(encoder.projector(encoder(features, edges)))
        loss = criterion(*views)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    trained = linear_probe(encoder(data.x, data.edge_index).detach(), data, splits=5)
    print(f"loss {loss.item():.3f}; {criterion.miner}")
    print(f"accuracy untrained {untrained}, trained {trained}")


if __name__ == "__main__":
    main()
