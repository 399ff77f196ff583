"""What the hardware must answer: inference (`inference`) and learning (`learning`) in integers, without torch.

    from fbnn_hw.reference import inference

    logits = inference.logits(network, images)       # int32 (N, classes), those of the Verilog
"""
