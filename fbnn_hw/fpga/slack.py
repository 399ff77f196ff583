"""Which parts of a placed and routed design bind its clock."""

from .placement import component

INPUTS = {"CEN": "clock enable", "SR": "reset"}
"""What nextpnr calls these pins of a logic cell; all others take data."""


def arrivals(report):
    """The latest arrival in each part, latest first: a list of {"part", "arrival_ns", "into", "cell"}.

    report: that of nextpnr, as a dict; one without the timing of single nets gives [].  An arrival is
    the time from a clock's edge to the end of a path in the part: clock to output, LUTs, wires and
    set-up.  At a clock enable nextpnr counts 0.8 ns of set-up more than in its critical path.  into:
    the kind of input at which the path ends, "data", "clock enable" or "reset".  cell: that register.
    """
    latest = {}
    for net in report.get("detailed_net_timings", ()):
        for end in net["endpoints"]:
            part, arrival = component(end["cell"]), (max(end["delay"]), end["cell"], INPUTS.get(end.get("port"), "data"))
            latest[part] = max(latest.get(part, arrival), arrival)
    return listed(latest)


def listed(latest):
    """The list that `arrivals` returns, of {part: (ns, cell, into)}."""
    return [{"part": part, "arrival_ns": round(ns, 3), "into": into, "cell": cell}
            for part, (ns, cell, into) in sorted(latest.items(), key=lambda item: item[1], reverse=True)]
