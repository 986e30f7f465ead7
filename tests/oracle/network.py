"""Layers and whole networks (docs/arithmetic.md, "Networks").

Arrays are nested lists, indexed as the page indexes them. Real weights come as exact fractions
(n, d). Every stored array is kept in `trace`, by site and step.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from tests.oracle import functions, generator
from tests.oracle.numbers import Format, rescaled, to_format

Codes = Any
"""Integers in nested lists."""


class Conv(NamedTuple):
    stride: int
    padding: int
    batch_norm: bool


class ConvCaps(NamedTuple):
    dimension: int
    stride: int
    padding: int


class RoutedCaps(NamedTuple):
    iterations: int
    bias: bool


class RoutedConvCaps(NamedTuple):
    dimension: int
    stride: int
    padding: int
    iterations: int
    bias: bool


class Block(NamedTuple):
    l1: ConvCaps
    l2: ConvCaps
    l3: ConvCaps
    skip: ConvCaps | RoutedConvCaps
    carry: bool


class Map(NamedTuple):
    """x[channel][y][x], or x[capsule][component][y][x], in steps of 2^-fraction."""

    codes: Codes
    fraction: int


class Capsules(NamedTuple):
    """u[i][k], in steps of 2^-fraction."""

    codes: Codes
    fraction: int


draw = lru_cache(maxsize=1 << 20)(generator.draw)


class Network:
    """Formats and real weights by site, a scheme, a seed; `run` takes the codes of one image."""

    def __init__(
        self,
        layers: dict[str, Any],
        formats: dict[str, Format],
        weights: dict[str, Codes],
        scheme: str,
        seed: int = 0,
        draws: bool | None = None,
    ) -> None:
        self.layers, self.formats, self.scheme, self.seed = layers, formats, scheme, seed
        self.draws = scheme == "stochastic" if draws is None else draws
        self.trace: dict[tuple[str, int], Codes] = {}
        self.weights = {site: self.rounded_weights(site, reals) for site, reals in weights.items()}

    def run(self, image: Codes) -> Codes:
        """Pixels [channel][y][x] -> class capsules [j][d]."""
        self.trace.clear()
        self.trace[f"{next(iter(self.layers))}.image", 0] = image
        x: Any = Map(image, 8)
        for name, layer in self.layers.items():
            x = self.layer(name, layer, x)
        return x.codes

    def layer(self, name: str, layer: Any, x: Any) -> Any:
        if isinstance(layer, Conv):
            return self.conv(name, layer, x)
        if isinstance(layer, ConvCaps):
            return self.conv_caps(name, layer, x)
        if isinstance(layer, RoutedCaps):
            return self.routed_caps(name, layer, x)
        if isinstance(layer, RoutedConvCaps):
            return self.routed_conv_caps(name, layer, x)
        return self.block(name, layer, x)

    # storing

    def u(self, site: str, step: int, element: int) -> int:
        return draw(self.seed, site, step, element) if self.draws else 0

    def rounded_weights(self, site: str, reals: Codes) -> Codes:
        target, element = self.formats[site], Counter()

        def one(real: tuple[int, int]) -> int:
            n, d = real
            up, down = max(target.fraction, 0), max(-target.fraction, 0)
            u = self.u(site, 0, element.next())
            return to_format(n << up, d << down, target, self.scheme, u)

        return each(one, reals)

    def store(self, site: str, exact: Codes, fraction: int, step: int = 0) -> Codes:
        """Exact integers in steps of 2^-fraction, rounded once and saturated."""
        target, element = self.formats[site], Counter()

        def one(code: int) -> int:
            u = self.u(site, step, element.next())
            return rescaled(code, fraction, target, self.scheme, u)

        self.trace[site, step] = stored = each(one, exact)
        return stored

    def fraction(self, site: str) -> int:
        return self.formats[site].fraction

    # layers

    def conv(self, name: str, layer: Conv, x: Map) -> Map:
        acc, fraction = self.convolved(name, layer, channels(x))
        acc = each(lambda code: max(code, 0), acc)
        if layer.batch_norm:
            scales, shifts = (
                self.weights[f"{name}.norm.scales"],
                self.weights[f"{name}.norm.shifts"],
            )
            f_scale, f_shift = (self.fraction(f"{name}.norm.{s}") for s in ("scales", "shifts"))
            acc = [each(lambda code, s=s: code * s, a) for a, s in zip(acc, scales, strict=True)]
            acc, fraction = plus_per_channel(acc, fraction + f_scale, shifts, f_shift)
        site = f"{name}.activation"
        return Map(self.store(site, acc, fraction), self.fraction(site))

    def conv_caps(self, name: str, layer: ConvCaps, x: Map) -> Map:
        acc, fraction = self.convolved(name, layer, channels(x))
        s = self.store(f"{name}.preactivation", acc, fraction)
        v = self.squashed_map(name, grouped(s, layer.dimension))
        return Map(v, self.fraction(f"{name}.activation"))

    def squashed_map(self, name: str, s: Codes) -> Codes:
        """s[n][d][y][x] -> v[n][d][y][x]"""
        source, target = f"{name}.preactivation", f"{name}.activation"
        size, height, width = len(s[0]), len(s[0][0]), len(s[0][0][0])
        v = each(lambda code: 0, s)
        for n, capsule in enumerate(s):
            for y in range(height):
                for x in range(width):
                    index = [((n * size + d) * height + y) * width + x for d in range(size)]
                    vector = [capsule[d][y][x] for d in range(size)]
                    us = [self.u(target, 0, e) for e in index]
                    formats = self.formats[source], self.formats[target]
                    squashed = functions.squash(vector, *formats, self.scheme, us)
                    for d in range(size):
                        v[n][d][y][x] = squashed[d]
        self.trace[target, 0] = v
        return v

    def routed_caps(self, name: str, layer: RoutedCaps, x: Map | Capsules) -> Capsules:
        u = as_capsules(x)
        w, f_w = self.weights[f"{name}.weights"], self.fraction(f"{name}.weights")
        exact = [
            [
                [
                    sum(w[j][i][k][d] * u_i[k] for k in range(len(u_i)))
                    for d in range(len(w[j][i][0]))
                ]
                for j in range(len(w))
            ]
            for i, u_i in enumerate(u.codes)
        ]
        votes = self.store(f"{name}.votes", exact, u.fraction + f_w)
        bias = self.weights[f"{name}.routing_biases"] if layer.bias else None
        v = self.routed(name, layer.iterations, votes, bias)
        return Capsules(v, self.fraction(f"{name}.activation"))

    def routed_conv_caps(self, name: str, layer: RoutedConvCaps, x: Map) -> Map:
        exact = []
        for capsule in x.codes:
            acc, fraction = self.convolved(name, layer, Map(capsule, x.fraction))
            maps = grouped(acc, layer.dimension)
            exact.append(as_capsules(Map(maps, fraction)).codes)
        votes = self.store(f"{name}.votes", exact, fraction)
        count, height, width = len(maps), len(acc[0]), len(acc[0][0])
        bias = None
        if layer.bias:
            bias = [
                b for b in self.weights[f"{name}.routing_biases"] for _ in range(height * width)
            ]
        v = self.routed(name, layer.iterations, votes, bias)
        rows = [v[j : j + width] for j in range(0, len(v), width)]
        by_position = [rows[n * height : (n + 1) * height] for n in range(count)]
        codes = [
            [[[capsule[d] for capsule in row] for row in rows_] for d in range(layer.dimension)]
            for rows_ in by_position
        ]
        return Map(codes, self.fraction(f"{name}.activation"))

    def routed(self, name: str, iterations: int, votes: Codes, bias: Codes | None) -> Codes:
        """votes[i][j][d] -> v[j][d]"""
        inputs, outputs, size = range(len(votes)), range(len(votes[0])), range(len(votes[0][0]))
        logits, coupling = f"{name}.logits", f"{name}.coupling"
        before, after = f"{name}.preactivation", f"{name}.activation"
        f_votes, f_c, f_v, f_b = (
            self.fraction(site) for site in (f"{name}.votes", coupling, after, logits)
        )
        b = [[0 for _ in outputs] for _ in inputs]
        for step in range(iterations):
            c = self.vectors(functions.softmax, logits, coupling, b, step)
            acc = [[sum(c[i][j] * votes[i][j][d] for i in inputs) for d in size] for j in outputs]
            fraction = f_c + f_votes
            if bias is not None:
                acc, fraction = sums(acc, fraction, bias, self.fraction(f"{name}.routing_biases"))
            s = self.store(before, acc, fraction, step)
            v = self.vectors(functions.squash, before, after, s, step)
            if step < iterations - 1:
                agreement = [
                    [sum(v[j][d] * votes[i][j][d] for d in size) for j in outputs] for i in inputs
                ]
                acc, fraction = sums(agreement, f_v + f_votes, b, f_b)
                b = self.store(logits, acc, fraction, step)
        return v

    def vectors(self, function: Any, source: str, target: str, rows: Codes, step: int) -> Codes:
        """A function of each row, stored at `target`."""
        element, formats = Counter(), (self.formats[source], self.formats[target])
        result = [
            function(
                row, *formats, self.scheme, [self.u(target, step, element.next()) for _ in row]
            )
            for row in rows
        ]
        self.trace[target, step] = result
        return result

    def block(self, name: str, layer: Block, x: Map) -> Map | Capsules:
        shared = self.layer(f"{name}.l1", layer.l1, x)
        deep = self.layer(f"{name}.l3", layer.l3, self.layer(f"{name}.l2", layer.l2, shared))
        skipped = self.layer(f"{name}.skip", layer.skip, shared)
        site = f"{name}.activation"
        y = Map(self.store(site, *sums(*deep, *skipped)), self.fraction(site))
        return joined(as_capsules(x), as_capsules(y)) if layer.carry else y

    def convolved(self, name: str, layer: Any, x: Map) -> tuple[Codes, int]:
        """acc[o][y][x] with its bias, and its fraction."""
        weights, biases = f"{name}.weights", f"{name}.biases"
        acc = convolution(x.codes, self.weights[weights], layer.stride, layer.padding)
        fraction = x.fraction + self.fraction(weights)
        return plus_per_channel(acc, fraction, self.weights[biases], self.fraction(biases))


class Counter:
    """0, 1, 2, ..."""

    def __init__(self) -> None:
        self.value = -1

    def next(self) -> int:
        self.value += 1
        return self.value


def each(function: Any, codes: Any) -> Any:
    """A function of every number in nested lists, row by row."""
    if isinstance(codes, list):
        return [each(function, part) for part in codes]
    return function(codes)


def convolution(x: Codes, w: Codes, stride: int, padding: int) -> Codes:
    """x[c][y][x], w[o][c][ky][kx] -> [o][y][x]; zeros surround the map."""
    kernel_height, kernel_width = len(w[0][0]), len(w[0][0][0])
    height, width = len(x[0]), len(x[0][0])
    rows = range(-padding, height + padding - kernel_height + 1, stride)
    columns = range(-padding, width + padding - kernel_width + 1, stride)

    def pixel(plane: Codes, y: int, x: int) -> int:
        inside = 0 <= y < height and 0 <= x < width
        return int(plane[y][x]) if inside else 0

    def patch(top: int, left: int) -> list[int]:
        return [
            pixel(plane, top + ky, left + kx)
            for plane in x
            for ky in range(kernel_height)
            for kx in range(kernel_width)
        ]

    patches = [[patch(top, left) for left in columns] for top in rows]
    filters = [
        [code for plane in each_filter for row in plane for code in row] for each_filter in w
    ]
    return [[[product(f, p) for p in row] for row in patches] for f in filters]


def product(a: list[int], b: list[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def sums(a: Codes, f_a: int, b: Codes, f_b: int) -> tuple[Codes, int]:
    """Two arrays of one shape, aligned and added."""
    fraction = max(f_a, f_b)

    def add(a: Any, b: Any) -> Any:
        if isinstance(a, list):
            return [add(*pair) for pair in zip(a, b, strict=True)]
        return (a << (fraction - f_a)) + (b << (fraction - f_b))

    return add(a, b), fraction


def plus_per_channel(acc: Codes, f_acc: int, bias: Codes, f_bias: int) -> tuple[Codes, int]:
    spread = [each(lambda _, b=b: b, plane) for plane, b in zip(acc, bias, strict=True)]
    return sums(acc, f_acc, spread, f_bias)


def channels(x: Map) -> Map:
    """[capsule][component][y][x] -> [channel][y][x]"""
    if isinstance(x.codes[0][0][0], list):
        return Map([plane for capsule in x.codes for plane in capsule], x.fraction)
    return x


def grouped(maps: Codes, dimension: int) -> Codes:
    """[channel][y][x] -> [capsule][component][y][x]"""
    return [maps[n : n + dimension] for n in range(0, len(maps), dimension)]


def as_capsules(x: Map | Capsules) -> Capsules:
    """[capsule][component][y][x] -> [i][k], capsule by capsule, row by row."""
    if isinstance(x, Capsules):
        return x
    height, width = len(x.codes[0][0]), len(x.codes[0][0][0])
    codes = [
        [component[y][x_] for component in capsule]
        for capsule in x.codes
        for y in range(height)
        for x_ in range(width)
    ]
    return Capsules(codes, x.fraction)


def joined(a: Capsules, b: Capsules) -> Capsules:
    """One list, in the finer of the two steps."""
    fraction = max(a.fraction, b.fraction)
    parts = [each(lambda c, s=fraction - p.fraction: c << s, p.codes) for p in (a, b)]
    return Capsules(parts[0] + parts[1], fraction)
