`define MAX_IMAGES 64
`define IMAGE_BYTES 192
`define SCORE_BITS 9
`define CLASS_BITS 1
`define LANES 16
`define STEP_BITS 3
`define DUMP(STEPS) $writememh($sformatf("features_%0d_%0d_0.hex", frames, STEPS), dut.bank0.memory.memory, 0, 19); $writememh($sformatf("features_%0d_%0d_1.hex", frames, STEPS), dut.bank1.memory.memory, 0, 19); $writememh($sformatf("features_%0d_%0d_2.hex", frames, STEPS), dut.bank2.memory.memory, 0, 19); $writememh($sformatf("features_%0d_%0d_3.hex", frames, STEPS), dut.bank3.memory.memory, 0, 19);
`define GOLDEN_IMAGES 2
`define GOLDEN_LOGITS 4
