// The module `gates`, an accelerator that learns, behind two buffers of bytes that hold messages of the link, for WebAssembly.
//
//   start(); exchange(n) with n bytes in inbox(); its result is the number of bytes in outbox().  It ends when the design rests.
//   watch(1) before exchange: after each step of the program all words of the banks go into a record; records() of them, each `words()`
//   words of `word_bytes()` bytes for every bank, bank after bank, behind record(); record_step(n) is the number of steps done.
//
// What stands between messages and the streams of the accelerator is here, so no cycle is spent on bits of a line.  Twin: rtl/host_link.py.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "Vtop___024root.h"
#include "verilated.h"
#include "gates.h"

#define EXPORT(name) extern "C" __attribute__((export_name(#name)))

namespace {
using Bytes = std::vector<uint8_t>;

constexpr int BUFFER = 1 << 17, HALF_PS = 10416;
constexpr uint64_t PATIENCE = 1 << 24;  // cycles after which something does not come
constexpr int SETTLE = 4;               // cycles after which `busy` and `refused` are those of a command
const uint8_t IDENTITY_[] = IDENTITY;

uint8_t inbox_[BUFFER], outbox_[BUFFER];
std::unique_ptr<VerilatedContext> context;
std::unique_ptr<Vtop> top;
uint64_t cycle;
Bytes stream;        // with STREAMS: the weights; the first BOOT bytes once, the others over and over
size_t next_weight;  // place in them of the next beat, which is BEAT of them
bool up;             // the weights are loaded
uint8_t found[HOST_BYTES];  // the word of the learner's memory that was there when the last offer was taken
unsigned frames, errors, frame_cycles;
bool remembered, sample;  // the last request was carried out; an image was classified since the reset
uint8_t last_sequence;
bool watching;
unsigned last_step;
Bytes recorded;
std::vector<int> steps;

// Offer the weight at `place`, if there is one.
void offer(size_t place) {
    next_weight = place;
    top->weight_valid = place < stream.size();
    uint32_t beat = 0;
    for (size_t i = 0; i < BEAT && top->weight_valid; i++) beat |= uint32_t(stream[place + i]) << 8 * i;
    top->weight = beat;
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

// Bring what hangs on the inputs up to date, within a cycle.
void settle() { top->eval(); }

// End the cycle.  Nothing in a design waits for a falling edge, so the clock stays high and only its rise is told.
void edge() {
    bool taken = false;
    if (STREAMS) {
        settle();
        taken = top->weight_valid && top->weight_ready;
    }
    top->rootp->__Vtrigprevexpr___TOP__clk__0 = 0;
    top->eval();
    context->timeInc(2 * HALF_PS);
    cycle++;
    if (taken) offer(next_weight + BEAT < stream.size() ? next_weight + BEAT : BOOT);
    if (watching && top->step != last_step && top->step != 0) record(top->step - 1);
    last_step = top->step;
}

// Offer something until it is taken, then take the offer back.  False where nobody takes it.
bool offered(CData &valid, const CData &ready) {
    valid = 1;
    for (uint64_t until = cycle + PATIENCE; cycle < until;) {
        settle();
        bool taken = ready;
        if (taken) memcpy(found, &top->found, HOST_BYTES);
        edge();
        if (taken) {
            valid = 0;
            return true;
        }
    }
    valid = 0;
    return false;
}

bool rested() {
    for (uint64_t until = cycle + PATIENCE; top->busy; edge())
        if (cycle > until) return false;
    return true;
}

// Put the accelerator into its first state and let it load its weights and tables.
void reset() {
    top->rst = 1;
    for (int i = 0; i < SETTLE; i++) edge();
    top->rst = 0;
    offer(0);
    sample = remembered = false;
    for (int i = 0; i < SETTLE; i++) edge();
    up = rested();
    for (uint64_t until = cycle + PATIENCE; STREAMS && up && next_weight < BOOT; edge()) up = cycle < until;
}

void number(Bytes &bytes, unsigned value, int count) {
    for (int i = 0; i < count; i++) bytes.push_back(value >> 8 * i);
}

// The bytes of a word, whatever type Verilator gives its port.
template <class Port> void word(Bytes &bytes, const Port &port, int count) {
    const uint8_t *first = reinterpret_cast<const uint8_t *>(&port);
    bytes.insert(bytes.end(), first, first + count);
}

// The class as a reply has it, from the result of the accelerator: above the class whether the answer is "unknown".
unsigned answered(unsigned result, int flags) {
    if (!ANSWERS_UNKNOWN) return result;
    bool unknown = result >> LABEL_BITS & 1 && flags & UNKNOWN;
    return (result & ((1u << LABEL_BITS) - 1)) | (unknown ? UNKNOWN_CLASS : 0);
}

Fault classify(const uint8_t *image, int flags, Bytes &answer) {
    Bytes logits, latent;
    top->want_latent = flags & LATENT ? 1 : 0;
    sample = false;
    for (int i = 0; i < IMAGE_BYTES; i++) {
        top->pixel = image[i];
        if (!offered(top->pixel_valid, top->pixel_ready)) return RESULT;
    }
    uint64_t begun = cycle, results = 0;
    top->results_ready = 1;
    for (; !results && cycle < begun + PATIENCE; edge()) {
        if (!(top->logits_valid | top->latent_valid | top->result_valid)) continue;
        if (top->logits_valid) number(logits, top->logits, 2);
        if (top->latent_valid) word(latent, top->latent, WORD_BYTES);
        results = top->result_valid;
        if (results) number(answer, answered(top->result, flags), 2);
    }
    top->results_ready = 0;
    if (!results) return RESULT;
    frames++;
    frame_cycles = unsigned(cycle - begun);
    sample = true;
    answer.insert(answer.begin(), latent.begin(), latent.end());
    if (flags & LOGITS) answer.insert(answer.begin(), logits.begin(), logits.end());
    return NONE;
}

Fault command(int opcode, unsigned label, unsigned count) {
    if (opcode != REHEARSE && opcode != FREEZE) {
        if (!sample) return SAMPLE;
        if (label > MAX_CLASSES) return LABEL;
    }
    top->command = opcode & 7;
    top->label = label;
    top->count = count;
    if (!offered(top->command_valid, top->command_ready)) return RESULT;
    for (int i = 0; i < SETTLE; i++) edge();
    if (!rested()) return RESULT;
    return !top->refused ? NONE : top->frozen ? FROZEN : LABEL;
}

Fault access(int opcode, unsigned address, int count, const uint8_t *words, Bytes &answer) {
    top->host_write = opcode >= POKE;
    top->host_space = opcode & 7;
    for (int i = 0; i < count; i++) {
        top->host_address = address ^ i;
        if (words) memcpy(&top->host_data, words + i * HOST_BYTES, HOST_BYTES);
        if (!offered(top->host_valid, top->host_ready)) return RESULT;
        if (!words) answer.insert(answer.end(), found, found + HOST_BYTES);
    }
    return NONE;
}

// Carry out a good request.
Fault carry_out(int opcode, uint8_t sequence, const uint8_t *payload, Bytes &answer) {
    bool repeated = remembered && sequence == last_sequence;
    last_sequence = sequence;
    remembered = opcode != IDENTIFY;
    if (opcode == IDENTIFY) {
        answer.assign(IDENTITY_, IDENTITY_ + sizeof IDENTITY_);
        return NONE;
    }
    if (opcode == STATUS) {
        number(answer, up | top->frozen << 2, 1);
        number(answer, frames, 2);
        number(answer, errors, 2);
        number(answer, frame_cycles, 3);
        return NONE;
    }
    Fault fault = BUSY;
    if (opcode < LEARN) {
        if (up) fault = classify(payload, opcode - CLASSIFY, answer);
        return fault;
    }
    unsigned number = payload[0] | payload[1] << 8 | payload[2] << 16;
    bool asks = opcode >= PEEK && opcode < POKE;
    if (repeated && !asks) return NONE;
    if (opcode == RESET) {
        reset();
        remembered = true;
        return NONE;
    }
    if (up) fault = opcode < PEEK ? command(opcode, number, payload[3])
                                  : access(opcode, number, payload[3], asks ? nullptr : payload + OPERAND_BYTES, answer);
    if (fault) remembered = false;
    return fault;
}

unsigned crc(const uint8_t *bytes, size_t count) {
    unsigned value = CRC_START;
    while (count--) {
        value ^= *bytes++;
        for (int i = 0; i < 8; i++) value = value >> 1 ^ (value & 1 ? CRC_POLYNOMIAL : 0);
    }
    return value;
}

// Why a message cannot be carried out, of `left` bytes from its SYNC on; `length`: of its payload.
Fault damage(const uint8_t *message, int left, int &length) {
    if (left < HEADER_BYTES) return TIMEOUT;
    int opcode = message[1];
    length = message[3] | message[4] << 8;
    bool learning = (opcode >= LEARN && opcode <= FREEZE) || opcode == RESET, access = opcode >= PEEK && opcode < POKE + SPACES;
    bool classify = (opcode & ~(LOGITS | LATENT | (ANSWERS_UNKNOWN ? UNKNOWN : 0))) == CLASSIFY, poke = access && opcode >= POKE;
    if (!learning && !access && !classify && opcode != IDENTIFY && opcode != STATUS) return OPCODE;
    if (!poke && length != (classify ? IMAGE_BYTES : learning || access ? OPERAND_BYTES : 0)) return LENGTH;
    if (left < HEADER_BYTES + length + CRC_BYTES) return TIMEOUT;
    if (access) {
        int count = message[HEADER_BYTES + OPERAND_BYTES - 1];
        if (!count || (poke && length != OPERAND_BYTES + count * HOST_BYTES)) return LENGTH;
    }
    return crc(message + 1, HEADER_BYTES - 1 + length + CRC_BYTES) ? CRC : NONE;
}
}  // namespace

EXPORT(inbox) uint8_t *inbox() { return inbox_; }
EXPORT(outbox) uint8_t *outbox() { return outbox_; }
EXPORT(ready) int ready() { return up; }
EXPORT(cycles) double cycles() { return double(cycle); }
EXPORT(banks) int banks() { return BANKS; }
EXPORT(words) int words() { return WORDS; }
EXPORT(word_bytes) int word_bytes() { return WORD_BYTES; }
EXPORT(records) int records() { return int(steps.size()); }
EXPORT(record) const uint8_t *record_() { return recorded.data(); }
EXPORT(record_step) int record_step(int n) { return steps[n]; }

EXPORT(start) void start() {
    static const char *arguments[] = {"gates"};
    context = std::make_unique<VerilatedContext>();
    context->commandArgs(1, arguments);  // the model of an SPRAM looks for some
    top = std::make_unique<Vtop>(context.get());
    if (STREAMS) {
        FILE *file = fopen("weights.bin", "rb");
        for (int byte; file && (byte = fgetc(file)) != EOF;) stream.push_back(byte);
        if (stream.size() < BOOT) return;
    }
    top->clk = 1;
    reset();
}

EXPORT(watch) void watch(int on) {
    watching = on;
    recorded.clear();
    steps.clear();
    last_step = top->step;
}

EXPORT(exchange) int exchange(int count) {
    size_t sent = 0;
    for (int at = 0; at < count;) {
        const uint8_t *message = inbox_ + at;
        if (*message != SYNC) {
            at++;
            continue;
        }
        int length = 0;
        Bytes answer;
        Fault fault = damage(message, count - at, length);
        bool whole = !fault || fault == CRC;
        uint8_t sequence = count - at > 2 ? message[2] : 0;
        if (!fault) fault = carry_out(message[1], sequence, message + HEADER_BYTES, answer);
        if (fault) answer.assign(1, fault);
        errors += fault != NONE;
        Bytes reply = {uint8_t(SYNC), uint8_t(fault ? ERROR : message[1] | REPLY), sequence};
        number(reply, answer.size(), 2);
        reply.insert(reply.end(), answer.begin(), answer.end());
        number(reply, crc(reply.data() + 1, reply.size() - 1), 2);
        memcpy(outbox_ + sent, reply.data(), reply.size());
        sent += reply.size();
        at = whole ? at + HEADER_BYTES + length + CRC_BYTES : count;  // behind a damaged message the link waits for a quiet line
        if (sent + HEADER_BYTES + CRC_BYTES + 0xFFFF > BUFFER) break;
    }
    if (watching && (steps.empty() || steps.back() != int(top->step))) record(top->step);
    return int(sent);
}
