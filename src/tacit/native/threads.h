// Threads that share tasks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__linux__) && !defined(__ANDROID__)
#define TACIT_PLACES
#include <pthread.h>
#include <sched.h>
#endif

namespace tacit {

// Where new threads begin: each on a core of its own, if there are enough, and not on that of their
// maker, where some kernels leave them waiting for milliseconds. Once they run, they may go anywhere.
class Places {
  public:
#if defined(TACIT_PLACES)
    Places()
        : maker_(sched_getcpu()), last_(maker_),
          known_(maker_ >= 0 && sched_getaffinity(0, sizeof all_, &all_) == 0) {}

    void move(std::thread &thread) {
        for (int step = 1; known_ && step < CPU_SETSIZE; ++step) {
            const int core = (last_ + step) % CPU_SETSIZE;
            if (!CPU_ISSET(core, &all_)) continue;
            last_ = core;
            return put(thread, core);
        }
    }

    void fetch(std::thread &thread) const {  // to the core of its maker, who will wait for it
        if (known_) put(thread, maker_);
    }

    void release() const {
        if (known_) pthread_setaffinity_np(pthread_self(), sizeof all_, &all_);
    }

  private:
    static void put(std::thread &thread, int core) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);
    }

    int maker_, last_;
    cpu_set_t all_;
    bool known_;
#else
    void move(std::thread &) {}
    void fetch(std::thread &) const {}
    void release() const {}
#endif
};

// Calls work(task) for every task, each once, in at most `threads` threads. Whoever is free takes
// the next, so that a busy core holds nobody up; what a task does may depend on its number alone,
// which keeps the results the same for any number of threads. Nobody spins: threads that find
// nothing more to do end.
template <typename Work>
void share(std::size_t tasks, int threads, const Work &work) {
    const std::size_t most = std::min<std::size_t>(tasks, threads < 1 ? 1 : threads);
    if (most <= 1) {
        for (std::size_t task = 0; task < tasks; ++task) work(task);
        return;
    }
    std::atomic<std::size_t> next{0};
    std::vector<std::exception_ptr> errors(most);
    Places places;
    std::vector<std::atomic<bool>> moved(most);  // and not begun yet
    std::mutex moving;  // a thread that has ended must not be moved: its maker would be instead
    const auto loop = [&](std::size_t which) {
        try {
            for (std::size_t task; (task = next.fetch_add(1)) < tasks;) {
                if (moved[which].load(std::memory_order_relaxed) && moved[which].exchange(false)) {
                    places.release();
                }
                work(task);
            }
        } catch (...) {
            errors[which] = std::current_exception();
            next.store(tasks);
        }
        if (which) {
            const std::lock_guard<std::mutex> wait(moving);
            moved[which] = false;
        }
    };
    std::vector<std::thread> others;
    others.reserve(most - 1);
    try {
        const std::lock_guard<std::mutex> hold(moving);
        for (std::size_t which = 1; which < most; ++which) {
            others.emplace_back(loop, which);
            places.move(others.back());
            moved[which] = true;
        }
    } catch (const std::exception &) {  // no more threads to be had: those there are will do
    }
    loop(0);
    {
        const std::lock_guard<std::mutex> hold(moving);
        for (std::size_t which = 1; which <= others.size(); ++which) {  // on a busy core, it seems
            if (moved[which].exchange(false)) places.fetch(others[which - 1]);
        }
    }
    for (std::thread &thread : others) thread.join();
    for (const std::exception_ptr &error : errors) {
        if (error) std::rethrow_exception(error);
    }
}

constexpr std::size_t apart = 128;  // bytes of the two cache lines that are fetched together

// Sums of some tasks, so many each, out of each other's way: threads that write to the same cache line
// wait for each other.
class Sums {
  public:
    Sums(std::size_t tasks, std::size_t size)
        : size_(size), stride_(size + apart / sizeof(double)), sums_(tasks * stride_) {}

    double *of(std::size_t task) { return &sums_[task * stride_]; }

    // Adds those of all tasks, in order.
    std::vector<double> total() const {
        std::vector<double> all(size_);
        for (std::size_t at = 0; at < sums_.size(); at += stride_) {
            for (std::size_t i = 0; i < size_; ++i) all[i] += sums_[at + i];
        }
        return all;
    }

  private:
    std::size_t size_, stride_;
    std::vector<double> sums_;
};

// Calls work(begin, end) for ranges of `size` out of `count`.
template <typename Work>
void share_ranges(std::size_t count, std::size_t size, int threads, const Work &work) {
    share((count + size - 1) / size, threads, [&](std::size_t task) {
        work(task * size, std::min(count, (task + 1) * size));
    });
}

}  // namespace tacit
