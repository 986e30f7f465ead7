"""Sums stay exact where a session or a device would allow fewer bits."""

import platform
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.fixedpoint.whole import integers, whole
from torch import Tensor

from qcapsnets.errors import FixedPointError
from qcapsnets.fixedpoint import precision
from qcapsnets.fixedpoint.exact import (
    FLOAT32,
    Accumulation,
    Range,
    Split,
    accumulate,
)
from qcapsnets.models import (
    Convolution,
)


class TestPrecision:
    """Sessions that allow fewer bits, and convolutions that are not sums."""

    SHAPES = torch.Size((64, 64, 3, 3)), torch.Size((17, 64, 8, 8))
    CPU = torch.device("cpu")

    @pytest.mark.parametrize("batch", [1, 2, 16, 17])
    @pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (2, 2), (3, 1), (3, 2), (5, 1), (9, 2)])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_convolutions_on_this_cpu_are_sums(
        self, batch: int, kernel: int, stride: int, dtype: torch.dtype
    ) -> None:
        own = torch.Size((16, 24, kernel, kernel))
        other = torch.Size((batch, 24, 11, 11))
        assert precision.sums_exactly(Convolution(stride, 1), own, other, dtype, self.CPU)

    def test_the_trial_is_against_integers(self) -> None:
        own, other = precision._operands(self.SHAPES[0], torch.Size((1, 64, 8, 8)), 24)
        expected = whole(Convolution(1, 1), own, other)
        assert torch.equal(
            replace(Convolution(1, 1), by_matrix=True)(own, other), expected.double()
        )
        assert FLOAT32 // 4 < expected.abs().max() <= FLOAT32

    @pytest.mark.skipif(
        platform.machine() != "x86_64" or not torch.backends.nnpack.is_available(),
        reason="NNPACK is what is found out",
    )
    def test_nnpack_is_found_out(self) -> None:
        """Without oneDNN, PyTorch convolves 17 images by NNPACK's transforms, on this very CPU."""
        onednn: Any = torch.backends.mkldnn
        try:
            onednn.enabled = False
            assert not precision.known_to_sum(self.CPU)
            self._check_replaced()
        finally:
            onednn.enabled = True
            precision.sums_exactly.cache_clear()

    def test_a_wrong_convolution_is_found_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        right = F.conv2d

        def transformed(x: Tensor, w: Tensor, *arguments: Any) -> Tensor:
            result = right(x, w, *arguments)
            return result + result.abs().max() * 2.0**-22

        monkeypatch.setattr(F, "conv2d", transformed)
        monkeypatch.setattr(precision, "known_to_sum", lambda device: False)
        precision.sums_exactly.cache_clear()
        try:
            self._check_replaced()
        finally:
            precision.sums_exactly.cache_clear()

    def _check_replaced(self) -> None:
        """The sum is right although the convolution is not."""
        precision.sums_exactly.cache_clear()
        own, other = precision._operands(*self.SHAPES, 24)
        contraction = Convolution(1, 1)
        assert not precision.sums_exactly(contraction, *self.SHAPES, torch.float32, self.CPU)
        chosen = precision.trusted(contraction, own.float(), other.float())
        assert chosen == replace(contraction, by_matrix=True)
        how = Accumulation(Split((64,)), Range(-FLOAT32, FLOAT32, 0), True)
        result = accumulate(how, contraction, own.float(), other.float(), None)
        assert torch.equal(result.long(), whole(contraction, own, other))
        assert not torch.equal(contraction(own.float(), other.float()), result)
        with_bias = accumulate(how, contraction, own.float(), other.float(), torch.ones(64, 1, 1))
        assert torch.equal(with_bias, result + 1)

    def test_a_device_that_cannot_add_is_an_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(precision, "known_to_sum", lambda device: False)
        monkeypatch.setattr(precision, "sums_exactly", lambda *arguments: False)
        with pytest.raises(FixedPointError, match=r"cpu does not add torch\.float32 exactly"):
            precision.trusted(Convolution(), torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))

    def test_other_devices_are_tried(self) -> None:
        assert not precision.known_to_sum(torch.device("cuda"))
        assert not precision.known_to_sum(torch.device("mps"))

    def test_switches_go_back(self) -> None:
        backends: Any = torch.backends
        holder = backends.mkldnn.conv
        before = holder.fp32_precision
        try:
            holder.fp32_precision = "bf16"
            with precision.full_precision("cpu"):
                assert holder.fp32_precision == "ieee"
            assert holder.fp32_precision == "bf16"
        finally:
            holder.fp32_precision = before

    def test_tf32_is_off(self) -> None:
        backends: Any = torch.backends
        holder = backends.cudnn.conv
        assert holder.fp32_precision == "tf32"  # PyTorch's default
        with precision.full_precision("cuda"):
            assert holder.fp32_precision == "ieee"
        assert holder.fp32_precision == "tf32"

    def test_autocast_is_off(self) -> None:
        own = integers(-128, 127, 3, 32, 3, 3).float()
        other = integers(0, 255, 2, 32, 5, 5, seed=1).float()
        how = Accumulation(Split((32,)), Range(-FLOAT32, FLOAT32, 0), True)
        expected = accumulate(how, Convolution(), own, other, None)
        with torch.autocast("cpu", torch.bfloat16):
            assert Convolution()(own, other).dtype == torch.bfloat16
            assert torch.equal(accumulate(how, Convolution(), own, other, None), expected)
            assert torch.is_autocast_enabled("cpu")
