// A bus master before a verilated wrapper, and the driver fbnn.c on it.  Lines in, a line out for each; AXI, STREAM and DMA are defined
// as the design needs them.  "hang" and the end of the program is what an access gives that is not answered in 1000 clocks.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "Vtop.h"
extern "C" {
#include "fbnn.h"
}

static Vtop top;
static uint64_t clocks;
static std::vector<uint8_t> weights;
static size_t boot, next_weight;
static bool resets;
static std::vector<std::pair<uint8_t, bool>> packets;  // bytes of images that come as a stream, and whether each ends a packet
static size_t next_byte;

static void tick() {
#ifdef AXI
    auto &clock = top.aclk;
#else
    auto &clock = top.wb_clk_i;
#endif
#ifdef STREAM
    if (!resets && !top.s_axis_weights_tvalid && clocks % 5) {  // a pause now and then; what is offered stays until it is taken
        uint32_t payload = 0;
        for (size_t i = 0; i < STREAM; i++) payload |= uint32_t(weights[next_weight + i]) << 8 * i;
        top.s_axis_weights_tdata = payload;
        top.s_axis_weights_tvalid = 1;
    }
    top.eval();
    bool taken = top.s_axis_weights_tvalid && top.s_axis_weights_tready, again = top.restart;
    if (taken && (next_weight += STREAM) >= weights.size()) next_weight = boot;
#endif
#ifdef DMA
    if (!top.s_axis_image_tvalid && next_byte < packets.size() && clocks % 3) {
        top.s_axis_image_tdata = packets[next_byte].first;
        top.s_axis_image_tlast = packets[next_byte].second;
        top.s_axis_image_tvalid = 1;
    }
    top.eval();
    bool passes = top.s_axis_image_tvalid && top.s_axis_image_tready;
    next_byte += passes;
#endif
    clock = 1;
    top.eval();
#ifdef DMA
    if (passes) top.s_axis_image_tvalid = 0;
#endif
#ifdef STREAM
    if (again) next_weight = 0;
    if (taken || again) top.s_axis_weights_tvalid = 0;
#endif
    clock = 0;
    top.eval();
    clocks++;
}

static bool irq() {
#ifdef AXI
    return top.irq;
#else
    return top.irq_o;
#endif
}

static void reset(bool on) {
    resets = on;
#ifdef AXI
    top.aresetn = !on;
    top.s_axi_bready = top.s_axi_rready = 1;
#else
    top.wb_rst_i = on;
#endif
}

[[noreturn]] static void hang() {
    std::cout << "hang" << std::endl;
    exit(1);
}

static uint64_t limit() { return clocks + 1000; }

static uint32_t read_word(uint32_t offset) {
    uint64_t last = limit();
#ifdef AXI
    top.s_axi_araddr = offset;
    top.s_axi_arvalid = 1;
    for (bool taken = false; !taken;) {
        top.eval();
        taken = top.s_axi_arready;
        tick();
        if (clocks > last) hang();
    }
    top.s_axi_arvalid = 0;
    for (;;) {
        top.eval();
        if (top.s_axi_rvalid) break;
        tick();
        if (clocks > last) hang();
    }
    uint32_t value = top.s_axi_rdata;
    if (top.s_axi_rresp) hang();
    tick();
    return value;
#else
    top.wb_adr_i = offset;
    top.wb_we_i = 0;
    top.wb_sel_i = 15;
    top.wb_cyc_i = top.wb_stb_i = 1;
    do {
        tick();
        if (clocks > last) hang();
    } while (!top.wb_ack_o);
    uint32_t value = top.wb_dat_o;
    tick();
    top.wb_cyc_i = top.wb_stb_i = 0;
    return value;
#endif
}

static void write_word(uint32_t offset, uint32_t value, uint32_t select) {
    uint64_t last = limit();
#ifdef AXI
    top.s_axi_awaddr = offset;
    top.s_axi_wdata = value;
    top.s_axi_wstrb = select;
    top.s_axi_awvalid = top.s_axi_wvalid = 1;
    for (bool taken = false; !taken;) {
        top.eval();
        taken = top.s_axi_awready;
        if (top.s_axi_awready != top.s_axi_wready) hang();
        tick();
        if (clocks > last) hang();
    }
    top.s_axi_awvalid = top.s_axi_wvalid = 0;
    for (;;) {
        top.eval();
        if (top.s_axi_bvalid) break;
        tick();
        if (clocks > last) hang();
    }
    if (top.s_axi_bresp) hang();
    tick();
#else
    top.wb_adr_i = offset;
    top.wb_dat_i = value;
    top.wb_we_i = 1;
    top.wb_sel_i = select;
    top.wb_cyc_i = top.wb_stb_i = 1;
    do {
        tick();
        if (clocks > last) hang();
    } while (!top.wb_ack_o);
    tick();
    top.wb_cyc_i = top.wb_stb_i = top.wb_we_i = 0;
#endif
}

static int waits, gives_up;

static uint32_t get(void *, uint32_t offset) { return read_word(offset); }
static void put(void *, uint32_t offset, uint32_t value) { write_word(offset, value, 15); }

static int sleep_until_interrupt(void *) {
    waits++;
    for (uint64_t last = clocks + 2000000; !irq(); tick())
        if (clocks > last || gives_up) return 1;
    return 0;
}

static std::string file;

static void keep(void *, uint32_t at, uint8_t byte) {
    if (at != file.size()) hang();
    file += char(byte);
}

static uint8_t kept(void *, uint32_t at) { return at < file.size() ? uint8_t(file[at]) : 0; }

static std::string hex(const std::string &bytes) {
    std::ostringstream out;
    for (unsigned char byte : bytes) out << "0123456789abcdef"[byte >> 4] << "0123456789abcdef"[byte & 15];
    return out.str();
}

static std::string bytes(const std::string &hex) {
    std::string out;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) out += char(std::stoi(hex.substr(i, 2), nullptr, 16));
    return out;
}

int main(int count, char **arguments) {
    Verilated::commandArgs(count, arguments);
    std::ifstream source(arguments[1], std::ios::binary);
    weights.assign(std::istreambuf_iterator<char>(source), {});
    boot = atoi(arguments[2]);
    reset(true);
    for (int i = 0; i < 4; i++) tick();
    reset(false);
    tick();

    fbnn_hw device = {get, put, nullptr, nullptr, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    std::string line, word;
    uint64_t spent = 0;  // by the line before
    while (std::getline(std::cin, line)) {
        std::istringstream in(line);
        uint64_t before = clocks;
        uint32_t a = 0, b = 0, c = 0, many[4] = {0, 0, 0, 0};
        in >> word;
        std::ostringstream out;
        if (word == "read") {
            in >> a;
            out << read_word(a) << " " << clocks - before;
        } else if (word == "write") {
            in >> a >> b >> c;
            write_word(a, b, c);
            out << clocks - before;
        } else if (word == "clocks") {
            in >> a;
            while (a--) tick();
            out << irq();
        } else if (word == "spent") {
            out << spent;
        } else if (word == "aborted" || word == "pipelined") {  // Wishbone: an access that is given up, after some clocks
#ifndef AXI
            in >> a >> b >> c;
            top.wb_adr_i = a, top.wb_we_i = b, top.wb_dat_i = c, top.wb_sel_i = 15, top.wb_cyc_i = top.wb_stb_i = 1;
            tick();
            top.wb_cyc_i = top.wb_stb_i = top.wb_we_i = 0;
            tick();
            tick();
#endif
            out << 0;
        } else if (word == "set") {  // polls, waits by interrupt, gives up
            in >> device.polls >> a >> gives_up;
            device.wait = a ? sleep_until_interrupt : nullptr;
            out << waits;
        } else if (word == "identify") {
            out << fbnn_hw_identify(&device) << " " << device.config << " " << device.image_bytes << " " << device.shipped << " " << device.most;
        } else if (word == "send") {  // a packet, or with 0 bytes of one that is not over
            std::string text;
            in >> a >> text;
            for (uint8_t byte : bytes(text)) packets.push_back({byte, false});
            packets.back().second = a;
            out << packets.size() - next_byte;
        } else if (word == "load") {
            std::string text;
            in >> a >> text;  // the alignment of the file
            std::string file = std::string(a, ' ') + bytes(text);
            out << fbnn_hw_load(&device, (const uint8_t *)file.data() + a, uint32_t(file.size() - a));
        } else if (word == "restart") {
            out << fbnn_hw_restart(&device);
        } else if (word == "classify") {
            std::string text;
            in >> a >> text;  // the alignment of the image
            std::string image = std::string(a, ' ') + bytes(text);
            const uint8_t *first = text.empty() ? nullptr : (const uint8_t *)image.data() + a;  // none: it comes as a stream
            fbnn_hw_result result = {0, 0, 0, 0};
            std::vector<int32_t> logits(device.most + 1, 0);
            out << fbnn_hw_classify(&device, first, &result, logits.data()) << " " << result.answer << " "
                << result.unknown << " " << result.cycles;
            for (int i = 0; i < result.logits; i++) out << " " << logits[i];
        } else if (word == "classify_many") {
            std::string text;
            in >> a >> text;
            std::vector<fbnn_hw_result> results(a);
            std::string images = bytes(text);
            out << fbnn_hw_classify_many(&device, text.empty() ? nullptr : (const uint8_t *)images.data(), a, results.data());
            for (auto &result : results) out << " " << result.answer;
        } else if (word == "learn" || word == "store" || word == "rehearse" || word == "freeze" || word == "forget") {
            in >> a;
            out << (word == "learn" ? fbnn_hw_learn(&device, a) : word == "store" ? fbnn_hw_store(&device, a) : word == "rehearse"
                    ? fbnn_hw_rehearse(&device, a) : word == "freeze" ? fbnn_hw_freeze(&device, a) : fbnn_hw_forget(&device, a));
        } else if (word == "known") {
            uint16_t known = 0;
            out << fbnn_hw_known(&device, &known);
            out << " " << known;
        } else if (word == "peek") {
            in >> a >> b;
            out << fbnn_hw_peek(&device, a, b, many);
            for (uint32_t one : many) out << " " << one;
        } else if (word == "poke") {
            in >> a >> b >> many[0] >> many[1] >> many[2] >> many[3];
            out << fbnn_hw_poke(&device, a, b, many);
        } else if (word == "snapshot") {
            file.clear();
            out << fbnn_hw_snapshot(&device, keep, nullptr, &a);
            out << " " << a << " " << hex(file);
        } else if (word == "restore") {
            std::string text;
            in >> text;
            file = bytes(text);
            out << fbnn_hw_restore(&device, kept, nullptr);
        }
        spent = clocks - before;
        std::cout << out.str() << std::endl;
    }
}
