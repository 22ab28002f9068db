"""Rows of data: dense, sparse and categorical features, labels and their evidence. No model."""
