"""The equations of paper.md section 2, as they stand: loops over plain numbers, no tensors.

Slow on purpose. Every index is written out, so that an axis taken wrongly elsewhere shows.
"""

import itertools
import math
from collections.abc import Iterator
from typing import TypeAlias

Vector: TypeAlias = list[float]
Nested: TypeAlias = list[list[list[float]]]
Map: TypeAlias = list[Nested]  # [i][k][y][x] or [out][k][dy][dx]


def squash(s: Vector) -> Vector:
    """v = |s|^2/(1+|s|^2) * s/|s|"""
    length = math.sqrt(sum(x * x for x in s))
    if length == 0:
        return [0.0 for _ in s]
    return [length**2 / (1 + length**2) * x / length for x in s]


def softmax(b: Vector) -> Vector:
    """c_j = exp(b_j) / sum_k exp(b_k)"""
    total = sum(math.exp(x) for x in b)
    return [math.exp(x) / total for x in b]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def route(votes: Nested, iterations: int, bias: list[Vector] | None) -> list[Vector]:
    """u_hat[i][j] -> v[j]; the softmax of capsule i is over all j that it votes for."""
    inputs, outputs, dimension = len(votes), len(votes[0]), len(votes[0][0])
    b = [[0.0] * outputs for _ in range(inputs)]
    v: list[Vector] = []
    for step in range(iterations):
        c = [softmax(b[i]) for i in range(inputs)]
        v = []
        for j in range(outputs):
            s = [sum(c[i][j] * votes[i][j][d] for i in range(inputs)) for d in range(dimension)]
            if bias is not None:
                s = [x + y for x, y in zip(s, bias[j], strict=True)]
            v.append(squash(s))
        if step < iterations - 1:
            for i, j in itertools.product(range(inputs), range(outputs)):
                b[i][j] += dot(v[j], votes[i][j])
    return v


def capsule_layer(
    u: list[Vector], weight: Map, iterations: int, bias: list[Vector] | None
) -> list[Vector]:
    """u[i][k], W[j][i][k][d]: u_hat[j|i] = W[i,j] u[i], then routing."""
    outputs, length, dimension = len(weight), len(weight[0][0]), len(weight[0][0][0])
    votes = [
        [
            [sum(weight[j][i][k][d] * u[i][k] for k in range(length)) for d in range(dimension)]
            for j in range(outputs)
        ]
        for i in range(len(u))
    ]
    return route(votes, iterations, bias)


def convolved(x: Nested, kernel: Nested, bias: float, stride: int, padding: int) -> list[Vector]:
    """One output map [y][x] of x[k][y][x] with kernel[k][dy][dx]; zeros outside the map."""
    height, width, size = len(x[0]), len(x[0][0]), len(kernel[0])

    def pixel(k: int, row: int, column: int) -> float:
        inside = 0 <= row < height and 0 <= column < width
        return x[k][row][column] if inside else 0.0

    def value(y: int, z: int) -> float:
        return bias + sum(
            kernel[k][dy][dx] * pixel(k, y * stride + dy - padding, z * stride + dx - padding)
            for k in range(len(x))
            for dy in range(size)
            for dx in range(size)
        )

    rows = (height + 2 * padding - size) // stride + 1
    columns = (width + 2 * padding - size) // stride + 1
    return [[value(y, z) for z in range(columns)] for y in range(rows)]


def routed_convolution(
    x: Map,
    weight: Map,
    bias: Vector,
    *,
    capsules: int,
    stride: int,
    padding: int,
    iterations: int,
    routing_bias: list[Vector] | None,
) -> dict[tuple[int, int, int, int], float]:
    """x[i][k][y][x] -> v by (capsule, dimension, y, x).

    The weights are shared over the input capsules i; a softmax is jointly over output capsules,
    height and width, so that the outputs j of routing are all triples (capsule, y, x).
    """
    dimension = len(weight) // capsules
    maps = [
        [convolved(x[i], weight[o], bias[o], stride, padding) for o in range(len(weight))]
        for i in range(len(x))
    ]
    places = list(_places(capsules, len(maps[0][0]), len(maps[0][0][0])))
    votes = [
        [[maps[i][j * dimension + d][y][z] for d in range(dimension)] for j, y, z in places]
        for i in range(len(x))
    ]
    biases = None if routing_bias is None else [routing_bias[j] for j, _, _ in places]
    v = route(votes, iterations, biases)
    return {(j, d, y, z): v[n][d] for n, (j, y, z) in enumerate(places) for d in range(dimension)}


def _places(capsules: int, height: int, width: int) -> Iterator[tuple[int, int, int]]:
    return itertools.product(range(capsules), range(height), range(width))
