/* What runs first: the stack is picorv32's parameter STACKADDR; main ends the simulation with a trap. */
    .section .text.start
    .globl start
start:
    la t0, bss_begin
    la t1, bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  call main
    ebreak
