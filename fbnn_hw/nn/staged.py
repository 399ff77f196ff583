"""The last step of the multi-stage protocol (paper, section `bg`): scales in the place of batch norm."""

import torch

from .network import FBNN


@torch.no_grad()
def to_scales(model: FBNN) -> FBNN:
    """FBNN without batch norm that starts where `model`, which has it, ended.

    It has the proxies, and in each normalised layer the median of 1 / sigma as the scale.  Offsets and means are discarded.
    """
    plain = FBNN(model.topology, K=model.K, limit=model.limit)
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if ".norm." not in k})
    plain.alpha = model.alpha
    for name, norm in model.norms().items():
        plain.layers[name].scale = max(norm.variance.rsqrt().median().item(), 1e-6)
    return plain
