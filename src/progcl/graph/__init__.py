"""Inputs of an encoder: full graph and views, sampled batches, hop tables; sparse products and augmentations."""
