"""Codes that come back as they were, within a number of bytes."""

import pytest
import torch

from qcapsnets.evaluation.cache import Cache, Codes, narrowest
from qcapsnets.fixedpoint.exact import Range


def codes(count: int) -> Codes:
    """An entry of `count` bytes."""
    return Codes.of(torch.zeros(count), 0, torch.int8)


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (-128, 127, torch.int8),
        (0, 128, torch.uint8),
        (0, 255, torch.uint8),
        (-1, 128, torch.int16),
        (0, 256, torch.int16),
        (-(1 << 15), (1 << 15) - 1, torch.int16),
        (0, 1 << 15, torch.int32),
        (-(1 << 31), (1 << 31) - 1, torch.int32),
        (0, 1 << 31, torch.int64),
        (-(1 << 63), (1 << 63) - 1, torch.int64),
        (0, 1 << 63, None),
    ],
)
def test_the_narrowest_type(low: int, high: int, dtype: torch.dtype | None) -> None:
    assert narrowest(Range(low, high, 3)) == dtype


@pytest.mark.parametrize("bits", [2, 8, 9, 16, 17, 24, 31, 32, 53])
@pytest.mark.parametrize("fraction", [-7, 0, 5, 40])
@pytest.mark.parametrize("signed", [True, False])
def test_values_come_back(bits: int, fraction: int, signed: bool) -> None:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    generator = torch.Generator().manual_seed(bits)
    whole = torch.randint(low, high + 1, (1000,), generator=generator)
    whole[:2] = torch.tensor([low, high])
    dtype = torch.float32 if bits <= 24 else torch.float64
    values = whole.to(dtype) * 2.0**-fraction
    narrow = narrowest(Range(low, high, fraction))
    assert narrow is not None
    kept = Codes.of(values, fraction, narrow)
    assert torch.equal(kept.values(), values)
    assert kept.values().dtype == dtype
    assert kept.bytes == 1000 * min(narrow.itemsize, dtype.itemsize)


def test_the_least_recently_used_goes_first() -> None:
    cache = Cache(30)
    for name in "abc":
        cache.put(name, codes(10))
    assert cache.get("a") is not None  # now b is the oldest
    cache.put("d", codes(10))
    assert cache.keys() == ("c", "a", "d")
    cache.put("e", codes(20))
    assert cache.keys() == ("d", "e")
    assert cache.used == 30


def test_bytes_stay_within_the_limit() -> None:
    cache = Cache(100)
    generator = torch.Generator().manual_seed(0)
    for _ in range(300):
        key, size = torch.randint(1, 40, (2,), generator=generator).tolist()
        cache.put(key, codes(3 * size))
        held = sum(entry.bytes for entry in cache._entries.values())
        assert cache.used == held <= 100


def test_replacing_an_entry_does_not_count_it_twice() -> None:
    cache = Cache(30)
    cache.put("a", codes(20))
    cache.put("a", codes(25))
    assert (cache.used, len(cache)) == (25, 1)


def test_what_is_larger_than_the_limit_is_not_kept_and_displaces_nothing() -> None:
    cache = Cache(30)
    cache.put("a", codes(10))
    cache.put("b", codes(31))
    assert cache.keys() == ("a",)
    assert cache.get("b") is None


@pytest.mark.parametrize("narrow", [torch.int8, torch.int32])
def test_a_tensor_that_is_changed_in_place_is_kept_as_it_was(narrow: torch.dtype) -> None:
    values = torch.tensor([[-1.0, 2.0]])
    cache = Cache(100)
    cache.put("x", Codes.of(values, 0, narrow))
    values.relu_()
    first = cache.get("x")
    assert first is not None
    first.zero_()
    second = cache.get("x")
    assert second is not None
    assert second.tolist() == [[-1.0, 2.0]]
