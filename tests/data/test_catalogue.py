"""Data sets by name, from reading to splits."""

import gzip
import io
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from tests.data.conftest import Server
from torch import Tensor
from torch.utils.data import TensorDataset

import qcapsnets.data
from qcapsnets.data import Augmentation, ImageSet, datasets, load, register
from qcapsnets.data.builtin import MNIST_MINI
from qcapsnets.data.spec import DatasetSpec
from qcapsnets.errors import DataError, RegistryError

Pair = tuple[Tensor, Tensor]
SHAPES = {
    "mnist": (60_000, (1, 28, 28)),
    "fashion-mnist": (60_000, (1, 28, 28)),
    "cifar10": (50_000, (3, 32, 32)),
}


@pytest.fixture(autouse=True)
def forget_registrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "_values", dict(datasets._values))


def counts(images: ImageSet) -> list[int]:
    return images.labels.bincount(minlength=10).tolist()


def contents(*sets: ImageSet) -> list[bytes]:
    return [image.numpy().tobytes() for some in sets for image in some.images]


def test_the_public_names_exist() -> None:
    for name in qcapsnets.data.__all__:
        assert getattr(qcapsnets.data, name) is not None


def test_the_registered_data_sets() -> None:
    known = ["mnist-mini", "fashion-mnist-mini", "mnist", "fashion-mnist", "cifar10", "cifar10-64"]
    assert [name for name in known if name in datasets] == known
    for name in known:
        spec = datasets[name]
        assert spec.name == name
        assert spec.description
        assert spec.licence


def test_augmentation_is_the_papers() -> None:
    for name in ("mnist", "mnist-mini"):
        assert datasets[name].augmentation == Augmentation(shift=2, rotate=2.0)
    for name in ("fashion-mnist", "fashion-mnist-mini"):
        assert datasets[name].augmentation == Augmentation(shift=2, flip=0.2)
    for name in ("cifar10", "cifar10-64"):
        assert datasets[name].augmentation == Augmentation(shift=5, rotate=2.0, flip=0.5)


@pytest.mark.parametrize("name", ["mnist-mini", "fashion-mnist-mini"])
class TestBundled:
    def test_balance(self, name: str) -> None:
        splits = load(name)
        assert counts(splits.train) == [400] * 10
        assert counts(splits.validation) == [100] * 10
        assert counts(splits.test) == [100] * 10
        assert splits.train.images.shape[1:] == (1, 28, 28)

    def test_no_image_is_in_two_splits(self, name: str) -> None:
        splits = load(name)
        every = contents(splits.train, splits.validation, splits.test)
        assert len(set(every)) == len(every) == 6000

    def test_the_seed_decides_validation_and_never_test(self, name: str) -> None:
        first, again, other = load(name), load(name), load(name, seed=1)
        assert torch.equal(first.validation.images, again.validation.images)
        assert not torch.equal(first.validation.images, other.validation.images)
        assert torch.equal(first.test.images, other.test.images)

    def test_files_are_small(self, name: str) -> None:
        bundled = Path(qcapsnets.data.__file__).parent / "bundled" / name
        files = list(bundled.glob("*.gz"))
        assert files
        assert max(file.stat().st_size for file in files) < 1_500_000

    def test_needs_no_folder_and_no_network(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("QCAPSNETS_DATA", str(tmp_path / "none"))
        load(name)
        assert not (tmp_path / "none").exists()


def test_bundled_digits_look_like_mnist() -> None:
    images = load("mnist-mini").train.images / 255
    assert images.mean().item() == pytest.approx(0.1307, abs=0.003)
    assert images.std().item() == pytest.approx(0.3081, abs=0.003)


def test_resizes_to_64() -> None:
    splits = load("mnist-mini", size=64)
    for images in (splits.train, splits.validation, splits.test):
        assert images.images.shape[1:] == (1, 64, 64)
        assert images.images.dtype == torch.uint8
    plain = load("mnist-mini")
    assert torch.equal(splits.test.labels, plain.test.labels)
    averages = splits.test.images.float().mean((1, 2, 3)), plain.test.images.float().mean((1, 2, 3))
    assert torch.allclose(*averages, rtol=0.02)


def test_reads_idx_files_of_a_folder(idx_folder: Path) -> None:
    splits = load("mnist", folder=idx_folder, validation=10)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [30, 10, 20]
    for path in (idx_folder / "mnist").iterdir():
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    again = load("mnist", folder=idx_folder, validation=10)
    assert torch.equal(again.train.images, splits.train.images)


def test_the_environment_names_the_folder(
    idx_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QCAPSNETS_DATA", str(idx_folder))
    assert len(load("mnist", validation=10).test) == 20


@pytest.mark.parametrize("subfolder", ["", "cifar-10-batches-bin"])
def test_reads_cifar_files(tmp_path: Path, cifar_files: dict[str, bytes], subfolder: str) -> None:
    folder = tmp_path / "cifar10" / subfolder
    folder.mkdir(parents=True)
    for name, content in cifar_files.items():
        (folder / name).write_bytes(content)
    native = load("cifar10", folder=tmp_path, validation=5, download=False)
    both = zip(counts(native.train), counts(native.validation), strict=True)
    assert [sum(pair) for pair in both] == [2, 3, 4, 5, 6, 0, 0, 0, 0, 0]
    assert native.test.labels.tolist() == [5] * 7
    assert native.test.images.shape == (7, 3, 32, 32)
    papers = load("cifar10-64", folder=tmp_path, validation=5, download=False)
    assert papers.test.images.shape == (7, 3, 64, 64)
    assert load("cifar10-64", folder=tmp_path, validation=5, size=32).test.width == 32


def from_server(name: str, server: Server, files: dict[str, bytes]) -> None:
    """Have `name` downloaded from our server instead of the world's."""
    server.files |= files
    local = [
        replace(
            server.remote(files[remote.name], remote.name, name=remote.name),
            provides=remote.provides,
        )
        for remote in datasets[name].downloads
    ]
    datasets.register(name, replace(datasets[name], downloads=tuple(local)), replace=True)


def test_downloads_mnist(server: Server, idx_folder: Path, tmp_path: Path) -> None:
    local = (idx_folder / "mnist").iterdir()
    from_server(
        "mnist", server, {f"{path.name}.gz": gzip.compress(path.read_bytes()) for path in local}
    )
    seen: list[str] = []
    splits = load(
        "mnist", folder=tmp_path / "new", validation=10, progress=lambda name, *_: seen.append(name)
    )
    expected = load("mnist", folder=idx_folder, validation=10)
    assert torch.equal(splits.train.images, expected.train.images)
    assert len(set(seen)) == 4
    asked = len(server.requests)
    load("mnist", folder=tmp_path / "new", validation=10)
    assert len(server.requests) == asked


def test_downloads_cifar10(server: Server, cifar_files: dict[str, bytes], tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        for name, content in cifar_files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            members.addfile(member, io.BytesIO(content))
    from_server("cifar10", server, {"cifar-10-binary.tar.gz": packed.getvalue()})
    assert len(load("cifar10", folder=tmp_path, validation=5).test) == 7
    found = {path.name for path in (tmp_path / "cifar10").iterdir()} - {".lock"}
    assert found == set(cifar_files)


def test_offline_the_message_says_what_to_put_where(server: Server, tmp_path: Path) -> None:
    gone = tuple(
        replace(remote, mirrors=(server.url("gone"),)) for remote in datasets["mnist"].downloads
    )
    datasets.register("mnist", replace(datasets["mnist"], downloads=gone), replace=True)
    with pytest.raises(DataError) as caught:
        load("mnist", folder=tmp_path)
    for part in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
        str(tmp_path / "mnist"),
    ):
        assert part in str(caught.value)


def test_images_and_labels_that_do_not_match(idx_folder: Path) -> None:
    folder = idx_folder / "mnist"
    labels = (folder / "train-labels-idx1-ubyte").read_bytes()
    (folder / "t10k-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(DataError, match=r"t10k-images\S+ holds 20 images but \S+ 40 labels"):
        load("mnist", folder=idx_folder, validation=10)


@pytest.mark.parametrize("validation", [0, 40])
def test_an_empty_split(idx_folder: Path, validation: int) -> None:
    with pytest.raises(DataError, match="leaves an empty split"):
        load("mnist", folder=idx_folder, validation=validation)


def test_an_unknown_data_set_says_which_exist() -> None:
    with pytest.raises(RegistryError, match=r"unknown dataset 'mnits': known are mnist-mini, .*"):
        load("mnits")


def test_an_impossible_size(idx_folder: Path) -> None:
    with pytest.raises(DataError, match="size = 0"):
        load("mnist", folder=idx_folder, validation=10, size=0)


def as_tensors(pair: Pair) -> Pair:
    return pair


def as_dataset(pair: Pair) -> TensorDataset:
    return TensorDataset(*pair)


@pytest.mark.parametrize("source", [as_tensors, as_dataset])
def test_a_users_own_data_set(
    own_images: Pair, source: Callable[[Pair], Pair | TensorDataset]
) -> None:
    augmentation = Augmentation(flip=0.5)
    register("mine", source(own_images), source(own_images), augmentation=augmentation)
    splits = load("mine")
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [36, 4, 40]
    assert torch.equal(splits.test.images[:, 0], own_images[0])
    assert datasets["mine"].augmentation == augmentation
    assert load("mine", size=12, validation=10).test.width == 12


def test_a_taken_name(own_images: Pair) -> None:
    register("mine", own_images, own_images)
    with pytest.raises(RegistryError, match="'mine' is registered already"):
        register("mine", own_images, own_images)
    register("mine", own_images, own_images, classes=11, replace=True)
    assert load("mine").train.classes == 11


def test_own_train_and_test_must_fit(own_images: Pair) -> None:
    images, labels = own_images
    register("mine", own_images, (images[:, 1:], labels))
    with pytest.raises(DataError, match="need the same image size"):
        load("mine")


SPEC = replace(MNIST_MINI, name="theirs")


def make_spec() -> DatasetSpec:
    return SPEC


def broken() -> DatasetSpec:
    raise OSError("no disk")


def no_spec() -> None:
    pass


@pytest.fixture
def entry_point(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def install(attribute: str) -> None:
        point = EntryPoint("theirs", f"{__name__}:{attribute}", "qcapsnets.datasets")
        monkeypatch.setattr(datasets, "_entry_points", lambda: {"theirs": point})

    return install


@pytest.mark.parametrize("attribute", ["SPEC", "make_spec"])
def test_an_entry_point(entry_point: Callable[[str], None], attribute: str) -> None:
    entry_point(attribute)
    assert "theirs" in datasets
    assert datasets["theirs"] is SPEC
    assert len(load("theirs").test) == 1000


@pytest.mark.parametrize(
    ("attribute", "message"),
    [("broken", "cannot be made: no disk"), ("no_spec", "is no DatasetSpec but NoneType")],
)
def test_a_broken_entry_point(
    entry_point: Callable[[str], None], attribute: str, message: str
) -> None:
    entry_point(attribute)
    with pytest.raises(RegistryError, match=message):
        load("theirs")


@pytest.mark.skipif(not os.environ.get("QCAPSNETS_DATA"), reason="needs QCAPSNETS_DATA")
@pytest.mark.parametrize("name", SHAPES)
def test_full_data_sets(name: str) -> None:
    splits = load(name, download=False)
    count, shape = SHAPES[name]
    assert len(splits.train) + len(splits.validation) == count
    assert len(splits.validation) == 5000
    assert len(splits.test) == 10_000
    assert splits.test.images.shape[1:] == shape
