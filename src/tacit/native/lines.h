// Lines of counts, a number for each class: what they expect, and the weights that they give.
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

// The sum of what `of` says of each line, four at a time.
template <typename Of>
double in_lanes(std::size_t lines, const Of &of) {
    double sums[4] = {};
    std::size_t j = 0;
    for (; j + 4 <= lines; j += 4) {
        for (int l = 0; l < 4; ++l) sums[l] += of(j + l);
    }
    for (; j < lines; ++j) sums[0] += of(j);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

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

// Lines of counts once they are summed up: adds them to `totals` and, times the weights of the round
// before, which are still in the table (with `fine` in lines that are `heavy`; 0 * -inf = 0), to `score`.
// Then says which lines are heavy now: one of their counts is so large that the rounding of its weight
// matters in the sum of all.
struct Weigh {
    template <typename Real>
    static TACIT_INLINE void run(const double *counts, const Real *table, const Real *fine,
                                 Real *heavy, std::size_t lines, std::size_t K,
                                 double *totals, double *score) {
        Vec<double, 4> all{};
        double rest = 0;
        for (std::size_t j = 0; j < lines; ++j) {
            const double *line = counts + j * K;
            const Real *weight = table + j * K, *less = fine + j * K;
            const bool exact = heavy[j] != 0;
            Vec<double, 4> own{}, most{};
            double large = 0;
            std::size_t k = 0;
            for (; k + 4 <= K; k += 4) {
                Vec<double, 4> x, total, part;
                load<double, 4>(x, line + k);
                load<double, 4>(total, totals + k);
                store<double, 4>(totals + k, total + x);
                most = x > most ? x : most;
                for (int l = 0; l < 4; ++l) part[l] = static_cast<double>(weight[k + l]);
                if (exact) {
                    Vec<double, 4> more;
                    for (int l = 0; l < 4; ++l) more[l] = static_cast<double>(less[k + l]);
                    part += more;
                }
                own += x == 0.0 ? Vec<double, 4>{} : x * part;
            }
            for (; k < K; ++k) {
                totals[k] += line[k];
                large = line[k] > large ? line[k] : large;
                if (line[k] == 0) continue;
                const double more = exact ? static_cast<double>(less[k]) : 0.0;
                rest += line[k] * (static_cast<double>(weight[k]) + more);
            }
            all += own;
            heavy[j] = large >= 8.0 || largest<double, 4>(most) >= 8.0 ? Real{1} : Real{0};
        }
        *score += sum<double, 4>(all) + rest;
    }
};

// change[j] = how far the weights of line j have come apart, two classes at most, since `before`; with
// `by` added to those of each class.
struct Differ {
    template <typename Real>
    static TACIT_INLINE void run(const Real *before, const Real *now, const double *by, std::size_t lines,
                                 std::size_t K, float *change) {
        for (std::size_t j = 0; j < lines; ++j, before += K, now += K) {
            Vec<double, 4> most = Vec<double, 4>{} - std::numeric_limits<double>::infinity(), least = -most;
            const auto see = [&](std::size_t k) {
                Vec<double, 4> x;
                for (int l = 0; l < 4; ++l) {
                    x[l] = static_cast<double>(now[k + l]) - static_cast<double>(before[k + l]) + by[k + l];
                }
                most = x > most ? x : most;
                least = x < least ? x : least;
            };
            std::size_t k = 0;
            for (; k + 4 <= K; k += 4) see(k);
            double top = largest<double, 4>(most), bottom = -largest<double, 4>(-least);
            for (; k < K; ++k) {
                const double x = static_cast<double>(now[k]) - static_cast<double>(before[k]) + by[k];
                top = std::max(top, x);
                bottom = std::min(bottom, x);
            }
            change[j] = static_cast<float>(top - bottom);
        }
    }
};

// expected[j] = what line j adds to the expected score: its counts times its weights (with `fine` in lines that
// are `heavy`), and the sum of its column times the mean. All weights are finite.
struct ExpectLines {
    template <typename Real>
    static TACIT_INLINE void run(const double *counts, const Real *table, const Real *fine, const Real *heavy,
                                 const double *columns, const double *mean, std::size_t lines, std::size_t K,
                                 double *expected) {
        for (std::size_t j = 0; j < lines; ++j, counts += K, table += K, fine += K) {
            const bool exact = heavy[j] != 0;
            Vec<double, 4> all{};
            double rest = columns[j] * mean[j];
            std::size_t k = 0;
            for (; k + 4 <= K; k += 4) {
                Vec<double, 4> x, part;
                load<double, 4>(x, counts + k);
                for (int l = 0; l < 4; ++l) part[l] = static_cast<double>(table[k + l]);
                if (exact) {
                    for (int l = 0; l < 4; ++l) part[l] += static_cast<double>(fine[k + l]);
                }
                all += x * part;
            }
            for (; k < K; ++k) {
                const double more = exact ? static_cast<double>(fine[k]) : 0.0;
                rest += counts[k] * (static_cast<double>(table[k]) + more);
            }
            expected[j] = sum<double, 4>(all) + rest;
        }
    }
};

// What a pass over the counts leaves beside its table.
struct Prepared {
    bool bounded = true;  // no weight is +inf
    double density = 0;
};

// The weights of words, log((counts + alpha) / total), or of presence and absence, the same less
// log((seen - counts + alpha) / total), which `constants` sums up. They go into the table less their
// mean over the classes where they are finite; the mean is kept in float64. `fine` has what rounding
// took off, in lines that are `heavy`: of the others too little depends on it. `logs` has the logarithms
// of counts + alpha and, after all of them, those of seen - counts + alpha.
//
// A line is N vectors of 4, or as many as it takes if N is 0; what is behind the last class is 0.
template <typename Real, bool Pairs, int N>
struct Prepare {
    static TACIT_INLINE void run(Alpha alpha, const double *log_totals, std::size_t lines,
                                 std::size_t K, Real *table, Real *fine, const Real *heavy, double *mean, double *constants, double *logs,
                                 Prepared *found) {
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
            Real *to = table + j * K, *off = fine + j * K;
            const bool exact = heavy[j] != 0;
            // The next lines cover what is too much; where there are none, numbers come one by one.
            if (j * K + vectors * 4 <= lines * K) {
                for (std::size_t q = 0; q < vectors; ++q) {
                    Vec<double, 4> x;
                    Vec<Real, 4> less;
                    load<double, 4>(x, a + 4 * q);
                    x -= middle;
                    for (int l = 0; l < 4; ++l) less[l] = static_cast<Real>(x[l]);
                    store<Real, 4>(to + 4 * q, less);
                }
                if (exact) asm volatile("" ::: "memory");  // GCC 12 takes double(float(x)) of a vector for x
                for (std::size_t q = 0; exact && q < vectors; ++q) {
                    Vec<double, 4> x, held;
                    Vec<Real, 4> less;
                    load<double, 4>(x, a + 4 * q);
                    for (int l = 0; l < 4; ++l) held[l] = static_cast<double>(to[4 * q + l]);
                    x = x - middle - held;
                    for (int l = 0; l < 4; ++l) less[l] = static_cast<Real>(x[l]);
                    store<Real, 4>(off + 4 * q, less);
                }
            } else {
                for (std::size_t k = 0; k < K; ++k) {
                    to[k] = static_cast<Real>(a[k] - middle);
                    off[k] = static_cast<Real>(a[k] - middle - static_cast<double>(to[k]));
                }
            }
            if (!finite && exact) {  // -inf - -inf is no number
                for (std::size_t k = 0; k < K; ++k) off[k] = std::isinf(to[k]) ? Real{0} : off[k];
            }
        }
        found->density += density;
    }

    static TACIT_INLINE double mean_of_finite(const double *line, std::size_t K, Prepared *found) {
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
struct PrepareLines {
    template <typename... Arguments>
    void operator()(std::size_t K, Arguments... arguments) const {
        switch ((K + 3) / 4) {
            case 1: return best<Prepare<Real, Pairs, 1>>(arguments...);
            case 2: return best<Prepare<Real, Pairs, 2>>(arguments...);
            case 3: return best<Prepare<Real, Pairs, 3>>(arguments...);
            case 4: return best<Prepare<Real, Pairs, 4>>(arguments...);
            case 5: return best<Prepare<Real, Pairs, 5>>(arguments...);
            case 6: return best<Prepare<Real, Pairs, 6>>(arguments...);
            default: return best<Prepare<Real, Pairs, 0>>(arguments...);
        }
    }
};

}  // namespace tacit
