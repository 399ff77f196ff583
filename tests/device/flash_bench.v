// Another model of a flash, driven as a file says: a line is the picoseconds since the one before it, /CS, CLK, lines, their enables.
// After each, the file `answers` has the four lines as they are just before the next.
`timescale 1ps / 1ps
module bench;
    reg select_n = 1, clk = 0;
    reg [3:0] level = 15, enable = 0;
    wire [3:0] io;
    genvar i;
    generate for (i = 0; i < 4; i = i + 1) begin : line
        assign io[i] = enable[i] ? level[i] : 1'bz;
        pullup (io[i]);
    end endgenerate
    qspi_flash #(.PROGRAM_NS(700), .ERASE_NS(45000)) flash (.clk(clk), .csb(select_n), .io(io));
    integer file, answers, found, since, s, c, l, e;
    initial begin
        file = $fopen("events", "r");
        answers = $fopen("answers", "w");
        found = $fscanf(file, "%d %d %d %d %d\n", since, s, c, l, e);
        while (found == 5) begin
            #(since);
            $fwrite(answers, "%b\n", io);
            {level, enable, clk, select_n} = {l[3:0], e[3:0], c[0], s[0]};
            found = $fscanf(file, "%d %d %d %d %d\n", since, s, c, l, e);
        end
        #100 $fwrite(answers, "%b\n", io);
        $fclose(answers);
        $finish;
    end
endmodule
