"""The command line: parse, call the library, print. What it does is what the estimators do."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from tacit.cli import explore, label  # noqa: F401 - they make the commands
        from tacit.cli.talk import app

        app()
    except ModuleNotFoundError as error:
        sys.exit(f'tacit: the command line needs {error.name}: pip install "tacit[cli]"')
    except KeyboardInterrupt:
        print("tacit: stopped; nothing was written.", file=sys.stderr)
        sys.exit(130)
