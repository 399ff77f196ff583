"""What nextpnr writes, small."""


def cell(name):
    return {"cell": name, "port": "O", "loc": [1, 1]}


def report(mhz=40.0, other=90.0):
    steps = (("clk-to-q", 1.4, "a", "a"), ("routing", 2, "a", "b"), ("logic", 1.2, "b", "b"), ("routing", 3, "b", "c"),
             ("setup", 0.1, "c", "c"))
    path = [{"type": kind, "delay": delay, "from": cell(first), "to": cell(last)} for kind, delay, first, last in steps]
    return {"fmax": {"clk": {"achieved": mhz, "constraint": 36}, "slow": {"achieved": other, "constraint": 12}},
            "utilization": {"ICESTORM_LC": {"used": 4000, "available": 5280}, "ICESTORM_DSP": {"used": 0, "available": 8}},
            "critical_paths": [
                {"from": "posedge clk", "to": "posedge clk", "path": path}, {"from": "<async>", "to": "posedge clk", "path": path * 9},
                {"from": "posedge slow", "to": "posedge slow", "path": path[:2]}]}
