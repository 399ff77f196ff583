"""Networks that teach: a training state of ours as a frozen network whose logits a student learns to follow, or several of them."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from ..base import files
from ..base.errors import InputError
from ..ir.network import Topology
from . import offline
from .config import TrainConfig
from .pretrain import make


class Teacher:
    """The best epoch of a training state, a float network or an FBNN.

    description: what the student's record says of the teacher; its accuracy is that of validation, or
    None where the teacher's training had no validation split.
    """

    def __init__(self, path: str | Path, topology: Topology, device: str | torch.device = "cpu", precision: str = "float32") -> None:
        """topology: of the student.  precision: of the teacher's arithmetic, see `TrainConfig`.

        Raises InputError where the teacher does not know all classes of the student, or takes images of another size.
        """
        path = Path(path)
        try:
            if not path.is_file():
                raise FileNotFoundError
            state = offline.read(path)
            name, taught, size = (state["architecture"][key] for key in ("name", "classes", "size"))
            config = TrainConfig(**state["config"])
            self.model, best = make(name, tuple(taught), size, config), state["best"]
            accuracy = state["best_score"] if config.validation else None
            self.sha256 = files.sha256_of(path)
            self.description = {"name": name, "validation_accuracy": accuracy, "epochs": state["best_epoch"], "sha256": self.sha256,
                                "config": asdict(config)}
        except Exception as error:  # a file can be wrong in any way
            raise InputError(f"--teacher {path}: not a training state of a named network of this version ({type(error).__name__}), "
                             f"expected the .state of fbnn-hw pretrain or train") from None
        try:
            self.model.load_state_dict(best)
        except RuntimeError:
            raise InputError(f"--teacher {path}: has other layers than {name}, as pretrain --encoder and --latent make them, expected "
                             f"those of {name}") from None
        classes = topology.classes
        if size != topology.image_size or not set(classes) <= set(taught):
            raise InputError(f"--teacher {path}: knows {len(taught)} classes at {size}x{size}, expected among them the student's "
                             f"{len(classes)}, {', '.join(classes[:3])}..., at {topology.image_size}x{topology.image_size}")
        self.columns = None if tuple(taught) == classes else [taught.index(name) for name in classes]
        self.model.dtype = getattr(torch, precision)
        self.model.to(device).eval().requires_grad_(False)

    @torch.no_grad()
    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Float logits (N, classes) of the student's classes, scaled as in the teacher's own loss, of uint8 images (N, 3, S, S)."""
        logits = self.model(images)
        return logits if self.columns is None else logits[:, self.columns]


class Teachers:
    """Several teachers as one, whose logits are the mean of theirs.

    Softened by any temperature, these are the geometric mean of their probabilities (Hinton et al., arXiv 1503.02531, section 1).
    """

    def __init__(self, members: Sequence[Teacher]) -> None:
        self.members = members
        self.sha256 = ",".join(one.sha256 for one in members)
        name = f"the mean of {', '.join(one.description['name'] for one in members)}"
        self.description = {"name": name, "sha256": self.sha256, "members": [one.description for one in members]}

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """As of `Teacher`."""
        return torch.stack([one.logits(images) for one in self.members]).mean(0)


def load(paths: Sequence[str | Path], topology: Topology, device: str | torch.device = "cpu",
         precision: str = "float32") -> Teacher | Teachers | None:
    """The teacher in one file, that of several, or None where there is none.  The rest as of `Teacher`."""
    members = [Teacher(path, topology, device, precision) for path in paths]
    return Teachers(members) if len(members) > 1 else members[0] if members else None
