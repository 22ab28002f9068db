"""Naive Bayes and EM for texts and tables where all, some or none of the rows are labelled."""

import lazy_loader

# What is public, and where, is said in __init__.pyi; a module is loaded when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
