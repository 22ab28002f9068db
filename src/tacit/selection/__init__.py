"""Choosing by held-out labels: cross-validation, stacking, the residual correction."""
