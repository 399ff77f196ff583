// A display and its part, driven line by line: display PERIOD_PS TICK SEED.  TICK: clocks of a tick.
//   show SIGN NUMBER SCORE    pin NAME LEVEL    part NAME VALUE    power 0|1    run CLOCKS    rest: until the wires rest for two ticks
// Each line is answered by "BUSY ON RESTS", clocks in which a wire was low so far, whether the part is on, and whether the wires came to rest
// within a second; `seen` by what one sees, 8,192 digits row by row, `faults` by the part's.
#include <iostream>
#include <sstream>

#include "Vtop.h"
#include "panel.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

int main(int, char **argv) {
    const uint64_t period = atoll(argv[1]), tick = atoll(argv[2]);
    Ssd1306 part(atoll(argv[3]));
    Vtop dut;
    uint64_t clocks = 0, busy = 0, quiet = 0, ticks = 1;
    dut.free = 1;
    dut.rst = 1;
    for (int i = 0; i < 4; i++) dut.clk = i & 1, dut.eval();
    dut.rst = 0;
    const auto clock = [&] {
        dut.clk = 0;
        dut.tick = ticks && clocks % tick == tick - 1;
        const bool pulls = part.at(clocks * period, !dut.clock_low | !dut.data_low << 1);
        dut.data = !(dut.data_low || pulls);
        dut.eval();
        dut.clk = 1;
        dut.eval();
        clocks++;
        const bool low = dut.clock_low || dut.data_low;
        busy += low;
        quiet = low ? 0 : quiet + 1;
    };
    for (std::string line, word; std::getline(std::cin, line);) {
        std::istringstream in(line);
        int64_t a = 0, b = 0, c = 0;
        bool rests = true;
        in >> word;
        if (word == "show" && in >> a >> b >> c) {
            dut.sign = a, dut.number = b, dut.score = c;
        } else if (word == "pin" && in >> word >> a) {
            if (word == "free") dut.free = a;
            else ticks = a;
        } else if (word == "part" && in >> word >> a) {
            *part.values.at(word) = a;
        } else if (word == "power" && in >> a) {
            part.power(clocks * period, a);
        } else if (word == "run" && in >> a) {
            while (a--) clock();
        } else if (word == "rest") {
            const uint64_t end = clocks + 1000 * MS / period;
            for (quiet = 0; (rests = clocks < end) && quiet <= 2 * tick;) clock();
        } else if (word == "seen") {
            for (int i = 0; i < 64 * 128; i++) std::cout << part.lit(i / 128, i % 128);
            std::cout << std::endl;
            continue;
        } else if (word == "faults") {
            for (const auto &[name, count] : part.faults) std::cout << count << " " << name << ";";
            std::cout << std::endl;
            continue;
        } else {
            return 2;
        }
        std::cout << busy << " " << part.on << " " << rests << std::endl;
    }
}
