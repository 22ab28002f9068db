"""``python -m tacit``: the command line."""

from tacit.cli import main

main()
