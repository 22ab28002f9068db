// What the tasks of an E-step sum up, and which rows moved.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <vector>

#include "arrays.h"
#include "posterior.h"
#include "simd.h"
#include "sums.h"

namespace tacit {

constexpr std::size_t stripe = 512;  // rows that one task scores

// Each task has a stripe of rows, and sums up for itself; sums are added in order at the end.
template <typename Real>
struct Stripes {
    Stripes(std::size_t n, std::size_t K, bool again)
        : tasks((n + stripe - 1) / stripe), n(n), K(K), again(again), sums(tasks, K + 1),
          moves(again ? tasks : 0) {}

    // Whether more rows of a task moved than are noted; then nothing is returned in the end.
    bool most_moved(std::size_t task) const { return many && moves[task].rows.size() >= stripe / 4; }

    // Store the posteriors that moved, and note by how much.
    void note(std::size_t task, std::size_t first, const Block<Real> &part, std::size_t stride) {
        Moves &own = moves[task];
        for (std::size_t i = 0; i < part.count; ++i) {
            if (!part.moved[i]) continue;
            const Real *now = part.scores + i * stride;
            Real *held = part.kept + i * K;
            if (own.rows.size() < stripe / 4) {
                own.rows.push_back(static_cast<std::int64_t>(first + i));
                for (std::size_t k = 0; k < K; ++k) {
                    own.change.push_back(static_cast<double>(now[k]) - static_cast<double>(held[k]));
                }
            } else {
                many.store(true, std::memory_order_relaxed);
            }
            for (std::size_t k = 0; k < K; ++k) held[k] = now[k];
        }
    }

    // `evidence` is part of the scores, and not of what is summed up by columns. `noted`, or null, gets what
    // each row adds.
    void add(std::size_t task, const Block<Real> &part, const double *evidence, double *noted) {
        double &log_likelihood = sums.of(task)[K];
        for (std::size_t i = 0; evidence && i < part.count * K; ++i) {
            const double r = static_cast<double>(part.kept[i]);
            if (r != 0) log_likelihood += r * evidence[i];
        }
        widest<Logarithms>(part.totals, part.count);
        for (std::size_t i = 0; i < part.count; ++i) {
            const double weight = part.weight ? part.weight[i] : 1.0;
            const double entropy = weight * part.totals[i] + part.rest[i];
            log_likelihood += entropy;
            if (noted) noted[i] = entropy;
            if (std::isinf(part.tops[i])) log_likelihood = part.tops[i];
        }
    }

    nb::object moved() {
        if (!again || many) return nb::none();
        std::size_t size = 0;
        for (const Moves &own : moves) size += own.rows.size();
        if (size > n / 32) return nb::none();
        std::vector<std::int64_t> all;
        std::vector<double> by;
        all.reserve(size);
        by.reserve(size * K);
        for (const Moves &own : moves) {
            all.insert(all.end(), own.rows.begin(), own.rows.end());
            by.insert(by.end(), own.change.begin(), own.change.end());
        }
        return nb::make_tuple(to_numpy(std::move(all), size), to_numpy(std::move(by), size, K));
    }

    std::size_t tasks, n, K;
    bool again;
    std::atomic<bool> many{false};
    Sums sums;  // of the posteriors of each class, and the log-likelihood
    struct alignas(line_pair) Moves {
        std::vector<std::int64_t> rows;
        std::vector<double> change;
    };
    std::vector<Moves> moves;
};

}  // namespace tacit
