"""The page on which anyone teaches a board: one HTML file of plain modules, and the server that relays it to a board."""
