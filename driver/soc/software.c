/* The same pictures, classified by the processor alone: network.c of `fbnn-hw generate --target c`.  To `out` go, of each picture, its clocks
   and the logits. */
#include "network.h"
#include "pictures.h"

#define OUT (*(volatile uint32_t *)0x10000000)
#define CLOCKS (*(volatile uint32_t *)0x10000004)

int main(void) {
    unsigned i, k;
    for (i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        int32_t logits[FBNN_CLASSES];
        uint32_t before = CLOCKS;
        fbnn_logits((const uint8_t *)pictures[i], logits);
        OUT = CLOCKS - before;
        for (k = 0; k < FBNN_CLASSES; k++) OUT = (uint32_t)logits[k];
    }
    return 0;
}
