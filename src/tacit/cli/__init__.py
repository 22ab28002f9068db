"""The command line: parse, call the library, print. What it does is what the estimators do."""

from tacit.cli import explore, label
from tacit.cli.talk import app

__all__ = ["explore", "label", "main"]


def main() -> None:
    """Run the command line."""
    app()
