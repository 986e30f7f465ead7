"""Calibration: what was seen, and the binary points that follow from it."""

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import networks
from torch import Tensor, nn

from qcapsnets.data import Splits
from qcapsnets.errors import DataError, FixedPointError, ModelError
from qcapsnets.fixedpoint import Calibration, FixedPoint, Plan, Points, quantize
from qcapsnets.fixedpoint.calibration import BINS, Recorder, Statistics, edges, histogram
from qcapsnets.models import CapsNet, Kind, RoutedCaps, Storage, routing, sites_of

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


def seen(values: Tensor) -> Statistics:
    recorder = Recorder("site", once=False)
    recorder.store(values)
    return recorder.statistics()


class TestHistogram:
    @given(st.lists(finite, min_size=1, max_size=20))
    def test_every_number_is_in_the_bin_whose_edges_contain_it(self, values: list[float]) -> None:
        least, largest = edges()
        for value in values:
            counts = histogram(torch.tensor([value]))
            (index,) = counts.nonzero().flatten().tolist()
            assert counts[index] == 1
            if least[index] == 0:  # zero, and the subnormal numbers next to it
                assert abs(value) < 2.0**-126
            elif value > 0:
                assert least[index] <= value <= largest[index]
            else:
                assert largest[index] <= value <= least[index]

    def test_edges_follow_each_other(self) -> None:
        least, largest = edges()
        finite = BINS // 2 - 32  # the last 32 bins of each sign are infinity and NaN
        for sign in (slice(0, finite), slice(BINS // 2, BINS // 2 + finite)):
            a, b = least[sign].float(), largest[sign].float()
            assert torch.equal(torch.nextafter(b[1:-1], a[2:] * 2), a[2:])
            width = (b - a).abs()[1:] / b[1:].abs()
            assert width[64:].max() <= 1 / 32

    @given(st.lists(finite, max_size=50), st.lists(finite, max_size=50))
    def test_counts_add_up(self, a: list[float], b: list[float]) -> None:
        both = histogram(torch.tensor([*a, *b]))
        assert both.sum() == len(a) + len(b)
        assert torch.equal(both, histogram(torch.tensor(a)) + histogram(torch.tensor(b)))

    def test_in_pieces_and_in_any_layout(self) -> None:
        x = torch.randn(300, 700, generator=torch.Generator().manual_seed(0))
        expected = histogram(x)
        assert expected.sum() == x.numel()
        assert torch.equal(histogram(x.t()), expected)
        assert torch.equal(histogram(x.double()), expected)
        rows = [histogram(part) for part in x.split(7)]
        assert torch.equal(torch.stack(rows).sum(0), expected)


def squared_error(x: Tensor, format: FixedPoint) -> float:
    codes = (x.double() / format.step).round().clamp(format.min_code, format.max_code)
    return float((codes * format.step - x.double()).square().sum())


class TestBest:
    @settings(deadline=None, max_examples=150)
    @given(
        st.integers(2, 20),
        st.booleans(),
        st.sampled_from(["normal", "uniform", "laplace", "skewed"]),
        st.floats(-12, 12),
        st.integers(0, 99),
    )
    def test_mse_is_that_of_a_search_over_the_numbers(
        self, wordlength: int, signed: bool, kind: str, magnitude: float, seed: int
    ) -> None:
        """The error of the choice is the least error there is, but for the width of the bins."""
        x = numbers(kind, seed) * 2.0**magnitude
        x = x if signed else x.abs()
        chosen = seen(x).best(wordlength, signed=signed, points="mse")
        options = [FixedPoint(wordlength, f, signed) for f in range(-30, 45)]
        least = min(squared_error(x, option) for option in options)
        assert squared_error(x, chosen) <= 1.1 * least

    @settings(deadline=None)
    @given(st.lists(finite, min_size=1), st.integers(2, 32), st.booleans())
    def test_max_covers_the_maximum_and_no_finer_does(
        self, values: list[float], wordlength: int, signed: bool
    ) -> None:
        x = torch.tensor(values).clamp(-(2.0**40), 2.0**40)
        x = x if signed else x.abs()
        format = seen(x).best(wordlength, signed=signed, points="max")
        assert format.wordlength == wordlength
        assert format.signed == signed
        low, high = float(x.min()), float(x.max())

        def covers(format: FixedPoint) -> bool:
            half = format.step / 2
            return format.min - half <= low and high < format.max + half

        assert covers(format)
        if (low, high) != (0, 0) and format.fraction < 64:
            assert not covers(FixedPoint(wordlength, format.fraction + 1, signed))

    def test_unit_has_one_integer_bit(self) -> None:
        statistics = seen(torch.tensor([100.0]))
        assert str(statistics.best(6, signed=True, points="unit")) == "s6f5"
        assert str(statistics.best(6, signed=False, points="unit")) == "u6f6"

    def test_mse_clips_what_is_rare(self) -> None:
        x = torch.cat(
            [
                torch.randn(100_000, generator=torch.Generator().manual_seed(0)),
                torch.tensor([100.0]),
            ]
        )
        by_max = seen(x).best(4, signed=True, points="max")
        by_mse = seen(x).best(4, signed=True, points="mse")
        assert str(by_max) == "s4f-4"
        assert by_mse.fraction > by_max.fraction
        assert squared_error(x, by_mse) < squared_error(x, by_max) / 2

    @pytest.mark.parametrize("points", ["mse", "max", "unit"])
    @pytest.mark.parametrize("wordlength", [2, 8, 32])
    @pytest.mark.parametrize("signed", [True, False])
    def test_always_zero(self, points: Points, wordlength: int, signed: bool) -> None:
        format = seen(torch.zeros(10)).best(wordlength, signed=signed, points=points)
        assert format == FixedPoint(wordlength, wordlength - signed, signed)

    @pytest.mark.parametrize("points", ["mse", "max"])
    def test_all_negative(self, points: Points) -> None:
        x = -torch.linspace(1, 7, 100)
        format = seen(x).best(8, signed=True, points=points)
        assert format.min <= -7 + format.step / 2
        assert format.fraction == 4
        assert seen(-torch.full((9,), 8.0)).best(8, signed=True, points=points) == FixedPoint(8, 4)

    def test_never_used(self) -> None:
        statistics = Recorder("site", once=False).statistics()
        assert (statistics.low, statistics.high) == (0, 0)
        assert statistics.best(4, signed=True, points="mse") == FixedPoint(4, 3)

    @pytest.mark.parametrize(("value", "fraction"), [(1e-30, 64), (3e38, -64)])
    def test_numbers_beyond_all_formats(self, value: float, fraction: int) -> None:
        for points in ("mse", "max"):
            format = seen(torch.tensor([value])).best(8, signed=True, points=points)
            assert format.fraction == fraction or points == "mse"


def numbers(kind: str, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(4000, generator=generator)
    if kind == "normal":
        return torch.randn(4000, generator=generator)
    if kind == "uniform":
        return x * 2 - 1
    if kind == "laplace":
        return (x - 0.5).sign() * (1 - 2 * (x - 0.5).abs()).clamp(min=1e-6).log()
    return x**8 - 0.01


@pytest.fixture(scope="module")
def model() -> CapsNet:
    return networks.tiny().eval()


@pytest.fixture(scope="module")
def calibration(model: CapsNet, small_digits: Splits) -> Calibration:
    return Calibration.record(model, small_digits.train.images[:60])


class TestRecord:
    def test_sees_what_every_site_of_the_float_network_stores(
        self, model: CapsNet, calibration: Calibration, small_digits: Splits
    ) -> None:
        copied = copy.deepcopy(model)
        recorders = networks.record(copied)
        with torch.no_grad():
            copied(small_digits.train.images[:60].float().div(256))
        assert calibration.sites.keys() == recorders.keys()
        assert calibration.images == 60
        for name, recorder in recorders.items():
            stored = torch.cat([x.detach().flatten() for x in recorder.stored])
            statistics = calibration.sites[name]
            assert statistics.low == pytest.approx(float(stored.min()), rel=1e-3, abs=1e-6), name
            assert statistics.high == pytest.approx(float(stored.max()), rel=1e-3, abs=1e-6), name
            if name == "digit.coupling":  # the first is the same for all images, stored for each
                assert statistics.counts.sum() == 60 * 3 * recorder.stored[0].numel()
            else:
                assert statistics.counts.sum() == stored.numel(), name

    @pytest.mark.parametrize(("batch", "cache"), [(60, 1 << 30), (7, 1), (1, 1 << 20)])
    def test_batches_and_chunks_do_not_matter(
        self,
        batch: int,
        cache: int,
        model: CapsNet,
        calibration: Calibration,
        small_digits: Splits,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(routing, "NUMBERS_IN_CACHE", cache)
        again = Calibration.record(model, small_digits.train.images[:60], batch_size=batch)
        for name, statistics in calibration.sites.items():
            assert again.sites[name].counts.sum() == statistics.counts.sum(), name
            assert again.sites[name].high == pytest.approx(statistics.high, rel=1e-4)

    def test_weights_are_seen_once(self, model: CapsNet, calibration: Calibration) -> None:
        for name, parameter in model.named_parameters():
            site = {"weight": "weights", "bias": "biases"}[name.split(".")[1]]
            statistics = calibration.sites[f"{name.split('.')[0]}.{site}"]
            assert statistics.counts.sum() == parameter.numel()
            assert statistics.low == parameter.min().item()

    def test_leaves_the_network_alone(self, small_digits: Splits) -> None:
        model = networks.tiny_deep().train()
        before = {name: t.clone() for name, t in model.state_dict().items()}
        Calibration.record(model, small_digits.train.images[:10])
        assert model.training
        assert all(type(site.storage) is Storage for _, site in sites_of(model))
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, before[name])

    def test_batch_norms_are_folded(self, small_digits: Splits) -> None:
        found = Calibration.record(networks.tiny_deep(), small_digits.train.images[:10])
        assert found.sites["conv.norm.scales"].counts.sum() == 8

    def test_no_new_pass_for_another_wordlength(
        self, model: CapsNet, calibration: Calibration, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*arguments: Any) -> None:
            raise AssertionError("a pass over data")

        monkeypatch.setattr(CapsNet, "forward", refuse)
        for wordlength in range(2, 33):
            quantize(model, Plan.uniform(model, wordlength), calibration)

    def test_no_image(self, model: CapsNet, small_digits: Splits) -> None:
        with pytest.raises(FixedPointError, match="calibration was given no image"):
            Calibration.record(model, small_digits.train.images[:0])

    def test_images_of_another_size(self, model: CapsNet, mnist_mini: Splits) -> None:
        with pytest.raises(ModelError, match="28x28"):
            Calibration.record(model, mnist_mini.train.images[:2])
        with pytest.raises(DataError, match=r"torch\.float32"):
            Calibration.record(model, torch.zeros(1, 1, 14, 14))

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize(
        ("parameter", "site"),
        [("primary.weight", "primary.weights"), ("conv.bias", "conv.biases")],
    )
    def test_weights_that_are_not_finite(
        self, small_digits: Splits, parameter: str, site: str, value: float
    ) -> None:
        model = networks.tiny()
        with torch.no_grad():
            model.get_parameter(parameter).view(-1)[7 % 16] = value
        with pytest.raises(FixedPointError, match=f"{site} holds a number that is not finite"):
            Calibration.record(model, small_digits.train.images[:2])

    def test_a_batch_norm_that_is_not_finite(self, small_digits: Splits) -> None:
        model = networks.tiny_deep()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                assert module.running_var is not None
                module.running_var[3] = math.nan
        with pytest.raises(FixedPointError, match=r"conv\.norm\.scales holds"):
            Calibration.record(model, small_digits.train.images[:2])

    def test_an_overflow_on_the_way(self, small_digits: Splits) -> None:
        model = networks.tiny()
        with torch.no_grad():
            model.get_parameter("conv.weight").fill_(1e38)
        with pytest.raises(FixedPointError, match=r"conv\.activation holds a number"):
            Calibration.record(model, small_digits.train.images[:2])

    def test_sites_that_are_always_zero_or_never_used(self, small_digits: Splits) -> None:
        layers = {"caps": RoutedCaps(14, 14, 10, 2, iterations=1)}
        model = CapsNet(layers, image_shape=(1, 14, 14), classes=10)
        with torch.no_grad():
            model.get_parameter("caps.weight").zero_()
        images = small_digits.train.images[:4]
        found = Calibration.record(model, images)
        quantized = quantize(model, Plan.uniform(model, 4), found)
        with torch.no_grad():
            assert not quantized(images.float().div(256)).any()


class TestFile:
    def test_round_trip(self, calibration: Calibration, tmp_path: Path) -> None:
        calibration.save(tmp_path / "a.safetensors")
        again = Calibration.load(tmp_path / "a.safetensors")
        assert (again.model, again.images) == (calibration.model, calibration.images)
        assert again.sites.keys() == calibration.sites.keys()
        for name, statistics in calibration.sites.items():
            assert (again.sites[name].low, again.sites[name].high) == (
                statistics.low,
                statistics.high,
            )
            assert torch.equal(again.sites[name].counts, statistics.counts)
            for points in ("mse", "max", "unit"):
                one, other = (
                    c.format(name, 5, signed=True, points=points) for c in (again, calibration)
                )
                assert one == other

    @pytest.mark.parametrize("size", [0, 7, 100, 5000, -1])
    def test_truncated(self, calibration: Calibration, tmp_path: Path, size: int) -> None:
        path = tmp_path / "a.safetensors"
        calibration.save(path)
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(FixedPointError, match=r"a\.safetensors"):
            Calibration.load(path)

    def test_missing_or_of_another_kind(self, model: CapsNet, tmp_path: Path) -> None:
        from qcapsnets.models.weights import save_model

        with pytest.raises(FixedPointError, match="there is no file"):
            Calibration.load(tmp_path / "none")
        save_model(model, tmp_path / "model")
        with pytest.raises(FixedPointError, match="holds no calibration"):
            Calibration.load(tmp_path / "model")

    @pytest.mark.parametrize(
        "extremes", [None, {}, {"site": 3}, {"site": ["a", "b"]}, {"site": [1.0]}], ids=repr
    )
    def test_header_that_makes_no_sense(self, extremes: Any, tmp_path: Path) -> None:
        from qcapsnets.models.weights import TensorFile, write_tensors

        header = {"calibration": "x", "images": 3, "extremes": extremes}
        counts = torch.zeros(BINS, dtype=torch.int64)
        write_tensors(tmp_path / "a", TensorFile({"site": counts}, header))
        with pytest.raises(FixedPointError, match="holds no calibration"):
            Calibration.load(tmp_path / "a")

    def test_another_kind_of_histogram(self, tmp_path: Path) -> None:
        from qcapsnets.models.weights import TensorFile, write_tensors

        header = {"calibration": "x", "images": 3, "extremes": {"site": [0, 1]}}
        for counts in (torch.zeros(5, dtype=torch.int64), torch.zeros(BINS)):
            write_tensors(tmp_path / "a", TensorFile({"site": counts}, header))
            with pytest.raises(FixedPointError, match="another kind of histogram at site"):
                Calibration.load(tmp_path / "a")

    def test_nowhere_to_write(self, calibration: Calibration, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(FixedPointError):
            calibration.save(tmp_path / "file" / "a")


class TestUse:
    def test_of_another_network(self, calibration: Calibration) -> None:
        other = networks.tiny(seed=1)
        with pytest.raises(FixedPointError, match=r"fingerprint .*: record a new one"):
            quantize(other, Plan.uniform(other, 6), calibration)

    def test_of_the_same_network_trained_further(
        self, model: CapsNet, calibration: Calibration
    ) -> None:
        other = copy.deepcopy(model)
        calibration.check(other)
        with torch.no_grad():
            other.get_parameter("conv.bias")[0] += 1e-6
        with pytest.raises(FixedPointError, match="record a new one"):
            calibration.check(other)

    def test_unknown_points_or_site(self, calibration: Calibration) -> None:
        with pytest.raises(
            FixedPointError, match="'kl' are unknown: choose one of output, mse, max, unit"
        ):
            calibration.format("conv.weights", 6, signed=True, points="kl")  # type: ignore[arg-type]
        with pytest.raises(FixedPointError, match=r"knows nothing of dense\.weights"):
            calibration.format("dense.weights", 6, signed=True, points="mse")

    @pytest.mark.parametrize("wordlength", [0, 1, 33, 2.5, True])
    def test_bad_wordlength(self, calibration: Calibration, wordlength: Any) -> None:
        for points in ("mse", "max", "unit"):
            with pytest.raises(FixedPointError, match=r"wordlength .* is not allowed"):
                calibration.format("conv.weights", wordlength, signed=True, points=points)

    def test_copies_share_it(self, calibration: Calibration) -> None:
        assert copy.deepcopy(calibration) is calibration

    def test_images_and_accumulators_are_not_chosen(self, model: CapsNet) -> None:
        ruled = Plan.uniform(model, 6).sites(model)
        kinds = {site.kind for site, _ in ruled.values()}
        assert kinds == {Kind.WEIGHT, Kind.ACTIVATION, Kind.ROUTING}
