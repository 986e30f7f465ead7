"""Weights are rounded once, again when they change, and copies are apart."""

import copy
import itertools
from typing import Any

import pytest
import torch
from tests.fixedpoint.small import NEAREST, STOCHASTIC, Small
from tests.fixedpoint.strategies import SCHEMES
from torch import Tensor

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint import (
    FixedPoint,
    draws,
    roundings,
)
from qcapsnets.fixedpoint import storage as storage_module
from qcapsnets.fixedpoint.exact import Range
from qcapsnets.fixedpoint.storage import Fixed, FixedWeights, Way
from qcapsnets.models import (
    ConvCaps,
    Kind,
    sites_of,
)


class TestWeights:
    def test_are_rounded_once(self, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
        rounded: list[str] = []
        plain = FixedWeights._store_weights

        def store(self: FixedWeights, x: Tensor) -> Tensor:
            rounded.append(self.name)
            return plain(self, x)

        monkeypatch.setattr(FixedWeights, "_store_weights", store)
        quantized = small.quantized(5)
        with torch.no_grad():
            quantized(small.inputs[:2])
            first = list(rounded)
            quantized(small.inputs[2:5])
        assert rounded == first
        assert sorted(first) == sorted(
            name for name, site in sites_of(quantized) if site.kind is Kind.WEIGHT
        )

    @pytest.mark.parametrize(
        "optimizer",
        [
            lambda p: torch.optim.SGD(p, lr=0.5),
            lambda p: torch.optim.Adam(p, lr=0.1, foreach=False),
            lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
            lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
        ],
        ids=["sgd", "adam", "foreach", "fused"],
    )
    def test_are_rounded_again_after_a_step(self, small: Small, optimizer: Any) -> None:
        quantized = small.quantized(6)
        steps = optimizer(quantized.parameters())
        before = quantized(small.inputs[:4])
        before.square().sum().backward()
        steps.step()
        after = quantized(small.inputs[:4])
        assert not torch.equal(before, after)
        fresh = copy.deepcopy(quantized)
        assert torch.equal(fresh(small.inputs[:4]), after)

    def test_are_rounded_again_when_loaded(self, small: Small) -> None:
        one, other = small.quantized(6), small.quantized(6)
        with torch.no_grad():
            one(small.inputs[:4])
            other.get_parameter("conv.weight").mul_(1.5)
            one.load_state_dict(other.state_dict())
            assert torch.equal(one(small.inputs[:4]), other(small.inputs[:4]))

    def test_bounds_follow_the_weights(self, small: Small) -> None:
        """A sum that fitted float32 and no longer does is computed in another way."""
        quantized = small.quantized(8)
        layer = quantized.get_submodule("primary")
        assert isinstance(layer, ConvCaps)
        with torch.no_grad():
            quantized(small.inputs[:2])
            storage = layer.weights.storage
            assert isinstance(storage, Fixed)
            (before,) = storage.used.values()
            layer.weight.fill_(100.0)
            quantized(small.inputs[:2])
            (after,) = storage.used.values()
        assert before.result.high < after.result.high  # type: ignore[union-attr]

    def test_codes(self) -> None:
        storage = FixedWeights("w", FixedPoint(4, 2), NEAREST)
        with pytest.raises(FixedPointError, match="w was never stored"):
            storage.codes()
        storage.store(torch.tensor([0.3, -0.6, 5.0]))
        assert storage.codes().tolist() == [1, -2, 7]
        assert storage.range == Range(-2, 7, 2)

    def test_draws_are_by_place_in_the_tensor(self) -> None:
        storage = FixedWeights("w", FixedPoint(4, 2), STOCHASTIC)
        weights = torch.full((3, 5), 0.1)
        u = draws(7, "w", 0, (3, 5))
        assert torch.equal(storage.store(weights) > 0, u < 0.4 * 2**24)

    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_are_rounded_in_pieces(self, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
        weights = torch.randn(7, 3, 2, generator=torch.Generator().manual_seed(0))
        way = Way(roundings[scheme], 3)
        expected = FixedWeights("w", FixedPoint(4, 2), way).store(weights)
        for piece in (1, 13, 20):
            monkeypatch.setattr(storage_module, "PIECE", piece)
            found = FixedWeights("w", FixedPoint(4, 2), way).store(weights)
            assert torch.equal(found, expected)
            assert found.shape == weights.shape


class TestCopies:
    def test_are_equal_and_apart(self, small: Small) -> None:
        quantized = small.quantized(5, "stochastic")
        with torch.no_grad():
            expected = quantized(small.inputs[:4])
            twin = copy.deepcopy(quantized)
            assert torch.equal(twin(small.inputs[:4]), expected)
            twin.get_parameter("conv.weight").mul_(0)
            assert not torch.equal(twin(small.inputs[:4]), expected)
            assert torch.equal(quantized(small.inputs[:4]), expected)

    def test_read_from_their_own_sites(self, small: Small) -> None:
        twin = copy.deepcopy(small.quantized(5))
        layers = list(twin)
        for before, after in itertools.pairwise(layers):
            assert after.source is before.activation

    def test_take_nobody_along_who_watches(self, small: Small) -> None:
        quantized = small.quantized(5)
        watching: list[Tensor] = []

        def around(storage: Fixed, how: Any, terms: int, compute: Any) -> Tensor:
            watching.append(compute())
            return watching[-1]

        for _, site in sites_of(quantized):
            assert isinstance(site.storage, Fixed)
            site.storage.around = around
            site.storage.count()
        with torch.no_grad():
            copy.deepcopy(quantized)(small.inputs[:1])
        assert watching == []
