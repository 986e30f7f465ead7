"""Input that a user can mend, told in one line, before anything is written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import networks
from tests.search import searching

from qcapsnets.data import ImageSet, Splits
from qcapsnets.errors import QCapsNetsError, SearchError
from qcapsnets.framework import RESULT, run
from qcapsnets.framework.prepare import warnings_of
from qcapsnets.lock import locked
from qcapsnets.models import CapsNet, build
from qcapsnets.search import Problem, Tolerance


def refused(model: CapsNet, splits: Splits, folder: Path, **changes: Any) -> str:
    """The error, which is one line and leaves nothing behind but the lock."""
    with pytest.raises(QCapsNetsError) as caught:
        searching.search(model, splits, folder, **changes)
    assert "\n" not in str(caught.value)
    assert {path.name for path in folder.iterdir()} <= {".lock"}
    return str(caught.value)


def test_a_network_no_better_than_chance(digits: Splits, tmp_path: Path) -> None:
    message = refused(networks.tiny(), digits, tmp_path)
    assert "of 120 images right" in message
    assert "no better than always answering the most frequent class" in message
    assert message.endswith("train it first")


def test_a_network_that_got_better_may_use_the_folder(
    net: CapsNet, digits: Splits, tmp_path: Path
) -> None:
    refused(networks.tiny(), digits, tmp_path)
    searching.search(net, digits, tmp_path)
    assert (tmp_path / RESULT).exists()


def test_validation_images_of_one_class(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    threes = torch.nonzero(digits.validation.labels == 3).flatten()
    alike = replace(digits, validation=digits.validation.select(threes))
    message = refused(net, alike, tmp_path)
    assert message == (
        f"all {len(threes)} validation images are of class 3: give images of at least two classes"
    )


def test_images_of_another_size(net: CapsNet, mnist_mini: Splits, tmp_path: Path) -> None:
    message = refused(net, mnist_mini, tmp_path)
    assert "(1, 28, 28) of 10 classes" in message
    assert "(1, 14, 14) of 10" in message


def test_images_of_other_classes(digits: Splits, tmp_path: Path) -> None:
    five = build("shallowcaps", **(networks.TINY | {"classes": 5}))
    assert "of 10 classes, shallowcaps takes (1, 14, 14) of 5" in refused(five, digits, tmp_path)


def test_a_budget_that_cannot_be_met(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    message = refused(net, digits, tmp_path, budget=72_575)
    assert "the budget is 72,575 bits" in message
    assert "72,576 bits (0.073 Mbit): give at least that" in message


def test_the_smallest_budget(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    found = searching.search(net, digits, tmp_path, budget=72_576)
    assert found.schemes[0].steps[1]["weight_bits"] == 72_576


def test_a_budget_larger_than_the_float_model(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    """Accuracy decides, as it does with any budget that is not in the way."""
    found = searching.search(net, digits, tmp_path, budget=10**12)
    weights = [q["weight"] for q in found.schemes[0].steps[1]["plan"].values()]
    first = found.schemes[0].steps[0]["plan"]["conv"]["weight"]
    assert weights == [max(2, first - i) for i in range(3)]


def test_an_unknown_strategy(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    assert "unknown search strategy 'magic'" in refused(net, digits, tmp_path, strategy="magic")


def test_a_folder_that_is_a_file(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(SearchError, match="choose a folder that can be written"):
        searching.search(net, digits, path)


def test_a_folder_that_somebody_else_works_in(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    with locked(tmp_path):
        assert "another process works in" in refused(net, digits, tmp_path)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ("model", "its model is "),
        ("validation", "its data is "),
        ("train", "its calibration images is "),
        ("calibration_images", "its calibration images is "),
    ],
)
def test_a_folder_of_another_search(
    net: CapsNet, digits: Splits, tmp_path: Path, changed: str, named: str
) -> None:
    """It is refused before anything in it is replaced."""
    searching.search(net, digits, tmp_path)
    before = contents(tmp_path)
    model, splits, changes = net, digits, dict[str, Any]()
    match changed:
        case "model":
            model = build("shallowcaps", **networks.TINY)
            model.load_state_dict({k: v * 1.001 for k, v in net.state_dict().items()})
        case "validation":
            splits = replace(digits, validation=some_of(digits.validation, 100))
        case "train":
            splits = replace(digits, train=digits.train.select(range(599, -1, -1)))
        case "calibration_images":
            changes = {"calibration_images": 50}
    with pytest.raises(SearchError) as caught:
        searching.search(model, splits, tmp_path, **changes)
    assert named in str(caught.value)
    assert str(caught.value).endswith("use the same or another folder")
    assert contents(tmp_path) == before


def some_of(images: ImageSet, count: int) -> ImageSet:
    return searching.some(images, count)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_other_settings_in_a_folder(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    searching.search(net, digits, tmp_path)
    before = contents(tmp_path)
    with pytest.raises(SearchError, match='its settings tolerance is "2%", not "3%"'):
        searching.search(net, digits, tmp_path, tolerance=Tolerance(0.03))
    assert contents(tmp_path) == before


def test_a_tolerance_of_less_than_an_image(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    """0.5 % of 98 right images of 120 is half an image."""
    warned: list[str] = []
    found = searching.search(net, digits, tmp_path, tolerance=Tolerance(0.005), warn=warned.append)
    share = found.float_search.right * 0.005
    assert warned == [
        f"the tolerance is {share:.2f} of an image on 120 images: "
        "0 may be lost; use more images or a larger tolerance"
    ]
    assert found.warnings == tuple(warned)


@pytest.mark.parametrize(("tolerance", "warned"), [(0.0, True), (0.0099, True), (0.01, False)])
def test_when_a_tolerance_is_less_than_an_image(
    net: CapsNet, tolerance: float, warned: bool
) -> None:
    problem = Problem.of(net, searching.settings(tolerance=Tolerance(tolerance)), 100, 120)
    assert bool(warnings_of(problem)) == warned


def test_no_tolerance_at_all(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    found = searching.search(net, digits, tmp_path, tolerance=Tolerance(0))
    assert found.target == found.float_search.accuracy
    assert all(report.meets_accuracy for report in found.chosen if report.name != "model_memory")


def test_everything_may_be_lost(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    found = searching.search(net, digits, tmp_path, tolerance=Tolerance(1))
    assert found.path == "A"
    assert found.target == 0
    lengths = [(q["weight"], q["activation"]) for q in found.chosen[0].plan.values()]
    assert lengths[1:] == [(2, 2), (2, 2)]


def test_a_broken_file_in_the_folder(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    (tmp_path / "reference.safetensors").write_bytes(b"broken")
    with pytest.raises(QCapsNetsError, match=r"reference\.safetensors cannot be read"):
        searching.search(net, digits, tmp_path)


def test_run_takes_what_the_documentation_says(
    net: CapsNet, digits: Splits, tmp_path: Path
) -> None:
    """The default executor, with one scheme, needs no other process."""
    found = run(net, digits, searching.settings(), tmp_path)
    assert found.data["name"] == "unnamed"
