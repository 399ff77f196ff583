// What a person touches and sees: buttons that bounce, and a display with an SSD1306.
#pragma once
#include "part.h"
#include <algorithm>

// Up to 32 buttons, each a contact: 1 while it is closed.  There are no inputs.  pressed: which of them are held down, by somebody who sets it.
// bounce: the longest time for which a contact opens and closes after a change, ps; it does for at most half a millisecond at a time.
struct Buttons : Part {
    int64_t pressed = 0, bounce = 5 * MS;
    explicit Buttons(uint64_t seed) : Part(seed) {
        values["pressed"] = &pressed;
        values["bounce"] = &bounce;
    }
    uint32_t at(uint64_t ps, uint32_t) override {
        for (int i = 0; i < 32; i++) {
            Contact &c = contacts[i];
            const bool held = pressed >> i & 1;
            if (held != c.held) {
                c.held = held;
                c.rests = ps + below(bounce + 1);
                c.next = ps;
            }
            for (; c.next < c.rests && c.next <= ps; c.next += 10 * US + below(490 * US)) c.closed = random() & 1;
            if (ps >= c.rests) c.closed = held;
            levels = (levels & ~(1u << i)) | uint32_t(c.closed) << i;
        }
        return levels;
    }

private:
    struct Contact { bool held = false, closed = false; uint64_t rests = 0, next = 0; } contacts[32];
    uint32_t levels = 0;
};

// SSD1306, 128 x 64: data sheet revision 1.1 (2008) of Solomon Systech; I2C, address 3C.  Inputs: bit 0 SCL, 1 SDA.  Output: bit 0 SDA is
// pulled low.  Its memory (GDDRAM) is 8 pages of 128 columns, bit 0 at the top.
struct Ssd1306 : TwoWire {
    int64_t on, inverted, all, mirrored, flipped, start, offset, rows, contrast, pump;
    uint8_t ram[1024];

    explicit Ssd1306(uint64_t seed) : TwoWire(seed, 0x3C, true) {
        for (auto [name, value] : {std::pair{"on", &on}, {"inverted", &inverted}, {"all", &all}, {"mirrored", &mirrored},
                 {"flipped", &flipped}, {"start", &start}, {"offset", &offset}, {"rows", &rows}, {"contrast", &contrast}, {"pump", &pump}})
            values[name] = value;
        power(0, true);
    }
    Memory memory(int) override { return {ram, sizeof ram}; }

    // After power-up the memory holds anything.
    void power(uint64_t, bool powered) override {
        lives = powered;
        on = inverted = all = mirrored = flipped = start = offset = pump = 0;
        rows = 64;
        contrast = 0x7F;
        mode = 2;
        column = page = first_column = first_page = 0;
        last_column = 127;
        last_page = 7;
        wanted = 0;
        for (uint8_t &byte : ram) byte = uint8_t(random());
        idle();
    }
    uint32_t at(uint64_t ps, uint32_t in) override { return lives && wires(ps, in & 1, in >> 1 & 1); }

    void take(int number, uint8_t byte) override {
        if (number == 0) control = true;
        if (control) {
            if (byte & 0x3F) fault("SSD1306: a control byte with bits that are not 0");
            data = byte & 0x40;
            single = byte & 0x80;
            control = false;
            return;
        }
        control = single;
        if (data) store(byte);
        else order(byte);
    }
    uint8_t give() override { return uint8_t(!on << 6); }

    // What one sees at a place on a module that is upright with A1 and C8, as nearly all are; it is dark without its charge pump.
    bool lit(int row, int column) const {
        if (!(lives && on && pump)) return false;
        row = flipped ? row : 63 - row;
        column = mirrored ? column : 127 - column;
        const int from = int(row + start + offset) % 64;
        return row < rows && ((ram[from / 8 * 128 + column] >> from % 8 & 1 || all) != bool(inverted));
    }
    void stopped() override {
        if (wanted) fault("SSD1306: a command without all its parameters");
        wanted = 0;
    }

private:
    bool lives = true, control = true, data = false, single = false;
    int mode, column, page, first_column, last_column, first_page, last_page, wanted = 0;
    std::vector<uint8_t> command;

    void store(uint8_t byte) {
        ram[page * 128 + column] = byte;
        const bool down = mode == 1;
        if (mode == 2) {
            column = (column + 1) % 128;
        } else if (down ? page++ == last_page : column++ == last_column) {
            (down ? page : column) = down ? first_page : first_column;
            int &other = down ? column : page;
            other = other == (down ? last_column : last_page) ? (down ? first_column : first_page) : other + 1;
        }
        page %= 8;
        column %= 128;
    }

    static int parameters(uint8_t byte) {
        switch (byte) {
        case 0x20: case 0x81: case 0x8D: case 0xA8: case 0xD3: case 0xD5: case 0xD9: case 0xDA: case 0xDB: return 1;
        case 0x21: case 0x22: case 0xA3: return 2;
        case 0x29: case 0x2A: return 5;
        case 0x26: case 0x27: return 6;
        }
        return 0;
    }

    void order(uint8_t byte) {
        if (!wanted) {
            command = {byte};
            wanted = parameters(byte);
        } else {
            command.push_back(byte);
            wanted--;
        }
        if (!wanted) perform(command[0], command.size() > 1 ? command[1] : 0, command.size() > 2 ? command[2] : 0);
    }

    void perform(uint8_t byte, uint8_t one, uint8_t two) {
        if (byte < 0x10) column = (column & 0x70) | byte;
        else if (byte < 0x20) column = (column & 0x0F) | (byte & 7) << 4;
        else if (byte >= 0x40 && byte < 0x80) start = byte & 63;
        else if (byte >= 0xB0 && byte < 0xB8) page = byte & 7;
        else switch (byte) {
        case 0x20: mode = std::min(one & 3, 2); break;
        case 0x21: column = first_column = one & 127; last_column = two & 127; break;
        case 0x22: page = first_page = one & 7; last_page = two & 7; break;
        case 0x81: contrast = one; break;
        case 0x8D: pump = one >> 2 & 1; break;
        case 0xA0: case 0xA1: mirrored = byte & 1; break;
        case 0xA4: case 0xA5: all = byte & 1; break;
        case 0xA6: case 0xA7: inverted = byte & 1; break;
        case 0xA8: rows = (one & 63) + 1; break;
        case 0xAE: case 0xAF: on = byte & 1; break;
        case 0xC0: case 0xC8: flipped = byte >> 3 & 1; break;
        case 0xD3: offset = one & 63; break;
        case 0xD5: case 0xD9: case 0xDA: case 0xDB: case 0xE3: case 0x2E: break;
        default: fault("SSD1306: an unknown command");
        }
    }
};
