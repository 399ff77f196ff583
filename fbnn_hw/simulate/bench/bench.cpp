// Drives testbench.v where cocotb has no library for Verilator, as on Windows; bench.py does the same under cocotb.
//
// BENCH_IMAGES, BENCH_STALL, BENCH_LATENT, BENCH_WINDOW and BENCH_CYCLES of the environment are those of bench.py.  --trace records a
// waveform from the start.  Exit 1, with a line on standard output, where the simulation does not end in time.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "Vtop.h"
#include "verilated.h"
#if VM_TRACE_FST
#include "verilated_fst_c.h"
using Waves = VerilatedFstC;
constexpr const char *FILE_NAME = "dump.fst";
#elif VM_TRACE
#include "verilated_vcd_c.h"
using Waves = VerilatedVcdC;
constexpr const char *FILE_NAME = "dump.vcd";
#endif

constexpr uint64_t HALF_PS = 5000;  // half of bench.py's CLOCK_NS

// Verilator's runtime calls it where a context's time is 0; linkers of Windows and macOS want it to be there.
double sc_time_stamp() { return 0; }

static uint64_t number(const char *name) {
    const char *text = std::getenv(name);
    return text ? std::strtoull(text, nullptr, 10) : 0;
}

int main(int argc, char **argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    context.traceEverOn(true);
    auto top = std::make_unique<Vtop>(&context);
#if VM_TRACE
    std::unique_ptr<Waves> waves;
    for (int i = 1; i < argc; i++)
        if (!std::strcmp(argv[i], "--trace")) {
            waves = std::make_unique<Waves>();
            top->trace(waves.get(), 99);
            waves->open(FILE_NAME);
        }
#endif
    auto clock = [&] {
        for (int level = 0; level < 2; level++) {
            top->clk = level;
            top->eval();
#if VM_TRACE
            if (waves) waves->dump(context.time());
#endif
            context.timeInc(HALF_PS);
        }
    };
    const uint64_t images = number("BENCH_IMAGES"), limit = number("BENCH_CYCLES");
    const bool window = number("BENCH_WINDOW");
    top->images = images;
    top->stall = number("BENCH_STALL");
    top->want_latent = number("BENCH_LATENT");
    top->ask = 0;
    top->rst = 1;
    for (int i = 0; i < 4; i++) clock();
    top->rst = 0;
    auto ended = [&] { return window ? bool(top->recorded) : top->frames == images; };
    for (uint64_t cycle = 0; cycle < limit && !ended(); cycle++) clock();
    const bool in_time = ended();
    if (!in_time && window) std::printf("the layer did not end within %llu cycles\n", (unsigned long long)limit);
    if (!in_time && !window) std::printf("frame %u did not end within %llu cycles\n", unsigned(top->frames), (unsigned long long)limit);
    for (int i = 0; i < 2; i++) clock();
    top->final();
#if VM_TRACE
    if (waves) waves->close();
#endif
    return in_time ? 0 : 1;
}
