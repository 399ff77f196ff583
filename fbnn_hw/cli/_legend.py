"""What the lines and columns that `fbnn-hw generate` prints mean; docs/first-board.md has the same."""

from ..machine.cycles import BOUNDS

LEGEND = {
    "engine": "the array: how many pixels, input channels (lanes) and output channels are worked on in each clock cycle; a MAC is one "
              "XNOR, counted",
    "MACs": "XNORs of the layer for one image",
    "cycles": "clock cycles of the layer for one image",
    "array use": "share of the array that is at work in these cycles",
    "bound by": "what the layer would need more of to be faster",
    **{f"  {name}": meaning for name, meaning in BOUNDS.items()},
    "waits": "of the cycles, those in which the layer waits for weights",
    "weight bits": "weights of the layer, a bit each",
    "on chip": "sixteenths of the layer's weights that stay in the chip's memory; the others come from the flash for every image",
    "speed": "images a second of the chip alone; then those that a computer sees, which sends one image after the other",
    "memory": "words of the chip's memory that hold maps; resident weights are those that stay on the chip, late ones take the place of "
              "maps that are no longer needed",
    "learns": "classes that there is room for; samples (exemplars) that are kept and shown again, so that older classes are not forgotten",
    "LUT4": "logic of the accelerator, of what the part gives to it",
}
"""{word: what it means}."""
