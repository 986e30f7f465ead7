"""docs/arithmetic.md: its examples run, its table is what the program prints."""

import ast
import doctest
from pathlib import Path

import pytest
from benchmarks.function_error import rows
from tests.oracle import numbers

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "arithmetic.md"
ORACLE = sorted((ROOT / "tests" / "oracle").glob("*.py"))


def test_examples() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert failed == 0
    assert tried >= 17


def test_error_table() -> None:
    page = PAGE.read_text().splitlines()
    assert [row for row in rows() if row not in page] == []


def test_worked_sum_by_the_oracle() -> None:
    products = 3 * 5 + -2 * 7
    acc, fraction = numbers.aligned_sum([(products, 2 + 3), (9, 4)])
    assert (acc, fraction) == (19, 5)
    assert numbers.rescaled(acc, fraction, numbers.parse("s4f1"), "nearest") == 1


@pytest.mark.parametrize("path", ORACLE, ids=lambda path: path.name)
def test_the_oracle_is_plain_integers(path: Path) -> None:
    """No qcapsnets, torch or numpy, no float and no true division."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imported = {
        name.split(".")[0]
        for node in nodes
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= {"decimal", "functools", "math", "tests", "typing", "zlib"}
    assert not [node for node in nodes if isinstance(node, ast.Div)]
    assert not [n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, float)]
