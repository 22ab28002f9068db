"""The package as a whole: what importing it loads, and that it keeps its word."""

import subprocess
import sys

import pytest

import tacit

LOADED = "import sys; print([m for m in sys.modules if m.split('.')[0] in ('tacit', 'numpy')])"


def test_importing_loads_nothing_else():
    command = [sys.executable, "-c", f"import tacit; {LOADED}"]
    assert subprocess.check_output(command, text=True).strip() == "['tacit']"


@pytest.mark.parametrize("name", tacit.__all__)
def test_what_is_public_is_there(name):
    command = [sys.executable, "-c", f"from tacit import {name}; import tacit; tacit.{name}"]
    subprocess.run(command, check=True)
    assert name in dir(tacit)


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match="NoSuchNB"):
        tacit.NoSuchNB  # noqa: B018
