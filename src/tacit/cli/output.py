"""Output of the commands: facts, progress, errors in one line, exit codes.

Data goes to stdout, everything else to stderr. What the facts are is `tacit.report`'s.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any

import typer

from tacit.report.facts import Facts, format_facts

__all__ = ["UsageError", "app", "as_text", "command", "fitted", "report", "say"]

app = typer.Typer(
    name="tacit",
    help="Fill in the labels that data leaves unsaid: naive Bayes and EM for tables and texts.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tacit {version('tacit')}")
        raise typer.Exit


@app.callback()
def _options(
    shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


class UsageError(ValueError):
    """Options that contradict each other or cannot be met; exit code 2."""


def command(*examples: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a command: examples go to its help, errors to one line."""

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        first, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        lines = "\n".join(f"  {example}" for example in examples)
        app.command(help=f"{first}\n\n\b\n{lines}\n\n{rest}")(_guarded(function))
        return function

    return make


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def guarded(**options: Any) -> None:
        quiet = options.get("quiet")
        warnings.simplefilter("ignore" if quiet else "always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: say(f"tacit: note: {message}")
        try:
            code = function(**options) or 0
        except (KeyboardInterrupt, Exception) as error:
            if isinstance(error, OSError) and "roken pipe" in str(error):
                # The reader of stdout has closed it.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(141) from None
            if options.get("debug"):
                traceback.print_exc()
            code, line = _outcome(error)
            say(f"tacit: {line}")
        raise typer.Exit(code)

    return guarded


def _outcome(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an error, and its line on stderr."""
    line = " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt):
        return 130, "stopped before the first result; nothing was written."
    if isinstance(error, UsageError):
        return 2, line
    if isinstance(error, ValueError | OSError | ImportError):
        return 1, line
    name = type(error).__name__
    return (
        1,
        f"{name}: {line}. This is a defect of tacit: please report it with what --debug shows.",
    )


def say(line: str) -> None:
    """Print a line to stderr, without control characters that data may hold."""
    shown = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line
    )
    print(shown, file=sys.stderr, flush=True)


def as_text(facts: Facts) -> str:
    """Return facts as JSON, with null for infinity and NaN."""

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: finite(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [finite(one) for one in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(finite(facts), ensure_ascii=False, indent=2, allow_nan=False)


def report(facts: Callable[[], Facts], as_json: bool, quiet: bool) -> None:
    """Print facts: as JSON on stdout, or as text on stderr."""
    if as_json:
        print(as_text(facts()))
    elif not quiet:
        for line in format_facts(facts()):
            say(line)


@contextmanager
def _rounds(wanted: bool) -> Iterator[Callable[[int, float, float], None] | None]:
    """Provide a callback that shows progress on a terminal, or None."""
    if not (wanted and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = SpinnerColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("working")
        yield lambda number, objective, seconds: bar.update(
            task, description=f"round {number}  objective {objective:.8g}  {seconds:.1f} s"
        )


def fitted(model: Any, *data: Any, show: bool) -> tuple[float, bool]:
    """Fit with a progress display; return the seconds taken, and whether Ctrl-C ended it."""
    began, stopped = time.perf_counter(), False
    with _rounds(show) as callback:
        try:
            model.set_params(callback=callback).fit(*data)
        except KeyboardInterrupt as stop:
            if not hasattr(model, "label_distributions_"):
                raise
            say(f"tacit: {stop}")
            stopped = True
    model.set_params(callback=None)
    return time.perf_counter() - began, stopped
