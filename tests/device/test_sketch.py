"""The sketch for an Arduino in docs/device-hardware.md, compiled for a computer and run among readings of its pins."""

import json
import os
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "device-hardware.md"
BENCH = """
#include <cstdio>
#include <random>
enum { LOW, HIGH, INPUT, OUTPUT };
template<class A> A min(A a, A b) { return a < b ? a : b; }
static double now = 0;  // ms
static int pins[10], changes = 0;  // of the relay's pin
static unsigned long millis() { return (unsigned long)now; }
static void pinMode(int, int) {}
static int digitalRead(int pin) { return pins[pin]; }
static void digitalWrite(int pin, int value) {
    changes += pins[pin] != value;
    pins[pin] = value;
}
static void delay(int time) { now += time; }
SKETCH
static const double TICK = 65536 / 33e3;  // ms, of a design of 33 MHz
static std::mt19937 source(1);
static bool right() { return std::uniform_real_distribution<>(0, 1)(source) < 0.949; }
static void show(int number, bool flag = false) {
    for (int bit = 0; bit < 4; bit++) pins[2 + bit] = number >> bit & 1;
    pins[6] = flag;
    loop();
}
static void begin(bool in_view) {
    for (int i = 0; i < 40; i++) show(in_view ? CLASS : 0);
    changes = 0;
}
int main() {
    setup();
    double waited = 0;
    for (int i = 0; i < 2000; i++) {
        begin(false);
        double start = now;
        while (pins[7] != PULLED) show(right() ? CLASS : 0);
        waited += (now - start) / 2000;
    }
    begin(true);
    int hour = 0, at_first = 0, run = 0;  // changes in an hour; those of a relay that opens at the first other reading
    for (int i = 0; i < 90000; i++) {
        bool hit = right();
        show(hit ? CLASS : 0);
        at_first += !hit && run >= 15;
        run = hit ? run + 1 : 0;
    }
    hour = changes;
    int chosen = 0, taught = 0;
    for (int in_view = 0; in_view < 2; in_view++)
        for (int phase = 0; phase < 1024; phase += 5) {
            begin(in_view);
            for (double start = now; now - start < 4000;) show((int)((now - start + phase) / TICK) >> 8 & 1 ? CLASS : 0);
            chosen += changes;
            begin(in_view);
            for (double start = now; now - start < 4000;) show(CLASS, (int)((now - start + phase) / TICK) >> 5 & 1);
            taught += changes;
        }
    begin(false);
    double closed = 0;
    for (int i = 0; i < 200; i++) {
        show(CLASS);
        closed += pins[7] == PULLED ? 0.04 : 0;
    }
    int once = changes;
    begin(false);
    printf("{\\"waited\\": %.2f, \\"hour\\": %d, \\"at_first\\": %d, ", waited / 1e3, hour, at_first);
    printf("\\"chosen\\": %d, \\"taught\\": %d, ", chosen, taught);
    printf("\\"closed\\": %.2f, \\"once\\": %d, \\"rests\\": %d}\\n", closed, once, pins[7]);
}
"""


def run(folder, replaced):
    """What BENCH prints of the page's sketch, in which the words of the dict `replaced` are replaced."""
    sketch = "const int CLASS" + PAGE.read_text(encoding="utf-8").split("    const int CLASS")[1].split("\n- ")[0]
    for old, new in replaced.items():
        assert sketch.count(old) == 1
        sketch = sketch.replace(old, new)
    source = folder / "sketch.cpp"
    source.write_text(BENCH.replace("SKETCH", sketch))
    subprocess.run([os.environ.get("CXX", "g++"), "-O1", source, "-o", folder / "sketch"], check=True)
    return json.loads(subprocess.run([folder / "sketch"], check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("pulled", ["HIGH", "LOW"])
def test_it_closes_while_the_class_is_seen(pulled, tmp_path):
    found = run(tmp_path, {"PULLED = HIGH": f"PULLED = {pulled}"})
    assert 0.85 < found["waited"] < 1 and found["hour"] == 0 and 2000 < found["at_first"] < 2200
    assert found["chosen"] == found["taught"] == 0  # neither opens nor closes it
    assert found["once"] == 1 and found["closed"] == pytest.approx(200 * 0.04 - 14 * 0.04)
    assert found["rests"] == (pulled == "LOW")


def test_a_pulse_ends_and_comes_once(tmp_path):
    found = run(tmp_path, {"PULSE = 0;": "PULSE = 3000;"})
    assert found["once"] == 2 and found["closed"] == pytest.approx(3, abs=0.05)
