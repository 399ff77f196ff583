import pytest
import torch

from fbnn_hw.base.errors import InputError
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import Topology
from fbnn_hw.nn import head
from fbnn_hw.nn.network import load
from fbnn_hw.reference.learning import Head
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


LATENT, BITS = op.Dense("latent", ("gap",), 8), (op.Thermometer("input", (), "tycc", 8, 4), op.Gap("gap", ("input",)))


@pytest.mark.parametrize("layers, found", [
    ((*BITS, LATENT, op.Conv("a", ("latent",), 8, 1)), "a: is after the latent and a conv of latent"),
    ((*BITS, LATENT, op.Gap("a", ("latent",))), "a: is after the latent and a gap of latent"),
    ((*BITS[:1], op.Conv("latent", ("input",), 8), op.Flatten("a", ("latent",))), "a: is after the latent and a flatten of latent"),
    ((*BITS, LATENT, op.Concat("a", ("latent", "gap"))), "a: is after the latent and a concat of latent, gap"),
    ((op.Bits8("input", (), 8), op.Flatten("latent", ("input",)), op.Dense("a", ("latent",), 8)),
     "a: is after the latent and a dense of latent"),
], ids=lambda v: v if isinstance(v, str) else "")
def test_what_latents_do_not_suffice_for_is_refused(layers, found):
    topology = Topology("t", (*layers, op.Dense("logits", ("a",), 2, logits=True)), ("x", "y"))
    topology.verify()
    with pytest.raises(InputError, match=f"^layer {found}, expected concat, dense, duplicate, shuffle, slice of latent, a vector of bits, "
                                         "and of layers after it; cil --replay native takes any network$"):
        head.verify(topology)


@pytest.mark.parametrize("layers, gives", [
    ((*BITS, op.Dense("latent", ("gap",), 2, logits=True)), "logits"),
    ((op.Bits8("input", (), 8), op.Flatten("latent", ("input",)), op.Dense("last", ("latent",), 2, logits=True)), "bytes")])
def test_a_latent_of_a_chip_is_bits(layers, gives):
    with pytest.raises(InputError, match=f"^model t: layer latent gives {gives}, expected bits$"):
        Head.of(Topology("t", layers, ("x", "y")))
