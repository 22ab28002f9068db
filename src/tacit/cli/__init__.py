"""The command line: parse, call the library, print.

`label` and `explore` define the commands, `common` reads and writes their tables, `output` prints
and sets exit codes. Results are those of the estimators: nothing is computed here.
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    try:
        from tacit.cli import explore, label  # noqa: F401 - they register the commands
        from tacit.cli.output import app

        app()
    except ModuleNotFoundError as error:
        sys.exit(f'tacit: the command line needs {error.name}: pip install "tacit[cli]"')
    except KeyboardInterrupt:
        print("tacit: stopped; nothing was written.", file=sys.stderr)
        sys.exit(130)
