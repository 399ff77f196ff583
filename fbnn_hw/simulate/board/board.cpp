// Runs the module `board` (clk, rst, rx, tx, ready, active, errors) behind a serial line.
//
//   board CLOCKS PERIOD_PS                a pseudo-terminal: prints its name, serves it until standard input is closed
//   board CLOCKS PERIOD_PS socket         a TCP port of this machine, for systems without pseudo-terminals: prints socket://ADDRESS:PORT
//   board CLOCKS PERIOD_PS SCRIPT LIMIT   the bytes of a file instead
//
// Each may be followed by arguments that begin with + and that Verilator or a model knows, such as +spram-random.
// CLOCKS: cycles of a bit; 1 is a line that is in step with the clock, with a pause between bytes.  A script is records of 4 bytes:
// cycles before the byte (2, low first), the byte, flags.  Flags: 1: without stop bit; 2: nothing is sent, the board must come to rest; 6:
// and be ready; 8: nothing is sent until the board has sent as many bytes since the last rest as the first two say.  For each rest, a line
// of the bytes that the board sent; where a script has a flag 8, standard error says the cycles from the start of the first byte to the end
// of each byte that came back.  Exit 3 if it does not rest within LIMIT cycles, 4 if the flash was used wrongly, 5 if the chip of a
// bitstream gives no answer.
#ifdef _WIN32
#include <winsock2.h>
#else
#include <arpa/inet.h>
#include <csignal>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>
#endif
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <stdlib.h>
#include <string>
#include <thread>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

// Verilator's runtime calls it where a context's time is 0; linkers of Windows and macOS want it to be there.
double sc_time_stamp() { return 0; }

// Cycles between two bytes where a bit has one: the link takes a byte some clocks after its last bit, and only then may another one come.
constexpr int PAUSE = 4;
constexpr uint64_t SILENT = 20000000;  // cycles, more than any request takes
constexpr int REST = 20;  // cycles without a word, at least, after which the board rests

// Sets the input `quick` of a board that has one, a clock of twice the frequency.  Returns whether it has.
template <class Top> auto quicken(Top &top, int level, int) -> decltype(void(top.quick), true) {
    top.quick = level;
    return true;
}
template <class Top> bool quicken(Top &, int, long) { return false; }

// Whether a board that says so does not hear yet: the chip of a bitstream, until its reset has ended.
template <class Top> auto deaf(const Top &top, int) -> decltype(bool(top.deaf)) { return top.deaf; }
template <class Top> bool deaf(const Top &, long) { return false; }

struct Item { unsigned gap; uint8_t byte; uint8_t flags; };

struct Board {
    VerilatedContext context;
    std::unique_ptr<Vtop> top;
    int eighths;  // of a clock, in a bit
    uint64_t half_ps;
    std::deque<Item> input;
    std::vector<uint8_t> output;
    uint64_t cycle = 0, quiet_since = 0;
    bool chip = false;   // of a bitstream: it is deaf at first, and never rests
    uint64_t asked = 0;  // the cycle of the last byte to the board, 0 where one has come from it since
    std::vector<uint64_t> times;  // cycles, of the start of the first byte to the board and of the end of each byte from it
    // To the board: level sequence of the byte on the line, 11 bits with what follows a missing stop bit.
    int bits_left = 0, bit_time = 0;
    unsigned frame = 0, gap = 0;
    bool waiting_gap = false;
    // From the board.
    int rx_bit = -1, rx_time = 0;
    unsigned rx_byte = 0;

    Board(double clocks, uint64_t period_ps, int argc, char **argv) : eighths(int(8 * clocks)), half_ps(period_ps / 2) {
        context.commandArgs(argc, argv);
        top.reset(new Vtop(&context));
        top->rx = 1;
        top->rst = 1;
        for (int i = 0; i < 4; i++) clock();
        top->rst = 0;
        chip = deaf(*top, 0);
    }

    void clock() {
        half(0);
        half(1);
        cycle++;
    }

    void half(int level) {
        uint64_t left = half_ps;
        top->clk = level;
        bool quick = quicken(*top, 0, 0);
        top->eval();
        if (quick) {
            context.timeInc(half_ps / 2);
            left -= half_ps / 2;
            quicken(*top, 1, 0);
            top->eval();
        }
        context.timeInc(left);
    }

    void step() {
        if (bits_left) {
            top->rx = frame & 1;
            if ((bit_time += 8) >= eighths) {
                bit_time -= eighths;
                frame = frame >> 1 | 1u << 31;
                bits_left--;
            }
        } else if (deaf(*top, 0)) {  // what is sent is not lost, whatever the host's pace
            top->rx = 1;
        } else if (waiting_gap && gap) {
            gap--;
        } else if (!input.empty() && input.front().flags & 8) {
            top->rx = 1;
            if (output.size() >= input.front().gap) input.pop_front();
        } else if (!input.empty() && !(input.front().flags & 2)) {
            if (!waiting_gap && input.front().gap) {
                gap = input.front().gap;
                waiting_gap = true;
            } else {
                waiting_gap = false;
                bool bad = input.front().flags & 1;
                frame = unsigned(input.front().byte) << 1 | (bad ? 0 : 1u << 9) | ~0u << 10;
                bits_left = (bad ? 12 : 10) + (eighths == 8 ? PAUSE : 0);
                input.pop_front();
                asked = cycle;
                if (times.empty()) times.push_back(cycle);
            }
        } else {
            top->rx = 1;
        }
        clock();
        if (rx_bit < 0) {
            if (!top->tx) {
                rx_bit = 0;
                rx_time = eighths * 3 / 2 / 8 * 8;
                rx_byte = 0;
            }
        } else if ((rx_time -= 8) <= 0) {
            rx_time += eighths;
            if (rx_bit == 8) {
                if (!top->tx) fprintf(stderr, "board: sent a byte without stop bit\n");
                output.push_back(rx_byte);
                asked = 0;
                times.push_back(cycle + eighths / 16);
                rx_bit = -1;
            } else {
                rx_byte |= unsigned(top->tx) << rx_bit++;
            }
        }
        if (top->active || rx_bit >= 0 || bits_left || waiting_gap || (!input.empty() && !(input.front().flags & 2))) quiet_since = cycle;
    }

    bool rests() const { return cycle - quiet_since > uint64_t(std::max(12 * eighths / 8, REST)); }

    // Whether a chip has no answer.  Its own clock says so: a host's clock goes on while other programs have the processor.
    bool silent() const { return chip && asked && cycle - asked > SILENT; }
};

static int run_script(Board &board, const char *path, uint64_t limit) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 2;
    }
    uint8_t r[4];
    bool timed = false;
    while (fread(r, 1, 4, file) == 4) {
        timed |= (r[3] & 8) != 0;
        board.input.push_back({unsigned(r[0] | r[1] << 8), r[2], r[3]});
    }
    fclose(file);
    board.input.push_back({0, 0, 2});
    while (!board.input.empty()) {
        uint64_t start = board.cycle;
        board.quiet_since = board.cycle;
        while (!board.rests() || (board.input.front().flags & 4 && !board.top->ready)) {
            board.step();
            if (board.input.front().flags & 10) {
                if (board.cycle - start > limit) {
                    fprintf(stderr, "board: does not come to rest\n");
                    return 3;
                }
            } else {
                start = board.cycle;
            }
        }
        board.input.pop_front();
        for (uint8_t byte : board.output) printf("%02x", byte);
        printf("\n");
        if (timed && board.times.size() > 1) {
            fprintf(stderr, "times");
            for (size_t i = 1; i < board.times.size(); i++) fprintf(stderr, " %llu", (unsigned long long)(board.times[i] - board.times[0]));
            fprintf(stderr, "\n");
        }
        board.output.clear();
        board.times.clear();
    }
    fprintf(stderr, "cycles %llu\n", (unsigned long long)board.cycle);
    return board.top->errors ? 4 : 0;
}

// Nothing comes and nothing is at work, so that the board may wait for a byte.
static bool idles(const Board &board) { return board.rests() && (board.top->ready || board.cycle - board.quiet_since > SILENT); }

// Some cycles, fewer where the board comes to rest: its answer is waited for.
static void run(Board &board) {
    int left = 4096;
    do board.step();
    while (--left && !idles(board));
}

// Whether it is time to look for bytes, which takes as long as some hundred cycles.
static bool listens(const Board &board) { return board.input.empty() || (board.cycle & 0xFFFF) < 4096; }

#ifdef _WIN32
using Socket = SOCKET;
static void hang_up(Socket socket) { closesocket(socket); }
static int serve_terminal(Board &) {
    fprintf(stderr, "board: this system has no pseudo-terminals\n");
    return 2;
}
#else
using Socket = int;
static const Socket INVALID_SOCKET = -1;
static void hang_up(Socket socket) { close(socket); }
static int WSAPoll(pollfd *files, nfds_t count, int timeout) { return poll(files, count, timeout); }

static int serve_terminal(Board &board) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) {
        perror("pseudo-terminal");
        return 2;
    }
    std::string name = ptsname(master);
    int slave = open(name.c_str(), O_RDWR | O_NOCTTY);  // kept open, so that clients may come and go
    termios settings;
    tcgetattr(slave, &settings);
    cfmakeraw(&settings);
    tcsetattr(slave, TCSANOW, &settings);
    fcntl(master, F_SETFL, O_NONBLOCK);
    printf("%s\n", name.c_str());
    fflush(stdout);
    uint8_t buffer[4096];
    for (;;) {
        pollfd files[2] = {{0, POLLIN, 0}, {master, POLLIN, 0}};
        if (listens(board)) {
            if (poll(files, 2, idles(board) ? -1 : 0) > 0) {
                if (files[0].revents && read(0, buffer, sizeof buffer) <= 0) return board.top->errors ? 4 : 0;
                if (board.input.empty() && files[1].revents & POLLIN) {
                    ssize_t count = read(master, buffer, sizeof buffer);
                    for (ssize_t i = 0; i < count; i++) board.input.push_back({0, buffer[i], 0});
                }
            }
        }
        run(board);
        fflush(stdout);  // what the models say
        if (board.silent()) return 5;
        size_t done = 0;
        while (done < board.output.size()) {
            ssize_t count = write(master, board.output.data() + done, board.output.size() - done);
            if (count <= 0) break;
            done += count;
        }
        board.output.erase(board.output.begin(), board.output.begin() + done);
        board.times.clear();
    }
}

#endif

static std::atomic<bool> ended{false};

static int serve_socket(Board &board) {
#ifdef _WIN32
    WSADATA data;
    WSAStartup(MAKEWORD(2, 2), &data);
#else
    signal(SIGPIPE, SIG_IGN);
#endif
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
#ifdef _WIN32
    int length = sizeof address;
#else
    socklen_t length = sizeof address;
#endif
    Socket listener = socket(AF_INET, SOCK_STREAM, 0), client = INVALID_SOCKET;
    if (listener == INVALID_SOCKET || bind(listener, (sockaddr *)&address, length) || listen(listener, 1)
        || getsockname(listener, (sockaddr *)&address, &length)) {
        fprintf(stderr, "board: this machine gives it no TCP port\n");
        return 2;
    }
    printf("socket://127.0.0.1:%u\n", unsigned(ntohs(address.sin_port)));
    fflush(stdout);
    std::thread([] {  // Windows cannot wait for standard input and a socket together
        while (getchar() != EOF) {}
        ended = true;
    }).detach();
    char buffer[4096];
    while (!ended) {
        pollfd file{};
        file.fd = client == INVALID_SOCKET ? listener : client;
        file.events = POLLIN;
        if (listens(board) && WSAPoll(&file, 1, idles(board) ? 20 : 0) > 0) {
            if (client == INVALID_SOCKET) {
                client = accept(listener, nullptr, nullptr);
                int yes = 1;
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, (const char *)&yes, sizeof yes);
            } else if (board.input.empty()) {
                int count = recv(client, buffer, sizeof buffer, 0);
                for (int i = 0; i < count; i++) board.input.push_back({0, uint8_t(buffer[i]), 0});
                if (count <= 0) {
                    hang_up(client);
                    client = INVALID_SOCKET;
                }
            }
        }
        run(board);
        fflush(stdout);  // what the models say
        if (board.silent()) return 5;
        size_t done = 0;
        while (client != INVALID_SOCKET && done < board.output.size()) {
            int count = send(client, (const char *)board.output.data() + done, int(board.output.size() - done), 0);
            if (count <= 0) break;
            done += count;
        }
        board.output.clear();
        board.times.clear();
    }
    return board.top->errors ? 4 : 0;
}

int main(int argc, char **argv) {
    const int all = argc;
    while (argc > 3 && argv[argc - 1][0] == '+') argc--;  // for the models
    if (argc < 3 || argc > 5) return 2;
    Board board(atof(argv[1]), strtoull(argv[2], nullptr, 10), all, argv);
    if (argc == 5) return run_script(board, argv[3], strtoull(argv[4], nullptr, 10));
    return argc == 4 ? serve_socket(board) : serve_terminal(board);
}
