"""Which parameter of a quantized network is stored at which site, as codes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from qcapsnets.errors import ExportError
from qcapsnets.fixedpoint.format import FixedPoint
from qcapsnets.fixedpoint.quantize import fixed_sites, quantization_of
from qcapsnets.models import CapsNet, Kind, Site, sites_of


@dataclass(frozen=True, eq=False)
class Parameter:
    """A tensor of weights, and the site that stores it."""

    name: str
    site: str
    tensor: Tensor
    format: FixedPoint
    stored: Tensor

    def codes(self) -> Tensor:
        """Whole numbers (int64, on the CPU)."""
        return self.format.codes(self.stored.detach().cpu())


def parameters_of(model: CapsNet) -> list[Parameter]:
    """Every parameter with its site, in the order of the network.

    One blank image through the network tells them: a site of weights is called with its parameter.
    """
    quantization_of(model)
    seen = _stored_where(model)
    formats = {name: storage.format for name, _, storage in fixed_sites(model)}
    parameters = []
    for name, tensor in model.named_parameters():
        if id(tensor) in seen:
            site, stored = seen[id(tensor)]
            parameters.append(Parameter(name, site, tensor, formats[site], stored))
    _check_complete(model, {p.name for p in parameters})
    return parameters


def _stored_where(model: CapsNet) -> dict[int, tuple[str, Tensor]]:
    """By the identity of a parameter: the name of its site, and what is stored there."""
    seen: dict[int, tuple[str, Tensor]] = {}
    hooks = []

    def watch(name: str, site: Site) -> None:
        def note(module: nn.Module, given: tuple[Tensor, ...], stored: Tensor) -> None:
            seen[id(given[0])] = name, stored

        hooks.append(site.register_forward_hook(note))

    for name, site in sites_of(model):
        if site.kind is Kind.WEIGHT:
            watch(name, site)
    try:
        run_blank(model)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def run_blank(model: CapsNet) -> None:
    """One image of zeros: afterwards every storage knows its sums and functions."""
    device = next(model.parameters()).device
    with torch.no_grad():
        model(torch.zeros(1, *model.image_shape, device=device))


def _check_complete(model: CapsNet, known: set[str]) -> None:
    """A tensor that no site stores has no format, so it has no codes."""
    tensors = [*dict(model.named_parameters()), *dict(model.named_buffers())]
    missing = [name for name in tensors if name not in known]
    if missing:
        raise ExportError(
            f"{', '.join(missing)} of {model.name} passes through no site of weights: "
            "store it at a Site(Kind.WEIGHT) of its layer, or make it a plain number"
        )
