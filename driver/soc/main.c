/* Classifies pictures by an accelerator, and teaches it.  LESSON, in pictures.h, lists what is done with the pictures that lie there one
   after the other: a number from 0 is the label as which the picture is learned once it was classified, -1 leaves it at that.
   To `out` go, of each picture: what fbnn_hw_classify returns, the class, the clocks of the whole call, how many logits there are, the
   logits, and, where it is learned, what fbnn_hw_learn returns. */
#include "fbnn.h"
#include "pictures.h"

#define OUT (*(volatile uint32_t *)0x10000000)
#define CLOCKS (*(volatile uint32_t *)0x10000004)

static const int32_t lesson[] = {LESSON};
static int32_t logits[MOST];

int main(void) {
    fbnn_hw device = {.bus = (void *)0x30000000};
    unsigned i, k;
    OUT = (uint32_t)fbnn_hw_identify(&device);
    for (i = 0; i < sizeof lesson / sizeof *lesson; i++) {
        fbnn_hw_result result = {0, 0, 0, 0};
        uint32_t before = CLOCKS, failed = (uint32_t)fbnn_hw_classify(&device, (const uint8_t *)pictures[i], &result, logits);
        uint32_t spent = CLOCKS - before;
        OUT = failed;
        OUT = result.answer;
        OUT = spent;
        OUT = result.logits;
        for (k = 0; k < result.logits; k++) OUT = (uint32_t)logits[k];
        if (lesson[i] >= 0) OUT = (uint32_t)fbnn_hw_learn(&device, (uint16_t)lesson[i]);
    }
    return 0;
}
