"""A network of one's own: a PyTorch module, trained as usual, exported with its bits, and simulated as Verilog."""

import numpy as np
import torch
from torch import nn

import fbnn_hw
from fbnn_hw.nn import BinaryConv2d, BinaryLinear, LearnedPool2d, Sign, Thermometer


class Stripes(nn.Module):
    """Whether the stripes of a picture of 8 x 8 lie, stand or cross."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            Thermometer("trgb", levels=8), BinaryConv2d(24, 32), nn.BatchNorm2d(32), nn.MaxPool2d(2), Sign(),
            LearnedPool2d(32, 4), Sign(), nn.Flatten())
        self.latent = BinaryLinear(32, 64)  # what a chip that learns would keep
        self.sign = Sign()
        self.classifier = BinaryLinear(64, 3)

    def forward(self, images):
        return self.classifier(self.sign(self.latent(self.features(images))))


def draw(kind, count, rng):
    """uint8 RGB (count, 3, 8, 8)."""
    lying = (np.arange(8) // 2 % 2)[:, None].repeat(8, 1)
    pattern = (lying, lying.T, lying ^ lying.T)[kind]
    return np.clip(pattern * rng.integers(100, 200, (count, 3, 1, 1)) + rng.integers(0, 50, (count, 3, 8, 8)), 0, 255).astype(np.uint8)


rng = np.random.default_rng(0)
torch.manual_seed(0)
torch.set_num_threads(1)
images, labels = np.concatenate([draw(kind, 100, rng) for kind in range(3)]), torch.arange(3).repeat_interleave(100)
model, x = Stripes(), torch.from_numpy(images)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(4):
    for batch in torch.randperm(len(x)).split(50):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[batch]), labels[batch]).backward()
        optimizer.step()
model.eval()
tests = np.concatenate([draw(kind, 20, rng) for kind in range(3)])
print(f"{(model(torch.from_numpy(tests)).argmax(1) == torch.arange(3).repeat_interleave(20)).sum()} of 60 right")

fbnn_hw.export(model, x[:16], "stripes.pt", classes=["lying", "standing", "crossing"], name="stripes")
design = fbnn_hw.generate(fbnn_hw.load("stripes.pt"), target="ice40")
print(f"{design.estimate['cycles']:,} cycles a frame on {design.target.part} (estimated)")
result = design.simulate(tests[::20])
print("every bit of every layer equal:", result.equal)
print("the Verilog says:", ", ".join(result.class_names))
