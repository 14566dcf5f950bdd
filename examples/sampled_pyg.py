"""Train PyG's GraphSAGE in batches, without labels and without compiled extensions.

    python examples/sampled_pyg.py

`NeighborSampler` replaces PyG's `NeighborLoader`, which needs pyg-lib or torch-sparse; `loss(..., nodes=...)` tells the
miner which nodes are in a batch.
"""

import torch
from torch_geometric.nn import GraphSAGE

from progcl import InfoNCE, ProGCLWeight
from progcl.data.synthetic import csbm
from progcl.evaluation.probe import linear_probe
from progcl.graph.sampler import NeighborSampler

EPOCHS = 6


def main(epochs: int = EPOCHS) -> None:
    """Print the loss of every epoch, then the accuracy of a linear classifier on the embeddings."""
    torch.manual_seed(0)
    data = csbm(nodes=3000, homophily=0.9, seed=0)
    encoder = GraphSAGE(data.x.size(1), 64, num_layers=2)
    loss = InfoNCE(tau=0.4, miner=ProGCLWeight(start_epoch=epochs // 2))
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.005)
    sampler = NeighborSampler(data.edge_index, 3000, fanouts=(10, 5))
    generator = torch.Generator().manual_seed(0)
    for epoch in range(1, epochs + 1):
        loss.set_epoch(epoch)
        losses = []
        for batch in sampler.batches(torch.arange(3000), 256, generator):
            seeds, x, edges = batch.n_id[: batch.batch_size], data.x[batch.n_id], batch.edge_index
            views = []
            for _ in range(2):
                edge_mask = torch.rand(edges.size(1)) < 0.7
                feature_mask = torch.rand(x.size(1)) < 0.8
                views.append(encoder(x * feature_mask, edges[:, edge_mask])[: batch.batch_size])
            optimizer.zero_grad()
            value = loss(*views, nodes=seeds)
            value.backward()
            optimizer.step()
            losses.append(value.item())
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.4f}")
    with torch.no_grad():
        print("accuracy:", linear_probe(encoder(data.x, data.edge_index), data, splits=3))


if __name__ == "__main__":
    main()
