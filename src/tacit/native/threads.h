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

// A job that helpers may join in: `run(which)` for each of them, from 1 on.
class Job {
  public:
    explicit Job(std::size_t helpers) : places(helpers) {}
    virtual ~Job() = default;
    virtual void run(std::size_t which) = 0;

  private:
    friend class Crew;
    std::size_t places, begun = 0, busy = 0;
    std::condition_variable done;
};

// The helpers of this process. They sleep until there is a job, and stay for the next: to wake one takes a
// tenth of the time that it takes to make one. Nobody spins.
class Crew {
  public:
    static Crew &here() {
        static Crew *crew = new Crew;  // never destroyed: helpers may sleep until the process ends
        return *crew;
    }

    // Runs a job here and with helpers, as far as they come while it lasts. One whose core is busy with
    // something else may not come at all: nobody waits for it.
    void run(Job &job) {
        {
            const std::lock_guard<std::mutex> hold(lock_);
            try {
                while (!leaving_ && helpers_.size() < job.places) helpers_.emplace_back(&Crew::help, this);
            } catch (const std::exception &) {  // no more threads to be had: those there are will do
            }
            jobs_.push_back(&job);
        }
        job.places > 1 ? wake_.notify_all() : wake_.notify_one();
        job.run(0);
        std::unique_lock<std::mutex> hold(lock_);
        jobs_.remove(&job);
        job.done.wait(hold, [&] { return job.busy == 0; });
    }

  private:
    Crew() {
#if defined(__unix__) || defined(__APPLE__)
        // A child has none of its parent's threads: they are sent away before a fork, and made anew in both.
        pthread_atfork([] { here().leave(); }, [] { here().lock_.unlock(); },
                       [] {
                           here().jobs_.clear();  // of threads that the child does not have
                           here().leaving_ = 0;
                           here().lock_.unlock();
                       });
#endif
    }

    void help() {
        std::unique_lock<std::mutex> hold(lock_);
        for (;;) {
            wake_.wait(hold, [&] { return leaving_ || !jobs_.empty(); });
            if (leaving_) return;
            Job &job = *jobs_.front();
            const std::size_t which = ++job.begun;
            if (which == job.places) jobs_.pop_front();
            ++job.busy;
            hold.unlock();
            job.run(which);
            hold.lock();
            if (--job.busy == 0) job.done.notify_one();
        }
    }

    // Waits until no helper is left, and keeps the lock.
    void leave() {
        lock_.lock();
        ++leaving_;
        std::vector<std::thread> all = std::move(helpers_);
        helpers_.clear();
        lock_.unlock();
        wake_.notify_all();
        for (std::thread &one : all) one.join();
        lock_.lock();
        --leaving_;
    }

    std::mutex lock_;
    std::condition_variable wake_;
    std::list<Job *> jobs_;  // that have places left
    std::vector<std::thread> helpers_;
    int leaving_ = 0;  // forks that wait for helpers to leave
};

// Calls work(task) for every task, each once, in at most `threads` threads. Whoever is free takes
// the next, so that a busy core holds nobody up; what a task does may depend on its number alone,
// which keeps the results the same for any number of threads.
template <typename Work>
void share(std::size_t tasks, int threads, const Work &work) {
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
    Crew::here().run(job);
    for (const std::exception_ptr &error : job.errors) {
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
