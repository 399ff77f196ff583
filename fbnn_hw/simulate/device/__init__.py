"""Models of what a device without a computer has around it, and the scripts of what happens to it."""
