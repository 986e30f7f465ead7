"""Networks by name: ours, a user's own function, another package's entry point."""

from collections.abc import Callable, Iterator

import pytest
from tests.networks import tiny

from qcapsnets.errors import ModelError, RegistryError
from qcapsnets.models import CapsNet, ConvCaps, RoutedCaps, build, models, register

OURS = ["shallowcaps", "shallowcaps-small", "deepcaps", "deepcaps-small"]


def own(size: int = 14, classes: int = 3) -> CapsNet:
    """A user's builder: a plain function."""
    count = 2 * (size - 2) ** 2
    return CapsNet(
        {"first": ConvCaps(1, 2, 4, kernel=3), "last": RoutedCaps(count, 4, classes, 5)},
        image_shape=(1, size, size),
        classes=classes,
    )


@pytest.fixture
def clean() -> Iterator[None]:
    """Forget what a test registers."""
    before = dict(models._values)
    yield
    models._values.clear()
    models._values.update(before)


def test_our_networks_are_listed() -> None:
    assert list(models)[:4] == OURS


@pytest.mark.parametrize("name", OURS)
def test_a_network_knows_its_name_and_options(name: str) -> None:
    model = build(name, classes=4)
    assert (model.name, model.options, model.classes) == (name, {"classes": 4}, 4)
    assert model.image_shape == (1, 28, 28)


def test_the_same_seed_builds_the_same_weights() -> None:
    for a, b in zip(tiny(3).parameters(), tiny(3).parameters(), strict=True):
        assert a.equal(b)


def test_an_unknown_network_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(
        RegistryError, match=f"unknown model 'capsnet': known are {', '.join(OURS)}"
    ):
        build("capsnet")


def test_an_unknown_option_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(
        ModelError, match=r"'shallowcaps': .*'depth'; it takes size, .*routing_bias"
    ):
        build("shallowcaps", depth=3)


@pytest.mark.usefixtures("clean")
def test_a_users_function_is_built_by_name() -> None:
    assert register("own-caps")(own) is own
    model = build("own-caps", classes=5)
    assert (model.name, model.options, model.classes) == ("own-caps", {"classes": 5}, 5)
    with pytest.raises(ModelError, match=r"'own-caps': .*'depth'; it takes size, classes"):
        build("own-caps", depth=3)


@pytest.mark.usefixtures("clean")
def test_a_name_is_replaced_only_on_purpose() -> None:
    with pytest.raises(RegistryError, match="'deepcaps' is registered already"):
        register("deepcaps")(own)
    register("deepcaps", replace=True)(own)
    assert build("deepcaps").image_shape == (1, 14, 14)


@pytest.mark.usefixtures("clean")
def test_another_package_brings_a_network_by_an_entry_point(install: Callable[..., None]) -> None:
    source = "from tests.models.test_catalogue import own\n"
    install("elsewhere_caps", source, "qcapsnets.models", elsewhere="elsewhere_caps:own")
    assert "elsewhere" in models
    assert build("elsewhere", size=10).image_shape == (1, 10, 10)


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("thing = 3", "model 'odd' is a int: register a function"),
        ("def thing():\n    return 3", "builder of model 'odd' returns a int: return a .*CapsNet"),
    ],
)
def test_an_entry_point_that_builds_no_network_is_an_error(
    install: Callable[..., None], source: str, said: str
) -> None:
    install("odd_caps", source, "qcapsnets.models", odd="odd_caps:thing")
    with pytest.raises(ModelError, match=said):
        build("odd")


@pytest.mark.usefixtures("clean")
def test_a_builder_without_options_says_so() -> None:
    register("plain")(lambda: own())
    with pytest.raises(ModelError, match="it takes no options"):
        build("plain", size=3)
