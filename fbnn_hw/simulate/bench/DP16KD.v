// Behaviour of the ECP5's block RAM as yosys' synth_ecp5 uses it, for the simulation of netlists; yosys has no model of it.
// Ref: Lattice FPGA-TN-02204 (ECP5 memory usage guide); the layout of INITVAL as yosys' lattice/brams_map_16kd.v writes it.
// 1024 words of 18 bits.  An address counts bits of the data width 1, 2, 4, without every ninth; its low bits are byte enables at 18
// and 36.  A port of 36 bits is both ports' data lines, DIA below DIB and DOA below DOB, and narrower reads beside it come from DOB.
// Left out, and reported: chip selects.
`timescale 1ns / 1ps

module DP16KD (
    input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0,
    input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
    input CEA, OCEA, CLKA, WEA, RSTA, CSA2, CSA1, CSA0,
    output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0,
    input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
    input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
    input CEB, OCEB, CLKB, WEB, RSTB, CSB2, CSB1, CSB0,
    output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0
);
    parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18;
    parameter REGMODE_A = "NOREG", REGMODE_B = "NOREG", RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC";
    parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL";
    parameter CLKAMUX = "CLKA", CLKBMUX = "CLKB", GSR = "ENABLED", INIT_DATA = "STATIC";
    parameter [319:0] INITVAL_00 = 0, INITVAL_01 = 0, INITVAL_02 = 0, INITVAL_03 = 0, INITVAL_04 = 0, INITVAL_05 = 0, INITVAL_06 = 0,
    INITVAL_07 = 0, INITVAL_08 = 0, INITVAL_09 = 0, INITVAL_0A = 0, INITVAL_0B = 0, INITVAL_0C = 0, INITVAL_0D = 0, INITVAL_0E = 0,
    INITVAL_0F = 0, INITVAL_10 = 0, INITVAL_11 = 0, INITVAL_12 = 0, INITVAL_13 = 0, INITVAL_14 = 0, INITVAL_15 = 0, INITVAL_16 = 0,
    INITVAL_17 = 0, INITVAL_18 = 0, INITVAL_19 = 0, INITVAL_1A = 0, INITVAL_1B = 0, INITVAL_1C = 0, INITVAL_1D = 0, INITVAL_1E = 0,
    INITVAL_1F = 0, INITVAL_20 = 0, INITVAL_21 = 0, INITVAL_22 = 0, INITVAL_23 = 0, INITVAL_24 = 0, INITVAL_25 = 0, INITVAL_26 = 0,
    INITVAL_27 = 0, INITVAL_28 = 0, INITVAL_29 = 0, INITVAL_2A = 0, INITVAL_2B = 0, INITVAL_2C = 0, INITVAL_2D = 0, INITVAL_2E = 0,
    INITVAL_2F = 0, INITVAL_30 = 0, INITVAL_31 = 0, INITVAL_32 = 0, INITVAL_33 = 0, INITVAL_34 = 0, INITVAL_35 = 0, INITVAL_36 = 0,
    INITVAL_37 = 0, INITVAL_38 = 0, INITVAL_39 = 0, INITVAL_3A = 0, INITVAL_3B = 0, INITVAL_3C = 0, INITVAL_3D = 0, INITVAL_3E = 0,
    INITVAL_3F = 0;

    reg [17:0] memory [0:1023];
    localparam [20479:0] contents = {INITVAL_3F, INITVAL_3E, INITVAL_3D, INITVAL_3C, INITVAL_3B, INITVAL_3A, INITVAL_39, INITVAL_38,
    INITVAL_37, INITVAL_36, INITVAL_35, INITVAL_34, INITVAL_33, INITVAL_32, INITVAL_31, INITVAL_30, INITVAL_2F, INITVAL_2E, INITVAL_2D,
    INITVAL_2C, INITVAL_2B, INITVAL_2A, INITVAL_29, INITVAL_28, INITVAL_27, INITVAL_26, INITVAL_25, INITVAL_24, INITVAL_23, INITVAL_22,
    INITVAL_21, INITVAL_20, INITVAL_1F, INITVAL_1E, INITVAL_1D, INITVAL_1C, INITVAL_1B, INITVAL_1A, INITVAL_19, INITVAL_18, INITVAL_17,
    INITVAL_16, INITVAL_15, INITVAL_14, INITVAL_13, INITVAL_12, INITVAL_11, INITVAL_10, INITVAL_0F, INITVAL_0E, INITVAL_0D, INITVAL_0C,
    INITVAL_0B, INITVAL_0A, INITVAL_09, INITVAL_08, INITVAL_07, INITVAL_06, INITVAL_05, INITVAL_04, INITVAL_03, INITVAL_02, INITVAL_01,
    INITVAL_00};
    integer i;
    initial begin
        for (i = 0; i < 1024; i = i + 1) memory[i] = contents[i * 20 +: 18];
        if (CSDECODE_A != "0b000" || CSDECODE_B != "0b000") $fatal(1, "DP16KD: this model has no chip selects");
    end

    localparam PAIRED = DATA_WIDTH_A == 36 || DATA_WIDTH_B == 36;
    wire clk_a = CLKAMUX == "INV" ? !CLKA : CLKA;
    wire [13:0] address_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
    wire clk_b = CLKBMUX == "INV" ? !CLKB : CLKB;
    wire [13:0] address_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
    wire [17:0] low = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
    wire [17:0] high = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
    reg [35:0] data_a = 0, data_b = 0, held_a = 0, held_b = 0;
    wire [35:0] out_a = REGMODE_A == "OUTREG" ? held_a : data_a;
    wire [35:0] out_b = REGMODE_B == "OUTREG" ? held_b : data_b;
    assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0}
        = PAIRED ? out_b[17:0] : out_a[17:0];
    assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0}
        = DATA_WIDTH_B == 36 ? out_b[35:18] : out_b[17:0];

    // What a port of `width` bits sees at an address.
    function [35:0] read;
        input integer width;
        input [13:0] address;
        reg [17:0] word;
        reg [8:0] half;
        begin
            word = memory[address[13:4]];
            half = address[3] ? word[17:9] : word[8:0];
            case (width)
                36: read = {memory[{address[13:5], 1'b1}], memory[{address[13:5], 1'b0}]};
                18: read = word;
                9: read = half;
                4: read = half[{address[2], 2'b0} +: 4];
                2: read = half[{address[2:1], 1'b0} +: 2];
                default: read = half[address[2:0]];
            endcase
        end
    endfunction

    // A word with the bits of a port of at most 18 bits put in.
    function [17:0] merge;
        input integer width;
        input [13:0] address;
        input [17:0] word, data;
        begin
            merge = word;
            case (width)
                36, 18: begin
                    if (address[0]) merge[8:0] = data[8:0];
                    if (address[1]) merge[17:9] = data[17:9];
                end
                9: merge[9 * address[3] +: 9] = data[8:0];
                4: merge[9 * address[3] + 4 * address[2] +: 4] = data[3:0];
                2: merge[9 * address[3] + 2 * address[2:1] +: 2] = data[1:0];
                default: merge[9 * address[3] + address[2:0]] = data[0];
            endcase
        end
    endfunction

    wire [13:0] high_enables = address_a >> 2;
    always @(posedge clk_a) begin
        if (CEA && WEA) begin
            if (DATA_WIDTH_A == 36) begin
                memory[{address_a[13:5], 1'b0}] <= merge(36, address_a, memory[{address_a[13:5], 1'b0}], low);
                memory[{address_a[13:5], 1'b1}] <= merge(36, high_enables, memory[{address_a[13:5], 1'b1}], high);
            end else memory[address_a[13:4]] <= merge(DATA_WIDTH_A, address_a, memory[address_a[13:4]], low);
        end
        if (CEA && (!WEA || WRITEMODE_A == "READBEFOREWRITE")) data_a <= read(DATA_WIDTH_A, address_a);
        else if (CEA && WRITEMODE_A == "WRITETHROUGH") data_a <= low;
        if (OCEA) held_a <= data_a;
        if (RSTA) {data_a, held_a} <= 0;
    end
    always @(posedge clk_b) begin
        if (CEB && WEB) memory[address_b[13:4]] <= merge(DATA_WIDTH_B, address_b, memory[address_b[13:4]], high);
        if (CEB && (!WEB || WRITEMODE_B == "READBEFOREWRITE")) data_b <= read(DATA_WIDTH_B, address_b);
        else if (CEB && WRITEMODE_B == "WRITETHROUGH") data_b <= high;
        if (OCEB) held_b <= data_b;
        if (RSTB) {data_b, held_b} <= 0;
    end
endmodule
