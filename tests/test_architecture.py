"""One direction of flow: a stage imports only stages to its left (design.md)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import qcapsnets

STAGES = (
    "data",
    "models",
    "training",
    "fixedpoint",
    "accounting",
    "evaluation",
    "search",
    "selection",
    "export",
    "framework",
    "report",
    "cli",
)
BELOW_ALL = ("errors", "registry", "files", "lock")
ABOVE_ALL = ("__init__", "__main__")
ORDER = dict.fromkeys(BELOW_ALL, -1)
ORDER |= {name: place for place, name in enumerate(STAGES)}
ORDER |= {name: len(STAGES) for name in ABOVE_ALL}


def broken_arrows(package: Path) -> list[str]:
    """Each import that points to the right, as `file: imports stage`."""
    found = []
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package).with_suffix("").parts
        for stage in sorted(set(imported_stages(file, package))):
            if rank(parts[0]) < rank(stage):
                found.append(f"{file.relative_to(package)}: imports {stage}")
    return found


def rank(stage: str) -> int:
    if stage not in ORDER:
        raise AssertionError(f"{stage!r} is no stage that is known: put it in its place in STAGES")
    return ORDER[stage]


def imported_stages(file: Path, package: Path) -> Iterator[str]:
    for name in imported_names(file, package):
        first, *rest = name.split(".")
        if first == package.name and rest:
            yield rest[0]


def imported_names(file: Path, package: Path) -> Iterator[str]:
    """Dotted names; of `from a import b` both `a` and, if it is a module, `a.b`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, file, package)
            yield base
            if base == package.name:
                yield from (f"{base}.{n.name}" for n in node.names if n.name in ORDER)


def absolute(node: ast.ImportFrom, file: Path, package: Path) -> str:
    if node.level == 0:
        return node.module or ""
    folder = file.relative_to(package.parent).parts[: -node.level]
    return ".".join([*folder, *(node.module or "").split(".")]).rstrip(".")


def test_no_stage_imports_one_to_its_right() -> None:
    assert broken_arrows(Path(qcapsnets.__file__).parent) == []


def test_the_walk_sees_the_arrows_that_there_are() -> None:
    package = Path(qcapsnets.__file__).parent
    loop = set(imported_stages(package / "training" / "loop.py", package))
    assert loop >= {"data", "models", "errors", "files"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A made-up package in which every arrow is right."""
    folder = tmp_path / "qcapsnets"
    sources = {
        "__init__.py": "from qcapsnets.cli import main",
        "errors.py": "import os",
        "data/__init__.py": "from qcapsnets.errors import DataError\nimport torch.cuda.data",
        "models/layers.py": "from qcapsnets.data import load\nfrom . import functions",
        "selection.py": "from qcapsnets import errors, models",
        "cli/train.py": "from ..models.layers import Layer",
    }
    for name, source in sources.items():
        write(folder, name, source)
    return folder


def write(package: Path, name: str, source: str) -> None:
    (package / name).parent.mkdir(parents=True, exist_ok=True)
    (package / name).write_text(source)


def test_right_arrows_pass(package: Path) -> None:
    assert broken_arrows(package) == []


@pytest.mark.parametrize(
    ("file", "source", "stage"),
    [
        ("data/sets.py", "import qcapsnets.models", "models"),
        ("data/sets.py", "from qcapsnets.cli.train import main", "cli"),
        ("data/deep/sets.py", "from ...models import build", "models"),
        ("data/sets.py", "from .. import search", "search"),
        ("models/net.py", "from qcapsnets import training", "training"),
        ("models/net.py", "def f():\n    from qcapsnets.report import page", "report"),
        ("selection.py", "from .export import packed", "export"),
        ("registry.py", "from qcapsnets.data import load", "data"),
        ("report/page.py", "from qcapsnets import __init__", "__init__"),
    ],
)
def test_an_arrow_to_the_right_is_found(package: Path, file: str, source: str, stage: str) -> None:
    write(package, file, source)
    assert broken_arrows(package) == [f"{file}: imports {stage}"]


def test_a_stage_that_nobody_placed_is_found(package: Path) -> None:
    write(package, "wizardry/spell.py", "from qcapsnets.data import load")
    with pytest.raises(AssertionError, match="wizardry"):
        broken_arrows(package)
