"""Classification losses with class weights (paper, eqs. `weighti` to `sh`) and those of the pre-training (`bt_loss`, `actReg`).

Logits are float (B, C), scaled by alpha; labels int64 (B,); weights (C,) or None for all 1.  Each is a mean over the batch.
A logit of -inf is a class that takes no part (task-aware training); a sample's own class is never one.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F


def inverse_frequency(counts: torch.Tensor | Sequence[int]) -> torch.Tensor:
    """Weights of C classes, float32 (C,): w_i = C * (1 / f_i) / sum_j (1 / f_j).  They sum to C.

    counts: samples n_i of each class, all at least 1.  The factor N of f_i = n_i / N cancels.
    """
    inverse = 1 / torch.as_tensor(counts, dtype=torch.float64)
    return (len(inverse) * inverse / inverse.sum()).float()


def _of_label(log_p, labels, weights):
    picked = log_p.gather(1, labels[:, None]).squeeze(1)
    return picked, picked.new_ones(len(labels)) if weights is None else weights[labels]


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None, smoothing: float = 0.0) -> torch.Tensor:
    """Cross-entropy, eq. `cce`.  It is divided by B, where torch's own divides by the sum of the weights.

    smoothing: share of the target that all classes which take part have alike.  The weight of a sample is that of its class.
    """
    log_p = F.log_softmax(logits, 1)
    picked, w = _of_label(log_p, labels, weights)
    if smoothing:
        present = logits.isfinite()
        picked = (1 - smoothing) * picked + smoothing * log_p.where(present, 0).sum(1) / present.sum(1)
    return -(w * picked).mean()


def focal(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None, nu: float = 2.0) -> torch.Tensor:
    """Focal loss with exponent `nu`, eq. `focal`."""
    picked, w = _of_label(F.log_softmax(logits, 1), labels, weights)
    missed = (1 - picked.exp()).clamp_min(1e-12)  # no 0, whose power below 1 has no derivative
    return -(w * missed ** nu * picked).mean()


def squared_hinge(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    """Squared hinge loss, eq. `sh`.  The weight of a term is that of the term's class c, not that of the sample's class."""
    target = F.one_hot(labels, logits.shape[1]) * 2.0 - 1
    present = logits.isfinite()
    terms = (1 - logits.where(present, -1.0) * target).clamp_min(0) ** 2 * present
    return (terms if weights is None else terms * weights).sum(1).mean()


def distillation(logits: torch.Tensor, teacher: torch.Tensor, temperature: float, weights: torch.Tensor | None = None) -> torch.Tensor:
    """T^2 * KL(softmax(teacher / T) || softmax(logits / T)), mean over the batch (Hinton et al., arXiv 1503.02531).

    weights: of the samples, float (B,), or None for all 1.
    """
    target, predicted = F.log_softmax(teacher / temperature, 1), F.log_softmax(logits / temperature, 1)
    if weights is None:
        return temperature ** 2 * F.kl_div(predicted, target, reduction="batchmean", log_target=True)
    each = F.kl_div(predicted, target, reduction="none", log_target=True).sum(1)
    return temperature ** 2 * (weights * each).mean()


LOSSES = {"cce": cross_entropy, "focal": focal, "sh": squared_hinge}


def barlow_twins(a: torch.Tensor, b: torch.Tensor, offdiagonal: float = 1e-5) -> torch.Tensor:
    """Barlow Twins loss of two projections, float (B, P), eq. `bt_loss`.  The features are standardised and correlated over the batch."""
    a, b = ((x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt() for x in (a, b))
    correlation = a.T @ b / len(a)
    diagonal = correlation.diagonal()
    return ((1 - diagonal) ** 2).sum() + offdiagonal * (correlation.square().sum() - diagonal.square().sum())


def features_as_printed(latent: torch.Tensor) -> torch.Tensor:
    """Eq. `actReg` as printed: the mean of all latent values (B, D).  Its minimum is a latent of -1 alone."""
    return latent.mean()


def features_as_intended(latent: torch.Tensor) -> torch.Tensor:
    """L_FR as the text of `actReg` describes it: mean_d (mean_b z)^2, which is 0 where each bit is balanced in the batch."""
    return latent.mean(0).square().mean()


def decorrelation(latent: torch.Tensor) -> torch.Tensor:
    """Sum of the squared covariances of different bits of the latents (B, D), divided by D (VICReg, arXiv 2105.04906, eq. 4).

    Where it is 0 and the bits are balanced, the nearest mean is a linear discriminant analysis.  B is at least 2.
    """
    centred = latent - latent.mean(0)
    covariance = centred.T @ centred / (len(latent) - 1)
    return (covariance.square().sum() - covariance.diagonal().square().sum()) / latent.shape[1]


FEATURES = {"printed": features_as_printed, "intended": features_as_intended}
