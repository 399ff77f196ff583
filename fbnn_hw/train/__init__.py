"""Training in torch: one network (`offline`), pre-training and class-incremental learning (`pretrain`, `incremental`), sweeps."""
