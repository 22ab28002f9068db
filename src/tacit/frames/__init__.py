"""Data frames in, columns of numbers out, and the classifier and mixture of whole tables."""
