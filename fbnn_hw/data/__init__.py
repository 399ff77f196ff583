"""Pictures as arrays of uint8, (N, 3, S, S): data sets (`datasets`), files and folders of one's own (`images`, `folder`)."""
