// A serial NOR flash: Winbond's W25Q128JV, data sheet revision F (2018), at 3.0 to 3.6 V.
//
// Inputs: bit 0 /CS, 1 CLK, 4 to 7 what the board drives on IO0 to IO3, 8 to 11 whether it does.  Outputs: bits 0 to 3 the lines as they
// are, 4 to 7 which of them the flash drives.  Data changes with the falling clock, without a delay.
#pragma once
#include "part.h"
#include <array>
#include <cstring>
#include <algorithm>

struct Flash : Part {
    static constexpr uint32_t SIZE = 1 << 24, SECTOR = 4096, PAGE = 256;
    static constexpr uint64_t PERIOD = 7500, HALF = 3375, SLOW_PERIOD = 20 * NS, SETUP = 2 * NS, HOLD = 3 * NS, SELECT = 5 * NS,
        SELECTED = 3 * NS, FLOAT = 7 * NS, DESELECT = 50 * NS, DESELECT_READ = 10 * NS, RESET = 30 * US, DOWN = 3 * US, WAKE = 3 * US,
        SUSPEND = 20 * US, POWER = 20 * US, POWER_WRITE = 5 * MS;
    static constexpr uint64_t TYPICAL[] = {45 * MS, 700 * US, 10 * MS}, MOST[] = {400 * MS, 3 * MS, 15 * MS};
    // asleep, quad, quad_enabled: in power-down; QE now, and as the part keeps it.  maximum: times are the data sheet's maxima.  scale: by
    // which erasing, programming and suspending are shorter.  worn: a sector + 1 in which bits no longer become 1.
    int64_t asleep = 0, quad = 0, quad_enabled = 0, maximum = 0, scale = 1, worn = 0, busy = 0, suspended = 0, erased = 0, programmed = 0,
        cuts = 0;

    explicit Flash(uint64_t seed) : Part(seed), bytes(SIZE, 0xFF), erasures(SIZE / SECTOR), weak(SIZE / SECTOR) {
        for (auto [name, value] : {std::pair{"asleep", &asleep}, {"quad", &quad}, {"quad_enabled", &quad_enabled}, {"maximum", &maximum},
                 {"scale", &scale}, {"worn", &worn}, {"busy", &busy}, {"suspended", &suspended}, {"erased", &erased},
                 {"programmed", &programmed}, {"cuts", &cuts}})
            values[name] = value;
    }
    Memory memory(int which) override {
        return which ? Memory{erasures.data(), 4 * erasures.size()} : Memory{bytes.data(), bytes.size()};
    }

    // Off: what was being erased or programmed stays half done.
    void power(uint64_t ps, bool on) override {
        finish(ps);
        abandon(ps);
        powered = on;
        asleep = driven = 0;
        quad = quad_enabled;
        selected = reading = enabled = volatile_enabled = reset_enabled = false;
        wait(ps, on ? POWER : 0, "a command less than 20 us after power-up (tVSL)");
        writes_from = on ? ps + POWER_WRITE : 0;
    }

    uint32_t at(uint64_t ps, uint32_t in) override {
        if (!powered) return 0;
        finish(ps);
        const bool select = !(in & 1), clock = in >> 1 & 1;
        const unsigned io = in >> 4 & 15, enable = in >> 8 & 15;
        if (io != io_was || enable != enable_was) {
            changed = ps;
            if (selected && !driven && ps - rose < HOLD) fault("a line changes less than 3 ns after the clock (tCHDX)");
        }
        if (enable & last_driven && ps < floats_at) fault("a line is driven less than 7 ns after select ends (tSHQZ)");
        io_was = io;
        enable_was = enable;
        if (select && !selected) begin(ps, clock);
        if (selected && clock && !clock_was) rise(ps, lines(io, enable), enable);
        if (selected && !clock && clock_was) fall(ps);
        if (!select && selected) end(ps);
        selected = select;
        clock_was = clock;
        if (driven & enable && !fights) fault("both sides drive a line");
        fights = driven & enable;
        return lines(io, enable) | driven << 4;
    }

private:
    enum Kind { ERASE, PROGRAM, STATUS, NOTHING };
    struct Work {
        Kind kind = NOTHING;
        uint32_t place = 0;
        uint64_t since = 0, done = 0, whole = 0;  // ps: when it went on, and how much of it was done before
        std::array<uint8_t, PAGE> data{};
    };
    std::vector<uint8_t> bytes;
    std::vector<uint32_t> erasures;
    std::vector<uint8_t> weak;  // sectors that may read as erased, though their erasure was cut
    bool powered = true, selected = false, clock_was = false, enabled = false, volatile_enabled = false, reset_enabled = false;
    bool reading = false, last_read = false, ignored = false, fights = false;
    unsigned io_was = 0, enable_was = 0, driven = 0, last_driven = 0, out = 15, count = 0, command = 0, sub = 0;
    uint32_t head = 0, place = 0;
    uint8_t shifting = 0;
    uint64_t rose = 0, fell = 0, changed = 0, selected_at = 0, deselected = 0, floats_at = 0, ready_at = 0, writes_from = 0, resumed = 0;
    const char *reason = "";
    Work work, held;
    std::array<uint8_t, PAGE> page{};
    std::array<bool, PAGE> sent{};

    // A line that nobody drives is pulled up.
    unsigned lines(unsigned io, unsigned enable) const { return (io & enable) | (out & driven) | (~(enable | driven) & 15); }

    void wait(uint64_t ps, uint64_t time, const char *what) {
        ready_at = ps + time;
        reason = what;
    }

    void begin(uint64_t ps, bool clock) {
        const uint64_t pause = ps - deselected;
        if (deselected && pause < DESELECT_READ) fault("selected less than 10 ns after a read (tSHSL1)");
        else if (deselected && pause < DESELECT && !last_read) fault("selected less than 50 ns after a command (tSHSL2)");
        if (clock) fault("selected while the clock is high");
        selected_at = ps;
        count = command = sub = 0;
        reading = ignored = false;
        sent.fill(false);
    }

    static bool reads(unsigned command) { return command == 0x03 || command == 0x0B || command == 0x3B || command == 0x6B; }
    static bool asks(unsigned command) { return command == 0x05 || command == 0x35 || command == 0x15; }
    static unsigned width(unsigned command) { return command == 0x6B ? 4 : command == 0x3B ? 2 : 1; }
    // Clocks before the first data that the flash sends; 0 for a command without any.
    static unsigned header(unsigned command) {
        return command == 0x03 ? 32 : reads(command) ? 40 : asks(command) || command == 0x9F ? 8 : command == 0xAB ? 32 : 0;
    }

    void rise(uint64_t ps, unsigned levels, unsigned enable) {
        const uint64_t period = ps - rose;
        if (count && period < PERIOD) fault("the clock is faster than 133 MHz (fR)");
        if (count && ps - fell < HALF) fault("the clock is low for less than 45 % of its period (tCLL)");
        if (!count && ps - selected_at < SELECT) fault("clocked less than 5 ns after select (tSLCH)");
        if (count && command == 0x03 && count > 8 && period < SLOW_PERIOD) fault("read data (03) faster than 50 MHz");
        rose = ps;
        count++;
        if (reading || driven) return;
        if (ps - changed < SETUP) fault("a line changes less than 2 ns before the clock (tDVCH)");
        if (count <= 8 || (!ignored && count <= 32 && header(command) > 8) || command == 0x02) {
            if (!(enable & 1)) fault("nobody drives IO0");
            if (!quad && (enable & levels & 12) != 12) fault("write protection or hold is not high");
        }
        head = head << 1 | (levels & 1);
        if (count == 8) accept(ps);
        if (count == 32) place = head & (SIZE - 1);
        if (command == 0x02 && count > 32 && count % 8 == 0) {
            const unsigned at = (place + (count - 40) / 8) % PAGE;
            page[at] = uint8_t(head);
            sent[at] = true;
        }
    }

    void accept(uint64_t ps) {
        command = head & 0xFF;
        if (asleep) ignored = command != 0xAB;
        else if (ps < ready_at) {
            fault(reason);
            ignored = true;
        } else if (busy && !asks(command) && command != 0x75 && command != 0x66 && command != 0x99) {
            fault(reads(command) ? "read while busy" : "a command while busy");
            ignored = true;
        } else if (command == 0x6B && !quad) {
            fault("quad read without QE");
            ignored = true;
        }
    }

    void fall(uint64_t ps) {
        if (ps - rose < HALF) fault("the clock is high for less than 45 % of its period (tCLH)");
        fell = ps;
        const unsigned start = count < 8 ? 0 : header(command);
        if (!reading && start && count >= start && (!ignored || reads(command))) reading = true;
        if (!reading) return;
        const unsigned lanes = reads(command) ? width(command) : 1;
        if (sub == 0) shifting = ignored ? uint8_t(random()) : next();  // of lines that float, anything is read
        driven = lanes == 4 ? 15 : lanes == 2 ? 3 : 2;
        out = lanes == 4 ? shifting >> 4 : lanes == 2 ? shifting >> 6 : shifting >> 7 << 1;
        shifting <<= lanes;
        sub = (sub + lanes) % 8;
    }

    uint8_t next() {
        switch (command) {
        case 0x05: return uint8_t(busy | enabled << 1);
        case 0x35: return uint8_t(quad << 1 | suspended << 7);
        case 0x15: return 0x60;
        case 0xAB: return 0x17;
        case 0x9F: return uint8_t(0xEF4018 >> (16 - 8 * (count / 8 - 1) % 24));
        }
        const uint32_t from = place;
        place = (place + 1) % SIZE;
        const uint32_t unit = held.kind == ERASE ? SECTOR : PAGE;
        if (suspended && from / unit == held.place / unit) {
            fault("read of what is being erased or programmed");
            return uint8_t(random());
        }
        return bytes[from];
    }

    void end(uint64_t ps) {
        if (count && ps - rose < SELECTED) fault("select ends less than 3 ns after the clock (tCHSH)");
        deselected = ps;
        last_read = reads(command) && !ignored;
        last_driven = driven;
        if (driven) floats_at = ps + FLOAT;
        driven = 0;
        if (count && count < 8) fault("a command of less than 8 clocks");
        if (count >= 8 && !ignored) execute(ps);
        reading = false;
    }

    bool whole(unsigned clocks) {
        if (count != clocks) fault("a command of a wrong length");
        return count == clocks;
    }
    // Whether a write may begin, by what the status says.
    bool allowed(uint64_t ps) {
        if (ps < writes_from) fault("written less than 5 ms after power-up (tPUW)");
        else if (!enabled) fault("written without write enable");
        else if (suspended) fault("written while suspended");
        else return true;
        return false;
    }

    void execute(uint64_t ps) {
        const bool was_reset = reset_enabled, was_volatile = volatile_enabled;
        reset_enabled = volatile_enabled = false;
        switch (command) {
        case 0x06: if (whole(8)) enabled = true; break;
        case 0x04: if (whole(8)) enabled = false; break;
        case 0x50: if (whole(8)) volatile_enabled = true; break;
        case 0x66: if (whole(8)) reset_enabled = true; break;
        case 0x99: if (whole(8) && was_reset) restart(ps); else fault("reset without 66"); break;
        case 0xB9: if (whole(8)) asleep = 1, wait(ps, DOWN, "a command less than 3 us after power-down (tDP)"); break;
        case 0xAB:
            asleep = 0;
            if (ps < ready_at) fault(reason);
            wait(ps, WAKE, "a command less than 3 us after release (tRES1)");
            break;
        case 0x75: if (whole(8)) suspend(ps); break;
        case 0x7A: if (whole(8)) resume(ps); break;
        case 0x31:
            if (!whole(16)) break;
            if (was_volatile) quad = head >> 1 & 1;
            else if (allowed(ps)) start(ps, STATUS, head >> 1 & 1);
            break;
        case 0x20: if (whole(32) && allowed(ps)) start(ps, ERASE, place / SECTOR * SECTOR); break;
        case 0x02:
            if (count < 40 || count % 8) fault("a command of a wrong length");
            else if (allowed(ps)) program(ps);
            break;
        case 0xFF: break;  // ends continuous reads, which are not modelled
        default: if (!header(command)) fault("an unknown command");  // a read may end at any clock
        }
    }

    void program(uint64_t ps) {
        const uint32_t first = place / PAGE * PAGE;
        if (weak[first / SECTOR]) fault("programmed in a sector whose erasure was cut");
        for (unsigned i = 0; i < PAGE; i++) {
            if (!sent[i]) page[i] = 0xFF;
            else if (page[i] != 0xFF && page[i] & ~bytes[first + i]) fault("programmed over what is not erased");
        }
        start(ps, PROGRAM, first);
        work.data = page;
    }

    void start(uint64_t ps, Kind kind, uint32_t where) {
        busy = 1;
        work.kind = kind;
        work.place = where;
        work.since = ps;
        work.done = 0;
        work.whole = (maximum ? MOST : TYPICAL)[kind] / uint64_t(scale);
        if (kind == ERASE) erasures[where / SECTOR]++;
    }

    void suspend(uint64_t ps) {
        if (!busy || suspended || work.kind == STATUS || work.kind == NOTHING) return;
        if (ps - resumed < SUSPEND / scale) fault("suspended less than 20 us after a resume (tSUS)");
        enabled = false;
        work.done += ps - work.since;
        held = work;
        work = Work();
        work.since = ps;
        work.whole = SUSPEND / scale;  // it is busy until then
        suspended = 1;
    }

    void resume(uint64_t ps) {
        if (!suspended || busy) return;
        work = held;
        held = Work();
        work.since = resumed = ps;
        suspended = 0;
        enabled = true;
        busy = 1;
    }

    void finish(uint64_t ps) {
        if (!busy || ps < work.since + work.whole - work.done) return;
        busy = 0;
        enabled = false;
        apply(work, 1);
        erased += work.kind == ERASE;
        programmed += work.kind == PROGRAM;
        work = Work();
    }

    // What is done of a piece of work, `part` of whose time has passed.  Erasing first clears the sector's bits, then sets them.
    void apply(const Work &what, double part) {
        if (what.kind == STATUS && part == 1) quad = quad_enabled = what.place;
        uint8_t *const at = &bytes[what.place];
        if (what.kind == PROGRAM) for (unsigned i = 0; i < PAGE; i++) at[i] = mixed(*this, at[i], at[i] & what.data[i], part);
        if (what.kind != ERASE) return;
        weak[what.place / SECTOR] = part < 1;
        if (part == 1) {
            memset(at, 0xFF, SECTOR);
            if (worn == what.place / SECTOR + 1) for (int i = 0; i < 16; i++) at[below(SECTOR)] &= ~(1 << below(8));
            return;
        }
        const double cleared = part / 0.2, set = (part - 0.2) / 0.8;
        const bool looks_erased = part > 0.9 && below(4) == 0;  // a late cut may leave cells that read as 1 by a hair's breadth
        for (unsigned i = 0; i < SECTOR; i++) at[i] = looks_erased ? 0xFF : mixed(*this, mixed(*this, at[i], 0, cleared), 0xFF, set);
    }

    void abandon(uint64_t ps) {
        if (busy) work.done += ps - work.since;
        for (const Work *what : {&work, &held}) {
            if (what->kind == NOTHING) continue;
            cuts++;
            apply(*what, std::min(0.999999, double(what->done) / double(what->whole)));
        }
        work = held = Work();
        busy = suspended = 0;
    }

    void restart(uint64_t ps) {
        if (busy || suspended) fault("reset while busy or suspended");
        abandon(ps);
        enabled = false;
        quad = quad_enabled;
        wait(ps, RESET, "a command less than 30 us after a reset (tRST)");
    }
};
