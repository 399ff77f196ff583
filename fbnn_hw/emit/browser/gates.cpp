// The module `gates` (clk, rst, rx, tx, ready, active, step, at, seen) behind two buffers of bytes, for WebAssembly.
//
//   start(); send(n) with n bytes in inbox(); run(cycles) until it is not -1; its result is the number of bytes in outbox().  It ends when
//   the board rests and has its weights.
//   watch(1) before send: after each step of the program all words of the banks go into a record; records() of them, each `words()`
//   words of `word_bytes()` bytes for every bank, bank after bank, behind record(); record_step(n) is the number of steps done.
//
// The line has one clock a bit, see rtl/uart.py.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "gates.h"
#include "verilated.h"

#define EXPORT(name) extern "C" __attribute__((export_name(#name)))

namespace {
constexpr int BUFFER = 1 << 17, QUIET = 20, HALF_PS = 10416;
// Clocks between two bytes: the link takes a byte some clocks after its last bit, and only then may the bits of another one come.
constexpr int PAUSE = 4;
// Clocks without a word on the line after which a board that is not ready is left to itself: its weights do not load.
constexpr int PATIENCE = 20000000;
uint8_t inbox_[BUFFER], outbox_[BUFFER];
int sent, taken, received;
std::unique_ptr<VerilatedContext> context;
std::unique_ptr<Vtop> top;
uint64_t cycle, quiet_since;
int bits_left;              // of the byte on its way to the board
unsigned frame;
int bit = -1;               // of the byte on its way from the board
unsigned byte_from_board;
bool watching;
unsigned last_step;
std::vector<uint8_t> recorded;
std::vector<int> steps;

void tick() {
    top->clk = 0;
    top->eval();
    context->timeInc(HALF_PS);
    top->clk = 1;
    top->eval();
    context->timeInc(HALF_PS);
    cycle++;
}

void record(int step) {
    steps.push_back(step);
    size_t at = recorded.size(), bank_bytes = size_t(WORDS) * WORD_BYTES;
    recorded.resize(at + BANKS * bank_bytes);
    const uint8_t *seen = reinterpret_cast<const uint8_t *>(&top->seen);
    for (int address = 0; address < WORDS; address++) {
        top->at = address;
        top->eval();
        for (int bank = 0; bank < BANKS; bank++)
            memcpy(&recorded[at + bank * bank_bytes + address * WORD_BYTES], seen + bank * WORD_BYTES, WORD_BYTES);
    }
}

void one_cycle() {
    if (!bits_left && taken < sent) {
        frame = unsigned(inbox_[taken++]) << 1 | ~0u << 9;
        bits_left = 10 + PAUSE;
    }
    top->rx = bits_left ? frame & 1 : 1;
    if (bits_left) {
        frame >>= 1;
        bits_left--;
    }
    tick();
    if (bit < 0) {
        if (!top->tx) {
            bit = 0;
            byte_from_board = 0;
        }
    } else if (bit == 8) {
        if (received < BUFFER) outbox_[received++] = byte_from_board;
        bit = -1;
    } else {
        byte_from_board |= unsigned(top->tx) << bit++;
    }
    if (top->active || bit >= 0 || bits_left || taken < sent) quiet_since = cycle;
    if (watching && top->step != last_step && top->step != 0) record(top->step - 1);
    last_step = top->step;
}
}  // namespace

EXPORT(inbox) uint8_t *inbox() { return inbox_; }
EXPORT(outbox) uint8_t *outbox() { return outbox_; }
EXPORT(buffer) int buffer() { return BUFFER; }
EXPORT(ready) int ready() { return top->ready; }
EXPORT(cycles) double cycles() { return double(cycle); }
EXPORT(banks) int banks() { return BANKS; }
EXPORT(words) int words() { return WORDS; }
EXPORT(word_bytes) int word_bytes() { return WORD_BYTES; }
EXPORT(records) int records() { return int(steps.size()); }
EXPORT(record) const uint8_t *record_() { return recorded.data(); }
EXPORT(record_step) int record_step(int n) { return steps[n]; }

EXPORT(start) void start() {
    context = std::make_unique<VerilatedContext>();
    top = std::make_unique<Vtop>(context.get());
    top->rx = 1;
    top->rst = 1;
    for (int i = 0; i < 4; i++) tick();
    top->rst = 0;
    quiet_since = cycle;
}

EXPORT(watch) void watch(int on) {
    watching = on;
    recorded.clear();
    steps.clear();
    last_step = top->step;
}

EXPORT(send) void send(int count) {
    sent = count;
    taken = received = 0;
    quiet_since = cycle;
}

EXPORT(run) int run(int count) {
    for (int i = 0; i < count; i++) {
        one_cycle();
        uint64_t quiet = cycle - quiet_since;
        if (quiet > QUIET && (top->ready || quiet > PATIENCE)) {
            if (watching && (steps.empty() || steps.back() != int(top->step))) record(top->step);
            return received;
        }
    }
    return -1;
}
