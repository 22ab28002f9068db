"""Model selection by held-out labels: cross-validation, stacking, clusters, residual correction.

It works on log-probabilities, whatever the features: nothing here knows documents or data frames.
"""
