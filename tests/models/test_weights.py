"""A network in a file: everything comes back, and what is not ours is refused in one line."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tests.networks import TINY_DEEP, tiny, tiny_deep
from torch import Tensor

from qcapsnets.errors import ModelError, RegistryError, TrainingError
from qcapsnets.models import CapsNet, ConvCaps, RoutedCaps
from qcapsnets.models.weights import (
    TensorFile,
    load_model,
    load_weights,
    read_tensors,
    save_model,
    write_tensors,
)


def used_deep() -> CapsNet:
    """With statistics in its batch norm that are not the initial ones."""
    model = tiny_deep()
    model.train()(torch.rand(4, 1, 14, 14))
    return model.eval()


def test_a_network_comes_back_exactly(tmp_path: Path) -> None:
    model = used_deep()
    save_model(model, tmp_path / "net.safetensors", epoch=3, note="é")
    loaded, facts = load_model(tmp_path / "net.safetensors")
    assert facts == {"epoch": 3, "note": "é"}
    assert (loaded.name, loaded.options) == ("deepcaps", TINY_DEEP)
    assert_same(loaded.state_dict(), model.state_dict())


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert tensor.dtype == b[name].dtype, name
        assert torch.equal(tensor, b[name]), name


def test_half_precision_is_half_the_size_and_comes_back_as_float32(tmp_path: Path) -> None:
    model = used_deep()
    save_model(model, tmp_path / "full.safetensors")
    save_model(model, tmp_path / "half.safetensors", half=True)
    tensors = read_tensors(tmp_path / "half.safetensors").tensors
    assert tensors["digit.weight"].dtype == torch.float16
    assert tensors["conv.norm.num_batches_tracked"].dtype == torch.int64
    loaded, _ = load_model(tmp_path / "half.safetensors")
    expected = {
        name: t.half().float() if t.is_floating_point() else t
        for name, t in model.state_dict().items()
    }
    assert_same(loaded.state_dict(), expected)
    once_more = tmp_path / "again.safetensors"
    save_model(loaded, once_more, half=True)
    assert once_more.read_bytes() == (tmp_path / "half.safetensors").read_bytes()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no file .*net\.safetensors"):
        load_model(tmp_path / "net.safetensors")


@pytest.mark.parametrize("keep", [0, 4, 100, 10_000, -1])
def test_a_truncated_file_is_an_error(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "net.safetensors"
    save_model(tiny(), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelError, match="cannot be read as safetensors") as error:
        load_model(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"\xff" * 50, b"PK\x03\x04" + bytes(60), b"{}"])
def test_what_is_no_safetensors_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "net.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read as safetensors"):
        load_model(tmp_path / "net.safetensors")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read as safetensors"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (None, "has no 'qcapsnets' header: it was not written by this program"),
        ({"format": "pt"}, "has no 'qcapsnets' header"),
        ({"qcapsnets": "{"}, "cannot be read"),
        ({"qcapsnets": "[1]"}, "no JSON object"),
        ({"qcapsnets": "{}"}, "holds no network"),
        ({"qcapsnets": '{"model": 3}'}, "holds no network"),
        ({"qcapsnets": '{"model": "deepcaps", "options": [1]}'}, "holds no network"),
        ({"qcapsnets": '{"model": "deepcaps", "options": {"depth": 1}}'}, "'depth'; it takes"),
    ],
)
def test_a_foreign_file_is_an_error(
    tmp_path: Path, metadata: dict[str, str] | None, said: str
) -> None:
    save_file({"x": torch.zeros(3)}, tmp_path / "net.safetensors", metadata)
    with pytest.raises(ModelError, match=said):
        load_model(tmp_path / "net.safetensors")


def test_a_network_that_nobody_registered_here_is_named(tmp_path: Path) -> None:
    model = tiny()
    model.name = "theirs"
    save_model(model, tmp_path / "net.safetensors")
    with pytest.raises(RegistryError, match="unknown model 'theirs': known are"):
        load_model(tmp_path / "net.safetensors")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"digit.weight": torch.zeros(2, 2)}, r"'digit.weight' is \(2, 2\) there and \(10, 36,"),
        ({"extra": torch.zeros(2)}, r"'extra' is \(2,\) there and not part of it here"),
        ({"digit.weight": None}, r"'digit.weight' is missing there and \(10, 36, 8, 8\) here"),
    ],
)
def test_tensors_of_another_network_are_named(
    tmp_path: Path, change: dict[str, Tensor | None], said: str
) -> None:
    path = tmp_path / "net.safetensors"
    save_model(tiny(), path)
    file = read_tensors(path)
    tensors = {n: t for n, t in (file.tensors | change).items() if t is not None}
    write_tensors(path, TensorFile(tensors, file.header))
    with pytest.raises(ModelError, match=said):
        load_model(path)


def composed(scale: float = 1.0) -> CapsNet:
    torch.manual_seed(0)
    model = CapsNet(
        {"first": ConvCaps(1, 2, 4, kernel=3), "last": RoutedCaps(18, 4, 3, 5)},
        image_shape=(1, 5, 5),
        classes=3,
    )
    for parameter in model.parameters():
        parameter.data *= scale
    return model


def test_a_network_composed_by_hand_is_loaded_into_one_that_is_built(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    save_model(composed(), path, epoch=2)
    with pytest.raises(ModelError, match=r"has no name to build it by: .* load_weights"):
        load_model(path)
    other = composed(scale=0.5)
    assert load_weights(other, path) == {"epoch": 2}
    assert_same(other.state_dict(), composed().state_dict())


def test_options_that_are_not_json_are_an_error_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="its header is not JSON"):
        save_model(tiny(), tmp_path / "net.safetensors", kernel=torch.zeros(3))
    assert list(tmp_path.iterdir()) == []


def test_errors_are_of_the_kind_asked_for(tmp_path: Path) -> None:
    with pytest.raises(TrainingError):
        read_tensors(tmp_path / "missing", TrainingError)
    (tmp_path / "taken").write_text("")
    with pytest.raises(TrainingError, match="cannot write"):
        write_tensors(tmp_path / "taken" / "x", TensorFile({}, {}), TrainingError)


def test_the_header_is_plain_json_in_the_metadata(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    save_model(tiny(classes=4), path, epoch=1)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + size])["__metadata__"]
    header = json.loads(metadata["qcapsnets"])
    assert header["model"] == "shallowcaps"
    assert header["options"]["classes"] == 4
    assert header["facts"] == {"epoch": 1}
