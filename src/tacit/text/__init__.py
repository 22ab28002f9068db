"""Texts in, counts of words out, and the classifier of texts."""

from tacit.text.vectorizer import CountVectorizer

__all__ = ["CountVectorizer"]
