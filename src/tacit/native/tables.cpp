// From counts to parameters: tables with a line for each column of the data and a number for each
// class. Lines are shared by threads in ranges, whose sums are added in order.
#include <optional>

#include <nanobind/stl/optional.h>

#include "arrays.h"
#include "simd.h"
#include "threads.h"

namespace tacit {
namespace {

constexpr std::size_t range = 512;  // lines that one task takes

std::size_t ranges(std::size_t lines) { return (lines + range - 1) / range; }

// Smoothing: one number for all lines, or one a line.
struct Alpha {
    const double *values;
    bool one;
    TACIT_INLINE double operator[](std::size_t line) const { return values[one ? 0 : line]; }
};

Alpha alpha_of(const Vector<const double> &alpha, std::size_t lines) {
    check(alpha.shape(0) == 1 || alpha.shape(0) == lines, "alpha has another number of lines");
    return {alpha.data(), alpha.shape(0) == 1};
}

double in_order(const std::vector<double> &sums) {
    double total = 0;
    for (const double one : sums) total += one;
    return total;
}

// log_p = log(counts + alpha) - log_totals, or `nothing` where the total is zero. `log_totals` has
// one line (`by_class`) or as many as the counts.
struct LogRatios {
    static TACIT_INLINE void run(const double *counts, Alpha alpha, const double *log_totals,
                                 bool by_class, double nothing, std::size_t first,
                                 std::size_t last, std::size_t K, double *log_p) {
        for (std::size_t j = first; j < last; ++j) {
            const double own = alpha[j];
            for (std::size_t k = 0; k < K; ++k) log_p[j * K + k] = counts[j * K + k] + own;
        }
        logarithms(log_p + first * K, log_p + last * K);
        for (std::size_t j = first; j < last; ++j) {
            const double *total = log_totals + (by_class ? 0 : j * K);
            for (std::size_t k = 0; k < K; ++k) {
                const double p = log_p[j * K + k] - total[k];
                log_p[j * K + k] = std::isinf(total[k]) ? nothing : p;
            }
        }
    }
};

// Words: each class's counts over their total.
void log_shares(Matrix<const double> counts, Vector<const double> alpha,
                Vector<const double> log_totals, Matrix<double> log_p, int threads) {
    const std::size_t lines = counts.shape(0), K = counts.shape(1);
    check(log_p.shape(0) == lines && log_p.shape(1) == K && log_totals.shape(0) == K &&
              threads >= 1,
          "shapes differ");
    const Alpha smoothing = alpha_of(alpha, lines);
    const double *from = counts.data(), *totals = log_totals.data();
    double *to = log_p.data();
    nb::gil_scoped_release release;
    const double uniform = -std::log(static_cast<double>(lines));
    share_ranges(lines, range, threads, [&](std::size_t first, std::size_t last) {
        best<LogRatios>(from, smoothing, totals, true, uniform, first, last, K, to);
    });
}

struct LogSums {  // out = log(a + b + 2 alpha), by lines
    static TACIT_INLINE void run(const double *a, const double *b, Alpha alpha, std::size_t first,
                                 std::size_t last, std::size_t K, double *out) {
        for (std::size_t j = first; j < last; ++j) {
            for (std::size_t k = 0; k < K; ++k) {
                out[(j - first) * K + k] = a[j * K + k] + b[j * K + k] + 2 * alpha[j];
            }
        }
        logarithms(out, out + (last - first) * K);
    }
};

// Presence and absence: ones and zeros over their sum.
void log_odds(Matrix<const double> ones, Matrix<const double> zeros, Vector<const double> alpha,
              Matrix<double> log_p, Matrix<double> log_not, int threads) {
    const std::size_t lines = ones.shape(0), K = ones.shape(1);
    for (const auto *other : {&log_p, &log_not}) {
        check(other->shape(0) == lines && other->shape(1) == K, "shapes differ");
    }
    check(zeros.shape(0) == lines && zeros.shape(1) == K && threads >= 1, "shapes differ");
    const Alpha smoothing = alpha_of(alpha, lines);
    const double *one = ones.data(), *zero = zeros.data();
    double *p = log_p.data(), *not_p = log_not.data();
    nb::gil_scoped_release release;
    const double half = -std::log(2.0);
    share_ranges(lines, range, threads, [&](std::size_t first, std::size_t last) {
        std::vector<double> totals((last - first) * K);
        const double *total = totals.data();
        const Alpha own{smoothing.values + (smoothing.one ? 0 : first), smoothing.one};
        best<LogSums>(one, zero, smoothing, first, last, K, totals.data());
        const std::size_t at = first * K, count = last - first, start = 0;
        best<LogRatios>(one + at, own, total, false, half, start, count, K, p + at);
        best<LogRatios>(zero + at, own, total, false, half, start, count, K, not_p + at);
    });
}

// What a pass over the counts leaves beside its table.
struct Prepared {
    bool doubtful = true;  // no weight is +inf
    double density = 0;
};

// The weights of words, log((counts + alpha) / total), or of presence and absence, the same less
// log((others + alpha) / total), which `constants` sums up. They go into the table less their mean
// over the classes where they are finite; the mean is kept in float64. `fine` has what rounding took off,
// in lines that are `heavy`: of the others too little depends on it.
//
// A line is N vectors of 4, or as many as it takes if N is 0; what is behind the last class is 0.
template <typename Real, bool Pairs, int N>
struct Prepare {
    static TACIT_INLINE void run(const double *counts, const double *others, Alpha alpha,
                                 const double *log_totals, std::size_t first, std::size_t last,
                                 std::size_t K, Real *table, Real *fine, Real *heavy, double *mean,
                                 double *constants,
                                 double *scratch, Prepared *found) {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const std::size_t vectors = N ? N : (K + 3) / 4, size = (last - first) * vectors * 4;
        smoothed(counts, alpha, first, last, K, vectors * 4, scratch);
        if (Pairs) smoothed(others, alpha, first, last, K, vectors * 4, scratch + size);
        logarithms(scratch, scratch + (Pairs ? 2 : 1) * size);
        double density = 0;
        const double share = 1.0 / static_cast<double>(K);
        for (std::size_t j = first; j < last; ++j) {
            double *a = scratch + (j - first) * vectors * 4, *b = a + size;
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
            heavy[j] = Real(is_heavy(counts + j * K, K));
            // The next lines cover what is too much; where there are none, numbers come one by one.
            const std::size_t whole = j * K + vectors * 4 <= last * K ? vectors : K / 4;
            for (std::size_t q = 0; q < whole; ++q) {
                Vec<double, 4> x;
                Vec<Real, 4> less;
                load<double, 4>(x, a + 4 * q);
                x -= middle;
                for (int l = 0; l < 4; ++l) less[l] = static_cast<Real>(x[l]);
                store<Real, 4>(to + 4 * q, less);
                if (heavy[j] == 0) continue;
                asm volatile("" ::: "memory");  // GCC 12 takes double(float(x)) of a vector for x
                load<Real, 4>(less, to + 4 * q);
                for (int l = 0; l < 4; ++l) x[l] -= static_cast<double>(less[l]);
                for (int l = 0; l < 4; ++l) less[l] = static_cast<Real>(x[l]);
                store<Real, 4>(off + 4 * q, less);
            }
            for (std::size_t k = whole * 4; k < K; ++k) {
                to[k] = static_cast<Real>(a[k] - middle);
                off[k] = static_cast<Real>(a[k] - middle - static_cast<double>(to[k]));
            }
            if (!finite && heavy[j] != 0) {  // -inf - -inf is no number
                for (std::size_t k = 0; k < K; ++k) off[k] = std::isinf(to[k]) ? Real{0} : off[k];
            }
        }
        found->density += density;
    }

    // Whether one of the counts is so large that the rounding of its weight matters in the sum of all.
    static TACIT_INLINE bool is_heavy(const double *counts, std::size_t K) {
        Vec<double, 4> most{};
        std::size_t k = 0;
        for (; k + 4 <= K; k += 4) {
            Vec<double, 4> x;
            load<double, 4>(x, counts + k);
            most = x > most ? x : most;
        }
        double last = 0;
        for (; k < K; ++k) last = counts[k] > last ? counts[k] : last;
        return last >= 8.0 || largest<double, 4>(most) >= 8.0;
    }

    static TACIT_INLINE double mean_of_finite(const double *line, std::size_t K, Prepared *found) {
        double total = 0, among = 0;
        for (std::size_t k = 0; k < K; ++k) {
            if (std::isfinite(line[k])) {
                total += line[k];
                ++among;
            } else if (line[k] > 0) {
                found->doubtful = false;
            }
        }
        return among > 0 ? total / among : 0.0;
    }

    // counts + alpha, each line in whole vectors; 1 behind the last class.
    static TACIT_INLINE void smoothed(const double *counts, Alpha alpha, std::size_t first,
                                      std::size_t last, std::size_t K, std::size_t stride,
                                      double *to) {
        for (std::size_t j = first; j < last; ++j, to += stride) {
            const double own = alpha[j], *from = counts + j * K;
            std::size_t k = 0;
            for (; k + 4 <= K; k += 4) {
                Vec<double, 4> x;
                load<double, 4>(x, from + k);
                store<double, 4>(to + k, x + own);
            }
            for (; k < stride; ++k) to[k] = k < K ? from[k] + own : 1.0;
        }
    }
};

template <typename Real, bool Pairs, typename... Arguments>
void prepare_lines(std::size_t K, Arguments... arguments) {
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

// Fills the table, the means and the constants. Returns the log density of the smoothing, and whether
// all weights are below +inf.
template <typename Real>
nb::object prepare(Matrix<const double> counts, std::optional<Matrix<const double>> others,
                   Vector<const double> alpha, Vector<const double> log_totals, Vector<Real> table,
                   Vector<double> mean, Vector<double> constants, int threads) {
    const std::size_t lines = counts.shape(0), K = counts.shape(1), tasks = ranges(lines);
    check(table.shape(0) >= lines * (2 * K + 1) && mean.shape(0) == lines && log_totals.shape(0) == K &&
              constants.shape(0) == K && threads >= 1 &&
              (!others || (others->shape(0) == lines && others->shape(1) == K)),
          "shapes differ");
    const Alpha smoothing = alpha_of(alpha, lines);
    const double *from = counts.data(), *rest = others ? others->data() : nullptr;
    Real *to = table.data();
    double *means = mean.data();
    const std::size_t stride = (K + 3) / 4 * 4;
    std::vector<double> sums(tasks * stride), totals(stride);
    std::copy(log_totals.data(), log_totals.data() + K, totals.begin());
    const double *total = totals.data();
    std::vector<Prepared> found(tasks);
    {
        nb::gil_scoped_release release;
        constexpr std::size_t tile = 32;  // lines whose logarithms are held
        share_ranges(lines, range, threads, [&](std::size_t first, std::size_t last) {
            std::vector<double> scratch(2 * tile * stride);
            for (std::size_t begin = first; begin < last; begin += tile) {
                const auto kernel = rest ? prepare_lines<Real, true, const double *, const double *, Alpha,
                                                         const double *, std::size_t, std::size_t,
                                                         std::size_t, Real *, Real *, Real *, double *, double *,
                                                         double *, Prepared *>
                                         : prepare_lines<Real, false, const double *, const double *, Alpha,
                                                         const double *, std::size_t, std::size_t,
                                                         std::size_t, Real *, Real *, Real *, double *, double *,
                                                         double *, Prepared *>;
                kernel(K, from, rest, smoothing, total, begin, std::min(last, begin + tile), K, to,
                       to + lines * K, to + 2 * lines * K, means,
                       &sums[first / range * stride], scratch.data(), &found[first / range]);
            }
        });
    }
    Prepared all;
    std::fill(constants.data(), constants.data() + K, 0.0);
    for (std::size_t task = 0; task < tasks; ++task) {
        for (std::size_t k = 0; k < K; ++k) constants.data()[k] += sums[task * stride + k];
        all.density += found[task].density;
        all.doubtful &= found[task].doubtful;
    }
    return nb::make_tuple(all.density, all.doubtful);
}

// sum += weights * log(counts + alpha), with 0 * -inf = 0; most weights are often zero.
struct ExpectedLogs {
    static TACIT_INLINE void run(const double *weights, const double *counts, Alpha alpha,
                                 std::size_t first, std::size_t last, std::size_t K, double *sum) {
        Vec<double, 4> total{};
        for (std::size_t j = first; j < last; ++j) {
            const double own = alpha[j], *w = weights + j * K, *c = counts + j * K;
            std::size_t k = 0;
            for (; k + 4 <= K; k += 4) {
                if (w[k] == 0 && w[k + 1] == 0 && w[k + 2] == 0 && w[k + 3] == 0) continue;
                Vec<double, 4> x, weight;
                load<double, 4>(x, c + k);
                load<double, 4>(weight, w + k);
                x += own;
                logarithm<4>(x);
                total += weight == 0.0 ? Vec<double, 4>{} : weight * x;
            }
            for (; k < K; ++k) {
                if (w[k] != 0) total[0] += w[k] * std::log(c[k] + own);
            }
        }
        *sum += tacit::sum<double, 4>(total);
    }
};

double expected_logs(Matrix<const double> weights, Matrix<const double> counts,
                     Vector<const double> alpha, int threads) {
    const std::size_t lines = counts.shape(0), K = counts.shape(1);
    check(weights.shape(0) == lines && weights.shape(1) == K && threads >= 1, "shapes differ");
    const Alpha smoothing = alpha_of(alpha, lines);
    const double *from = weights.data(), *of = counts.data();
    nb::gil_scoped_release release;
    std::vector<double> sums(ranges(lines));
    share_ranges(lines, range, threads, [&](std::size_t first, std::size_t last) {
        best<ExpectedLogs>(from, of, smoothing, first, last, K, &sums[first / range]);
    });
    return in_order(sums);
}

// out = a + b
void add(Vector<const double> a, Vector<const double> b, Vector<double> out, int threads) {
    const std::size_t size = out.shape(0);
    check(a.shape(0) == size && b.shape(0) == size && threads >= 1, "shapes differ");
    const double *one = a.data(), *two = b.data();
    double *to = out.data();
    nb::gil_scoped_release release;
    share_ranges(size, 1 << 15, threads, [=](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) to[i] = one[i] + two[i];
    });
}

template <typename Real>
void define_prepare(nb::module_ &m) {
    m.def("prepare", &prepare<Real>, nb::arg("counts"), nb::arg("others").none(), nb::arg("alpha"),
          nb::arg("log_totals"), nb::arg("table").noconvert(), nb::arg("mean").noconvert(),
          nb::arg("constants").noconvert(), nb::arg("threads"));
}

}  // namespace

void define_tables(nb::module_ &m) {
    m.def("log_shares", &log_shares, nb::arg("counts"), nb::arg("alpha"), nb::arg("log_totals"),
          nb::arg("log_p").noconvert(), nb::arg("threads"));
    m.def("log_odds", &log_odds, nb::arg("ones"), nb::arg("zeros"), nb::arg("alpha"),
          nb::arg("log_p").noconvert(), nb::arg("log_not").noconvert(), nb::arg("threads"));
    m.def("expected_logs", &expected_logs, nb::arg("weights"), nb::arg("counts"), nb::arg("alpha"),
          nb::arg("threads"));
    m.def("add", &add, nb::arg("a"), nb::arg("b"), nb::arg("out").noconvert(), nb::arg("threads"));
    define_prepare<float>(m);
    define_prepare<double>(m);
}

}  // namespace tacit
