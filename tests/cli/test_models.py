"""`qcapsnets models`."""

import pytest
from tests.cli.conftest import Program

from qcapsnets.models import build, models


@pytest.fixture(autouse=True)
def only_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The full networks take seconds, and have been counted elsewhere."""
    small = {name: models[name] for name in models if name.endswith("-small")}
    monkeypatch.setattr(models, "_values", small)


def test_models(program: Program) -> None:
    ended = program("models")
    assert ended.code == 0
    assert "shallowcaps-small" in ended.out
    assert "22.6 Mbit" in ended.out
    assert "AlexNet" not in ended.out


def test_baselines(program: Program) -> None:
    found = {row["name"]: row for row in program("models", "--baselines", "--json").json}
    assert list(found) == ["LeNet-5", "AlexNet", "shallowcaps-small", "deepcaps-small"]
    assert found["AlexNet"]["parameters"] == 60_965_224
    parameters = sum(p.numel() for p in build("deepcaps-small").parameters())
    assert found["deepcaps-small"]["parameters"] == parameters
