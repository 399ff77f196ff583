"""The places that nextpnr gave the cells, by component: the data of a floorplan; and the cells themselves."""

import json
import re

CELL = re.compile(r' {8}"((?:[^"\\]|\\.)*)": \{$')
PLACE = re.compile(r' {12}"NEXTPNR_BEL": "X(\d+)/?Y(\d+)/')
OUTSIDE = "pins and clock"
UNNAMED = "without a name"


def component(cell):
    """The component of a cell, from its hierarchical name."""
    if cell.startswith("$"):
        return UNNAMED
    path = [re.sub(r"\W|\d+$", "", part) for part in cell.split(".")[:-1]]
    if path[:1] == ["core"]:
        path = path[1:] or ["board"]
    if path[:1] == ["accelerator"]:
        path = path[1:] or path
    return path[0].removeprefix("shared_") if path and path[0] else OUTSIDE  # the array of a design that learns


def read(path):
    """Read the JSON of a placement that nextpnr wrote.

    Returns {"columns", "rows": of the tiles used, "components": {name: [[column, row, cells], ...]}}.
    The file is read line by line, since that of a large design has hundreds of megabytes.
    """
    tiles_of, cell = {}, ""
    with open(path, errors="replace") as lines:
        for line in lines:
            if line.startswith('        "') and (match := CELL.match(line)):
                cell = match[1]
            elif line.startswith('            "NEXTPNR_BEL"') and (match := PLACE.match(line)):
                tiles = tiles_of.setdefault(component(cell), {})
                place = int(match[1]), int(match[2])
                tiles[place] = tiles.get(place, 0) + 1
    places = [place for tiles in tiles_of.values() for place in tiles]
    return {"columns": max((x for x, _ in places), default=-1) + 1, "rows": max((y for _, y in places), default=-1) + 1,
            "components": {name: [[x, y, n] for (x, y), n in sorted(tiles_of[name].items())]
                           for name in sorted(tiles_of, key=lambda name: (-sum(tiles_of[name].values()), name))}}


def keep(path, target):
    """Write the cells of a placed design, the file `path` of nextpnr's, to the file `target`, without their routes.

    {name: {"type", "bel", "parameters", "connections": {port: [net, ...]}}}, with a net as a number; a tenth of the bytes.
    """
    module = json.loads(path.read_text())["modules"]["top"]
    target.write_text(json.dumps({
        name: {"type": cell["type"], "bel": cell["attributes"]["NEXTPNR_BEL"], "parameters": cell["parameters"],
               "connections": cell["connections"]} for name, cell in module["cells"].items()}, separators=(",", ":")))
