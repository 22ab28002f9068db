"""Texts: documents in, word counts out, and the classifier of texts.

Data frames with columns of text are in `tacit.frames`, which builds on this.
"""

from tacit.text.vectorizer import CountVectorizer

__all__ = ["CountVectorizer"]
