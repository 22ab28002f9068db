"""A mixture of the rows of a whole table: latent classes of columns of any type."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.estimators.mixture import Mixture
from tacit.frames.base import TableKind

__all__ = ["TableMixture"]


@dataclass(eq=False, repr=False, kw_only=True)
class TableMixture(Mixture, TableKind):
    """Groups of rows of a table as it is: texts, categories, numbers and gaps side by side.

    What is taken as a table, and how its columns are told apart, is said in
    :class:`tacit.TableClassifier`.

    Parameters
    ----------
    %(mixture_parameters)s
    %(table_parameters)s
    numbers : {"normal", "bins"}, default="normal"
        How numbers are distributed in a group: normally, or with a share for each of up to five
        bins that hold about equally many rows.
    %(em_parameters)s

    Attributes
    ----------
    %(mixture_attributes)s
    %(table_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import TableMixture
    >>> table = {"colour": ["red", "red", "blue", None, "blue"], "size": [1.0, 1.2, 3.1, 2.9, None]}
    >>> TableMixture(2, random_state=0).fit_predict(table)
    array([1, 1, 0, 0, 0])
    """

    alpha: float = 0.0
