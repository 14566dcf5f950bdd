"""Base methods, one file a family, each with `loss(data)`, `embed(data)`, `set_epoch(epoch)`, `after_step()`."""
