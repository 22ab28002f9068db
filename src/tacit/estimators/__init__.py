"""scikit-learn's side: classifiers and mixtures with `fit`, `predict` and fitted attributes."""
