"""Sections that several docstrings share, by the name of their placeholder, %(name)s.

`EMEstimator` fills them in when a class is defined; nothing here is code.
"""

from __future__ import annotations

__all__ = ["SHARED"]

SHARED = {
    "em_parameters": """
    max_iter : int, default=%(default_max_iter)s
        Largest number of rounds, each of one E-step and one M-step.
    tol : float, default=1e-6
        In nats a row (of weight 1). The rounds end when the last rise of the objective and the
        rise still to come (Aitken's estimate) are both at most this.
    n_init : int, default=%(default_n_init)s
        Number of random starts; the best is kept. A start that is not random is made once.
    init : %(inits)s, array of shape (n, K) or callable, default=%(default_init)s
        The start.%(init_texts)s
        An array holds responsibilities, columns as `classes_`; a callable is called as
        ``init(X, K, random_state)`` and returns one. Known labels always hold.
    random_state : int, RandomState instance or None, default=None
        Source of the random starts and of `sample`.
    assignment : {"soft", "hard"}, default="soft"
        Whether a row counts for each class by its probability, or for its most probable class
        alone. With "hard", `objective_` is the classification log-likelihood + log prior.
    class_alpha : float, default=0.0
        Smoothing of the class prior: (count + class_alpha) / (n + K class_alpha).
    warm_start : bool, default=False
        Whether `fit` starts from the parameters of the previous fit.
    n_jobs : int, default=None
        Number of threads; None and -1 are one for each core. The bits of the result do not
        depend on it.
    verbose : int, default=0
        If positive, each round prints a line to stderr.
    callback : callable, default=None
        Called after each round as ``callback(round, objective, seconds)``; True ends the rounds.
    checkpoint : path, default=None
        A file for the state of the fit, from which a killed fit can resume; it is removed when the
        fit is complete. (Ctrl-C keeps the best parameters so far in the estimator.)
    checkpoint_every : float, default=60.0
        Least number of seconds between two writes of it.
    resume : bool, default=False
        Whether to resume from `checkpoint`, if it exists: the bits of the result are those of a fit
        that was never interrupted.
""",
    "em_attributes": """
    trace_ : ndarray of shape (n_iter_,)
        The objective after each round of the best start. It never falls; that is checked.
    lower_bounds_ : ndarray of shape (n_iter_,)
        `trace_` divided by the total weight, in the unit of `tol`, as in scikit-learn's mixtures.
    objective_ : float
        The objective of EM: weighted log-likelihood of the data + log prior of the parameters, up
        to a constant.
    log_likelihood_ : float
        Its first part.
    n_iter_ : int
        Number of rounds of the best start.
    converged_ : bool
        Whether the best start met `tol`.
    start_objectives_ : ndarray
        The objective that each start reached.
    n_best_starts_ : int
        How many starts reached the best objective.
    label_distributions_ : ndarray of shape (n, K)
        p(y | x) of the training rows, known labels and evidence respected.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray
        Their names, if `X` had any.
""",
    "class_parameters": """
    classes : array-like, default=None
        The class names, including ones that no label names; None: those in `y`.
    missing_label : scalar or list, default=None
        A value of `y` (or several) that marks a missing label. NaN, None and pandas' NA always do.
""",
    "label_attributes": """
    classes_ : ndarray of shape (K,)
        The class names, sorted.
    class_count_ : ndarray of shape (K,)
        Weight of the rows of each class, unlabelled ones by their posterior.
    transduction_ : ndarray of shape (n,)
        The label of each training row: the given one, or the most probable.
    class_log_prior_ : ndarray of shape (K,)
        log p(y).
""",
    "component_parameters": """
    components_per_class : int or "auto", default=1
        Number of mixture components of each class. The attributes of features and classes then have
        a row for each component, those of a class together. "auto" adds components, up to 5, while
        held-out labels become clearly more probable. With more than one, `init` is the start of the
        one-component model, whose classes are then split.
""",
    "component_attributes": """
    components_per_class_ : int
        The number of components of each class.
""",
    "drop_in": """
    scikit-learn's class of this name, whose `y` may have missing entries: unlabelled rows
    take part by EM. With complete labels the numbers are the same.
""",
    "prior_parameters": """
    fit_prior : bool, default=True
        Whether to estimate the class prior; else it is uniform.
    class_prior : array-like of shape (K,), default=None
        The class prior, if it is known.
""",
    "category_parameters": """
    min_categories : int or array-like of shape (d,), default=None
        Least number of categories of each feature; else as many as the data have.
    handle_unknown : {"missing", "error"}, default="missing"
        How an unseen category is treated when predicting.
""",
    "table_parameters": """
    kinds : dict, default=None
        Types of columns, where the rules should not decide: from a name to "text", "category",
        "number", "yes/no" or "out" (left out).
    alpha : float, default=%(default_alpha)s
        Smoothing: added to the count of each category, yes and no. 0 is maximum likelihood.
    word_alpha : float, default=0.01
        Smoothing: added to the count of each word. It is small because there are many words
        and few labels.
    var_smoothing : float, default=0.01
        Fraction of the variance of a number that is added to its variance in each class: more than
        in `GaussianNB`, as a class with a single labelled row has no variance.
    vectorizer : CountVectorizer, default=None
        Counts the words: a :class:`tacit.text.CountVectorizer` whose settings are used for
        each column of text; None for its defaults.
""",
    "table_attributes": """
    columns_ : tuple of Column
        The type of each column: its `name`, `kind`, a `note`, `categories`, `vectorizer`, and
        the `edges` of its bins.
    named_params_ : dict
        The estimated parameters of each set of columns.
""",
    "force_alpha": """
    force_alpha : bool, default=True
        If False, alpha is at least 1e-10.
""",
    "binarize": """
    binarize : float or None, default=0.0
        Values above it are 1, others 0. None: they are 0 and 1, or -1 and +1, already.
""",
    "mixture_parameters": """
    n_components : int, default=1
        Number of components, K.
""",
    "mixture_attributes": """
    weights_ : ndarray of shape (K,)
        Mixture weight of each component, p(y).
    lower_bound_ : float
        The last of `lower_bounds_`.
""",
}

SHARED["label_parameters"] = f"""{SHARED["class_parameters"].rstrip()}
    unlabeled_weight : float or "auto", default=1.0
        Weight of each unlabelled row; 0 leaves them out of the fit. "auto" is 0.1 or 1 if held-out
        labels are clearly more probable with them, else 0: `unlabeled_help_`.
"""
