// The model of a flash as the module spi_flash of kept_flash.v.  Its content is the file flash.bin, which keeps what is written.
#include "flash.h"

static std::vector<uint8_t> read_file() {
    std::vector<uint8_t> bytes;
    if (FILE *file = fopen("flash.bin", "rb")) {
        for (int c; (c = fgetc(file)) != EOF;) bytes.push_back(uint8_t(c));
        fclose(file);
    }
    return bytes;
}

extern "C" int kept_flash(long long ps, int pins) {
    static Flash flash(1);
    static const auto memory = static_cast<uint8_t *>(flash.memory(0).data);
    static const size_t size = [] {
        const auto bytes = read_file();
        std::copy(bytes.begin(), bytes.end(), memory);
        flash.scale = 1000;
        return bytes.size();
    }();
    static int64_t changes = 0;
    static size_t faults = 0;
    const uint32_t out = flash.at(uint64_t(ps), uint32_t(pins));
    if (flash.erased + flash.programmed != changes) {
        changes = flash.erased + flash.programmed;
        FILE *file = fopen("flash.bin", "r+b");
        fwrite(memory, 1, size, file);
        fclose(file);
    }
    if (flash.faults.size() != faults) {
        faults = flash.faults.size();
        for (auto &[name, count] : flash.faults) printf("flash: %s\n", name.c_str());
        fflush(stdout);
    }
    return int(out & 15);
}
