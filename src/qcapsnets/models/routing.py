"""Dynamic routing between capsules, and the layers that do it.

    u_hat[j|i] = W[i,j] u[i];  b = 0;  then, r times:                    [Sabour 2017, proc. 1]
        c[i,j] = softmax_j(b[i,j]);  s[j] = sum_i c[i,j] u_hat[j|i];  v[j] = squash(s[j]);
        b[i,j] += v[j] . u_hat[j|i]                                      (not in the last)

Votes are many times larger than anything else in the network. Where no site of a fully connected
layer loses anything (the float model), they are never formed: coupling and input are contracted
first. Either way a few images at a time are routed, so that what is worked on stays in the cache.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from qcapsnets.errors import ModelError
from qcapsnets.models.contractions import Agree, Combine, SharedConvolution, Vote
from qcapsnets.models.layers import Layer, as_capsules
from qcapsnets.models.sites import Kind, Site, Term
from qcapsnets.models.voteless import Workspace, route_without_votes

NUMBERS_IN_CACHE = 1 << 21
"""How many numbers of the largest array are worked on at a time on a CPU."""
NUMBERS_ON_DEVICE = 1 << 27
"""And elsewhere, where only memory sets a limit."""


class Routed(Layer):
    """A layer that routes: the sites of dynamic routing, and the iterations over them.

    In a layer without iterations the array before squash is an activation like any other.
    """

    def __init__(self, iterations: int, *, bias: tuple[int, int] | None) -> None:
        super().__init__()
        if iterations < 1:
            raise ModelError(f"iterations was given as {iterations}: routing needs 1 or more")
        self.iterations = iterations
        self.weights = Site(Kind.WEIGHT)
        self.votes = Site(Kind.ACTIVATION)
        self.logits = Site(Kind.ROUTING if iterations > 1 else Kind.ACTIVATION)
        self.coupling = Site(Kind.ACTIVATION, signed=False)
        self.preactivation = Site(Kind.ROUTING if iterations > 1 else Kind.ACTIVATION)
        self.activation = Site(Kind.ACTIVATION)
        self.routing_bias = None if bias is None else nn.Parameter(torch.full(bias, 0.1))
        self.routing_biases = None if bias is None else Site(Kind.WEIGHT)

    def route(self, votes: Tensor, bias: Term | None) -> Tensor:
        """Votes [batch, i, j, d] -> capsules [batch, j, d]."""
        images = len(votes) if self.coupling.storage.counts_images else 1
        b = votes.new_zeros(images, *votes.shape[1:3])
        for step in range(self.iterations):
            c = self.coupling.storage.softmax(Term(b, self.logits), dim=-1, step=step)
            s = self.votes.storage.contract(Combine(), votes, Term(c, self.coupling), plus=bias)
            s = self.preactivation(s, step=step)
            v = self.activation.storage.squash(Term(s, self.preactivation), dim=-1, step=step)
            if step < self.iterations - 1:
                a = self.votes.storage.contract(
                    Agree(), votes, Term(v, self.activation), plus=Term(b, self.logits)
                )
                b = self.logits(a, step=step)
        return v

    def in_chunks(self, route: Callable[[Tensor], Tensor], x: Tensor, largest: int) -> Tensor:
        """`route` of a few images at a time, whose largest array has so many numbers an image."""
        limit = NUMBERS_IN_CACHE if x.device.type == "cpu" else NUMBERS_ON_DEVICE
        return torch.cat([route(part) for part in x.split(max(1, limit // largest))])

    def keeps_all(self) -> bool:
        """Whether nothing is lost at any site, so that no array need be formed to be stored."""
        sites = (site for site in self.modules() if isinstance(site, Site))
        return all(site.storage.keeps_all for site in sites)

    def bias_term(self, repeat: int = 1) -> Term | None:
        """The routing bias [j, d], repeated for each position of a map."""
        if self.routing_bias is None or self.routing_biases is None:
            return None
        value = self.routing_biases(self.routing_bias)
        return Term(value.repeat_interleave(repeat, dim=0), self.routing_biases)


class RoutedCaps(Routed):
    """Fully connected capsules with routing: DigitCaps. Softmax over the output capsules."""

    def __init__(
        self,
        inputs: int,
        input_dimension: int,
        outputs: int,
        dimension: int,
        *,
        iterations: int = 3,
        bias: bool = False,
    ) -> None:
        super().__init__(iterations, bias=(outputs, dimension) if bias else None)
        self.weight = nn.Parameter(torch.empty(outputs, inputs, input_dimension, dimension))
        nn.init.normal_(self.weight, std=math.sqrt(1 / (10 * input_dimension)))

    def compute(self, x: Tensor) -> Tensor:
        u = as_capsules(x)
        weight, bias = self.weights(self.weight), self.bias_term()
        outputs, inputs, length, dimension = weight.shape
        if u.shape[1:] != (inputs, length):
            raise ModelError(
                f"{inputs} capsules of {length} numbers are routed, but the layer before gives "
                f"{u.shape[1]} of {u.shape[2]}: match inputs and input_dimension to it"
            )
        if self.keeps_all():
            largest, offset = outputs * inputs * length, None if bias is None else bias.value
            route, workspace = route_without_votes, Workspace()
            return self.in_chunks(
                lambda u: route(u, weight, offset, self.iterations, workspace), u, largest
            )
        arranged, largest = Vote.arranged(weight), outputs * inputs * dimension
        return self.in_chunks(lambda u: self._route(u, arranged, bias), u, largest)

    def _route(self, u: Tensor, weight: Tensor, bias: Term | None) -> Tensor:
        votes = self.weights.storage.contract(Vote(), weight, Term(u, self.source))
        return self.route(self.votes.storage.consume(votes), bias)


class RoutedConvCaps(Routed):
    """A 3D convolution with routing: each input capsule votes by the same kernel.

    Softmax is taken jointly over output capsules, height and width [Rajasegaran 2019].
    """

    def __init__(
        self,
        input_dimension: int,
        capsules: int,
        dimension: int,
        *,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        iterations: int = 3,
        bias: bool = False,
    ) -> None:
        super().__init__(iterations, bias=(capsules, dimension) if bias else None)
        self.capsules, self.dimension = capsules, dimension
        self.convolution = SharedConvolution(stride, padding)
        self.weight = nn.Parameter(
            torch.empty(capsules * dimension, input_dimension, kernel, kernel)
        )
        self.bias = nn.Parameter(torch.zeros(capsules * dimension))
        self.biases = Site(Kind.WEIGHT)
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def compute(self, x: Tensor) -> Tensor:
        if x.dim() != 5 or x.shape[2] != self.weight.shape[1]:
            raise ModelError(
                f"a routed convolution of capsules of {self.weight.shape[1]} was given "
                f"{'x'.join(map(str, x.shape[1:]))}, not capsules x dimension x height x width: "
                "match input_dimension to the layer before"
            )
        weight = self.weights(self.weight)
        bias = Term(self.biases(self.bias)[:, None, None], self.biases)
        largest = x[0, :, 0].numel() * len(weight)
        return self.in_chunks(lambda x: self._route(x, weight, bias), x, largest)

    def _route(self, x: Tensor, weight: Tensor, bias: Term) -> Tensor:
        votes = self.weights.storage.contract(
            self.convolution, weight, Term(x, self.source), plus=bias
        )
        height, width = votes.shape[-2:]
        votes = votes.unflatten(2, (self.capsules, self.dimension)).movedim(3, -1).flatten(2, 4)
        v = self.route(self.votes.storage.consume(votes), self.bias_term(repeat=height * width))
        maps: Tensor = v.unflatten(1, (self.capsules, height, width))
        return maps.movedim(-1, 2)
