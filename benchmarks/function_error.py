"""Squash and softmax on integers against the real functions, over all inputs of small formats.

    .venv/bin/python benchmarks/function_error.py

prints the error table of docs/arithmetic.md. Errors are in steps of the output format, and are
measured against the real value brought into the range of that format.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.functions import IntegerFunction, Softmax, Squash
from qcapsnets.fixedpoint.generator import draws
from qcapsnets.fixedpoint.rounding import roundings

SCHEMES = "truncation", "nearest", "nearest-even", "stochastic"
CASES: tuple[tuple[type[IntegerFunction], str, str, int], ...] = (
    (Squash, "s2f0", "s2f1", 2),
    (Squash, "s4f2", "s4f3", 2),
    (Squash, "s4f2", "s4f3", 4),
    (Squash, "s6f3", "s6f5", 2),
    (Squash, "s8f5", "s8f7", 2),
    (Squash, "s16f12", "s16f15", 1),
    (Softmax, "s2f0", "u2f2", 3),
    (Softmax, "s4f1", "u4f4", 3),
    (Softmax, "s4f1", "u4f4", 4),
    (Softmax, "s6f3", "u6f6", 2),
    (Softmax, "s8f4", "u8f8", 2),
)


def all_inputs(source: FixedPoint, size: int) -> Tensor:
    """Every vector of `size` codes, one a row."""
    codes = torch.arange(source.min_code, source.max_code + 1)
    return torch.cartesian_prod(*[codes] * size).view(-1, size)


def real(function: IntegerFunction, codes: Tensor) -> Tensor:
    """The real function of the codes, in steps of the target, within its range."""
    x = function.source.values(codes, torch.float64)
    if isinstance(function, Softmax):
        y = x.softmax(-1)
    else:
        norm = x.norm(dim=-1, keepdim=True)
        y = norm / (1 + norm**2) * x
    steps = y * 2.0**function.target.fraction
    return steps.clamp(function.target.min_code, function.target.max_code)


def rows() -> Iterator[str]:
    yield f"| function | from | to | size | inputs | {' | '.join(SCHEMES)} |"
    yield "|---|---|---|---|---|" + "---|" * len(SCHEMES)
    for kind, source, target, size in CASES:
        function = kind(FixedPoint.parse(source), FixedPoint.parse(target), size)
        codes = all_inputs(function.source, size)
        expected = real(function, codes)
        draw = draws(0, "error", 0, codes.shape)
        errors = [function(codes, roundings[name], draw) - expected for name in SCHEMES]
        cells = [f"{e.abs().max():.4f} ({e.mean():+.4f})" for e in errors]
        name = kind.__name__.lower()
        yield f"| {name} | {source} | {target} | {size} | {len(codes)} | {' | '.join(cells)} |"


def main() -> None:
    for row in rows():
        print(row)


if __name__ == "__main__":
    main()
