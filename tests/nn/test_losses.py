"""Against the paper's formulas, written as loops."""

import math

import numpy as np
import pytest
import torch

from fbnn_hw.nn import losses

torch.manual_seed(0)
LOGITS, LABELS, COUNTS = torch.randn(7, 4), torch.tensor([0, 1, 2, 3, 3, 3, 1]), [5, 20, 100, 3]
WEIGHTS = losses.inverse_frequency(COUNTS)


def test_weights():
    f = [n / sum(COUNTS) for n in COUNTS]
    for w, fi in zip(WEIGHTS, f):
        assert w.item() == pytest.approx(4 * (1 / fi) / sum(1 / x for x in f))
    assert WEIGHTS.sum().item() == pytest.approx(4) and torch.equal(losses.inverse_frequency([9, 9, 9]), torch.ones(3))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_classification(weights):
    w = [1.0] * 4 if weights is None else weights.tolist()
    cce = focal = hinge = 0.0
    for row, label in zip(LOGITS.tolist(), LABELS.tolist()):
        p = [math.exp(x) / sum(math.exp(v) for v in row) for x in row]
        for c in range(4):
            if c == label:
                cce -= w[c] * math.log(p[c]) / 7
                focal -= w[c] * (1 - p[c]) ** 2 * math.log(p[c]) / 7
            hinge += w[c] * max(0, 1 - row[c] * (1 if c == label else -1)) ** 2 / 7
    assert losses.cross_entropy(LOGITS, LABELS, weights).item() == pytest.approx(cce, rel=1e-5)
    assert losses.focal(LOGITS, LABELS, weights).item() == pytest.approx(focal, rel=1e-5)
    assert losses.squared_hinge(LOGITS, LABELS, weights).item() == pytest.approx(hinge, rel=1e-5)


@pytest.mark.parametrize("name", losses.LOSSES)
def test_a_class_that_takes_no_part(name):
    """The loss of the others alone, and no gradient."""
    logits = LOGITS.clone().requires_grad_()
    masked = logits.masked_fill(torch.tensor([False, False, False, True]), -torch.inf)
    rows = LABELS != 3
    loss = losses.LOSSES[name](masked[rows], LABELS[rows])
    loss.backward()
    assert loss.item() == pytest.approx(losses.LOSSES[name](LOGITS[rows, :3], LABELS[rows]).item(), rel=1e-6)
    assert (logits.grad[:, 3] == 0).all() and logits.grad.isfinite().all()


def test_focal_with_nu_0_is_cross_entropy():
    assert torch.allclose(losses.focal(LOGITS, LABELS, WEIGHTS, nu=0), losses.cross_entropy(LOGITS, LABELS, WEIGHTS))


@pytest.mark.parametrize("nu", [0.0, 0.5, 1.0, 2.0])
def test_focal_of_a_sure_sample_has_no_gradient(nu):
    logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
    losses.focal(logits, torch.tensor([0]), nu=nu).backward()
    assert torch.equal(logits.grad, torch.zeros(1, 2))


def test_barlow_twins():
    a, b = torch.randn(64, 5), torch.randn(64, 5)
    s = [(x - x.mean(0)) / x.std(0, unbiased=False) for x in (a, b)]
    expected = 0.0
    for i in range(5):
        for j in range(5):
            c = (s[0][:, i] * s[1][:, j]).mean().item()
            expected += (1 - c) ** 2 if i == j else 1e-5 * c ** 2
    assert losses.barlow_twins(a, b).item() == pytest.approx(expected, rel=1e-4)
    assert losses.barlow_twins(a, a, offdiagonal=0.0).item() < 1e-6


def test_feature_regularisation_as_printed_does_not_balance():
    balanced, dark = torch.tensor([[1., -1], [-1, 1]]), -torch.ones(2, 2)
    assert losses.features_as_printed(dark) < losses.features_as_printed(balanced)
    assert losses.features_as_intended(balanced) == 0 < losses.features_as_intended(dark)


def test_decorrelation_is_the_sum_over_pairs_of_bits():
    z = torch.randint(0, 2, (9, 5), generator=torch.Generator().manual_seed(0)).float() * 2 - 1
    covariance = np.cov(z.numpy().astype(float), rowvar=False)
    by_pairs = sum(covariance[i, j] ** 2 for i in range(5) for j in range(5) if i != j) / 5
    assert by_pairs > 0 and losses.decorrelation(z).item() == pytest.approx(by_pairs, rel=1e-5)
    apart = torch.tensor([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    assert losses.decorrelation(apart).item() == pytest.approx(0, abs=1e-7)
