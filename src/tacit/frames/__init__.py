"""Data frames in, columns of numbers out, and the classifier and mixture of whole tables.

Files are read in `tacit.tables`; words become counts in `tacit.text`.
"""
