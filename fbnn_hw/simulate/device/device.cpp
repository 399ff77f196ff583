// Runs the module `device_top` beside the models of its parts.
//
//   device PERIOD_PS SENSOR SEED FLASH OFFSET     SENSOR: ov7670 or hm01b0; FLASH: a file that lies in the flash from OFFSET on, or -
//
// It may be followed by arguments that begin with + and that Verilator or a model knows, such as +spram-random.  The module is a design's
// Verilog, or the chip of a bitstream, which shows its pins alone.
//
// Standard input has a command a line:
//   show FILE        the scene before the lens, as the sensor's memory has it
//   press MASK       the buttons that are held, a bit each
//   power 0|1        of everything
//   sensor NAME N    an option of the sensor, such as stopped
//   flash NAME N     one of the flash, such as worn
//   display NAME N   one of the display, such as absent
//   seen FILE        writes what one sees on the display, 128 x 64 digits row by row
//   read FROM N FILE writes so many bytes of the flash to a file
//   line CLOCKS HEX  a host sends these bytes over the serial line, with so many clocks a bit
//   until PS         goes on to this time
// For each image a line on standard output: "image PS TORN LOGIT ...", without signs; for each byte that a host gets "byte HEX"; for each
// change of what is shown: "at PS SIGN ANSWER CHOICE NUMBER FLAG READY FAULT", of a chip "at PS ? 0 0 NUMBER FLAG READY FAULT"; and for each
// `until` "done PS", then its sensor's words, then a line
// "fault COUNT WHAT" for each kind of fault, then an empty one.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "Vtop.h"
#include "verilated.h"

#include "flash.h"
#include "panel.h"
#include "sensors.h"

double sc_time_stamp() { return 0; }

constexpr uint64_t CONFIGURES = 1 * MS;  // from power-up to the design's first clock; a real part takes longer
constexpr int SELDOM = 64;               // clocks between two looks at the buttons
constexpr int SETTLES = 3;               // clocks after which LEDs show a new sign

// The host's end of the serial line: 8 bits, no parity, one stop bit.
struct Line {
    std::deque<uint8_t> queue;
    int clocks = 4;
    int sends = 0, gets = 0;      // clocks of the byte that are over, or 0 while the line rests
    uint32_t out = 0, in = 0;

    // The level of the host's wire in the next clock.
    int level() {
        if (!sends) {
            if (queue.empty()) return 1;
            out = queue.front() << 1 | ~0u << 9;
            queue.pop_front();
        }
        const int bit = out >> sends / clocks & 1;
        if (++sends == 11 * clocks) sends = 0;  // the stop bit lasts two bits
        return bit;
    }

    void take(int level) {
        if (!gets && level) return;
        if (gets % clocks == clocks / 2) in = in >> 1 | level << 9;
        if (++gets < 10 * clocks - clocks / 2 + 1) return;
        printf("byte %02x\n", in >> 1 & 0xFF);
        gets = 0;
    }
};

struct Device {
    const uint64_t half;
    Line line;
    std::unique_ptr<Sensor> sensor;
    Flash flash;
    Buttons buttons;
    Ssd1306 display;
    std::unique_ptr<VerilatedContext> context;
    std::unique_ptr<Vtop> top;
    const int argc;
    char **const argv;
    std::string logits;
    uint64_t now = 0, clocks = 0, starts = 0;
    uint32_t flash_pins = 1, said = ~0u;
    int settles = 0;
    bool powered = true;
    bool answers = false, draws = false;  // the sensor, the display pulls their data wire to ground

    Device(uint64_t period, bool grey, uint64_t seed, int argc, char **argv)
        : half(period / 2), flash(seed + 1), buttons(seed + 2), display(seed + 3), argc(argc), argv(argv) {
        if (grey) sensor.reset(new Hm01b0(seed));
        else sensor.reset(new Ov7670(seed));
        start();
    }

    void start() {
        top.reset();
        context.reset(new VerilatedContext);
        context->commandArgs(argc, argv);
        top.reset(new Vtop(context.get()));
        top->rst = 1;
        for (int i = 0; i < 4; i++) {
            top->clk = 0;
            top->eval();
            top->clk = 1;
            top->eval();
        }
        top->rst = 0;
        flash_pins = 1;
        said = ~0u;
    }

    void power(bool on) {
        if (on == powered) return;
        powered = on;
        sensor->power(now, on);
        flash.power(now, on);
        display.power(now, on);
        if (on) {
            start();
            starts = now + CONFIGURES;
        } else {
            printf("at %llu - 0 0 0 0 0 0\n", (unsigned long long)now);
        }
    }

    // The levels at the sensor's pins -> those that it drives.
    void look() {
        const uint32_t in = top->xclk | !top->sioc_low << 1 | !(top->siod_low || draws) << 2 | 1u << 3;
        const uint32_t out = sensor->at(now, in);
        top->data = out & 0xFF;
        top->pclk = out >> 8 & 1;
        top->href = out >> 9 & 1;
        top->vsync = out >> 10 & 1;
        answers = out >> 11 & 1;
    }

    template <class Top> auto draw(Top &top, int) -> decltype(void(top.siod)) {
        draws = display.at(now, !top.sioc_low | !(top.siod_low || answers) << 1);
        top.siod = !(top.siod_low || answers || draws);
    }
    template <class Top> void draw(Top &, long) {}

    template <class Top> auto talk(Top &top, int) -> decltype(void(top.rx)) {
        line.take(top.tx);
        top.rx = line.level();
    }
    template <class Top> void talk(Top &, long) {}

    template <class Top> auto store(Top &top, bool level, int) -> decltype(void(top.flash_select_n)) {
        const uint32_t pins = top.flash_select_n | pulse(top, level, 0) << 1 | top.flash_output << 4 | top.flash_enable << 8;
        if (pins == flash_pins) return;
        flash_pins = pins;
        top.flash_input = flash.at(now, pins) & 15;
    }
    template <class Top> void store(Top &, bool, long) {}

    // The flash's clock: a design says in which cycles it has a pulse, a chip has it at a pin.
    template <class Top> auto pulse(Top &top, bool level, int) -> decltype(bool(top.flash_pulse)) { return level && top.flash_pulse; }
    template <class Top> bool pulse(Top &top, bool, long) { return top.flash_clock; }

    // What an observer inside a design sees of an image.
    template <class Top> auto observe(Top &top, int) -> decltype(void(top.taken)) {
        if (top.logit_valid) logits += " " + std::to_string(top.logit);
        if (top.taken) {
            printf("image %llu %d%s\n", (unsigned long long)now, top.torn, logits.c_str());
            logits.clear();
        }
    }
    template <class Top> void observe(Top &, long) {}

    // What is shown: a number that changes with it, and the beginning of its line.
    template <class Top> auto shows(Top &top, int) -> decltype(uint32_t(top.sign)) {
        return top.sign | top.answer << 8 | top.choice << 20;
    }
    template <class Top> uint32_t shows(Top &top, long) { return top.number | top.flag << 4 | top.ready << 5 | top.fault << 6; }
    template <class Top> auto sign(Top &top, int) -> decltype(top.sign, std::string()) {
        return std::to_string(top.sign) + " " + std::to_string(top.answer) + " " + std::to_string(top.choice);
    }
    template <class Top> std::string sign(Top &, long) { return "? 0 0"; }

    template <class Top> auto hold(Top &top, int) -> decltype(void(top.pressed)) {
        if (clocks % SELDOM == 0) top.pressed = buttons.at(now, 0);
    }
    template <class Top> void hold(Top &, long) {}

    void clock() {
        top->clk = 0;
        hold(*top, 0);
        talk(*top, 0);
        draw(*top, 0);
        top->eval();
        observe(*top, 0);
        look();
        store(*top, true, 0);
        now += half;
        top->clk = 1;
        top->eval();
        look();
        store(*top, false, 0);
        now += half;
        clocks++;
        const uint32_t shown = shows(*top, 0);
        if (shown != said) {
            said = shown;
            settles = SETTLES;
        } else if (settles && !--settles) {
            printf("at %llu %s %d %d %d %d\n", (unsigned long long)now, sign(*top, 0).c_str(), top->number, top->flag, top->ready,
                   top->fault);
        }
    }

    void until(uint64_t ps) {
        while (now < ps) {
            if (powered && now >= starts) clock();
            else now = powered ? std::min(ps, starts) : ps;
        }
        printf("done %llu\n%s\n", (unsigned long long)now, sensor->text().c_str());
        for (Part *part : {static_cast<Part *>(sensor.get()), static_cast<Part *>(&flash), static_cast<Part *>(&display)})
            for (const auto &[what, count] : part->faults) printf("fault %lld %s\n", (long long)count, what.c_str());
        printf("\n");
        fflush(stdout);
    }
};

static bool load(const std::string &path, void *to, size_t most) {
    std::ifstream file(path, std::ios::binary);
    file.read(static_cast<char *>(to), most);
    return file.gcount() > 0;
}

int main(int argc, char **argv) {
    const int all = argc;
    while (argc > 6 && argv[argc - 1][0] == '+') argc--;  // for the models
    if (argc != 6) return 2;
    Device device(strtoull(argv[1], nullptr, 10), !strcmp(argv[2], "hm01b0"), strtoull(argv[3], nullptr, 10), all, argv);
    const uint64_t offset = strtoull(argv[5], nullptr, 10);
    const Memory held = device.flash.memory(0);
    if (strcmp(argv[4], "-") && !load(argv[4], static_cast<char *>(held.data) + offset, held.bytes - offset)) return 2;
    std::string line, word, what;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        long long number = 0, count = 0;
        words >> word;
        if (word == "show") {
            std::getline(words >> std::ws, what);
            const Memory scene = device.sensor->memory(0);
            if (!load(what, scene.data, scene.bytes)) return 2;
        } else if (word == "press" && words >> number) {
            device.buttons.pressed = number;
        } else if (word == "power" && words >> number) {
            device.power(number);
        } else if (word == "sensor" && words >> what >> number && device.sensor->values.count(what)) {
            *device.sensor->values[what] = number;
        } else if (word == "flash" && words >> what >> number && device.flash.values.count(what)) {
            *device.flash.values[what] = number;
        } else if (word == "display" && words >> what >> number && device.display.values.count(what)) {
            *device.display.values[what] = number;
        } else if (word == "seen" && words >> what) {
            std::ofstream file(what);
            for (int i = 0; i < 64 * 128; i++) file << device.display.lit(i / 128, i % 128);
        } else if (word == "read" && words >> number >> count >> what) {
            std::ofstream(what, std::ios::binary).write(static_cast<const char *>(held.data) + number, count);
        } else if (word == "line" && words >> number >> what) {
            device.line.clocks = number;
            for (size_t i = 0; i + 1 < what.size(); i += 2) device.line.queue.push_back(std::stoul(what.substr(i, 2), nullptr, 16));
        } else if (word == "until" && words >> number) {
            device.until(number);
        } else {
            return 2;
        }
    }
    return 0;
}
