"""The script of Vivado, beside Verilog and pins."""

TCL = """# vivado -mode batch -source build.tcl
read_verilog {{top.v accelerator.v}}
read_xdc pins.xdc
synth_design -top top -part {part}
opt_design
place_design
phys_opt_design
route_design
report_utilization -file utilization.txt
report_timing_summary -file timing.txt
if {{[get_property SLACK [get_timing_paths]] < 0}} {{ error "timing missed, see timing.txt; build with a lower --clock" }}
write_bitstream -force -bin_file bitstream.bit
"""


def script(part):
    """Text of build.tcl, for a folder with top.v, accelerator.v, weights.hex and pins.xdc."""
    return TCL.format(part=part)
