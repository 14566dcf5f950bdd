"""What an encoder reads: sparse products, views, sampled batches, hop tables."""
