// Runs soc.v until its processor traps: prints each word that leaves at `out`.  Arguments: the weights, bytes of the boot image, most clocks.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "Vtop.h"

int main(int count, char **arguments) {
    Verilated::commandArgs(count, arguments);
    Vtop top;
    std::ifstream source(arguments[1], std::ios::binary);
    std::vector<uint8_t> weights(std::istreambuf_iterator<char>(source), {});
    size_t boot = atoi(arguments[2]), next = 0;
    uint64_t most = atoll(arguments[3]);
    (void)boot, (void)next;
    for (uint64_t clock = 0; clock < most; clock++) {
        top.rst = clock < 8;
#ifdef STREAM
        size_t bytes = STREAM / 8;
        if (!top.rst && !top.weights_tvalid && clock % 2) {  // at most every two clocks, as a flash of four lines gives
            uint32_t payload = 0;
            for (size_t i = 0; i < bytes; i++) payload |= uint32_t(weights[next + i]) << 8 * i;
            top.weights_tdata = payload;
            top.weights_tvalid = 1;
        }
        top.eval();
        bool taken = top.weights_tvalid && top.weights_tready;
        if (taken && (next += bytes) >= weights.size()) next = boot;
#endif
        top.clk = 1;
        top.eval();
#ifdef STREAM
        if (taken) top.weights_tvalid = 0;
#endif
        if (top.out_valid) printf("%u\n", top.out);
        if (top.trap && !top.rst) {
            fprintf(stderr, "%llu clocks\n", (unsigned long long)clock);
            return 0;
        }
        top.clk = 0;
        top.eval();
    }
    fprintf(stderr, "no end in %llu clocks\n", (unsigned long long)most);
    return 1;
}
