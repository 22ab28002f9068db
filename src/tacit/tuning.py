"""Model selection where labels are few: splits for scikit-learn's tools, and learning curves.

The public door to `tacit.selection`: unlabelled rows take part in every fit, and only labelled rows
are held out and scored.
"""

from tacit.selection.learning_curve import LearningCurve, learning_curve
from tacit.selection.splits import SemiSupervisedSplit

__all__ = ["LearningCurve", "SemiSupervisedSplit", "learning_curve"]
