"""The command line, as it is typed: files in, files out, words and exit codes."""

import csv
import gzip
import io
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import tacit
from real_data import data_file, published
from tacit.cli import explore, label  # noqa: F401 - they make the commands
from tacit.cli.output import app
from tacit.report.facts import format_facts

TACIT = [sys.executable, "-m", "tacit"]
SPORT = ["goal", "match", "team", "player", "season", "coach", "referee"]
MUSIC = ["violin", "cello", "symphony", "piano", "orchestra", "concert", "singer"]


def run(*arguments, **settings):
    """Run the command in a process of its own."""
    command = [*TACIT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


def call(*arguments):
    """Run the command in this process, which is quicker."""
    return CliRunner().invoke(app, list(map(str, arguments)))


def mails(n=300, labelled=20, seed=0):
    """Return a table of mails, a few of which have a topic."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    texts = [" ".join(["the", "a", "of", *rng.choice([SPORT, MUSIC][k], 6)]) for k in truth]
    return {
        "id": [f"m{i}" for i in range(n)],
        "text": texts,
        "sender": [("club" if k == 0 else "hall") if rng.random() < 0.8 else "" for k in truth],
        "minutes": [f"{90 - 40 * k + 5 * rng.normal():.1f}" for k in truth],
        "topic": [["sport", "music"][k] if i < labelled else "" for i, k in enumerate(truth)],
    }, np.array(["sport", "music"])[truth]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "mails.csv"
    pl.DataFrame(mails()[0]).write_csv(path)
    return path


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_fill(table, tmp_path):
    out = tmp_path / "filled.csv"
    done = run("fill", table, "--label", "topic", "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    for said in ("20 labelled of 300 rows", "left out  identifies", "by 20 held-out labels",
                 "280 labels filled in"):  # fmt: skip
        assert said in done.stderr
    rows, given = read(out), read(table)
    assert [{k: v for k, v in row.items() if k in given[0]} for row in rows] == given
    truth = mails()[1]
    assert np.mean([r["topic_filled"] == t for r, t in zip(rows, truth, strict=True)]) > 0.99
    assert all(0.5 <= float(row["topic_probability"]) <= 1 for row in rows)


def test_what_the_command_does_is_what_the_estimator_does(table, tmp_path):
    out, model = tmp_path / "filled.parquet", tmp_path / "topics.model"
    assert call("fill", table, "-l", "topic", "-o", out, "--all", "--model", model).exit_code == 0
    data = mails()[0]
    y = [name or None for name in data.pop("topic")]
    ours = tacit.TableClassifier(random_state=0).fit(data, y)
    found = pl.read_parquet(out)
    np.testing.assert_array_equal(found["topic_filled"].to_list(), ours.transduction_)
    columns = np.column_stack([found["topic_p_music"], found["topic_p_sport"]])
    np.testing.assert_array_equal(columns, ours.label_distributions_)
    loaded = tacit.load(model)
    assert loaded.label_name_ == "topic"
    np.testing.assert_array_equal(loaded.predict_proba(data), ours.predict_proba(data))


def test_stdin_and_stdout(table):
    zipped = gzip.compress(table.read_bytes())
    plain = run("fill", table, "-l", "topic", "-q")
    command = [*TACIT, "fill", "-", "--label", "topic", "--quiet"]
    piped = subprocess.run(command, input=zipped, capture_output=True, check=True)
    assert plain.stderr == ""
    assert piped.stdout.decode() == plain.stdout
    assert len(list(csv.DictReader(io.StringIO(plain.stdout)))) == 300


def test_fit_predict_explain_inspect_sample(table, tmp_path):
    model, out = tmp_path / "topics.model", tmp_path / "out.jsonl"
    assert run("fit", table, "--label", "topic", "-o", model).returncode == 0
    done = run("predict", model, table, "-o", out)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    truth = mails()[1]
    assert np.mean([r["topic_predicted"] == t for r, t in zip(rows, truth, strict=True)]) > 0.99
    done = run("explain", model, table, "--row", 3)
    assert done.returncode == 0, done.stderr
    assert "rather than" in done.stdout
    assert "total" in done.stdout
    facts = json.loads(call("explain", model, table, "--row", 3, "--json").stdout)
    total = facts["prior"] + sum(term["log_odds"] for term in facts["terms"])
    assert total == pytest.approx(facts["log_odds"])
    shown = call("inspect", model).stdout
    assert "TableClassifier" in shown
    assert "violin" in shown
    text = tmp_path / "text.model"
    tacit.TextClassifier().fit(mails()[0]["text"], truth).save(text)
    shown = json.loads(call("inspect", text, "--json").stdout)
    assert "logistic regression" in [one["part"] for one in shown["columns"][0]["parts"]]
    assert sum(shown["class_priors"].values()) == pytest.approx(1.0)
    assert "violin" in call("inspect", text).stdout
    assert "identifies the rows" in call("inspect", table).stdout
    drawn = call("sample", model, "-n", 5)
    assert len(list(csv.DictReader(io.StringIO(drawn.stdout)))) == 5
    assert call("sample", model, "-n", 5, "--seed", 0).stdout == drawn.stdout


def test_cluster(table, tmp_path):
    out, model = tmp_path / "groups.tsv", tmp_path / "groups.model"
    frame = pl.read_csv(table).drop("topic", "text")
    frame.write_csv(table)
    done = call("cluster", table, "-k", "1-3", "-o", out, "--json", "--model", model)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert min(facts["bic"], key=facts["bic"].get) == "2"
    groups = pl.read_csv(out, separator="\t")["cluster"].to_numpy()
    same = groups == (mails()[1] == "sport")
    assert max(same.mean(), 1 - same.mean()) > 0.97
    done = call("predict", model, table)
    assert "cluster_probability" in done.stdout.splitlines()[0]


def test_columns_that_hang_together(tmp_path):
    rng, path, model = np.random.default_rng(0), tmp_path / "valves.csv", tmp_path / "model"
    valve, pump = rng.integers(0, 2, (2, 300))
    state = np.where(valve == pump, "ok", "fault")
    shown = np.where(np.arange(300) < 100, state, "")
    columns = {"valve": np.array(["open", "shut"])[valve], "pump": np.array(["on", "off"])[pump]}
    pl.DataFrame({**columns, "state": shown}).write_csv(path)
    done = call("fit", path, "--label", "state", "-o", model)
    assert "each a mixture of" in done.stderr
    priors = json.loads(call("inspect", model, "--json").stdout)["class_priors"]
    assert set(priors) == {"fault", "ok"}
    assert sum(priors.values()) == pytest.approx(1.0)
    facts = json.loads(call("evaluate", path, "--label", "state", "--json").stdout)
    assert facts["supervised"]["accuracy"] > 0.9
    assert facts["em"]["accuracy"] > 0.9


def test_evaluate(table, tmp_path):
    facts = json.loads(run("evaluate", table, "-l", "topic", "--json").stdout)
    assert facts["supervised"]["rows"] == facts["em"]["rows"] == 20
    assert facts["em"]["accuracy"] > 0.9
    assert np.sum(facts["em"]["confusion"]) == 20
    filled = json.loads(
        call("fill", table, "-l", "topic", "-o", tmp_path / "a.csv", "--json").stdout
    )
    assert facts["em"] == filled["unlabelled"]["em"]  # the same story
    assert facts["supervised"] == filled["unlabelled"]["supervised"]
    anew = json.loads(call("evaluate", table, "-l", "topic", "--folds", 4, "--json").stdout)
    assert anew["em"]["rows"] == 20
    done = call("evaluate", table, "--label", "topic")
    assert "precision" in done.stderr
    assert done.stdout == ""


def test_same_bits_for_any_number_of_threads(table, tmp_path):
    written = []
    for threads in (1, 2, 3):
        out, model = tmp_path / f"{threads}.csv", tmp_path / f"{threads}.model"
        options = "--threads", threads, "-q", "--model", model, "-o", out
        assert call("fill", table, "-l", "topic", *options).exit_code == 0
        written.append((out.read_bytes(), model.read_bytes()))
    assert len(set(written)) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["fill", "absent.csv", "-l", "topic"], 1, "absent.csv"),
        (["fill", "MAILS", "-l", "topik"], 1, "did you mean 'topic'"),
        (["fill", "MAILS", "-l", "id"], 0, ""),
        (["fill", "MAILS"], 2, "--label"),
        (["fill", "MAILS", "-l", "topic", "--json"], 2, "give the table a file by -o FILE"),
        (["fill", "MAILS", "-l", "topic", "--kind", "text"], 2, "expected COLUMN=KIND"),
        (["fill", "MAILS", "-l", "topic", "--kind", "txet=text"], 1, "did you mean 'text'"),
        (["fill", "MAILS", "-l", "topic", "--kind", "text=number"], 1, "is no number"),
        (
            ["fill", "MAILS", "-l", "topic", "--unlabeled", "lots"],
            2,
            "expected a number from 0 on, or",
        ),
        (["fill", "MAILS", "-l", "topic", "--unlabeled", "-1"], 2, "expected a number from 0 on"),
        (["fill", "MAILS", "-l", "topic", "-o", "out.xlsx"], 1, "out.xlsx does not say a format"),
        (["fill", "MAILS", "-l", "topic", "-o", "no/such/out.csv"], 1, "no directory"),
        (["fill", "MAILS", "-l", "topic", "--resume"], 2, "--resume needs --checkpoint FILE"),
        (["cluster", "MAILS", "-k", "many"], 2, "expected a number such as 5"),
        (["cluster", "MAILS", "-k", "5-2"], 2, "the smaller first"),
        (["predict", "MAILS", "MAILS"], 2, "is a table: the model comes first"),
        (["explain", "BROKEN", "MAILS"], 1, "no sound model file"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_errors_are_one_line(arguments, code, says, table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "BROKEN").write_bytes(b"nothing of the sort")
    before = sorted(os.listdir(tmp_path))
    done = call(*[table if a == "MAILS" else a for a in arguments])
    assert done.exit_code == code, done.output
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.output
    if code == 1:
        assert len(done.stderr.strip().splitlines()) == 1
        assert sorted(os.listdir(tmp_path)) == before


def test_labels_that_are_none(table):
    frame = pl.read_csv(table)
    frame.with_columns(topic=pl.lit("?")).write_csv(table)
    done = call("fill", table, "-l", "topic")
    assert done.exit_code == 1
    assert "holds none as a label" in done.stderr
    frame.with_columns(topic=pl.lit("sport")).write_csv(table)
    assert "holds only 'sport' as a label" in call("fill", table, "-l", "topic").stderr


def test_a_bad_cell_is_named_by_its_row(table, tmp_path, monkeypatch):
    model = tmp_path / "topics.model"
    assert call("fit", table, "-l", "topic", "-o", model).exit_code == 0
    frame = pl.read_csv(table, infer_schema=False)
    cells = frame["minutes"].to_list()
    cells[250] = "long"
    frame.with_columns(minutes=pl.Series(cells)).write_csv(table)
    whole = label.tables.batches
    monkeypatch.setattr(label.tables, "batches", lambda *a, **s: whole(*a, **s, rows=100))
    done = call("predict", model, table, "-o", tmp_path / "out.csv")
    assert done.exit_code == 1
    assert "Column 'minutes', row 251: 'long' is no number" in done.stderr
    assert not (tmp_path / "out.csv").exists()


def test_spreadsheets_run_nothing(tmp_path):
    path, out = tmp_path / "cells.csv", tmp_path / "out.csv"
    n = 30
    rows = {
        "text": [f"=cmd|'/C calc'!A{i} goal of the match" for i in range(n)],
        "topic": ["a" if i % 2 else "b" for i in range(n)],
    }
    pl.DataFrame(rows).write_csv(path)
    assert call("fill", path, "-l", "topic", "-o", out, "--spreadsheet").exit_code == 0
    assert all(row["text"].startswith("'=") for row in read(out))


def test_names_that_are_taken(table, tmp_path):
    frame = pl.read_csv(table).with_columns(topic_filled=pl.lit("mine"))
    frame.write_csv(table)
    assert call("fill", table, "-l", "topic", "-o", tmp_path / "out.csv").exit_code == 0
    rows = read(tmp_path / "out.csv")
    assert rows[0]["topic_filled"] == "mine"
    assert rows[0]["topic_filled_"] in ("sport", "music")


def test_what_was_written_before_is_not_learned_from(table, tmp_path):
    out = tmp_path / "filled.csv"
    assert call("fill", table, "-l", "topic", "-o", out, "--all").exit_code == 0
    done = call("fill", out, "-l", "topic", "-o", tmp_path / "again.csv", "--json")
    assert done.exit_code == 0
    names = [column["name"] for column in json.loads(done.stdout)["columns"]]
    assert names == ["id", "text", "sender", "minutes"]
    assert "topic_filled, topic_probability, topic_p_" in done.stderr
    assert "topic_filled_" in read(tmp_path / "again.csv")[0]


def test_nothing_is_done_if_it_cannot_be_written(table, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the table was read")

    monkeypatch.setattr(label.tables, "read", never)
    for options in (
        ["fill", "-o", "out.xlsx"],
        ["fill", "--model", "no/such/m"],
        ["fit", "-o", "."],
    ):
        done = call(options[0], table, "-l", "topic", *options[1:])
        assert done.exit_code == 1
        assert "defect" not in done.stderr


def test_labels_keep_their_type(tmp_path):
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    texts, truth = mails()[0]["text"], mails()[1]
    for some in (
        [7 if t == "sport" else 12 for t in truth],
        [bool(t == "sport") for t in truth],
        ["NA" if i == 29 else str(t) for i, t in enumerate(truth)],
    ):
        y = [label if i < 30 else None for i, label in enumerate(some)]
        pl.DataFrame({"text": texts, "y": y}).write_parquet(path)
        done = call("fill", path, "-l", "y", "-o", out)
        assert done.exit_code == 0, done.output
        found = pl.read_parquet(out)
        assert found["y_filled"].dtype == found["y"].dtype
        assert (found["y_filled"] == pl.Series(some)).mean() > 0.95
    assert "NA in column 'y'" in done.stderr


def test_pipes_that_are_closed(table):
    command = " ".join([*TACIT, "fill", str(table), "-l", "topic", "-q"])
    done = subprocess.run(f"{command} | head -1", shell=True, capture_output=True, text=True)
    assert done.stderr == ""
    done = subprocess.run(f"{command} >&-", shell=True, capture_output=True, text=True)
    assert "stdout is closed" in done.stderr


def test_data_do_not_steer_the_terminal(tmp_path):
    path = tmp_path / "odd.csv"
    names = ["\x1b[31mred", "new\nline" + "x" * 100]
    rows = {"text": [f"{['goal', 'violin'][i % 2]} of the day {i}" for i in range(40)]}
    pl.DataFrame({**rows, "y": [names[i % 2] for i in range(40)]}).write_csv(path)
    done = call("fill", path, "-l", "y", "-o", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.stderr
    assert max(map(len, done.stderr.splitlines())) < 200


def test_version():
    assert call("--version").stdout.startswith("tacit 0.")


def test_traceback_with_debug_alone():
    done = run("fill", "absent.csv", "-l", "topic", "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_help_shows_examples_and_every_option_is_explained():
    for name in [
        "fill",
        "fit",
        "predict",
        "cluster",
        "evaluate",
        "explain",
        "inspect",
        "sample",
        "demo",
    ]:
        shown = call(name, "--help").output
        assert f"  tacit {name}" in shown
        options = shown.partition("Options:")[2].splitlines()
        for line in (line for line in options if line.strip().startswith("-")):
            place = options.index(line)
            assert "  " in line.strip() or options[place + 1].startswith("   " * 3), line


def on_a_terminal(arguments):
    """Run with stderr on a terminal; return what was shown and the exit code."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [*TACIT, *map(str, arguments)], stderr=theirs, stdout=subprocess.DEVNULL, env=environment
    )
    os.close(theirs)
    said = b""
    with suppress(OSError):  # which is how a terminal says that it is over
        while piece := os.read(ours, 4096):
            said += piece
    os.close(ours)
    return said.decode(), process.wait()


def hard(path, n=3000, texts=False):
    """Write a table on which EM takes many rounds: categories, or texts."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(400)])
    p = rng.dirichlet(np.full(400, 2.0), 3)
    said = np.stack([rng.choice(words, 12, p=p[i % 3]) for i in range(n)])
    y = [f"c{i % 3}" if i < 30 else "" for i in range(n)]
    columns = {"text": [" ".join(row) for row in said]}
    if not texts:
        columns = {f"x{j}": [f"v{int(word[1:]) % 7}" for word in said[:, j]] for j in range(12)}
    pl.DataFrame({**columns, "topic": y}).write_csv(path)


@pytest.mark.parametrize("texts", [False, True])
def test_a_terminal_sees_the_rounds(tmp_path, texts):
    path = tmp_path / "hard.csv"
    hard(path, texts=texts)
    said, code = on_a_terminal(["fill", path, "-l", "topic", "--unlabeled", "1"])
    assert code == 0
    assert "round " in said
    assert "objective" in said


def test_ctrl_c_keeps_what_was_found(tmp_path):
    """It says so, writes what there is, and ends with 130."""
    path, out = tmp_path / "hard.csv", tmp_path / "out.csv"
    code = (
        "import os, signal\n"
        "from tacit.estimators.callbacks import StartCallbacks\n"
        "from tacit.cli import main\n"
        "after = StartCallbacks.after_round\n"
        "def press(self, done):\n"
        "    if done.number == 5:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return after(self, done)\n"
        "StartCallbacks.after_round = press\n"
        "main()\n"
    )
    options = "fill", path, "-l", "topic", "-o", out
    # While the model with and without the other rows is compared, the labels alone are kept.
    cases = [("1", "round 5", False), ("auto", "round 1", False), ("auto", "round 1", True)]
    for weight, says, texts in cases:
        hard(path, texts=texts)
        command = [sys.executable, "-c", code, *map(str, options), "--unlabeled", weight]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 130, done.stderr
        assert f"Stopped after {says}" in done.stderr
        assert "Traceback" not in done.stderr
        assert "the model keeps the parameters found so far" in done.stderr
        assert len(read(out)) == 3000
        out.unlink()


def test_no_colour_and_no_bar_where_nobody_looks(table):
    done = run("fill", table, "-l", "topic", "-o", os.devnull + ".csv")
    assert "\x1b" not in done.stderr


def test_killed_and_resumed(tmp_path):
    """kill -9 in the fit, then --resume: the same files as from a run that was left alone."""
    path, state = tmp_path / "hard.csv", tmp_path / "state"
    hard(path)
    options = "fill", path, "-l", "topic", "--unlabeled", "1", "-q"
    whole = tmp_path / "whole.csv", tmp_path / "whole.model"
    again = tmp_path / "again.csv", tmp_path / "again.model"
    assert call(*options, "-o", whole[0], "--model", whole[1]).exit_code == 0
    code = (
        "import os, signal, sys\n"
        "import tacit.estimators.base\n"
        "from tacit.cli import main\n"
        "from tacit.estimators.checkpoints import CheckpointFile\n"
        "tacit.estimators.base.EMEstimator.checkpoint_every = 0.0\n"
        "tacit.TableClassifier.__init__.__kwdefaults__['checkpoint_every'] = 0.0\n"
        "seen = CheckpointFile.save\n"
        "def save(self, *state):\n"
        "    seen(self, *state)\n"
        "    if len(state[-1].objectives) > 16:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "CheckpointFile.save = save\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, *map(str, options), "--checkpoint", state]
    killed = subprocess.run([*command, "-o", again[0]], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not again[0].exists()
    assert state.exists()
    resume = "--checkpoint", state, "--resume", "-o", again[0], "--model", again[1]
    done = call(*options, *resume)
    assert done.exit_code == 0, done.output
    assert again[0].read_bytes() == whole[0].read_bytes()
    assert again[1].read_bytes() == whole[1].read_bytes()
    assert not state.exists()


def test_sms_spam_with_50_labels(tmp_path):
    source = data_file("sms_spam/sms_spam.tsv.gz")
    lines = gzip.decompress(source.read_bytes()).decode().split("\n")
    rows = [line.split("\t") for line in lines if line]
    rng = np.random.default_rng(0)
    kept = set(rng.choice(np.arange(1, len(rows)), 50, replace=False).tolist())
    path, out = tmp_path / "sms.tsv", tmp_path / "out.jsonl"
    some = [[y if i in kept or not i else "", x] for i, (y, x) in enumerate(rows)]
    path.write_text("".join("\t".join(row) + "\n" for row in some), encoding="utf-8")
    done = run("evaluate", path, "--label", "label", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["rows"] == 5574
    assert facts["em"]["accuracy"] > facts["supervised"]["accuracy"]
    done = run("fill", path, "--label", "label", "-o", out)
    assert done.returncode == 0, done.stderr
    filled = [json.loads(line)["label_filled"] for line in out.read_text().splitlines()]
    assert np.mean([f == y for f, (y, _) in zip(filled, rows[1:], strict=True)]) > 0.9


def test_credit_with_missing_cells(tmp_path):
    source = data_file("uci/credit-approval.csv")
    frame = pl.read_csv(source, infer_schema=False)
    truth = frame["class"].to_list()
    some = [name if i % 10 == 0 else None for i, name in enumerate(truth)]
    path = tmp_path / "credit.csv"
    frame.with_columns(pl.Series("class", some)).write_csv(path)
    done = run("evaluate", path, "--label", "class", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    kinds = {column["name"]: column["kind"] for column in facts["columns"]}
    assert [kinds[f"A{i}"] for i in (1, 2, 9)] == ["category", "number", "yes/no"]
    assert sum(column.get("missing", 0) for column in facts["columns"]) == 67
    assert facts["supervised"]["accuracy"] > 0.75


@published
def test_published_latent_classes(tmp_path):
    """`tacit cluster` of the carcinoma data is the published solution (S14)."""
    path = data_file("lca/carcinoma.csv")
    done = run("cluster", path, "-k", "1-4", "-o", tmp_path / "out.csv", "--json")
    facts = json.loads(done.stdout)
    assert min(facts["bic"], key=facts["bic"].get) == "3"
    assert facts["bic"]["3"] == pytest.approx(697.1357, abs=1e-3)
    assert sorted(facts["weights"].values()) == pytest.approx([0.1817, 0.3736, 0.4447], abs=1e-3)


def test_the_walk_through(tmp_path):
    """Every command of docs/walkthrough.md runs, in its order."""
    page = Path(__file__).parents[1] / "docs" / "walkthrough.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith("$ tacit ")]
    assert len(lines) >= 7
    for line in lines:
        done = run(*shlex.split(line)[2:], cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)


def test_words_speak_for_classes(tmp_path):
    """Beside labels, instead of them, and without a column for these."""
    path, out = tmp_path / "a.csv", tmp_path / "out.csv"
    texts = ["the goal of the team", "a goal and a cup", "the cup of the team"] * 8
    texts += ["a violin and a cello", "a cello beside a choir", "violin and choir"] * 8
    truth = ["sport"] * 24 + ["music"] * 24
    pl.DataFrame({"text": texts}).write_csv(path)
    words = "--word", "goal=sport", "--word", "violin=music"
    options = "fill", path, "-l", "topic", "-o", out, "--kind", "text=text"
    assert call(*options, *words).exit_code == 0
    assert [row["topic_filled"] for row in read(out)] == truth
    pl.DataFrame({"text": texts, "topic": ["sport", *[""] * 47]}).write_csv(path)
    assert call(*options, "--word", "violin=music").exit_code == 0
    assert [row["topic_filled"] for row in read(out)] == truth
    for wrong, says in (("violin", "expected WORD=CLASS"), ("oboe=music", "expected words")):
        done = call(*options, "--word", wrong, *words)
        assert done.exit_code in (1, 2)
        assert says in done.stderr


@pytest.mark.parametrize(
    ("after", "loss", "weight", "said"),
    [
        (0.8, 0.3, 0.1, "help, and are used"),
        (0.7, 0.3, 0.1, "help, and are used"),
        (0.6, 0.3, 0.1, "make no clear difference, and are used"),  # surer, but less often right
        (0.7, 0.5, 0.1, "make no clear difference, and are used"),
        (0.6, 0.3, 0.0, "do not clearly help, and are left out"),
        (0.6, 0.5, 0.0, "do not help, and are left out"),
    ],
)
def test_what_is_told_of_rows_without_a_label(after, loss, weight, said):
    def judged(accuracy, log_loss):
        interval = {"rows": 30, "accuracy_interval": (0.5, 0.9), "calibration_error": 0.1}
        return {"accuracy": accuracy, "log_loss": log_loss, **interval}

    found = {"weight": weight, "supervised": judged(0.7, 0.4), "em": judged(after, loss)}
    first, second = format_facts({"unlabelled": found})
    assert first.startswith(f"unlabelled    {said}: accuracy by 30 held-out labels 70.0 % without")
    assert "expected accuracy on new rows: 50-90 % (95 % interval)" in second
