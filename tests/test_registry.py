"""Named things that users can add to, from their code or from another package."""

import sys
from collections.abc import Callable

import pytest

from qcapsnets.errors import QCapsNetsError, RegistryError
from qcapsnets.registry import Registry


@pytest.fixture
def colours() -> Registry[int]:
    registry: Registry[int] = Registry("test colour")
    registry.register("red", 1)
    registry.register("green", 2)
    return registry


def test_a_value_is_found_by_its_name(colours: Registry[int]) -> None:
    assert colours["green"] == 2
    assert "green" in colours
    assert "blue" not in colours


def test_names_come_in_the_order_of_registration(colours: Registry[int]) -> None:
    assert list(colours) == ["red", "green"]


def test_registering_returns_the_value(colours: Registry[int]) -> None:
    assert colours.register("blue", 3) == 3


def test_an_unknown_name_is_an_error_that_lists_the_known(colours: Registry[int]) -> None:
    with pytest.raises(
        RegistryError, match=r"^unknown test colour 'blu': known are red, green$"
    ) as error:
        colours["blu"]
    assert isinstance(error.value, QCapsNetsError)


def test_a_name_is_taken_once(colours: Registry[int]) -> None:
    with pytest.raises(RegistryError, match=r"'red' is registered already: .*replace=True"):
        colours.register("red", 9)
    assert colours["red"] == 1


def test_a_name_can_be_replaced_on_purpose(colours: Registry[int]) -> None:
    colours.register("red", 9, replace=True)
    assert colours["red"] == 9
    assert list(colours) == ["red", "green"]


def test_an_entry_point_is_known_by_name_and_loaded_when_asked_for(
    colours: Registry[int], install: Callable[..., None]
) -> None:
    install(
        "elsewhere_colours", "BLUE = 3\n", "qcapsnets.test_colours", blue="elsewhere_colours:BLUE"
    )
    assert list(colours) == ["red", "green", "blue"]
    assert "elsewhere_colours" not in sys.modules
    assert colours["blue"] == 3
    assert "elsewhere_colours" in sys.modules


def test_what_is_registered_here_goes_before_an_entry_point(
    colours: Registry[int], install: Callable[..., None]
) -> None:
    install("shadow_colours", "RED = 7\n", "qcapsnets.test_colours", red="shadow_colours:RED")
    assert colours["red"] == 1
    assert list(colours) == ["red", "green"]


def test_a_name_of_an_entry_point_is_taken(
    colours: Registry[int], install: Callable[..., None]
) -> None:
    install("taken_colours", "BLUE = 3\n", "qcapsnets.test_colours", blue="taken_colours:BLUE")
    with pytest.raises(RegistryError, match="'blue' is registered already"):
        colours.register("blue", 4)


@pytest.mark.parametrize(
    ("source", "said"),
    [("raise RuntimeError('no paint left')", "no paint left"), ("", "has no attribute 'BLUE'")],
)
def test_an_entry_point_that_fails_says_where_and_why(
    colours: Registry[int], install: Callable[..., None], source: str, said: str
) -> None:
    install("broken_colours", source, "qcapsnets.test_colours", blue="broken_colours:BLUE")
    with pytest.raises(
        RegistryError, match=rf"'blue' cannot be loaded from 'broken_colours:BLUE': .*{said}"
    ):
        colours["blue"]
    assert colours["red"] == 1
