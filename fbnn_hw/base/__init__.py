"""What every room may import: packed bits, errors of one line, files written whole, progress bars, classes of other people."""
