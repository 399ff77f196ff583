"""A camera's sensor as the source of images; twin: `fbnn_hw.reference.camera`."""
