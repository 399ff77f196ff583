// What all models of parts have, and a slave on two wires (I2C and SCCB) that decodes them bit by bit.
//
// A part is a function of time and of its input pins: `at` takes the time in picoseconds, which never falls, and the levels that hold from
// then on, and returns those of its outputs.  It may be called at each change of an input, or at each clock of a design.
#pragma once
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

constexpr uint64_t NS = 1000, US = 1000 * NS, MS = 1000 * US;

struct Memory { void *data; uint64_t bytes; };

struct Part {
    std::map<std::string, int64_t> faults;    // what the data sheet forbids and the design did: how often
    std::map<std::string, int64_t *> values;  // options, and what the part can be asked for
    std::mt19937_64 random;

    explicit Part(uint64_t seed) : random(seed) {}
    virtual ~Part() {}
    virtual uint32_t at(uint64_t ps, uint32_t pins) = 0;
    virtual void power(uint64_t, bool) {}
    virtual Memory memory(int) { return {nullptr, 0}; }
    virtual std::string text() { return ""; }  // what it was set to

    void fault(const char *name) { faults[name]++; }
    uint64_t below(uint64_t most) { return most ? random() % most : 0; }
};

// The bits of a word after a change that takes place with a probability of `part` in each bit.
inline uint8_t mixed(Part &who, uint8_t before, uint8_t after, double part) {
    uint8_t mask = 0;
    for (int i = 0; i < 8; i++) mask |= (double(who.random() >> 11) * 0x1p-53 < part) << i;
    return (before & ~mask) | (after & mask);
}

struct TwoWire : Part {
    // Fast mode, 400 kHz: the same numbers in UM10204 (I2C) and in the data sheets of OV7670, HM01B0 and SSD1306.
    static constexpr uint64_t LOW = 1300 * NS, HIGH = 600 * NS, HOLD_START = 600 * NS, SETUP_START = 600 * NS, SETUP_STOP = 600 * NS,
                              SETUP = 100 * NS, FREE = 1300 * NS;
    const unsigned address;
    const bool restarts;  // a start without a stop before it is allowed
    int64_t absent = 0;

    TwoWire(uint64_t seed, unsigned address, bool restarts) : Part(seed), address(address), restarts(restarts) {
        values["absent"] = &absent;
    }
    virtual void take(int number, uint8_t byte) = 0;  // the bytes of a write after the address, numbered from 0
    virtual uint8_t give() = 0;
    virtual void stopped() {}

    // The levels of both wires -> whether the part pulls the data wire low.
    bool wires(uint64_t ps, bool clock, bool free) {
        if (absent) return false;
        const bool data = free && !pulls;
        if (clock && !clock_was) {
            if (ps - data_at < SETUP || data != data_was) fault("two wires: data changes less than 100 ns before the clock");
            if (ps - clock_at < LOW) fault("two wires: the clock is low for less than 1.3 us");
            rise(data);
        } else if (!clock && clock_was) {
            if (ps - clock_at < HIGH) fault("two wires: the clock is high for less than 0.6 us");
            if (ps - started_at < HOLD_START) fault("two wires: clocked less than 0.6 us after a start");
            fall();
        } else if (clock && data != data_was) {
            data ? stop(ps) : start(ps);
        }
        if (clock != clock_was) clock_at = ps;
        if (data != data_was) data_at = ps;
        clock_was = clock;
        data_was = free && !pulls;
        return pulls;
    }
    void idle() {
        phase = IDLE;
        pulls = false;
    }

private:
    enum { IDLE, ADDRESS, WRITE, READ } phase = IDLE;
    bool clock_was = true, data_was = true, pulls = false, first = true;
    uint64_t clock_at = 0, data_at = 0, started_at = 0, stopped_at = 0;
    int bits = 0, number = 0;
    uint8_t byte = 0, out = 0;

    void start(uint64_t ps) {
        if (phase != IDLE && !restarts) fault("two wires: a start without a stop");
        if (ps - clock_at < SETUP_START && !first) fault("two wires: a start less than 0.6 us after the clock");
        if (ps - stopped_at < FREE && !first) fault("two wires: a start less than 1.3 us after a stop");
        phase = ADDRESS;
        started_at = ps;
        bits = number = 0;
        first = false;
    }

    void stop(uint64_t ps) {
        if (ps - clock_at < SETUP_STOP) fault("two wires: a stop less than 0.6 us after the clock");
        if (phase != IDLE && bits != 1) fault("two wires: a stop amid a byte");  // its own rising clock counts as a bit
        if (phase == WRITE) stopped();
        phase = IDLE;
        stopped_at = ps;
    }

    void rise(bool data) {
        if (phase == IDLE) return;
        if (bits < 8) byte = uint8_t(byte << 1 | data);
        else if (phase == READ && data) phase = IDLE;  // not acknowledged: the master ends it
        bits++;
    }

    void fall() {
        pulls = false;
        if (phase == IDLE) return;
        if (bits == 8 && phase != READ) {
            if (phase == ADDRESS && byte >> 1 != address) {
                phase = IDLE;
                return;
            }
            if (phase == WRITE) take(number++, byte);
            pulls = true;
        } else if (bits == 9) {
            bits = 0;
            if (phase == ADDRESS) phase = byte & 1 ? READ : WRITE;
            if (phase == READ) out = give();
        }
        if (phase == READ && bits < 8) pulls = !(out >> (7 - bits) & 1);
    }
};
