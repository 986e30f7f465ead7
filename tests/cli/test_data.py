"""`qcapsnets data`: list, fetch and show."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Program, refused
from tests.data.conftest import Server, cifar_records, idx_folder, server, some_images

from qcapsnets.data import datasets
from qcapsnets.data.formats import write_idx

__all__ = ["idx_folder", "server"]


def test_list(program: Program, idx_folder: Path) -> None:
    found = {row["name"]: row for row in program("data", "list", "--json").json}
    assert list(found) == list(datasets)
    assert found["mnist-mini"]["where"] == "in the package"
    assert found["mnist"]["where"] == "to be fetched"
    here = program("data", "list", "--data-folder", str(idx_folder), "--json").json
    assert next(row for row in here if row["name"] == "mnist")["where"].startswith("in ")
    assert "fashion-mnist-mini" in program("data", "list").out


def test_show(program: Program, few_digits: None) -> None:
    ended = program("data", "show", "mnist-mini")
    assert ended.code == 0
    assert "mnist-mini: 1x28x28, 10 classes" in ended.out
    assert "@" in ended.out
    facts = program("data", "show", "mnist-mini", "--json").json
    assert facts["splits"] == {"train": 60, "validation": 20, "test": 20}
    assert sum(facts["images_per_class"]["test"]) == 20


def test_show_one_of_your_own_folder(program: Program, idx_folder: Path, tmp_path: Path) -> None:
    datasets.register("own", replace(datasets["mnist"], name="own", folder="mnist", validation=8))
    try:
        ended = program("data", "show", "own", "--data-folder", str(idx_folder), "--json")
    finally:
        datasets._values.pop("own")
    assert ended.json["image"] == [1, 6, 6]


def test_fetch(program: Program, server: Server, tmp_path: Path) -> None:
    server.files["there"] = b"0123456789"
    remote = server.remote(server.files["there"], "there")
    datasets.register("remote", replace(datasets["mnist"], name="remote", downloads=(remote,)))
    try:
        ended = program("data", "fetch", "remote", "mnist-mini")
        again = program("data", "fetch", "remote", "--json", "--quiet")
    finally:
        datasets._values.pop("remote")
    home = tmp_path / "data" / "remote"
    assert (home / "data.gz").read_bytes() == b"0123456789"
    assert f"remote is in {home}" in ended.out.replace("\n", "")
    assert "mnist-mini is in the package" in ended.out
    assert "fetching remote 100%  data.gz" in ended.err
    assert again.json[0]["where"] == f"in {home}"
    assert len(server.requests) == 1


def test_fetch_what_no_mirror_has(program: Program, server: Server) -> None:
    remote = server.remote(b"x", "missing")
    datasets.register("remote", replace(datasets["mnist"], name="remote", downloads=(remote,)))
    try:
        refused(program("data", "fetch", "remote"), "HTTP 404", "put them there")
    finally:
        datasets._values.pop("remote")


def test_offline(program: Program) -> None:
    refused(
        program("data", "show", "mnist", "--no-download"),
        "lacks train-images-idx3-ubyte",
        "put them there as published",
    )


def test_unknown(program: Program) -> None:
    refused(program("data", "show", "mnits"), "unknown dataset 'mnits': known are mnist-mini")
    refused(program("data", "fetch", "mnist-mini", "mnits"), "unknown dataset 'mnits'")


def cut_images(folder: Path) -> None:
    path = folder / "mnist" / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-7])


def corrupt_images(folder: Path) -> None:
    (folder / "mnist" / "train-images-idx3-ubyte").write_bytes(b"\x00\x00\x08\x01" + b"\x01" * 40)


def broken_gzip(folder: Path) -> None:
    path = folder / "mnist" / "train-images-idx3-ubyte"
    path.unlink()
    path.with_name(f"{path.name}.gz").write_bytes(b"\x1f\x8b\x08 not really")


def label_outside(folder: Path) -> None:
    _, labels = some_images(40)
    write_idx(folder / "mnist" / "train-labels-idx1-ubyte", labels + 5)


def fewer_labels(folder: Path) -> None:
    _, labels = some_images(20)
    write_idx(folder / "mnist" / "train-labels-idx1-ubyte", labels)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (cut_images, "it is cut after"),
        (corrupt_images, "magic number"),
        (broken_gzip, "is broken"),
        (label_outside, "label 14 of image 9 is outside 0..9"),
        (fewer_labels, "holds 40 images but"),
    ],
)
def test_broken_idx(program: Program, idx_folder: Path, spoil: object, words: str) -> None:
    assert callable(spoil)
    spoil(idx_folder)
    refused(program("data", "show", "mnist", "--data-folder", str(idx_folder)), words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (cifar_records(2)[:-1], "is broken"),
        (cifar_records(2, label=11), "label 11"),
        (b"", "broken"),
    ],
)
def test_broken_cifar(program: Program, tmp_path: Path, content: bytes, words: str) -> None:
    folder = tmp_path / "folder" / "cifar10"
    folder.mkdir(parents=True)
    for name in (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"):
        (folder / name).write_bytes(content)
    refused(program("data", "show", "cifar10", "--data-folder", str(folder.parent)), words)


def test_an_empty_split(program: Program, idx_folder: Path) -> None:
    """40 training images, of which the data set sets 5,000 apart."""
    refused(
        program("data", "show", "mnist", "--data-folder", str(idx_folder)),
        "validation = 5000 of 40 training images leaves an empty split",
    )
