"""From a network as it was trained to one whose sites can be filled."""

import copy

from qcapsnets.models import FLOAT, CapsNet, Conv, sites_of


def prepared(model: CapsNet) -> CapsNet:
    """A float copy in evaluation mode, with batch norms folded into scale and shift."""
    result = copy.deepcopy(model).eval()
    result.quantization = None
    for layer in result.modules():
        if isinstance(layer, Conv):
            layer.fold()
    for _, site in sites_of(result):
        site.storage = FLOAT
    return result
