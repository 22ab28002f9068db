"""The import graph: rooms depend on each other one way, and the core on no heavy package.

Every import counts, also those inside functions and under `TYPE_CHECKING`.
"""

import ast
from pathlib import Path

import pytest

import tacit

ROOT = Path(tacit.__file__).parent
# A room may import rooms of earlier lines and itself; rooms of one line do not know each other.
ORDER = [
    {"_native"},
    {"kernels"},
    {"numerics"},
    {"engine"},
    {"em"},
    {"io"},
    {"data"},
    {"families"},
    {"models"},
    {"selection"},
    {"estimators", "tuning"},
    {"text"},
    {"frames"},
    {"modelfile", "report"},
    {"cli"},
    {"__main__"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
# Where heavy packages may be imported; in all other rooms, nowhere.
HEAVY = {
    "polars": {"cli", "tables"},
    "rich": {"cli"},
    "typer": {"cli"},
    "matplotlib": {"selection.learning_curve"},  # for `plot` alone
}
# `save` of an estimator is the one thing that reaches upwards, and only by the package's own door.
FACADE = {"estimators.base", "text.classifier"}


def module_name(path):
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


TREES = {module_name(path): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
MODULES = sorted(set(TREES) - {""})


def exported():
    """Return the module of each name that the package itself exports."""
    found = {}
    for node in ast.parse((ROOT / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name: node.module or alias.name for alias in node.names}
    return found


EXPORTED = exported()


def imports(tree):
    """Yield the full name of everything that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms(module):
    """Yield the rooms that a module imports from; "" is the package itself."""
    for name in imports(TREES[module]):
        top, _, rest = name.partition(".")
        if top == "tacit":
            first = rest.partition(".")[0]
            yield EXPORTED.get(first, first).partition(".")[0]


def room(module):
    return module.partition(".")[0]


def test_every_room_has_its_place():
    assert {room(module) for module in MODULES} == set(RANK) - {"_native"} | {"tables"}


@pytest.mark.parametrize("module", [m for m in MODULES if room(m) != "tables"])
def test_imports_point_one_way(module):
    own = RANK[room(module)]
    for other in set(rooms(module)) - {room(module)}:
        if other == "":
            assert module in FACADE
        elif other == "tables":
            assert room(module) == "cli"
        else:
            assert RANK[other] < own, f"{module} imports {other}"


@pytest.mark.parametrize("module", [m for m in MODULES if room(m) == "tables"])
def test_tables_stand_apart(module):
    assert set(rooms(module)) <= {"io", "tables"}


def test_the_loop_knows_no_model():
    assert set(rooms("em")) <= {"engine", "kernels", "numerics"}
    assert set(rooms("engine")) <= {"kernels", "numerics"}


@pytest.mark.parametrize("package", HEAVY)
def test_the_core_does_without_heavy_packages(package):
    users = {
        m for m, tree in TREES.items() for name in imports(tree) if name.split(".")[0] == package
    }
    assert users
    assert all(m in HEAVY[package] or room(m) in HEAVY[package] for m in users)


def test_nothing_is_imported_by_a_computed_name():
    for module, tree in TREES.items():
        names = {name.split(".")[0] for name in imports(tree)}
        assert "importlib" not in names or set(imports(tree)) & {"importlib.metadata.version"}, (
            module
        )
