"""Reports for people.

A design: `design` computes its values, `figures` and `diagram` draw on `svg`, and `page` puts the HTML page together from templates/.
Class-incremental runs: `cil` plots their accuracy with matplotlib.
"""
