// Lines of counts from one round to the next: what each of them expects, and the weights that it gives.
#pragma once

#include <algorithm>
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

// to = seen - counts, what is rounding being none.
struct Rest {
    static TACIT_INLINE void run(const double *counts, const double *seen, std::size_t lines, std::size_t K, double *to) {
        for (std::size_t j = 0; j < lines; ++j, counts += K, to += K) {
            std::size_t k = 0;
            for (; k + 4 <= K; k += 4) {
                Vec<double, 4> x, all;
                load<double, 4>(x, counts + k);
                load<double, 4>(all, seen + k);
                store<double, 4>(to + k, of(x, all));
            }
            for (; k < K; ++k) {
                const double rest = seen[k] - counts[k];
                to[k] = rest < rounding * seen[k] ? 0.0 : rest;
            }
        }
    }

    static TACIT_INLINE Vec<double, 4> of(const Vec<double, 4> &x, const Vec<double, 4> &all) {
        const Vec<double, 4> rest = all - x;
        return rest < rounding * all ? Vec<double, 4>{} : rest;
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
    double score = 0;
};

// Lines one behind the other, and what belongs to them.
template <typename Real>
struct Tile {
    const double *counts;
    Real *table, *fine, *heavy;
    double *mean;
    const double *columns;
    Alpha alpha;
    float *change;
    double *expected;
    std::size_t size;
};

// Lines of counts once they are summed up, each in one go: what is far away is fetched while logarithms are taken.
//
// They are added to `totals` and, times the weights of the round before, which are still in the table (with `fine`
// in lines that are `heavy`; 0 * -inf = 0), to the score. A line is heavy from now on if one of its counts is so
// large that the rounding of its weight matters in the sum of all.
//
// The new weights are those of words, log((counts + alpha) / total), or of presence and absence, the same less
// log((seen - counts + alpha) / total), which `constants` sums up. They go to `anew` less their mean over the
// classes where they are finite; the mean is kept in float64. `fine` gets what rounding took off, in lines that
// are heavy: of the others too little depends on it.
//
// A line is N vectors of 4, or as many as it takes if N is 0, for which there are three times as many numbers in
// `room`; `totals`, `log_totals`, `seen` and `constants` are as long, 0 behind the last class. What is read of the
// table behind the last class may be changing, and counts for nothing.
template <typename Real, bool Pairs, int N>
struct Renew {
    typedef Vec<double, 4> V;

    static TACIT_INLINE void run(Tile<Real> lines, const double *log_totals, const double *seen, std::size_t K,
                                 double *totals, Real *anew, double *constants, double *room, Prepared *found) {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const std::size_t vectors = N ? N : (K + 3) / 4, over = 4 * vectors - K;
        double own[N ? 12 * N : 1] = {};
        double *a = N ? own : room, *b = a + 4 * vectors, *line = b + 4 * vectors;
        std::fill(line, line + 4 * vectors, 0.0);
        const double share = 1.0 / static_cast<double>(K);
        double density = 0;
        V expected{};
        for (std::size_t j = 0; j < lines.size; ++j) {
            const double alpha = lines.alpha[j];
            Real *to = anew + j * K, *fine = lines.fine + j * K;
            const double *counts = lines.counts + j * K;
            if (over) {  // what comes behind the last line is not ours to read
                std::copy(counts, counts + K, line);
                counts = line;
            }
            const bool was_heavy = lines.heavy[j] != 0;
            V most{};
            for (std::size_t q = 0; q < vectors; ++q) {
                V x, weight, total;
                load<double, 4>(x, counts + 4 * q);
                widen(weight, lines.table + j * K + 4 * q);
                if (was_heavy) {
                    V less;
                    widen(less, fine + 4 * q);
                    weight += less;
                }
                load<double, 4>(total, totals + 4 * q);
                store<double, 4>(totals + 4 * q, total + x);
                most = x > most ? x : most;
                expected += x == 0.0 ? V{} : x * weight;
                store<double, 4>(a + 4 * q, x + alpha);
                if (Pairs) {
                    V all;
                    load<double, 4>(all, seen + 4 * q);
                    store<double, 4>(b + 4 * q, Rest::of(x, all) + alpha);
                }
            }
            std::fill(a + K, a + K + over, 1.0);
            if (Pairs) std::fill(b + K, b + K + over, 1.0);
            const bool is_heavy = largest<double, 4>(most) >= 8.0;
            lines.heavy[j] = is_heavy ? Real{1} : Real{0};
            V sums{}, rest{};  // of the weights; and of log((others + alpha) / total)
            for (std::size_t q = 0; q < vectors; ++q) {
                V x, t;
                logarithm_of(x, a + 4 * q, alpha);
                load<double, 4>(t, log_totals + 4 * q);
                if (Pairs) {
                    V y, c;
                    logarithm_of(y, b + 4 * q, alpha);
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
            if (alpha != 0) density += alpha * (Pairs ? middle + 2 * sum<double, 4>(rest) : middle);
            middle *= share;
            const bool finite = middle > -infinity && middle < infinity;
            if (!finite) middle = mean_of_finite(a, K, found);
            lines.mean[j] = middle;
            for (std::size_t q = 0; q < vectors; ++q) {  // what is too much goes to the next line, and is replaced
                V x;
                Vec<Real, 4> rounded;
                load<double, 4>(x, a + 4 * q);
                x -= middle;
                for (int l = 0; l < 4; ++l) rounded[l] = static_cast<Real>(x[l]);
                store<Real, 4>(to + 4 * q, rounded);
            }
            if (!is_heavy) continue;
            asm volatile("" ::: "memory");  // GCC 12 takes double(float(x)) of a vector for x
            for (std::size_t k = 0; k < K; ++k) {
                const Real off = static_cast<Real>(a[k] - middle - static_cast<double>(to[k]));
                fine[k] = std::isinf(to[k]) ? Real{0} : off;  // -inf - -inf is no number
            }
        }
        found->score += sum<double, 4>(expected);
        found->density += density;
    }

    static TACIT_INLINE void widen(V &to, const Real *from) {
        for (int l = 0; l < 4; ++l) to[l] = static_cast<double>(from[l]);
    }

    // With so much smoothing all numbers are normal.
    static TACIT_INLINE void logarithm_of(V &x, const double *from, double alpha) {
        load<double, 4>(x, from);
        if (alpha >= std::numeric_limits<double>::min()) {
            logarithm_of_normal<4>(x, V{} + exponent_bias);
        } else {
            logarithm<4>(x);
        }
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

// Calls Renew for so many classes.
template <typename Real, bool Pairs, typename... Arguments>
void renew_lines(std::size_t K, Arguments... arguments) {
    switch ((K + 3) / 4) {
        case 1: return best<Renew<Real, Pairs, 1>>(arguments...);
        case 2: return best<Renew<Real, Pairs, 2>>(arguments...);
        case 3: return best<Renew<Real, Pairs, 3>>(arguments...);
        case 4: return best<Renew<Real, Pairs, 4>>(arguments...);
        case 5: return best<Renew<Real, Pairs, 5>>(arguments...);
        case 6: return best<Renew<Real, Pairs, 6>>(arguments...);
        default: return best<Renew<Real, Pairs, 0>>(arguments...);
    }
}

}  // namespace tacit
