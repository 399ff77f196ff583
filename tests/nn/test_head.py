import pytest
import torch

from fbnn_hw.nn import head
from fbnn_hw.nn.network import load
from tests import strategies


@pytest.mark.parametrize("seed", range(8))
def test_integers_and_gradients_are_those_of_the_whole_network(seed):
    network = strategies.network(seed, 0.0) if seed < 6 else strategies.vgg_network(seed)
    one, two = load(network), load(network)
    two.load_state_dict(one.state_dict())
    size = one.layers["latent"].proxy.shape[0]
    latent = torch.randint(0, 2, (9, size), generator=torch.Generator().manual_seed(seed)).float() * 2 - 1
    mix = torch.randn(9, len(network.topology.classes), generator=torch.Generator().manual_seed(seed))
    a, b = one.classify_latent(latent), head.logits(two, latent)
    assert torch.equal(a, b)
    (a * mix).sum().backward()
    (b * mix).sum().backward()
    for name, layer in one.layers.items():
        if layer.proxy.grad is not None:
            assert torch.allclose(layer.proxy.grad, two.layers[name].proxy.grad, atol=1e-4), name
