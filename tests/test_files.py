"""Files are replaced whole."""

import os
import subprocess
import sys
import time

import pytest

from tacit.io.files import replaced


def test_failure_leaves_the_old_file(tmp_path):
    target = tmp_path / "model"
    target.write_bytes(b"old")
    with pytest.raises(TypeError), replaced(target) as file:
        file.write("not bytes")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model"]


def test_link_and_rights_stay(tmp_path):
    target, link = tmp_path / "model", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with replaced(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_directories(tmp_path):
    with pytest.raises(IsADirectoryError, match="name a file"), replaced(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match="no directory"), replaced(tmp_path / "a" / "b"):
        pass


def test_killed_at_any_moment(tmp_path):
    """A reader sees the old file or the new one, whole, whenever the writer is killed."""
    target = tmp_path / "model"
    target.write_bytes(b"x" * 100)
    code = (
        "import itertools, sys\n"
        "from tacit.io.files import replaced\n"
        "for i in itertools.count():\n"
        "    with replaced(sys.argv[1]) as file:\n"
        "        for _ in range(50):\n"
        "            file.write(bytes([65 + i % 26]) * 1000)\n"
        "    print(flush=True)\n"
    )
    for pause in (0.0, 0.003, 0.01):
        writer = subprocess.Popen([sys.executable, "-c", code, target], stdout=subprocess.PIPE)
        writer.stdout.readline()
        time.sleep(pause)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        found = target.read_bytes()
        assert len(found) == 50_000
        assert len(set(found)) == 1
