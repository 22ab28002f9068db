"""`TableMixture`: latent classes of the rows of a whole table, of columns of any type.

What it shares with the classifier is in `tacit.frames.base`; EM and starts are the estimators'.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.estimators.mixture import Mixture
from tacit.frames.base import TableEstimator

__all__ = ["TableMixture"]


@dataclass(eq=False, repr=False, kw_only=True)
class TableMixture(Mixture, TableEstimator):
    """Cluster the rows of a table as it is: texts, categories, numbers and missing values.

    What a table is, and how feature types are inferred, is in :class:`tacit.TableClassifier`.

    Parameters
    ----------
    %(mixture_parameters)s
    %(table_parameters)s
    numbers : {"normal", "bins"}, default="normal"
        The distribution of numbers in a component: normal, or categorical over up to five bins of
        about equally many rows.
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
