"""Long fits: killed at any moment and taken up, they find the same bits."""

import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

import tacit
from cases import CASES, hide
from tacit.estimators import callbacks
from tacit.io.container import ModelFileError

every_family = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class KilledError(Exception):
    """Stands for kill -9 where a test shall be quick."""


def stop_at(number):
    seen = []

    def callback(*told):
        seen.append(told)
        if len(seen) == number:
            raise KilledError

    return callback


def same(a, b):
    np.testing.assert_array_equal(a.label_distributions_, b.label_distributions_)
    np.testing.assert_array_equal(a.trace_, b.trace_)
    np.testing.assert_array_equal(a.start_objectives_, b.start_objectives_)
    assert a.n_best_starts_ == b.n_best_starts_


@every_family
@pytest.mark.parametrize("rounds", [3, 6, 15, 18, 30])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_taken_up_in_any_start(case, rounds, tmp_path):
    X, y = case.data(40)
    path = tmp_path / "state"
    settings = {"tol": 0.0, "max_iter": 16 if rounds == 18 else 20, "random_state": 3}
    for make, labels in (
        (lambda **s: case.classifier(**s), hide(y, 0.7)),
        (lambda **s: case.mixture(3, n_init=3, **s), None),
    ):
        keep = {"checkpoint": path, "checkpoint_every": 0.0}
        whole = make(**settings).fit(X, labels)
        with suppress(KilledError):
            make(**settings, **keep, callback=stop_at(rounds)).fit(X, labels)
        again = make(**settings, **keep, resume=True).fit(X, labels)
        same(again, whole)
        assert not path.exists()


def digits():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X, np.where(np.arange(len(y)) < 40, y, np.nan)


def interrupted(path, **settings):
    X, y = digits()
    nb = tacit.MultinomialNB(
        checkpoint=path, checkpoint_every=0.0, callback=stop_at(10), tol=0.0, **settings
    )
    with pytest.raises(KilledError):
        nb.fit(X, y)
    return nb.set_params(callback=None)


def test_what_is_refused(tmp_path):
    path = tmp_path / "state"
    X, y = digits()
    nb = interrupted(path)
    with pytest.raises(
        ValueError, match=r"exists\. Resume from it with resume=True \(--resume\), or"
    ):
        nb.fit(X, y)
    nb.set_params(resume=True)
    with pytest.raises(ValueError, match="of other data or other parameters"):
        nb.fit(X[:-1], y[:-1])
    with pytest.raises(ValueError, match="of other data or other parameters"):
        nb.set_params(alpha=0.5).fit(X, y)
    with pytest.raises(ModelFileError, match="holds no estimator"):
        tacit.load(path)
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(ModelFileError, match=r"no sound checkpoint: .* Remove it to begin anew"):
        nb.set_params(alpha=1.0).fit(X, y)
    path.write_bytes(good)
    tacit.GaussianNB().fit(X, np.arange(len(X)) % 2).save(path)
    with pytest.raises(ModelFileError, match=r"no sound checkpoint: .* unknown kind, 'Saved'"):
        nb.fit(X, y)
    with pytest.raises(ValueError, match="resume=True needs checkpoint"):
        nb.set_params(checkpoint=None).fit(X, y)


def test_resume_without_a_file_begins_anew(tmp_path):
    X, y = digits()
    whole = tacit.MultinomialNB().fit(X, y)
    same(tacit.MultinomialNB(checkpoint=tmp_path / "state", resume=True).fit(X, y), whole)


def test_ctrl_c_leaves_the_state(tmp_path):
    X, y = digits()

    def press(number, objective, seconds):
        if number == 10:
            raise KeyboardInterrupt

    path = tmp_path / "state"
    settings = {"checkpoint": path, "checkpoint_every": 0.0}
    nb = tacit.MultinomialNB(**settings, callback=press)
    with pytest.raises(KeyboardInterrupt):
        nb.fit(X, y)
    assert path.exists()
    same(nb.set_params(resume=True, callback=None).fit(X, y), tacit.MultinomialNB().fit(X, y))


def test_places_that_cannot_be_written(tmp_path):
    X, y = digits()
    for path, says in ((tmp_path, "name a file"), (tmp_path / "no" / "state", "no directory")):
        with pytest.raises(OSError, match=says):
            tacit.MultinomialNB(checkpoint=path).fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fewer_rounds_than_there_were(tmp_path):
    X, y = digits()
    nb = interrupted(tmp_path / "state").set_params(resume=True, max_iter=3)
    assert nb.fit(X, y).n_iter_ == 9  # those that were done


def test_ctrl_c_in_a_later_start_keeps_the_best():
    X, _ = digits()

    def press(X, K, rng):
        press.calls += 1
        if press.calls == 3:
            raise KeyboardInterrupt
        return rng.dirichlet(np.ones(K), len(X))

    press.calls = 0
    mixture = tacit.MultinomialMixture(3, n_init=5, init=press, random_state=0)
    with pytest.raises(KeyboardInterrupt, match="keeps the parameters"):
        mixture.fit(X)
    assert len(mixture.start_objectives_) == 2
    assert np.isfinite(mixture.predict_proba(X)).all()


def test_ctrl_c_before_a_resumed_start_begins_keeps_the_best(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(2.0, 1.0, (3, 12))[np.arange(300) % 3])
    begun = []

    def killed(number, objective, seconds):
        begun.extend([number] if number == 1 else [])
        if len(begun) == 2 and number == 6:  # its state was kept after four rounds
            raise SystemExit

    given = {"n_components": 3, "n_init": 3, "random_state": 0, "checkpoint_every": 0.0}
    mixture = tacit.MultinomialMixture(checkpoint=tmp_path / "state", **given)
    with pytest.raises(SystemExit):
        mixture.set_params(callback=killed).fit(X)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(callbacks.FitCallbacks, "start", interrupt)
    mixture.set_params(callback=None, resume=True)
    with pytest.raises(KeyboardInterrupt, match="keeps the parameters"):
        mixture.fit(X)
    assert mixture.converged_


def test_not_more_often_than_asked(tmp_path):
    X, y = digits()
    nb = tacit.MultinomialNB(checkpoint=tmp_path / "state", callback=stop_at(20), tol=0.0)
    with pytest.raises(KilledError):
        nb.fit(X, y)
    assert not (tmp_path / "state").exists()


SCRIPT = """
import sys
import numpy as np
import tacit

rng = np.random.default_rng(0)
words = rng.dirichlet(np.full(400, 3.0), 8)
X = np.array([rng.multinomial(60, words[i % 8]) for i in range(16000)])
from scipy import sparse
target, state = sys.argv[1:]
settings = dict(random_state=0, n_init=20, max_iter=60, tol=0.0)
if state != "-":
    settings.update(checkpoint=state, checkpoint_every=0.0, resume=True)
import warnings
warnings.simplefilter("ignore")
print("ready", flush=True)
tacit.MultinomialMixture(8, **settings).fit(sparse.csr_array(X)).save(target)
"""


def test_killed_at_any_moment(tmp_path):
    """kill -9 again and again, on texts so many that only what moved is summed up in a round."""
    run = [sys.executable, "-c", SCRIPT]
    whole, target, state = (tmp_path / name for name in ("whole", "target", "state"))
    subprocess.run([*run, whole, "-"], check=True, capture_output=True)
    amid = 0
    for pause in (0.0, 0.05, 0.2):
        before = written(state)
        process = subprocess.Popen([*run, target, state], stdout=subprocess.PIPE)
        while process.poll() is None and written(state) == before:
            time.sleep(0.005)  # it ends by itself at the latest
        time.sleep(pause)
        amid += process.poll() is None
        process.kill()
        process.wait()
        process.stdout.close()
    assert amid, "no fit was killed before it was done"
    assert state.exists() or target.exists()
    subprocess.run([*run, target, state], check=True, capture_output=True)
    assert target.read_bytes() == whole.read_bytes()


def written(path):
    return path.stat().st_mtime_ns if path.exists() else None
