"""`qcapsnets train`: a run folder, settings from three places, and going on after Ctrl-C."""

import json
import shutil
import signal
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.cli.conftest import FAST, TRAIN, Program, refused

from qcapsnets.cli import runs
from qcapsnets.cli import train as train_command
from qcapsnets.cli.train import MAY_CHANGE, TrainSettings, augmentation_of, recipe_of
from qcapsnets.data import Augmentation
from qcapsnets.errors import TrainingError
from qcapsnets.models import CapsNet, build, models
from qcapsnets.models.weights import load_model
from qcapsnets.training import Recipe, loop


def test_defaults_are_those_of_the_library() -> None:
    assert recipe_of(TrainSettings()) == Recipe()
    assert set(asdict(Recipe())) < set(asdict(TrainSettings()))
    assert set(asdict(TrainSettings())) > MAY_CHANGE


def test_augmentation_is_that_of_the_data_set_but_for_what_is_given() -> None:
    assert augmentation_of(TrainSettings(data="cifar10")) == Augmentation(5, 2.0, 0.5)
    given = TrainSettings(data="cifar10", shift=2, rotate=0.0)
    assert augmentation_of(given) == Augmentation(2, 0.0, 0.5)


def test_names_of_files_are_those_of_the_library() -> None:
    for name in ("CHECKPOINT", "MODEL", "SUMMARY", "METRICS"):
        assert getattr(runs, name) == getattr(loop, name)


def test_a_run_folder(program: Program, trained: Path) -> None:
    assert {path.name for path in trained.iterdir()} == {
        ".lock",
        "settings.toml",
        "checkpoint.safetensors",
        "metrics.jsonl",
        "model.safetensors",
        "training.json",
    }
    settings = tomllib.loads((trained / "settings.toml").read_text())["train"]
    assert settings["model"] == "shallowcaps-small"
    assert settings["batch_size"] == 20
    assert settings["augment"] is False
    assert settings["learning_rate"] == 0.001


def test_a_finished_run_says_so_again(program: Program, trained: Path) -> None:
    ended = program("train", "runs/digits", "--json")
    assert ended.code == 0
    assert ended.json["steps"] == 3
    assert ended.json["folder"] == "runs/digits"


def same_weights(*runs: str) -> bool:
    first, second = (load_model(Path(f"runs/{name}/model.safetensors"))[0] for name in runs)
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return all(one.equal(other) for one, other in pairs)


def interrupt_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    report = train_command._report

    def interrupting(progress: loop.Progress, to: object) -> None:
        report(progress, to)  # type: ignore[arg-type]
        if progress.step == step:
            monkeypatch.undo()
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(train_command, "_report", interrupting)


def test_ctrl_c_and_on(program: Program, few_digits: None, tmp_path: Path) -> None:
    whole = program("train", "runs/whole", *TRAIN[2:], "--epochs", "2")
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(4, patch)
        ended = program(*TRAIN, "--epochs", "2", "--checkpoint-every", "1")
    assert ended.code == 130
    assert ended.err.splitlines()[-1] == (
        "interrupted: `qcapsnets train runs/digits` continues from the last checkpoint"
    )
    assert not Path("runs/digits/training.json").exists()
    again = program("train", "runs/digits")
    assert (whole.code, again.code) == (0, 0)
    assert [line for line in again.err.splitlines() if "epoch 2/2" in line]
    assert same_weights("whole", "digits")


def test_flags_win_over_the_file(program: Program, few_digits: None) -> None:
    Path("mine.toml").write_text(
        '[train]\nmodel = "shallowcaps-small"\ndata = "mnist-mini"\nepochs = 3\nbatch-size = 60\n'
        'decoder = "none"\n[train.options]\nconv_channels = 8\n[quantize]\nbudget = "1Mbit"\n'
    )
    ended = program("train", "runs/x", "--settings", "mine.toml", "--epochs", "1", "--json")
    assert ended.json["steps"] == 1
    settings = tomllib.loads(Path("runs/x/settings.toml").read_text())["train"]
    assert (settings["epochs"], settings["batch_size"]) == (1, 60)
    assert settings["options"] == {"conv_channels": 8}
    model, _ = load_model(Path("runs/x/model.safetensors"))
    assert model.options["conv_channels"] == 8


def test_options_of_the_network(program: Program, few_digits: None) -> None:
    flags = ("--option", "primary-capsules=2", "--option", "routing_bias=true")
    assert program(*TRAIN, "--epochs", "1", *flags).code == 0
    model, _ = load_model(Path("runs/digits/model.safetensors"))
    assert model.options["primary_capsules"] == 2
    assert model.options["routing_bias"] is True


def test_augmentation_by_flags(program: Program, few_digits: None) -> None:
    flags = ("--epochs", "1", "--augment", "--shift", "1", "--flip", "0.25")
    assert program(*TRAIN, *flags).code == 0
    assert json.loads(Path("runs/digits/training.json").read_text())["augmentation"] == {
        "shift": 1,
        "rotate": 2.0,
        "flip": 0.25,
    }
    refused(program("train", "runs/digits", "--shift", "2"), "with shift = 1, not 2")


def test_a_network_that_takes_no_options(program: Program, few_digits: None) -> None:
    def own() -> CapsNet:
        return build("shallowcaps-small", conv_channels=8, primary_capsules=2)

    models.register("own", own)
    try:
        flags = ("--model", "own", "--data", "mnist-mini", "--epochs", "1", *FAST)
        ended = program("train", "runs/own", *flags)
    finally:
        models._values.pop("own")
    assert ended.code == 0


def test_a_checkpoint_interval_may_change(program: Program, trained: Path) -> None:
    assert program("train", "runs/digits", "--checkpoint-every", "7").code == 0


STILL = ("--learning-rate", "1e-30", "--epochs", "1", "--seed", "7")


@pytest.mark.parametrize("start", ["runs/digits", "runs/digits/model.safetensors"])
def test_a_trained_network_to_begin_with(program: Program, trained: Path, start: str) -> None:
    flags = (*TRAIN[2:], *STILL, "--start", start)
    assert program("train", "runs/again", *flags).code == 0
    settings = tomllib.loads(Path("runs/again/settings.toml").read_text())["train"]
    assert settings["start"] == start
    assert same_weights("digits", "again")


def test_a_continued_training_needs_no_beginning(program: Program, trained: Path) -> None:
    assert program("train", "runs/again", *TRAIN[2:], *STILL, "--start", "runs/digits").code == 0
    shutil.move("runs/digits", "runs/elsewhere")
    assert program("train", "runs/again").code == 0
    refused(program("train", "runs/again", "--start", "runs/elsewhere"), "use another folder")


def test_another_network_to_begin_with(program: Program, trained: Path) -> None:
    flags = (*TRAIN[2:], "--option", "conv_channels=8", "--start", "runs/digits")
    refused(program("train", "runs/again", *flags), "is of another model: 'conv.weight'")
    assert not Path("runs/again").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--epochs", "2"], "a training with epochs = 1, not 2"),
        (["--model", "deepcaps-small"], "with model = 'shallowcaps-small', not 'deepcaps-small'"),
        (["--option", "conv_channels=8"], "with options = {}, not {'conv_channels': 8}"),
    ],
)
def test_another_training_in_the_folder(
    program: Program, trained: Path, flags: list[str], words: str
) -> None:
    before = (trained / "settings.toml").read_text()
    refused(program("train", "runs/digits", *flags), words, "use another folder")
    assert (trained / "settings.toml").read_text() == before


def test_a_checkpoint_of_another_model(program: Program, trained: Path) -> None:
    """The folder lost its settings: then the checkpoint itself tells."""
    (trained / "settings.toml").unlink()
    flags = ("--epochs", "1", "--option", "conv_channels=8")
    refused(program(*TRAIN, *flags), "is of another training", "use the same settings")
    refused(program(*TRAIN, "--epochs", "2"), "recipe.epochs is 1 there and 2 here")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "shalowcaps"], "unknown model 'shalowcaps': known are shallowcaps"),
        (["--data", "mnits"], "unknown dataset 'mnits': known are mnist-mini"),
        (["--option", "size=32"], "takes (1, 32, 32)"),
        (["--option", "channels=3"], "takes (3, 28, 28)"),
        (["--option", "size=5"], "kernel does not fit"),
        (["--option", "colour=red"], "unexpected keyword argument 'colour'; it takes size"),
        (["--option", "colour"], "is not of the form name=value"),
        (["--validation", "0"], "leaves an empty split"),
        (["--batch-size", "1000"], "there are only 60 training images"),
        (["--batch-size", "0"], "batch_size is 0"),
        (["--epochs", "-1"], "epochs is -1"),
        (["--learning-rate", "nan"], "learning_rate is nan"),
        (["--schedule", "never"], "schedule is 'never': choose one of one-cycle"),
        (["--decoder", "poetic"], "decoder is 'poetic'"),
        (["--decoder", "convolutional", "--reconstruction", "1", "--size", "30"], "30x30"),
        (["--device", "abacus"], "cannot train on 1 x 'abacus'"),
        (["--precision", "vague"], "'vague'"),
        (["--settings", "none.toml"], "there is no settings file none.toml"),
        (["--shift", "2"], "shift was given with --no-augment: leave one of them out"),
        (["--augment", "--shift", "-1"], "shift = -1: give 0 pixels or more"),
        (["--augment", "--flip", "2"], "flip = 2.0: give a probability, 0..1"),
        (["--start", "runs/none"], "there is no runs/none: give a run folder"),
    ],
)
def test_bad_input(program: Program, few_digits: None, flags: list[str], words: str) -> None:
    refused(program(*TRAIN, *flags), words)


def test_a_loss_that_is_not_a_number(program: Program, few_digits: None) -> None:
    ended = program(*TRAIN, "--learning-rate", "1e30", "--schedule", "constant")
    refused(ended, "the loss is", "at step", "the last good checkpoint")
    assert Path("runs/digits/checkpoint.safetensors").exists()


def test_a_folder_that_cannot_be_written(program: Program, few_digits: None) -> None:
    Path("runs").write_text("a file, not a folder")
    refused(program(*TRAIN), "cannot write runs/digits", "choose a folder that can be written")


def test_a_full_disk(program: Program, few_digits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("qcapsnets.files.os.fsync", full)
    refused(program(*TRAIN), "No space left on device", "free some space")


def test_a_broken_checkpoint(program: Program, trained: Path) -> None:
    (trained / "checkpoint.safetensors").write_bytes(b"\x80\x04 a pickle, perhaps")
    refused(program("train", "runs/digits"), "cannot be read as safetensors")


def test_the_librarys_errors_reach_the_user(
    program: Program, few_digits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise TrainingError("stopped for a reason: do something")

    monkeypatch.setattr("qcapsnets.training.train", stop)
    refused(program(*TRAIN), "stopped for a reason: do something")
