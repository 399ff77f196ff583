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

/* What the compiler calls by itself. */
    .text
    .globl memset
memset:
    add a2, a2, a0
    mv t0, a0
1:  bgeu t0, a2, 2f
    sb a1, 0(t0)
    addi t0, t0, 1
    j 1b
2:  ret

    .globl memcpy
memcpy:
    add a2, a2, a0
    mv t0, a0
1:  bgeu t0, a2, 2f
    lbu t1, 0(a1)
    sb t1, 0(t0)
    addi a1, a1, 1
    addi t0, t0, 1
    j 1b
2:  ret
