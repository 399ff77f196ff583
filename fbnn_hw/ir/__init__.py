"""Networks as plain data: operations (`ops`), a network (`network`), the checkpoint's format (`checkpoint`), the same as JSON (`file`).

    network = fbnn_hw.load("tiny.pt")

    shapes = network.topology.verify()               # {layer: (channels, height, width)}
    weights = network.weights["conv1"]               # uint8 bits: 1 is +1, 0 is -1
    logits = network.topology.ops[-1]                # Dense("logits", ...)
"""
