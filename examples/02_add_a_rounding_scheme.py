"""Add a rounding scheme of your own: round half towards zero."""

from fractions import Fraction

import torch

from qcapsnets.fixedpoint import register_rounding


def up(q, r, d, u):  # type: ignore[no-untyped-def]
    """Up from the floor q? r/d is what lies above it; q < 0 tells the sign of the number."""
    return (2 * r > d) | ((2 * r == d) & (q < 0))


half_to_zero = register_rounding(
    "half-to-zero", up, c="2 * r > d || (2 * r == d && q < 0)", replace=True
)


def main() -> None:
    x = torch.tensor([-1.5, -0.5, 0.5, 1.5, 1.6])
    for value, rounded in zip(x.tolist(), half_to_zero.on_floats(x).tolist(), strict=True):
        print(f"{Fraction(value).limit_denominator(10)!s:>5} -> {rounded:g}")


if __name__ == "__main__":
    main()
