// The keeper alone, between the model of a flash and a learner's memory, as standard input says; a line of output for each line.
//
// Arguments: latency, picoseconds of a clock, seed, then the tables of the slot: space, first address, words, bits.
#include "flash.h"
#include "Vtop.h"
#include <iostream>
#include <sstream>

struct Table { unsigned space, first; std::vector<uint64_t> words; unsigned bits; };

int main(int argc, char **argv) {
    Verilated::commandArgs(argc, argv);
    auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
    const unsigned latency = number(1);
    const uint64_t period = number(2);
    Flash flash(number(3));
    std::mt19937_64 random(number(3));
    std::vector<Table> tables;
    for (int i = 4; i + 3 < argc; i += 4)
        tables.push_back({unsigned(number(i)), unsigned(number(i + 1)), std::vector<uint64_t>(number(i + 2)), unsigned(number(i + 3))});
    Vtop dut;
    dut.clk = dut.rst = dut.save = dut.undo = dut.model = dut.host___05Fready = dut.host_reply = 0;
    dut.may_erase = dut.given = 1;
    uint64_t ps = 10 * MS, cycles = 0, accesses = 0, stray = 0;
    uint32_t pins = 0, last = ~0u, lines = 0;
    uint8_t late[4] = {};
    uint32_t outs[4] = {1, 1, 1, 1};
    const uint32_t model = 0x44332211;
    unsigned turned = 0, wait = 0;
    bool powered = true, done = false;

    auto access = [&](bool write, unsigned space, unsigned address, uint64_t data) -> uint64_t {
        accesses++;
        for (auto &t : tables) {
            if (t.space != space || (space < 5 && (address < t.first || address >= t.first + t.words.size()))) continue;
            if (space < 5) {
                uint64_t &word = t.words[address - t.first];
                if (write) word = data & ((t.bits < 64 ? 1ull << t.bits : 0) - 1);
                return word;
            }
            const uint64_t bit = t.words[0];  // a register that each access turns by one
            t.words.erase(t.words.begin());
            t.words.push_back(write ? data & 1 : bit);
            return bit;
        }
        stray += write;
        return 0;
    };
    auto cycle = [&] {
        dut.lines_in = late[latency];
        dut.model = model >> 8 * turned & 255;
        dut.clk = 0;
        dut.eval();
        const bool valid = dut.host___05Fvalid;
        if (valid && wait == 0) wait = 2 + random() % 10;
        dut.host___05Fready = valid && wait == 1;
        if (dut.host___05Fready) {
            const uint64_t payload = dut.host___05Fpayload;  // write, space, address, data
            const unsigned bits = HOST_ADDRESS_BITS;
            dut.host_reply = access(payload & 1, payload >> 1 & 7, payload >> 4 & ((1u << bits) - 1), payload >> (4 + bits));
        }
        if (valid && wait) wait--;
        if (dut.host___05Fready) dut.eval();
        if (dut.pulse && dut.select_n) flash.fault("a pulse without select");
        // The pins, so many registers later as there are in half the latency.
        const unsigned out = latency / 2;
        for (int i = 3; i; i--) outs[i] = outs[i - 1];
        outs[0] = dut.select_n | dut.pulse << 1 | (dut.lines_out & 15) << 4 | (dut.lines_enable & 15) << 8;
        pins = outs[out] & ~2u;
        if (pins != last) lines = flash.at(ps, last = pins);
        for (int i = 3; i; i--) late[i] = late[i - 1];
        if (outs[out] & 2) {
            flash.at(ps + period / 2, pins | 2);
        }
        late[0] = lines & 15;
        if (outs[out] & 2) lines = flash.at(ps + period, last = pins);
        done |= dut.done;
        turned = (turned + dut.model_next) % 4;
        dut.clk = 1;
        dut.eval();
        dut.save = dut.undo = 0;
        ps += period;
        cycles++;
    };
    auto state = [&] {
        std::ostringstream text;
        text << cycles << " " << int(dut.busy) << " " << int(dut.ready) << " " << done << " " << int(dut.failed) << " " << int(dut.foreign)
             << " " << int(dut.undoable) << " " << int(dut.wants) << " " << accesses << " " << stray;
        return text.str();
    };
    std::string line, word;
    while (std::getline(std::cin, line)) {
        std::istringstream in(line);
        in >> word;
        if (word == "run") {  // so many cycles at most; 1: until it is done, 2: until nothing is at work, 3: until the learner is free
            uint64_t most, until;
            in >> most >> until;
            done = false;
            int still = 0;  // cycles without work; between two sectors there are some
            for (uint64_t i = 0; i < most; i++) {
                cycle();
                const bool rests = i > 4 && dut.ready && !dut.busy;
                still = rests && !dut.wants ? still + 1 : 0;
                if (until == 1 ? done : until == 2 ? still > 20 : until == 3 && rests) break;
            }
        } else if (word == "save") dut.save = 1;
        else if (word == "undo") dut.undo = 1;
        else if (word == "erase") in >> word, dut.may_erase = word == "1";
        else if (word == "off") {
            flash.power(ps, false);
        } else if (word == "on") {
            ps += 20 * MS;
            flash.power(ps, true);
            ps += 10 * MS;
            dut.rst = 1;
            for (auto &o : outs) o = 1;
            last = ~0u, turned = wait = 0;
            dut.clk = 0, dut.eval(), dut.clk = 1, dut.eval();
            dut.rst = 0;
        } else if (word == "fill") {  // the learner's memory, from a seed
            uint64_t seed;
            in >> seed;
            std::mt19937_64 filling(seed);
            for (auto &t : tables) for (auto &w : t.words) w = filling() >> (64 - t.bits);
        } else if (word == "set") {
            for (auto &t : tables) for (auto &w : t.words) in >> std::hex >> w;
        } else if (word == "get") {
            for (auto &t : tables) for (auto w : t.words) std::cout << std::hex << w << " ";
            std::cout << std::dec << "\n" << std::flush;
            continue;
        } else if (word == "value") {
            int64_t value;
            in >> word >> value;
            if (word == "erased" || word == "programmed" || word == "cuts") { std::cout << *flash.values.at(word) << std::endl; continue; }
            *flash.values.at(word) = value;
        } else if (word == "read" || word == "write") {
            uint64_t at, count;
            in >> at >> count;
            auto *bytes = static_cast<uint8_t *>(flash.memory(0).data);
            if (word == "read") {
                for (uint64_t i = 0; i < count; i++) std::cout << unsigned(bytes[at + i]) << " ";
                std::cout << std::endl;
                continue;
            }
            for (uint64_t i = 0, value; i < count; i++) in >> value, bytes[at + i] = uint8_t(value);
        } else if (word == "faults") {
            for (auto &[name, count] : flash.faults) std::cout << count << " " << name << ";";
            std::cout << std::endl;
            continue;
        }
        std::cout << state() << std::endl;
    }
}
