// What Verilator's runtime names and the target wasm32-wasi lacks: threads, which one simulation does not start, and a file stream.
#pragma once
#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <sstream>
#include <tuple>
#include <utility>

#ifndef CLOCK_PROCESS_CPUTIME_ID
#define CLOCK_PROCESS_CPUTIME_ID CLOCK_MONOTONIC
#endif

namespace std {
template <> class basic_ifstream<char> : public istringstream {
public:
    explicit basic_ifstream(const char *) { setstate(ios_base::failbit); }
};
struct mutex {
    constexpr mutex() noexcept {}
    void lock() {}
    void unlock() {}
    bool try_lock() { return true; }
};
struct recursive_mutex : mutex {};
struct thread {
    struct id {
        bool operator==(const id &) const { return true; }
        bool operator!=(const id &) const { return false; }
        bool operator<(const id &) const { return false; }
    };
    thread() {}
    template <class... A> explicit thread(A &&...) {}
    id get_id() const { return {}; }
    static unsigned hardware_concurrency() { return 1; }
    void join() {}
    bool joinable() const { return false; }
};
namespace this_thread {
inline thread::id get_id() { return {}; }
inline void yield() {}
}  // namespace this_thread
struct condition_variable {
    template <class L> void wait(L &) {}
    template <class L, class P> void wait(L &, P) {}
    void notify_one() {}
    void notify_all() {}
};
struct condition_variable_any : condition_variable {};
}  // namespace std
#endif
