// The models of parts behind C functions, for `parts.py`.
#include "flash.h"
#include "panel.h"
#include "sensors.h"

#ifdef _WIN32
#define SHARED extern "C" __declspec(dllexport)
#else
#define SHARED extern "C"
#endif

static std::string answer;

SHARED Part *part_new(const char *kind, uint64_t seed) {
    const std::string name = kind;
    if (name == "ov7670") return new Ov7670(seed);
    if (name == "hm01b0") return new Hm01b0(seed);
    if (name == "flash") return new Flash(seed);
    if (name == "buttons") return new Buttons(seed);
    if (name == "ssd1306") return new Ssd1306(seed);
    return nullptr;
}
SHARED void part_delete(Part *part) { delete part; }
SHARED uint32_t part_at(Part *part, uint64_t ps, uint32_t pins) { return part->at(ps, pins); }
SHARED void part_run(Part *part, uint64_t ps, uint64_t step, uint64_t count, const uint32_t *pins, uint32_t *out) {
    for (uint64_t i = 0; i < count; i++, ps += step) out[i] = part->at(ps, pins[i]);
}
SHARED void part_power(Part *part, uint64_t ps, int on) { part->power(ps, on); }
SHARED int64_t *part_value(Part *part, const char *name) {
    const auto found = part->values.find(name);
    return found == part->values.end() ? nullptr : found->second;
}
SHARED void *part_memory(Part *part, int which, uint64_t *bytes) {
    const Memory memory = part->memory(which);
    *bytes = memory.bytes;
    return memory.data;
}
SHARED const char *part_text(Part *part) { return (answer = part->text()).c_str(); }
// A line for each kind of fault: how often, and what.
SHARED const char *part_faults(Part *part) {
    answer.clear();
    for (const auto &[name, count] : part->faults) answer += std::to_string(count) + " " + name + "\n";
    return answer.c_str();
}
