// Threads that share tasks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace tacit {

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
    const auto loop = [&](std::size_t which) {
        try {
            for (std::size_t task; (task = next.fetch_add(1)) < tasks;) work(task);
        } catch (...) {
            errors[which] = std::current_exception();
            next.store(tasks);
        }
    };
    std::vector<std::thread> others;
    try {
        for (std::size_t which = 1; which < most; ++which) others.emplace_back(loop, which);
    } catch (const std::system_error &) {  // no more threads to be had: those there are will do
    }
    loop(0);
    for (std::thread &thread : others) thread.join();
    for (const std::exception_ptr &error : errors) {
        if (error) std::rethrow_exception(error);
    }
}

// Calls work(begin, end) for ranges of `size` out of `count`.
template <typename Work>
void share_ranges(std::size_t count, std::size_t size, int threads, const Work &work) {
    share((count + size - 1) / size, threads, [&](std::size_t task) {
        work(task * size, std::min(count, (task + 1) * size));
    });
}

}  // namespace tacit
