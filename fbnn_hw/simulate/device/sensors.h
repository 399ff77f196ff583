// OV7670 and HM01B0: pictures as bytes with a clock, by registers that are written on two wires.
//
// Inputs: bit 0 XCLK, 1 SIOC, 2 SIOD, 3 RESET# and 4 PWDN (OV7670).  Outputs: D[7:0], bit 8 PCLK, 9 HREF, 10 VSYNC, 11 SIOD is pulled low.
#pragma once
#include "part.h"
#include <algorithm>

constexpr uint32_t PCLK = 1 << 8, HREF = 1 << 9, VSYNC = 1 << 10, PULLS = 1 << 11;

struct Sensor : TwoWire {
    // A frame, as registers have it: `lines` of `clocks` periods of PCLK each; from line `first` on every `step`th has `bytes` bytes, `rows`
    // times.  rate: periods of PCLK in one of XCLK.
    struct Mode { int lines = 1, clocks = 1, first = 0, step = 1, rows = 0, bytes = 0; double rate = 1; } mode;
    // jitter: most by which an edge of PCLK is early or late, ps.  skew: most time from a falling PCLK until all outputs have changed, ps.
    // blanking: most clocks that a line takes longer, drawn for each.  torn: the next frame that has sent so many bytes gives way to a new one.
    // stopped: all outputs stand still.  running: XCLK runs.  frames, bytes: begun, and sent since then.
    // resets, writes: of registers.
    int64_t jitter = 0, skew = 5 * NS, blanking = 0, torn = 0, stopped = 0, frames = 0, sent = 0, running = 0, resets = 0, writes = 0;
    int64_t width, height;
    std::vector<uint8_t> scene, shown, registers;  // scene: what is before the lens, taken at the start of a frame

    Sensor(uint64_t seed, unsigned address, bool restarts, int width, int height, int pixel, int count)
        : TwoWire(seed, address, restarts), width(width), height(height), scene(width * height * pixel), registers(count) {
        for (auto [name, value] : {std::pair{"jitter", &jitter}, {"skew", &skew}, {"blanking", &blanking}, {"torn", &torn},
                                   {"stopped", &stopped}, {"frames", &frames}, {"sent", &sent}, {"running", &running}, {"resets", &resets},
                                   {"writes", &writes}})
            values[name] = value;
    }
    Memory memory(int which) override {
        return which ? Memory{registers.data(), registers.size()} : Memory{scene.data(), scene.size()};
    }
    void power(uint64_t, bool on) override {
        powered = on;
        reset();
    }
    virtual void reset() = 0;
    virtual Mode wanted() = 0;                        // by the registers
    virtual uint8_t byte(int row, int number) = 0;
    virtual uint32_t synchrony(bool within) = 0;      // VSYNC and HREF as levels; within: a row is being sent
    virtual bool gated(bool within) = 0;              // PCLK rests
    virtual bool falling() { return true; }           // data changes with the falling PCLK
    virtual const char *kind() = 0;

    std::string text() override {
        const Mode m = wanted();
        if (!running) return "no clock";
        char line[120];
        snprintf(line, sizeof line, "%d x %d %s, PCLK %.2f MHz, %.1f frames/s", columns(m), m.rows, kind(), m.rate * 1e6 / period,
                 m.rate * 1e12 / period / m.clocks / m.lines);
        return line;
    }

protected:
    bool powered = true;
    double period = 0;  // of XCLK, ps
    uint64_t now = 0;
    unsigned place = 0;  // of the register that is written or read next

    // The registers after a reset; those that are not named are 0.
    void restore(std::initializer_list<std::pair<int, int>> named) {
        std::fill(registers.begin(), registers.end(), 0);
        for (auto [place, value] : named) registers[place] = value;
        idle();
    }
    int line = 0, column = 0;

    uint32_t drive(uint64_t ps, bool clock, bool held) {
        if (!powered || absent) return 0;
        if (clock && !clock_was) {
            rises[count++ % RISES] = ps;
            // The mean of some: a divided clock has periods that differ by one of the design's.
            const unsigned back = std::min(count - 1, RISES - 1);
            if (back) period = double(ps - rises[(count - 1 - back) % RISES]) / back;
            if (count == RISES) restart(ps);
        }
        clock_was = clock;
        if (count > 1 && ps - rises[(count - 1) % RISES] > 10 * period) count = 0;
        running = count >= RISES && !held;
        if (!running || stopped) edge = ps;
        else while (edge + shift <= ps) step();
        if (ps - changed_at < uint64_t(skew)) {  // each output changes in its own time
            const uint32_t early = uint32_t(random()) | PCLK;
            return (pins & early) | (before & ~early);
        }
        return pins;
    }

    void restart(double ps) {
        mode = wanted();
        line = column = 0;
        sent = 0;
        frames++;
        shown = scene;
        edge = std::max(edge, ps);
    }

private:
    static constexpr unsigned RISES = 9;
    uint64_t rises[RISES] = {}, changed_at = 0;
    unsigned count = 0;
    bool clock_was = false, level = false;
    double edge = 0, shift = 0;  // the next edge of PCLK, and by how much it is late
    uint32_t pins = 0, before = 0;
    int longer = 0;

    virtual int columns(const Mode &m) { return m.bytes; }

    void step() {
        const uint64_t at = uint64_t(edge + shift);
        level = !level;
        if (level != falling()) advance(at);
        pins = (pins & ~PCLK) | (level && !gated(within()) ? PCLK : 0);
        const double half = period / mode.rate / 2;
        const int64_t most = std::min(jitter, int64_t(half / 3));
        edge += half;
        shift = most ? double(below(2 * most + 1)) - double(most) : 0;
    }

    int row() const {
        const int since = line - mode.first;
        return since >= 0 && since % mode.step == 0 && since / mode.step < mode.rows ? since / mode.step : -1;
    }
    bool within() const { return row() >= 0 && column < mode.bytes; }

    void advance(uint64_t at) {
        if (++column >= mode.clocks + longer) {
            column = 0;
            longer = int(below(blanking + 1));
            if (++line >= mode.lines) restart(edge);
        }
        if (torn && sent == torn) {
            torn = 0;
            restart(edge);
        }
        before = pins;
        changed_at = at;
        const bool sends = within();
        sent += sends;
        pins = (pins & PCLK) | synchrony(sends) | (sends ? byte(row(), column) : uint32_t(random() & 0xFF));
    }
};

// OV7670: data sheet 1.4 (2006) and implementation guide 1.0 (2005) of OmniVision.
struct Ov7670 : Sensor {
    enum { COM3 = 0x0C, CLKRC = 0x11, COM7, COM10 = 0x15, HSTART = 0x17, HSTOP, VSTART, VSTOP, MVFP = 0x1E, HREF_LOW = 0x32, COM14 = 0x3E,
           COM15 = 0x40, DBLV = 0x6B, DCW = 0x72, PCLK_DIV, RGB444 = 0x8C, VREF_LOW = 0x03 };
    static constexpr int LINE = 784, LINES = 510;
    // Columns and rows at which the windows of published drivers begin; from there the picture is whole.
    static constexpr int FIRST = 158, LAST = 182, TOP = 8, BOTTOM = 16;

    explicit Ov7670(uint64_t seed) : Sensor(seed, 0x21, false, 320, 240, 2, 0xCA) { reset(); }

    void reset() override {
        restore({{0x01, 0x80}, {0x02, 0x80}, {0x03, 0x03}, {0x09, 0x01}, {0x0A, 0x76}, {0x0B, 0x70}, {0x0D, 0x40},
                 {0x0E, 0x01}, {0x0F, 0x43}, {0x10, 0x40}, {0x11, 0x80}, {0x13, 0x8F}, {0x14, 0x4A}, {0x17, 0x11}, {0x18, 0x61}, {0x19, 0x03},
                 {0x1A, 0x7B}, {0x1C, 0x7F}, {0x1D, 0xA2}, {0x20, 0x04}, {0x21, 0x02}, {0x22, 0x01}, {0x24, 0x75}, {0x25, 0x63}, {0x26, 0xD4},
                 {0x32, 0x80}, {0x3A, 0x0D}, {0x3C, 0x40}, {0x3D, 0x99}, {0x3E, 0x0E}, {0x3F, 0x88}, {0x40, 0xC0}, {0x41, 0x10}, {0x42, 0x08},
                 {0x6B, 0x0A}, {0x70, 0x3A}, {0x71, 0x35}, {0x72, 0x11}, {0xA2, 0x02}});
    }

    uint32_t at(uint64_t ps, uint32_t in) override {
        now = ps;
        if (!(in >> 3 & 1)) {
            reset();
            reset_at = ps;
        }
        const bool pulls = powered && in >> 3 & 1 && wires(ps, in >> 1 & 1, in >> 2 & 1);
        return drive(ps, in & 1, !(in >> 3 & 1) || in >> 4 & 1) | (pulls ? PULLS : 0);
    }

    void take(int number, uint8_t byte) override {
        if (reset_at && now - reset_at < MS) {
            if (number == 1) fault("OV7670: written within 1 ms of a reset");
            return;
        }
        if (number == 0) place = byte;
        else if (number > 1) fault("OV7670: a write of more than three phases");
        else if (!running) fault("OV7670: written while XCLK rests");
        else if (place >= registers.size()) fault("OV7670: a register that it has not");
        else write(byte);
    }
    uint8_t give() override { return place < registers.size() ? registers[place] : 0; }

    void write(uint8_t value) {
        writes++;
        if (place == COM7 && value & 0x80) {
            resets++;
            reset_at = now;
            reset();
        } else if (place != 0x0A && place != 0x0B && place != 0x1C && place != 0x1D) {
            registers[place] = value;
        }
        if (place == COM7) restart(double(now));
    }

    // What is done by 2^n: across, down, and to PCLK.
    int across() { return registers[COM7] & 0x10 ? 1 : registers[COM3] & 4 ? registers[DCW] & 3 : 0; }
    int down() { return registers[COM7] & 0x10 ? 1 : registers[COM3] & 4 ? registers[DCW] >> 4 & 3 : 0; }
    int slowed() {
        if (registers[COM14] & 0x10) return std::min(registers[COM14] & 7, 4);
        return registers[COM7] & 0x10 ? 1 : 0;
    }
    bool consistent() { return !(registers[COM14] & 0x10) || (registers[PCLK_DIV] & 7) == slowed(); }
    bool rgb565() {
        return (registers[COM7] & 5) == 4 && (registers[COM15] & 0x30) == 0x10 && !(registers[RGB444] & 2) && !(registers[COM7] & 0x28)
            && consistent() && across() == slowed();
    }
    int start_column() { return registers[HSTART] << 3 | (registers[HREF_LOW] & 7); }
    int start_row() { return registers[VSTART] << 2 | (registers[VREF_LOW] & 3); }

    Mode wanted() override {
        const int stop = registers[HSTOP] << 3 | (registers[HREF_LOW] >> 3 & 7), bottom = registers[VSTOP] << 2 | (registers[VREF_LOW] >> 2 & 3);
        const int wide = std::min((stop - start_column() + 2 * LINE) % LINE, 640), high = std::clamp(bottom - start_row(), 0, 480);
        static constexpr int PLL[] = {1, 4, 6, 8};
        Mode m;
        m.lines = LINES;
        m.clocks = 2 * LINE >> slowed();
        m.first = std::clamp(start_row(), 0, LINES - 480) + 10;  // row 10 of the array comes 17 lines after VSYNC
        m.step = 1 << down();
        m.rows = high >> down();
        m.bytes = std::min(2 * (wide >> across()), m.clocks);
        const int divided = registers[CLKRC] & 0x40 ? 1 : (registers[CLKRC] & 0x3F) + 1;
        m.rate = double(PLL[registers[DBLV] >> 6]) / divided / (1 << slowed());
        return m;
    }
    int columns(const Mode &m) override { return m.bytes / 2; }
    const char *kind() override { return rgb565() ? "RGB565" : "of another format"; }

    uint8_t byte(int row, int number) override {
        if (!rgb565()) return 0x55 ^ number;
        int x = number / 2, y = row;
        if (registers[MVFP] & 0x20) x = mode.bytes / 2 - 1 - x;
        if (registers[MVFP] & 0x10) y = mode.rows - 1 - y;
        x = (x << across()) + outside(start_column(), FIRST, LAST);
        y = (y << down()) + outside(start_row(), TOP, BOTTOM);
        unsigned word = 0;
        static constexpr uint16_t BARS[] = {0xFFFF, 0xFFE0, 0x07FF, 0x07E0, 0xF81F, 0xF800, 0x001F, 0x0000};
        if (x >= 0 && x < 640 && y >= 0 && y < 480) {
            const size_t at = 2 * size_t(y / 2 * 320 + x / 2);
            word = registers[COM7] & 2 ? BARS[x / 80] : unsigned(shown[at] | shown[at + 1] << 8);
        }
        return (number ^ (registers[COM3] >> 6)) & 1 ? word & 0xFF : word >> 8;
    }
    // By how much a window begins beside the picture.
    static int outside(int start, int least, int most) { return start - std::clamp(start, least, most); }

    uint32_t synchrony(bool within) override {
        const unsigned form = registers[COM10];
        return ((line < 3) != bool(form & 2) ? VSYNC : 0) | (within != bool(form & 8) ? HREF : 0);
    }
    bool gated(bool within) override { return registers[COM10] & 0x20 && !within; }
    bool falling() override { return !(registers[COM10] & 0x10); }

private:
    uint64_t reset_at = 0;
};

// HM01B0, grey: data sheet of Himax and the drivers of OpenMV and Zephyr.
struct Hm01b0 : Sensor {
    enum { MODE = 0x100, RESET = 0x103, LINES = 0x340, CLOCKS = 0x342, BIN_X = 0x383, BIN_Y = 0x387, BIN = 0x390, WINDOW = 0x3010,
           BITS = 0x3059, DIVIDER = 0x3060, SOURCE = 0x3067, POLARITY = 0x3068 };
    explicit Hm01b0(uint64_t seed) : Sensor(seed, 0x24, true, 324, 324, 1, 0x3100) { reset(); }

    void reset() override {
        restore({{0x00, 0x01}, {0x01, 0xB0}, {LINES, 0x02}, {LINES + 1, 0x32}, {CLOCKS, 0x01}, {CLOCKS + 1, 0x78},
                 {BIN_X, 0x01}, {BIN_Y, 0x01}, {BITS, 0x02}, {DIVIDER, 0x08}, {POLARITY, 0x20}});
    }
    uint32_t at(uint64_t ps, uint32_t in) override {
        now = ps;
        const bool pulls = powered && wires(ps, in >> 1 & 1, in >> 2 & 1);
        return drive(ps, in & 1, registers[MODE] != 1) | (pulls ? PULLS : 0);
    }
    void take(int number, uint8_t byte) override {
        if (number < 2) place = number ? (place & 0xFF) << 8 | byte : byte;
        else if (place >= registers.size()) fault("HM01B0: a register that it has not");
        else write(byte);
    }
    void write(uint8_t value) {
        writes++;
        if (place == RESET) {
            resets++;
            reset();
        } else if (place > 2) {
            if (place == MODE && value == 1 && registers[MODE] != 1) {
                registers[MODE] = 1;
                restart(double(now));
            }
            registers[place] = value;
        }
        place++;
    }
    uint8_t give() override { return place < registers.size() ? registers[place++] : 0; }

    bool halved() { return registers[BIN_X] == 3 && registers[BIN_Y] == 3 && registers[BIN] == 3; }
    bool parallel() { return !(registers[BITS] & 0x60) && !(registers[SOURCE] & 1); }
    Mode wanted() override {
        Mode m;
        m.lines = std::max(registers[LINES] << 8 | registers[LINES + 1], 1);
        m.clocks = std::max(registers[CLOCKS] << 8 | registers[CLOCKS + 1], 1);
        m.first = 2;
        m.rows = std::min((registers[WINDOW] & 1 ? 244 : 324) >> halved(), m.lines - m.first);
        m.bytes = std::min(324 >> halved(), m.clocks);
        m.rate = 1.0 / (8 >> (registers[DIVIDER] & 3));
        return m;
    }
    const char *kind() override { return parallel() ? "grey" : "of another format"; }
    uint8_t byte(int row, int number) override {
        if (!parallel()) return 0x55 ^ number;
        const int top = registers[WINDOW] & 1 ? 40 : 0;
        return shown[((row << halved()) + top) * 324 + (number << halved())];
    }
    uint32_t synchrony(bool within) override {
        return (line >= mode.first && line < mode.first + mode.rows ? VSYNC : 0) | (within ? HREF : 0);
    }
    bool gated(bool within) override { return registers[DIVIDER] & 0x20 && !within; }
    bool falling() override { return !(registers[POLARITY] & 1); }
};
