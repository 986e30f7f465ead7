"""What fills a site: rounding once, saturation, counters, gradients, draws, copies."""

from collections import OrderedDict
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixedpoint import strategies
from tests.fixedpoint.described import codes_of
from tests.fixedpoint.small import NEAREST, Small, fixed, place
from tests.fixedpoint.strategies import SCHEMES
from tests.oracle.numbers import parse, rescaled
from torch import Tensor, nn

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint import (
    Counts,
    FixedPoint,
    counting,
    draws,
    inexact_sites,
    roundings,
)
from qcapsnets.fixedpoint.exact import Range
from qcapsnets.fixedpoint.storage import Fixed, FixedWeights, Known, Way, range_of, straight_through
from qcapsnets.models import (
    FLOAT,
    Agree,
    Joined,
    Kind,
    RoutedCaps,
    Scale,
    Site,
    Term,
    routing,
    sites_of,
)

WEIGHTS = torch.tensor([1.0, 3.0])


class TestStore:
    @settings(deadline=None)
    @given(strategies.formats(32, (-20, 40)), strategies.schemes, st.data())
    def test_is_the_oracle(self, format: FixedPoint, scheme: str, data: st.DataObject) -> None:
        """Numbers in finer steps, in float64, for every wordlength up to 32."""
        extra = data.draw(st.integers(0, 10))
        wide = FixedPoint(32, format.fraction + extra)
        codes = data.draw(st.lists(strategies.codes(wide), min_size=1, max_size=8))
        x = torch.tensor(codes, dtype=torch.float64).mul(wide.step).unsqueeze(0)
        storage = Fixed("name", format, Way(roundings[scheme], 3))
        u = draws(3, "name", 2, (len(codes),)).tolist()
        target = parse(str(format))
        expected = [
            rescaled(code, wide.fraction, target, scheme, draw)
            for code, draw in zip(codes, u, strict=True)
        ]
        stored = storage.store(x, step=2)
        assert stored.dtype == storage.dtype
        assert format.codes(stored)[0].tolist() == expected

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_what_is_consumed_is_stored_as_anything_else(self, scheme: str) -> None:
        x = torch.randn(40, 5000, generator=torch.Generator().manual_seed(0)) * 3
        way = Way(roundings[scheme], 1)
        expected = fixed("s5f2", way).store(x, step=1)
        for spent in (
            x.clone(),
            x.double(),
            x.clone().requires_grad_(),
            x.clone().T.contiguous().T,
        ):
            stored = fixed("s5f2", way).consume(spent, step=1)
            assert torch.equal(stored, expected)
            assert stored.requires_grad == spent.requires_grad
            if spent.requires_grad:
                assert torch.equal(spent, x)

    @pytest.mark.parametrize("wordlength", range(24, 33))
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_float32_saturates_in_wide_formats(self, wordlength: int, scheme: str) -> None:
        """The largest code of 25 bits and more is no float32, though what is stored may be one."""
        format = FixedPoint(wordlength, wordlength - 1)
        storage = Fixed("name", format, Way(roundings[scheme], 0))
        stored = storage.store(torch.tensor([[1.0, -1.0, 5.0, -5.0, 0.5]]))
        assert format.codes(stored)[0].tolist() == [
            format.max_code,
            format.min_code,
            format.max_code,
            format.min_code,
            1 << (wordlength - 2),
        ]

    def test_float32_in_float64_out(self) -> None:
        assert fixed("s24f20").store(torch.ones(1, 1)).dtype == torch.float32
        assert fixed("s26f20").store(torch.ones(1, 1)).dtype == torch.float64
        assert fixed("s8f5").store(torch.ones(1, 1, dtype=torch.float64)).dtype == torch.float32

    def test_squash_from_a_narrow_into_a_wide_format(self) -> None:
        """Values of 8 bits are float32; their squash of 28 bits is not."""
        narrow, wide = fixed("s8f5"), fixed("s28f27")
        s = torch.tensor([[1.0, 0.5, -0.25]])
        v = wide.squash(Term(s, place(narrow)), dim=-1)
        assert v.dtype == torch.float64
        squared = s.double().square().sum()
        real = s.double() * squared.sqrt() / (1 + squared)
        assert (v - real).abs().max() < 2.0**-27
        assert not torch.equal(v, v.float().double())

    def test_the_input_is_left_as_it_is(self) -> None:
        x = torch.tensor([[0.3, 9.0]])
        fixed("s4f2").store(x)
        assert x.tolist() == [[pytest.approx(0.3), 9.0]]

    def test_prints_its_format(self) -> None:
        site = place(fixed("u8f8"))
        assert "u8f8" in repr(site)
        assert str(Known(Range(-3, 5, 2))) == "-3..5 f2"

    def test_a_float_site_in_a_quantized_network_is_refused(self) -> None:
        with pytest.raises(TypeError, match="holds Storage"):
            range_of(FLOAT)
        with pytest.raises(TypeError, match="Squash at site reads from Known"):
            fixed("s8f7").squash(Term(torch.zeros(1, 2), place(Known(Range(0, 1, 0)))), dim=-1)


class TestAdd:
    @settings(deadline=None)
    @given(strategies.formats(32, (-30, 30)), strategies.formats(32, (-30, 30)), st.data())
    def test_is_exact_or_says_that_it_is_not(
        self, a: FixedPoint, b: FixedPoint, data: st.DataObject
    ) -> None:
        """Also of very different fractions, and of 25 bits and more."""
        storages = Fixed("a", a, NEAREST), Fixed("b", b, NEAREST)
        x, y = data.draw(strategies.codes(a)), data.draw(strategies.codes(b))
        values = [
            f.values(torch.tensor([[code]]), s.dtype)
            for f, code, s in ((a, x, storages[0]), (b, y, storages[1]))
        ]
        total = storages[0].add(values[0], Term(values[1], place(storages[1])))
        fine = max(a.fraction, b.fraction)
        exact = (x << (fine - a.fraction)) + (y << (fine - b.fraction))
        largest = storages[0].range + storages[1].range
        assert storages[0].exact == (largest.magnitude < 2**53)
        if storages[0].exact:
            assert int(total.double().item() * 2.0**fine) == exact

    def test_joined_capsules_are_known_in_the_finer_steps(self) -> None:
        joined = Joined((place(fixed("s8f3")), place(fixed("u4f9"))))
        assert range_of(joined.storage) == Range(-128 << 6, 127 << 6, 9)


class TestCounts:
    def test_numbers_that_rounding_takes_out_of_range_are_saturated(self) -> None:
        """s3f0 holds -4..3; 3.5 becomes 4 by nearest and 3 by truncation."""
        x = torch.tensor([[3.4, 3.5, 3.6, -4.5, -4.6, 0.2, -0.2, 100.0]])
        nearest, truncated = fixed("s3f0"), fixed("s3f0", Way(roundings["truncation"], 0))
        for storage, expected in (
            (nearest, Counts(8, saturated=4, zeros=2)),
            (truncated, Counts(8, saturated=3, zeros=1)),
        ):
            counts = storage.count()
            storage.store(x)
            assert counts == expected

    def test_squash_and_softmax(self) -> None:
        s = torch.tensor([[0.0, 0.0], [100.0, 0.0], [1.0, 1.0]])
        squashed = fixed("s8f9")  # holds up to 0.248
        counts = squashed.count()
        squashed.squash(Term(s, place(fixed("s16f7"))), dim=-1)
        assert counts == Counts(6, saturated=3, zeros=3)
        coupling = fixed("u4f4")  # one class of two has 1.0, which is 16 steps
        counts = coupling.count()
        coupling.softmax(Term(s, place(fixed("s16f7"))), dim=-1)
        assert counts == Counts(6, saturated=1, zeros=1)

    def test_none_are_computed_when_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*arguments: Any) -> None:
            raise AssertionError("counted")

        monkeypatch.setattr(Counts, "add", refuse)
        storage = fixed("s3f0")
        storage.store(torch.ones(2, 2))
        storage.count()
        with pytest.raises(AssertionError, match="counted"):
            storage.store(torch.ones(2, 2))

    def test_add_up_over_a_network(self, small: Small) -> None:
        quantized = small.quantized(3)
        inputs = small.inputs
        with counting(quantized) as counts, torch.no_grad():
            quantized(inputs[:5])
            quantized(inputs[5:10])
        codes = codes_of(quantized, inputs[:10])
        formats = {name: site.storage for name, site in sites_of(quantized)}
        for name, site in sites_of(quantized):
            assert isinstance(site.storage, Fixed)
            assert site.storage.counts is None
            if site.kind is Kind.WEIGHT:
                parameter = dict(quantized.named_parameters())[weight_name(name)]
                assert counts[name].stored == parameter.numel()
                continue
            visits = [stored for (key, _), stored in codes.items() if key == name]
            assert counts[name].stored == sum(v.numel() for v in visits)
            assert counts[name].zeros == sum(int((v == 0).sum()) for v in visits)
            ends = sum(int(at_an_end(v, site.storage.format).sum()) for v in visits)
            assert counts[name].saturated <= ends
        assert counts["digit.weights"].saturated > 0
        assert formats.keys() == counts.keys()


def weight_name(site: str) -> str:
    return site.removesuffix("es") if site.endswith("biases") else site.removesuffix("s")


def at_an_end(codes: Tensor, format: FixedPoint) -> Tensor:
    return (codes == format.min_code) | (codes == format.max_code)


class TestGradients:
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_pass_straight_through_rounding_and_saturation(self, scheme: str) -> None:
        x = torch.tensor([[0.3, -0.7, 50.0, -50.0, 0.0]], requires_grad=True)
        stored = fixed("s4f2", Way(roundings[scheme], 0)).store(x)
        (stored * torch.tensor([1.0, 2, 3, 4, 5])).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [[1, 2, 3, 4, 5]]

    def test_come_back_in_the_type_of_the_input(self) -> None:
        x = torch.ones(1, 3, requires_grad=True)
        fixed("s30f20").store(x).sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == torch.float32

    def test_no_graph_where_none_is_asked_for(self) -> None:
        value = torch.ones(2)
        assert straight_through(torch.ones(2), value) is value
        with torch.no_grad():
            assert straight_through(torch.ones(2, requires_grad=True), value) is value

    @pytest.mark.parametrize("zero", [True, False])
    def test_squash_and_softmax_have_those_of_float(self, zero: bool) -> None:
        s = torch.tensor([[0.0, 0.0] if zero else [0.75, -0.5]], requires_grad=True)
        term = Term(s, place(fixed("s8f5")))
        for kind in ("squash", "softmax"):
            ours, real = (
                torch.autograd.grad(getattr(storage, kind)(term, dim=-1)[0] @ WEIGHTS, s)[0]
                for storage in (fixed("s8f7"), FLOAT)
            )
            assert ours.isfinite().all()
            assert torch.equal(ours, real)

    @pytest.mark.parametrize("wordlength", [2, 3, 6, 16, 26])
    def test_are_finite_through_a_network_of_zero_capsules(
        self, small: Small, wordlength: int
    ) -> None:
        quantized = small.quantized(wordlength, "truncation")
        with torch.no_grad():
            quantized.get_parameter("primary.weight").mul_(0)
            quantized.get_parameter("primary.bias").mul_(0)
        quantized(small.inputs[:4]).square().sum().backward()
        for name, parameter in quantized.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name

    def test_are_those_of_float_where_rounding_does_little(self, small: Small) -> None:
        """At 16 bits, within a thousandth of the float network's."""
        quantized, model = small.quantized(16), small.model
        for network in (quantized, model):
            network.zero_grad()
            network(small.inputs[:8]).square().sum().backward()
        ours, theirs = dict(quantized.named_parameters()), dict(model.named_parameters())
        for name, parameter in ours.items():
            assert parameter.grad is not None
            expected = theirs[name].grad
            assert expected is not None
            assert (parameter.grad - expected).norm() < 0.005 * expected.norm(), name
        model.zero_grad()


class TestDraws:
    def test_same_seed_same_result(self, small: Small) -> None:
        with torch.no_grad():
            one, other = (small.quantized(4, "stochastic", seed=1)(small.inputs) for _ in range(2))
            another = small.quantized(4, "stochastic", seed=2)(small.inputs)
        assert torch.equal(one, other)
        assert not torch.equal(one, another)

    @pytest.mark.parametrize("batch", [1, 3, 7])
    @pytest.mark.parametrize("cache", [1, 1 << 12, 1 << 30])
    @pytest.mark.parametrize("name", ["shallow", "deep"])
    def test_an_image_gets_the_same_result_in_any_batch(
        self, small: Small, name: str, batch: int, cache: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        quantized = small.quantized(4, "stochastic", name=name)
        with torch.no_grad():
            together = quantized(small.inputs)
            monkeypatch.setattr(routing, "NUMBERS_IN_CACHE", cache)
            order = torch.randperm(len(small.inputs), generator=torch.Generator().manual_seed(0))
            parts = [quantized(part) for part in small.inputs[order].split(batch)]
        assert torch.equal(torch.cat(parts), together[order])

    def test_a_seed_that_cannot_be(self, small: Small) -> None:
        for seed in (-1, 2**64, 1.5, True):
            with pytest.raises(FixedPointError, match="seed"):
                Way(roundings["nearest"], seed)  # type: ignore[arg-type]


class TestExactness:
    def test_ordinary_wordlengths_are_exact(self, small: Small) -> None:
        for name in ("shallow", "deep"):
            for wordlength in (2, 8, 16):
                assert inexact_sites(small.quantized(wordlength, name=name)) == []

    def test_32_bits_are_not(self, small: Small) -> None:
        wrong = inexact_sites(small.quantized(32))
        assert "primary.weights" in wrong
        assert "digit.activation" in wrong

    def test_is_of_the_last_pass(self) -> None:
        storage = fixed("s16f10")
        own, wide = torch.ones(1, 1, 1, 2), place(fixed("s32f30"))
        for source, exact in ((wide, True), (place(fixed("s8f3")), True)):
            storage.contract(Agree(), own, Term(torch.ones(1, 1, 2), source))
            assert storage.exact == exact
        widest = Site(Kind.ACTIVATION)
        widest.storage = Known(Range(0, 2**50, 0))
        storage.contract(Agree(), own, Term(torch.ones(1, 1, 2), widest))
        assert not storage.exact
        storage.contract(Agree(), own, Term(torch.ones(1, 1, 2), place(fixed("s8f3"))))
        assert storage.exact

    def test_a_scale_of_a_wide_sum(self) -> None:
        """The sum of a convolution, 30 bits of it, times a scale: not one bit is lost."""
        scales = FixedWeights("scales", FixedPoint(8, 6), NEAREST)
        own = scales.store(torch.tensor([0.5, -1.0]))
        acc = torch.tensor([2.0**30 - 1, 2.0**29 + 1], dtype=torch.float64).view(1, 2, 1, 1)
        product = scales.contract(Scale(), own, Term(acc, place(Known(Range(0, 2**30, 0)))))
        assert product.flatten().tolist() == [(2**30 - 1) / 2, -(2**29) - 1]
        assert scales.exact


def test_a_capsule_layer_needs_a_place_for_its_input() -> None:
    layer = RoutedCaps(4, 2, 3, 2)
    sequence = nn.Sequential(OrderedDict(layer=layer))
    layer.connect(place(fixed("s8f5")))
    for name, site in sites_of(sequence):
        site.storage = (FixedWeights if site.kind is Kind.WEIGHT else Fixed)(
            name, FixedPoint(8, 6, site.signed), NEAREST
        )
    assert sequence(torch.zeros(2, 4, 2)).shape == (2, 3, 2)
