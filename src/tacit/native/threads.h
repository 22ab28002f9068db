// Threads that share tasks.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace tacit {

// A job that worker threads may join: `run(which)` for each of them, from 1 on.
class Job {
  public:
    explicit Job(std::size_t workers) : places(workers) {}
    virtual ~Job() = default;
    virtual void run(std::size_t which) = 0;

  private:
    friend class ThreadPool;
    std::size_t places, begun = 0, busy = 0;
    std::condition_variable done;
};

// The worker threads of this process, as many as the job that asked for most. They sleep until there is a job, and
// stay for the next: to wake one takes a tenth of the time that it takes to make one. Nobody spins.
class ThreadPool {
  public:
    static ThreadPool &here() {
        static const bool made = make();
        static_cast<void>(made);
        return *current();
    }

    // Runs a job here and in worker threads, as far as they come while it lasts. One whose core is busy with
    // something else may not come at all: nobody waits for it.
    void run(Job &job) {
        {
            const std::lock_guard<std::mutex> hold(lock_);
            try {
                for (; !leaving_ && size_ < job.places; ++size_) std::thread(&ThreadPool::work, this).detach();
            } catch (const std::exception &) {  // no more threads to be had: those there are will do
            }
            jobs_.push_back(&job);
        }
        for (std::size_t place = 0; place < job.places; ++place) wake_.notify_one();
        job.run(0);
        std::unique_lock<std::mutex> hold(lock_);
        jobs_.remove(&job);
        job.done.wait(hold, [&] { return job.busy == 0; });
    }

  private:
    // Never destroyed, as workers may sleep until the process ends.
    static std::atomic<ThreadPool *> &current() {
        static std::atomic<ThreadPool *> pool{new ThreadPool};
        return pool;
    }

    // A child has none of its parent's threads, and begins with a pool of its own.
    static bool make() {
        current();
#if defined(__unix__) || defined(__APPLE__)
        return pthread_atfork([] { here().drain(); }, nullptr, [] { current() = new ThreadPool; }) == 0;
#else
        return true;
#endif
    }

    void work() {
        std::unique_lock<std::mutex> hold(lock_);
        for (;;) {
            ++idle_;
            wake_.wait(hold, [&] { return leaving_ || !jobs_.empty(); });
            --idle_;
            if (leaving_) break;
            Job &job = *jobs_.front();
            const std::size_t which = ++job.begun;
            if (which == job.places) jobs_.pop_front();
            ++job.busy;
            hold.unlock();
            job.run(which);
            hold.lock();
            if (--job.busy == 0) job.done.notify_one();
        }
        --size_;
        if (!idle_) left_.notify_all();
    }

    // Ends idle workers, so that a process that forks has no more threads than it must. Those that
    // work go on: they may wait for the GIL, which whoever forks holds.
    void drain() {
        std::unique_lock<std::mutex> hold(lock_);
        ++leaving_;
        wake_.notify_all();
        left_.wait(hold, [&] { return !idle_; });
        --leaving_;
    }

    std::mutex lock_;
    std::condition_variable wake_, left_;
    std::list<Job *> jobs_;  // that have places left
    std::size_t size_ = 0, idle_ = 0;
    int leaving_ = 0;  // forks that wait for idle workers to end
};

// Calls work(task) for every task, each once, in at most `threads` threads. Whoever is free takes
// the next, so that a busy core holds nobody up; what a task does may depend on its number alone,
// which keeps the results the same for any number of threads.
template <typename Work>
void parallel_for(std::size_t tasks, int threads, const Work &work) {
    const std::size_t most = std::min<std::size_t>(tasks, threads < 1 ? 1 : threads);
    if (most <= 1) {
        for (std::size_t task = 0; task < tasks; ++task) work(task);
        return;
    }
    struct Shared : Job {
        Shared(std::size_t tasks, std::size_t most, const Work &work)
            : Job(most - 1), tasks(tasks), work(work), errors(most) {}

        void run(std::size_t which) override {
            try {
                for (std::size_t task; (task = next.fetch_add(1)) < tasks;) work(task);
            } catch (...) {
                errors[which] = std::current_exception();
                next.store(tasks);
            }
        }

        std::size_t tasks;
        const Work &work;
        std::atomic<std::size_t> next{0};
        std::vector<std::exception_ptr> errors;
    } job(tasks, most, work);
    ThreadPool::here().run(job);
    for (const std::exception_ptr &error : job.errors) {
        if (error) std::rethrow_exception(error);
    }
}

// Calls work(begin, end) for ranges of `size` out of `count`.
template <typename Work>
void parallel_for_ranges(std::size_t count, std::size_t size, int threads, const Work &work) {
    parallel_for((count + size - 1) / size, threads, [&](std::size_t task) {
        work(task * size, std::min(count, (task + 1) * size));
    });
}

}  // namespace tacit
