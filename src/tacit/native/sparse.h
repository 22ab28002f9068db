// Kernels on sparse rows: scores go by rows, sums of posteriors by columns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "packed.h"
#include "posterior.h"
#include "simd.h"

namespace tacit {

// What scores begin with: constants[k] + less[k], `less` being what rounding took off the constants.
template <typename Real>
struct Base {
    const Real *constants, *less;
};

// Numbers side by side, N vectors of L and T of 4: they stay in registers.
template <int N, int L, int T, typename Real>
struct Wide {
    static constexpr std::size_t width = N * L + T * 4;
    Vec<Real, L> whole[N ? N : 1];
    Vec<Real, 4> rest[T ? T : 1];

    TACIT_INLINE void load_from(const Real *from) {
        for (int q = 0; q < N; ++q) load<Real, L>(whole[q], from + q * L);
        for (int q = 0; q < T; ++q) load<Real, 4>(rest[q], from + N * L + q * 4);
    }
    TACIT_INLINE void store_to(Real *to) const {
        for (int q = 0; q < N; ++q) store<Real, L>(to + q * L, whole[q]);
        for (int q = 0; q < T; ++q) store<Real, 4>(to + N * L + q * 4, rest[q]);
    }
    TACIT_INLINE void add(Real x, const Wide &other) {
        const Vec<Real, L> all = x - Vec<Real, L>{};  // spread out once, for both
        Vec<Real, 4> four;
        std::memcpy(&four, &all, sizeof(four));
        for (int q = 0; q < N; ++q) whole[q] += all * other.whole[q];
        for (int q = 0; q < T; ++q) rest[q] += four * other.rest[q];
    }
};

// Calls Work::run<N, T>(arguments) for N vectors of L and T of 4, where code = 4 N + T.
template <typename Work, int L, int code, typename... Arguments>
TACIT_INLINE void with_width(int wanted, const Arguments &...arguments) {
    if constexpr (code > 0) {
        if constexpr (code % 4 < L / 4) {
            if (wanted == code) return Work::template run<code / 4, L, code % 4>(arguments...);
        }
        with_width<Work, L, code - 1>(wanted, arguments...);
    }
}

// Goes through the classes in blocks of at most `most` vectors of L numbers, the rest in vectors of 4.
template <typename Work, int L, int most, typename... Arguments>
TACIT_INLINE void by_width(std::size_t classes, const Arguments &...arguments) {
    for (std::size_t from = 0; from < classes;) {
        const int fours = static_cast<int>(std::min<std::size_t>((classes - from + 3) / 4, most * (L / 4)));
        const int whole = fours / (L / 4), rest = fours % (L / 4);
        with_width<Work, L, 4 * most + 3>(4 * whole + rest, arguments..., from);
        from += static_cast<std::size_t>(4 * fours);
    }
}

// scores[i, from ..] = what `base` says + the sum of value * table[index, from ..] over line first + i.
// Even and odd entries apart, as an addition takes longer than the next load.
struct ScoreBlock {
    template <int N, int L, int T, typename Real, typename Rows>
    static TACIT_INLINE void run(const Rows &rows, std::size_t first, std::size_t count,
                                 const Real *table, std::size_t classes, const Base<Real> &base,
                                 std::size_t stride, Real *scores, std::size_t from) {
        for (std::size_t i = 0; i < count; ++i) {
            Wide<N, L, T, Real> even, odd;
            even.load_from(base.constants + from);
            odd.load_from(base.less + from);
            add(rows.ones, first + i, table + from, classes, even, odd);
            add(rows.rest, first + i, table + from, classes, even, odd);
            for (int q = 0; q < N; ++q) even.whole[q] += odd.whole[q];
            for (int q = 0; q < T; ++q) even.rest[q] += odd.rest[q];
            even.store_to(scores + i * stride + from);
        }
    }

    // Adds entries of a row to two sums in turn.
    template <typename Sum, typename Real, typename Entries>
    static TACIT_INLINE void add(const Entries &entries, std::size_t row, const Real *table,
                                 std::size_t classes, Sum &even, Sum &odd) {
        Sum line;
        std::int64_t p = entries.begin[row];
        const std::int64_t end = entries.end[row];
        const auto *coming = entries.indices + (end + prefetch_distance <= entries.last ? prefetch_distance : 0);
        for (; p + 1 < end; p += 2) {
            for (int next = 0; next < 2; ++next) {  // fetch what comes later
                const Real *later = table + classes * static_cast<std::size_t>(coming[p + next]);
                for (std::size_t byte = 0; byte < Sum::width * sizeof(Real); byte += 64) {
                    __builtin_prefetch(reinterpret_cast<const char *>(later) + byte);
                }
            }
            line.load_from(table + static_cast<std::size_t>(entries.indices[p]) * classes);
            even.add(value_at<Real>(entries, p), line);
            line.load_from(table + static_cast<std::size_t>(entries.indices[p + 1]) * classes);
            odd.add(value_at<Real>(entries, p + 1), line);
        }
        if (p < end) {
            line.load_from(table + static_cast<std::size_t>(entries.indices[p]) * classes);
            even.add(value_at<Real>(entries, p), line);
        }
    }
};

// The scores of `count` rows, each in `stride` numbers: those behind the last class are as in `base`.
template <int bytes>
struct Score {
    template <typename Real, typename Rows>
    static TACIT_INLINE void run(Rows rows, std::size_t first, std::size_t count, const Real *table,
                                 std::size_t classes, Base<Real> base, std::size_t stride,
                                 Real *scores) {
        constexpr int L = bytes / sizeof(Real), most = 24 / L > 1 ? 24 / L : 2;
        by_width<ScoreBlock, L, most>(classes, rows, first, count, table, classes, base, stride,
                                      scores);
        const std::size_t written = (classes + 3) / 4 * 4;
        for (std::size_t i = 0; written < stride && i < count; ++i) {
            std::copy(base.constants + written, base.constants + stride, scores + i * stride + written);
        }
    }
};

// Adds value * table[index] over the entries of a line to four sums in turn.
template <typename Sum, typename Entries>
TACIT_INLINE void add_numbers(const Entries &entries, std::size_t line, const float *table, Sum *sums) {
    std::int64_t p = entries.begin[line];
    const std::int64_t end = entries.end[line];
    for (; p + 3 < end; p += 4) {
        for (int q = 0; q < 4; ++q) {
            sums[q] += value_at<Sum>(entries, p + q) * table[entries.indices[p + q]];
        }
    }
    if (p == end) return;
    for (int q = 0; q < 3; ++q) {  // without a loop whose end nobody can predict
        const std::int64_t at = p + q < end ? p + q : p;
        const Sum x = value_at<Sum>(entries, at) * table[entries.indices[at]];
        sums[q] += p + q < end ? x : Sum{0};
    }
}

// Two classes: the log-odds of a row are one sum. odds[i] = constant + sum of value * table[index].
struct ScoreOdds {
    template <typename Rows>
    static TACIT_INLINE void run(Rows rows, std::size_t first, std::size_t count, const float *table,
                                 float constant, float *odds) {
        for (std::size_t i = 0; i < count; ++i) {
            float sums[4] = {constant, 0, 0, 0};
            add_numbers(rows.ones, first + i, table, sums);
            add_numbers(rows.rest, first + i, table, sums);
            odds[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
    }
};

// odds[i] become the posteriors of class 1 times the weights; entropy[i] is what the row adds to the
// log-likelihood beside its expected score (see `Block`). For a whole number of vectors.
struct SoftmaxOdds {
    static TACIT_INLINE void run(float *odds, const double *weights, double *entropy, std::size_t count) {
        typedef Vec<float, 8> V;
        typedef Vec<double, 8> D;
        for (std::size_t i = 0; i < count; i += 8) {
            V x;
            D odd, weight, stored;
            load<float, 8>(x, odds + i);
            load<double, 8>(weight, weights + i);
            widen<float, 8>(odd, x);
            const D size = odd > 0.0 ? odd : -odd;
            D less = -size;
            exponential<8, 10>(less, lowest<float>);
            D total = 1.0 + less;
            const D more = weight / total, one = odd > 0.0 ? more : more * less;
            store_rounded<float, 8>(odds + i, one, stored);
            const D other = odd > 0.0 ? weight - stored : stored;  // of the less probable class
            logarithm<8>(total);
            store<double, 8>(entropy + i, weight * total + other * size);
        }
    }
};

// sums[line, :classes] = sum over the line of value * weights[index, :classes], in float64. The indices
// go on for `prefetch_distance` entries behind the last line.
struct CountBlock {
    template <int N, int L, int T, typename Real, typename Columns>
    static TACIT_INLINE void run(const Columns &columns, std::size_t first, std::size_t last,
                                 const Real *weights, std::size_t classes, double *sums,
                                 std::size_t from) {
        constexpr std::size_t width = Wide<N, L, T, double>::width;
        for (std::size_t j = first; j < last; ++j) {
            Wide<N, L, T, double> total{};
            add(columns.ones, j, weights + from, classes, total);
            add(columns.rest, j, weights + from, classes, total);
            double *to = sums + j * classes + from;
            if (from + width <= classes) {
                total.store_to(to);
            } else {
                double all[width];
                total.store_to(all);
                std::copy(all, all + (classes - from), to);
            }
        }
    }

    template <int N, int L, int T, typename Real, typename Entries>
    static TACIT_INLINE void add(const Entries &entries, std::size_t column, const Real *weights,
                                 std::size_t classes, Wide<N, L, T, double> &total) {
        for (std::int64_t p = entries.begin[column]; p < entries.end[column]; ++p) {
            const Real *next = weights + static_cast<std::size_t>(entries.indices[p + prefetch_distance]) * classes;
            for (std::size_t byte = 0; byte < total.width * sizeof(Real); byte += 64) {
                __builtin_prefetch(reinterpret_cast<const char *>(next) + byte);
            }
            const Real *own = weights + static_cast<std::size_t>(entries.indices[p]) * classes;
            Wide<N, L, T, double> line;
            // (GCC would lower __builtin_convertvector to halves)
            for (int q = 0; q < N; ++q) {
                for (int l = 0; l < L; ++l) line.whole[q][l] = static_cast<double>(own[q * L + l]);
            }
            for (int q = 0; q < T; ++q) {
                for (int l = 0; l < 4; ++l) line.rest[q][l] = static_cast<double>(own[N * L + q * 4 + l]);
            }
            total.add(value_at<double>(entries, p), line);
        }
    }
};

template <int bytes>
struct Count {
    template <typename Real, typename Columns>
    static TACIT_INLINE void run(Columns columns, std::size_t first, std::size_t last,
                                 const Real *weights, std::size_t classes, double *sums) {
        constexpr int L = bytes / sizeof(double);
        by_width<CountBlock, L, 24 / L>(classes, columns, first, last, weights, classes, sums);
    }
};

// Two classes: sums[line, 1] from the weights of class 1, and sums[line, 0] the rest of the line's
// total.
struct CountOdds {
    template <typename Columns>
    static TACIT_INLINE void run(Columns columns, std::size_t first, std::size_t last,
                                 const float *weights, const double *totals, double *sums) {
        for (std::size_t j = first; j < last; ++j) {
            double parts[4] = {0, 0, 0, 0};
            add_numbers(columns.ones, j, weights, parts);
            add_numbers(columns.rest, j, weights, parts);
            const double one = std::min((parts[0] + parts[1]) + (parts[2] + parts[3]), totals[j]);
            sums[2 * j] = totals[j] - one;
            sums[2 * j + 1] = one;
        }
    }
};

}  // namespace tacit
