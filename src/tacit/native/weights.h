// From lines of counts, a number for each class, to the weights that score rows, and what they expect.
//
// A weight is kept as float32 and what rounding took off it, which the score of a row does without: it is
// only a matter of second order (see `Block`), while the expected score of counts takes both.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "arrays.h"
#include "simd.h"

namespace tacit {

constexpr std::size_t tile = 32;  // lines that are at hand while they are worked on

// Smoothing: one number for all lines, or one a line.
struct Alpha {
    const double *values;
    bool one;
    TACIT_INLINE double operator[](std::size_t line) const { return values[one ? 0 : line]; }
    Alpha from(std::size_t line) const { return {values + (one ? 0 : line), one}; }
};

inline Alpha alpha_of(const Vector<const double> &alpha, std::size_t lines) {
    check(alpha.shape(0) == 1 || alpha.shape(0) == lines, "alpha has another number of lines");
    return {alpha.data(), alpha.shape(0) == 1};
}

constexpr double rounding = 1e-13;  // of two sums of the same size: what is left of them is none

// to = counts + alpha or, if `Rest`, seen - counts + alpha, each line in `stride` numbers; 1 behind the
// last class.
template <bool Rest>
struct Smooth {
    static TACIT_INLINE void run(const double *counts, const double *seen, Alpha alpha,
                                 std::size_t first, std::size_t last, std::size_t K,
                                 std::size_t stride, double *to) {
        for (std::size_t j = first; j < last; ++j, to += stride) {
            const double own = alpha[j], *from = counts + j * K;
            std::size_t k = 0;
            for (; k + 4 <= K; k += 4) {
                Vec<double, 4> x;
                load<double, 4>(x, from + k);
                if constexpr (Rest) {
                    Vec<double, 4> all;
                    load<double, 4>(all, seen + k);
                    x = all - x;
                    x = x < rounding * all ? Vec<double, 4>{} : x;
                }
                store<double, 4>(to + k, x + own);
            }
            for (; k < K; ++k) {
                const double x = Rest ? seen[k] - from[k] : from[k];
                to[k] = (Rest && x < rounding * seen[k] ? 0.0 : x) + own;
            }
            for (; k < stride; ++k) to[k] = 1.0;
        }
    }
};

// sum += counts * (weights + less) over the numbers [first, last), with 0 * -inf = 0; `less` may be null.
struct ExpectedScore {
    template <typename Real>
    static TACIT_INLINE void run(const double *counts, const Real *weights, const float *less, std::size_t first,
                                 std::size_t last, double *sum) {
        Vec<double, 8> total{};
        std::size_t i = first;
        for (; i + 8 <= last; i += 8) {
            Vec<double, 8> x, weight, more{};
            load<double, 8>(x, counts + i);
            for (int l = 0; l < 8; ++l) weight[l] = static_cast<double>(weights[i + l]);
            if (less) {
                for (int l = 0; l < 8; ++l) more[l] = static_cast<double>(less[i + l]);
            }
            total += x == 0.0 ? Vec<double, 8>{} : x * (weight + more);
        }
        for (; i < last; ++i) {
            const double more = less ? static_cast<double>(less[i]) : 0.0;
            if (counts[i] != 0) total[0] += counts[i] * (static_cast<double>(weights[i]) + more);
        }
        *sum += tacit::sum<double, 8>(total);
    }
};

// What a pass over the counts leaves beside its table.
struct WeightSummary {
    bool bounded = true;  // no weight is +inf
    double density = 0;
};

// The weights of words, log((counts + alpha) / total), or of presence and absence, the same less
// log((seen - counts + alpha) / total), which `constants` sums up. They go into the table less their mean
// over the classes where they are finite; the mean is kept in float64, and `remainder`, unless it is null,
// has what rounding took off. `logs` has the logarithms of counts + alpha and, after all of them, those of
// seen - counts + alpha.
//
// A line is N vectors of 4, or as many as it takes if N is 0; what is behind the last class is 0.
template <typename Real, bool Pairs, int N>
struct MakeWeights {
    static TACIT_INLINE void run(Alpha alpha, const double *log_totals, std::size_t lines, std::size_t K, Real *table,
                                 float *remainder, double *mean, double *constants, double *logs, WeightSummary *found) {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const std::size_t vectors = N ? N : (K + 3) / 4, size = lines * vectors * 4;
        double density = 0;
        const double share = 1.0 / static_cast<double>(K);
        for (std::size_t j = 0; j < lines; ++j) {
            double *a = logs + j * vectors * 4, *b = a + size;
            Vec<double, 4> sums{}, rest{};  // of the weights; and of log((others + alpha) / total)
            for (std::size_t q = 0; q < vectors; ++q) {
                Vec<double, 4> x, t, y, c;
                load<double, 4>(x, a + 4 * q);
                load<double, 4>(t, log_totals + 4 * q);
                if (Pairs) {
                    load<double, 4>(y, b + 4 * q);
                    load<double, 4>(c, constants + 4 * q);
                    x -= y;
                    y -= t;
                    rest += y;
                    store<double, 4>(constants + 4 * q, c + y);
                } else {
                    x -= t;
                }
                sums += x;
                store<double, 4>(a + 4 * q, x);
            }
            double middle = sum<double, 4>(sums);
            if (alpha[j] != 0) {
                density += alpha[j] * (Pairs ? middle + 2 * sum<double, 4>(rest) : middle);
            }
            middle *= share;
            const bool finite = middle > -infinity && middle < infinity;
            if (!finite) middle = mean_of_finite(a, K, found);
            mean[j] = middle;
            Real *to = table + j * K;
            float *less = remainder ? remainder + j * K : nullptr;
            // The next lines cover what is too much; where there are none, numbers come one by one.
            const bool whole = j * K + vectors * 4 <= lines * K;
            for (std::size_t q = 0; whole && q < vectors; ++q) {
                Vec<double, 4> x;
                Vec<Real, 4> held;
                load<double, 4>(x, a + 4 * q);
                x -= middle;
                for (int l = 0; l < 4; ++l) held[l] = static_cast<Real>(x[l]);
                store<double, 4>(a + 4 * q, x);
                store<Real, 4>(to + 4 * q, held);
            }
            for (std::size_t k = 0; !whole && k < K; ++k) to[k] = static_cast<Real>(a[k] -= middle);
            if (!less) continue;
            asm volatile("" ::: "memory");  // GCC 12 takes double(float(x)) of a vector for x
            for (std::size_t q = 0; whole && q < vectors; ++q) {
                Vec<double, 4> x;
                Vec<float, 4> rest;
                load<double, 4>(x, a + 4 * q);
                for (int l = 0; l < 4; ++l) rest[l] = static_cast<float>(x[l] - static_cast<double>(to[4 * q + l]));
                store<float, 4>(less + 4 * q, rest);
            }
            for (std::size_t k = 0; !whole && k < K; ++k) less[k] = static_cast<float>(a[k] - static_cast<double>(to[k]));
            if (finite) continue;  // else -inf - -inf, which is no number
            for (std::size_t k = 0; k < K; ++k) less[k] = std::isinf(to[k]) ? 0.0f : less[k];
        }
        found->density += density;
    }

    static TACIT_INLINE double mean_of_finite(const double *line, std::size_t K, WeightSummary *found) {
        double total = 0, among = 0;
        for (std::size_t k = 0; k < K; ++k) {
            if (std::isfinite(line[k])) {
                total += line[k];
                ++among;
            } else if (line[k] > 0) {
                found->bounded = false;
            }
        }
        return among > 0 ? total / among : 0.0;
    }
};

template <typename Real, bool Pairs>
struct MakeWeightsOf {
    template <typename... Arguments>
    void operator()(std::size_t K, Arguments... arguments) const {
        switch ((K + 3) / 4) {
            case 1: return dispatch<MakeWeights<Real, Pairs, 1>>(arguments...);
            case 2: return dispatch<MakeWeights<Real, Pairs, 2>>(arguments...);
            case 3: return dispatch<MakeWeights<Real, Pairs, 3>>(arguments...);
            case 4: return dispatch<MakeWeights<Real, Pairs, 4>>(arguments...);
            case 5: return dispatch<MakeWeights<Real, Pairs, 5>>(arguments...);
            case 6: return dispatch<MakeWeights<Real, Pairs, 6>>(arguments...);
            default: return dispatch<MakeWeights<Real, Pairs, 0>>(arguments...);
        }
    }
};

}  // namespace tacit
