"""A run as a whole: what result.json says, and what the test images can change."""

import io
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.framework.conftest import SCHEMES
from tests.search import searching
from tests.search.searching import result_in, without_effort

from qcapsnets import __version__
from qcapsnets.accounting import activation_bits, weight_bits
from qcapsnets.data import ImageSet, Splits
from qcapsnets.errors import SearchError
from qcapsnets.evaluation import wilson
from qcapsnets.export.packed import load_packed
from qcapsnets.fixedpoint.calibration import Calibration
from qcapsnets.fixedpoint.plan import Plan
from qcapsnets.fixedpoint.quantize import formats_of, quantize
from qcapsnets.framework import CALIBRATION, RESULT, ModelReport, Result, read_result
from qcapsnets.models import CapsNet
from qcapsnets.training import predict


def right_answers(model: CapsNet, images: ImageSet) -> torch.Tensor:
    return predict(model, images.images) == images.labels


def test_the_file_is_the_result(result: Result, folder: Path) -> None:
    written = json.loads((folder / RESULT).read_text())
    assert written == json.loads(json.dumps(result.to_json()))
    assert read_result(folder / RESULT) == written
    assert written["schema"] == 1


def test_what_the_run_was_of(result: Result, net: CapsNet, digits: Splits) -> None:
    assert result.model["name"] == "shallowcaps"
    assert result.model["options"] == net.options
    assert result.data["name"] == "digits"
    assert result.settings["tolerance"] == "2%"
    assert result.settings["seed"] == 0
    assert result.settings["roundings"] == SCHEMES
    assert result.versions["qcapsnets"] == __version__
    assert result.versions["torch"] == torch.__version__
    correct = int(right_answers(net, digits.validation).sum())
    assert (result.float_search.right, result.float_search.total) == (correct, 120)
    assert result.float_test.right == int(right_answers(net, digits.test).sum())
    accuracy = Fraction(correct, 120)
    assert result.target == pytest.approx(float(accuracy * Fraction(98, 100)))
    assert result.step_1_target == pytest.approx(float(accuracy * Fraction(999, 1000)))
    assert result.budget_bits == searching.BUDGET
    assert result.float_weight_bits == 32 * 36_288
    assert result.float_activation_bits == activation_bits(net)


def test_every_step_of_every_scheme(result: Result) -> None:
    assert [scheme.rounding for scheme in result.schemes] == list(SCHEMES)
    for scheme in result.schemes:
        names = [step["step"] for step in scheme.steps]
        assert names == (["1", "2", "3A", "4A"] if scheme.path == "A" else ["1", "2", "3B"])
        for step in scheme.steps:
            assert Plan.from_json(step["plan"])
            assert 0 <= step["accuracy"] <= 1
            assert step["cost"]["plans"] >= 0
            assert step["effort"].keys() == {"macs", "seconds", "images_taken"}
            assert len(step["decision"]) > 30
        assert scheme.steps[0]["cost"]["images"] >= 120
        assert scheme.steps[0]["effort"]["macs"] > 0


def all_models(result: Result) -> list[ModelReport]:
    return [*result.chosen, *(model for scheme in result.schemes for model in scheme.models)]


def test_every_model_is_what_it_says(
    result: Result, net: CapsNet, digits: Splits, folder: Path
) -> None:
    calibration = Calibration.load(folder / CALIBRATION)
    for report in all_models(result):
        plan = Plan.from_json(report.plan)
        quantized = quantize(net, plan, calibration, report.rounding)
        right = int(right_answers(quantized, digits.validation).sum())
        assert report.search_accuracy == right / 120
        assert report.meets_accuracy == (right / 120 >= result.target)
        assert report.weight_bits == weight_bits(net, plan)
        assert report.meets_budget == (report.weight_bits <= searching.BUDGET)
        assert report.weight_reduction == 32 * 36_288 / report.weight_bits
        assert report.activation_bits == activation_bits(net, plan)
        assert report.activation_reduction == activation_bits(net) / report.activation_bits
        assert report.formats == {n: str(f) for n, f in formats_of(quantized).items()}
        assert report.routing == {"digit": plan["digit"].routing}
        assert report.exact


def test_chosen_models_are_measured_on_the_test_images(
    result: Result, net: CapsNet, digits: Splits, folder: Path
) -> None:
    before = right_answers(net, digits.test)
    for report in result.chosen:
        assert report.test is not None
        assert report.file == f"models/{report.name}.qcaps"
        packed, facts = load_packed(folder / report.file)
        after = right_answers(packed, digits.test)
        assert report.test.right == int(after.sum())
        assert report.test.accuracy == report.test.right / 60 == facts["test_accuracy"]
        assert (report.test.low, report.test.high) == wilson(report.test.right, 60)
        assert report.became_wrong == int((before & ~after).sum())
        assert report.became_right == int((~before & after).sum())
        assert 0 < (report.p_value or 0) <= 1


def test_models_that_were_not_chosen_are_not_measured(result: Result) -> None:
    for scheme in result.schemes:
        assert all(model.test is None for model in scheme.models)


def test_reasons_are_words(result: Result) -> None:
    assert result.path == "A"
    assert "of 3 schemes met both constraints (Path A)" in result.reasons[0]
    assert result.reasons[-1].startswith(f"model_satisfied: {result.chosen[0].rounding} ")
    assert "Both constraints are met" in result.verdict


def test_the_table(result: Result) -> None:
    console = Console(width=200, file=io.StringIO())
    with console.capture() as captured:
        console.print(result)
    text = captured.get()
    assert "shallowcaps on digits" in text
    assert "model_satisfied" in text
    assert f"{result.chosen[0].weight_reduction:.2f}x" in text


def test_running_it_again_computes_nothing_and_finds_the_same(
    result: Result, net: CapsNet, digits: Splits, folder: Path
) -> None:
    before = result_in(folder)
    events: list[object] = []
    again = searching.search(net, digits, folder, roundings=SCHEMES, observe=events.append)
    assert without_effort(json.loads(json.dumps(again.to_json()))) == before
    assert again == result  # effort too: it is that of the lines in the journal
    assert not events


def test_schemes_can_be_added_later(
    result: Result, net: CapsNet, digits: Splits, tmp_path: Path
) -> None:
    """First a run that ends on path B, then all schemes; nothing of the first is left over."""
    first = searching.search(net, digits, tmp_path, roundings=SCHEMES[:1])
    assert first.path == "B"
    assert {path.stem for path in (tmp_path / "models").iterdir()} == {
        "model_memory",
        "model_accuracy",
    }
    second = searching.search(net, digits, tmp_path, roundings=SCHEMES)
    assert second.schemes == result.schemes or without_effort(
        json.loads(json.dumps(second.to_json()))
    ) == without_effort(json.loads(json.dumps(result.to_json())))
    assert {path.stem for path in (tmp_path / "models").iterdir()} == {"model_satisfied"}


def garbage(images: ImageSet, seed: int = 0) -> ImageSet:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(0, 256, images.images.shape, generator=generator, dtype=torch.uint8)
    return replace(images, images=noise)


def without_test_figures(value: Any) -> Any:
    """A result without what is measured on the test images."""
    figures = ("float_test", "test", "became_wrong", "became_right", "p_value", "test_images")
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k not in (*figures, "file_bytes")}
        return {k: without_test_figures(v) for k, v in kept.items()}
    return [without_test_figures(v) for v in value] if isinstance(value, list) else value


def test_test_images_decide_nothing(
    result: Result, net: CapsNet, digits: Splits, folder: Path, tmp_path: Path
) -> None:
    spoilt = replace(digits, test=garbage(digits.test))
    searching.search(net, spoilt, tmp_path, roundings=SCHEMES)
    here, there = result_in(tmp_path), result_in(folder)
    assert without_test_figures(here) == without_test_figures(there)
    assert here["float_test"] != there["float_test"]
    for name in SCHEMES:
        journals = [f / "journal" / f"{name}.jsonl" for f in (tmp_path, folder)]
        assert searching.lines(journals[0]) == searching.lines(journals[1])


def test_validation_images_decide_everything(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    """And with the search on the test images, these do and the validation images nothing."""
    spoilt = replace(digits, validation=garbage(digits.validation))
    found = searching.search(net, spoilt, tmp_path / "a", search_split="test")
    plain = searching.search(net, digits, tmp_path / "b", search_split="test")
    assert result_in(tmp_path / "a") == result_in(tmp_path / "b")
    assert plain.float_search == plain.float_test
    assert found.chosen[0].search_accuracy == found.chosen[0].test.accuracy  # type: ignore[union-attr]


def test_the_network_is_left_as_it_was(net: CapsNet, digits: Splits, tmp_path: Path) -> None:
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    searching.search(net, digits, tmp_path)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


@pytest.mark.parametrize(
    ("memory", "accurate", "words"),
    [
        ({}, {"meets_budget": False}, "cannot both be met: within 200.0 kbit 70.00% are right"),
        ({}, {"meets_budget": False}, "and the target takes 9.0 kbit (5.00x less)"),
        ({}, {"meets_accuracy": False}, "and even 9.0 kbit (5.00x less) reach only 80.00%"),
        ({}, {}, "Others meet both constraints: 80.00% with 9.0 kbit (5.00x less)"),
    ],
)
def test_verdicts_of_path_b(
    result: Result, memory: dict[str, Any], accurate: dict[str, Any], words: str
) -> None:
    plain = replace(
        result.chosen[0],
        meets_budget=True,
        meets_accuracy=True,
        weight_bits=9_000,
        weight_reduction=5.0,
    )
    chosen = (
        replace(plain, name="model_memory", search_accuracy=0.7, **memory),
        replace(plain, name="model_accuracy", search_accuracy=0.8, **accurate),
    )
    assert words in replace(result, path="B", chosen=chosen).verdict


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no"),
        ("{", "is not JSON"),
        ("[]", "is not a result of this version"),
        ('{"schema": 0}', "is not a result of this version"),
    ],
)
def test_other_files_are_not_results(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / RESULT
    if content is not None:
        path.write_text(content)
    with pytest.raises(SearchError, match=message):
        read_result(path)
