# The clock that this design is planned for; all paths of accelerator.v are within it.
create_clock -name clk -period 10.000 [get_ports clk]
