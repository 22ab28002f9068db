// From counts to parameters: tables with a line for each column of the data and a number for each
// class. Lines are shared by threads in ranges, whose sums are added in order.
#include <numeric>
#include <optional>

#include <nanobind/stl/optional.h>

#include "arrays.h"
#include "simd.h"
#include "sums.h"
#include "threads.h"
#include "weights.h"

namespace tacit {
namespace {

constexpr std::size_t range = 512;  // lines that one task takes

std::size_t ranges(std::size_t lines) { return (lines + range - 1) / range; }

double in_order(const std::vector<double> &sums) {
    double total = 0;
    for (const double one : sums) total += one;
    return total;
}

// to[j, k] = from[k * by_class + j]. What comes behind the last line is prefetched.
struct Transpose {
    static TACIT_INLINE void run(const double *from, std::int64_t by_class, std::size_t lines, std::size_t K,
                                 double *to) {
        std::size_t k = 0;
        for (; k + 4 <= K; k += 4, from += 4 * by_class) {
            std::size_t j = 0;
            for (; j + 4 <= lines; j += 4) {
                Vec<double, 4> x[4];
                for (int q = 0; q < 4; ++q) {
                    load<double, 4>(x[q], from + q * by_class + j);
                    if (j % 8 == 0) __builtin_prefetch(from + q * by_class + j + 2 * tile);
                }
                transpose<2, 4, double, 4>(x);
                for (int q = 0; q < 4; ++q) store<double, 4>(to + (j + q) * K + k, x[q]);
            }
            for (; j < lines; ++j) {
                for (int q = 0; q < 4; ++q) to[j * K + k + q] = from[q * by_class + j];
            }
        }
        for (; k < K; ++k, from += by_class) {
            for (std::size_t j = 0; j < lines; ++j) to[j * K + k] = from[j];
        }
    }
};

// A table of counts with a line for each column, however it lies in memory.
class Lines {
  public:
    explicit Lines(const Strided<const double> &table)
        : count(table.shape(0)), classes(table.shape(1)), data_(table.data()),
          by_line_(table.stride(0)), by_class_(table.stride(1)) {}

    // The lines [first, last), one behind the other: those of the table, or copies in `room`.
    const double *at(std::size_t first, std::size_t last, double *room) const {
        const double *from = data_ + static_cast<std::int64_t>(first) * by_line_;
        if (by_class_ == 1 && by_line_ == static_cast<std::int64_t>(classes)) return from;
        copy(first, last, room);
        return room;
    }

    void copy(std::size_t first, std::size_t last, double *to) const {
        const double *from = data_ + static_cast<std::int64_t>(first) * by_line_;
        if (by_line_ == 1) return dispatch<Transpose>(from, by_class_, last - first, classes, to);
        for (std::size_t k = 0; k < classes; ++k, from += by_class_) {
            const double *one = from;
            for (std::size_t j = 0; j < last - first; ++j, one += by_line_) to[j * classes + k] = *one;
        }
    }

    const std::size_t count, classes;

  private:
    const double *data_;
    const std::int64_t by_line_, by_class_;
};

// log_p[i] = log(counts[i] + alpha[i]) - log_totals[i], or `nothing` where the total is zero. The sum of log_p
// times alpha is added to sums[0], that times the counts to sums[1].
template <int bytes>
struct LogRatios {
    static constexpr int L = bytes / sizeof(double);
    typedef Vec<double, L> V;

    static TACIT_INLINE void run(const double *counts, const double *alpha, const double *log_totals,
                                 double nothing, std::size_t size, double *log_p, double *sums) {
        V density{}, score{};
        std::size_t i = 0;
        for (; i + L <= size; i += L) take(counts + i, alpha + i, log_totals + i, nothing, log_p + i, density, score);
        if (i < size) {  // and behind the last, log 1
            double rest[4][L] = {};
            std::fill(rest[1], rest[1] + L, 1.0);
            std::copy(counts + i, counts + size, rest[0]);
            std::copy(alpha + i, alpha + size, rest[1]);
            std::copy(log_totals + i, log_totals + size, rest[2]);
            take(rest[0], rest[1], rest[2], nothing, rest[3], density, score);
            std::copy(rest[3], rest[3] + (size - i), log_p + i);
        }
        sums[0] += sum<double, L>(density);
        sums[1] += sum<double, L>(score);
    }

    static TACIT_INLINE void take(const double *counts, const double *alpha, const double *log_totals,
                                  double nothing, double *log_p, V &density, V &score) {
        V c, a, t;
        load<double, L>(c, counts);
        load<double, L>(a, alpha);
        load<double, L>(t, log_totals);
        V p = c + a;
        logarithm<L>(p);
        p = t > -std::numeric_limits<double>::infinity() ? p - t : V{} + nothing;
        store<double, L>(log_p, p);
        density += a == 0.0 ? V{} : a * p;
        score += c == 0.0 ? V{} : c * p;
    }
};

// Numbers for each place of a tile of lines, and room for more.
struct Buffers {
    std::vector<double> alpha, totals, counts, rest;

    // One for all lines is spread out once.
    void spread(const Alpha &smoothing, std::size_t first, std::size_t last, std::size_t K) {
        if (smoothing.one && alpha.empty()) alpha.assign(tile * K, smoothing[0]);
        if (smoothing.one) return;
        alpha.resize(tile * K);
        for (std::size_t j = first; j < last; ++j) std::fill_n(&alpha[(j - first) * K], K, smoothing[j]);
    }

    void spread(const double *of_classes, std::size_t K) {
        if (!totals.empty()) return;
        totals.resize(tile * K);
        for (std::size_t j = 0; j < tile; ++j) std::copy(of_classes, of_classes + K, &totals[j * K]);
    }
};

// Calls work(first, last, room, sums) for tiles of lines, and returns both sums, added in order.
template <typename Work>
nb::object by_tiles(std::size_t lines, int threads, const Work &work) {
    check(threads >= 1, "threads must be positive");
    Sums parts(ranges(lines), 2);
    {
        nb::gil_scoped_release release;
        parallel_for_ranges(lines, range, threads, [&](std::size_t first, std::size_t last) {
            Buffers room;
            for (std::size_t at = first; at < last; at += tile) {
                work(at, std::min(last, at + tile), room, parts.of(first / range));
            }
        });
    }
    const std::vector<double> total = parts.total();
    return nb::make_tuple(total[0], total[1]);
}

// Words: each class's counts over their total. Returns the sum of alpha log_p and that of counts log_p.
nb::object log_probabilities(Strided<const double> counts, Vector<const double> alpha,
                      Vector<const double> log_totals, Matrix<double> log_p, int threads) {
    const Lines given(counts);
    const std::size_t lines = given.count, K = given.classes;
    check(log_p.shape(0) == lines && log_p.shape(1) == K && log_totals.shape(0) == K, "shapes differ");
    const Alpha smoothing = alpha_of(alpha, lines);
    const double *totals = log_totals.data();
    const double uniform = -std::log(static_cast<double>(lines));
    return by_tiles(lines, threads, [&](std::size_t first, std::size_t last, Buffers &room, double *sums) {
        room.spread(smoothing, first, last, K);
        room.spread(totals, K);
        room.counts.resize(tile * K);
        const double *from = given.at(first, last, room.counts.data()), *alphas = room.alpha.data();
        const double *by = room.totals.data();
        double *to = log_p.data() + first * K;
        dispatch_wide<LogRatios>(from, alphas, by, uniform, (last - first) * K, to, sums);
    });
}

// Presence and absence: ones and zeros over their sum. Where `zeros` are not given, they are what is left
// of `seen`, the counts of the classes.
nb::object log_odds(Strided<const double> ones, std::optional<Matrix<const double>> zeros,
                    Vector<const double> seen, Vector<const double> alpha, Matrix<double> log_p,
                    Matrix<double> log_not, int threads) {
    const Lines given(ones);
    const std::size_t lines = given.count, K = given.classes;
    for (const auto *other : {&log_p, &log_not}) {
        check(other->shape(0) == lines && other->shape(1) == K, "shapes differ");
    }
    check(zeros ? zeros->shape(0) == lines && zeros->shape(1) == K : seen.shape(0) == K, "shapes differ");
    const Alpha smoothing = alpha_of(alpha, lines);
    const double nought = 0, *all = seen.data();
    const double half = -std::log(2.0);
    const bool by_class = !zeros && smoothing.one;  // then all lines have the same totals
    std::vector<double> of_classes(by_class ? K : 0);
    for (std::size_t k = 0; k < of_classes.size(); ++k) of_classes[k] = all[k] + 2 * smoothing[0];
    dispatch_wide<Logarithms>(of_classes.data(), of_classes.size());
    return by_tiles(lines, threads, [&](std::size_t first, std::size_t last, Buffers &room, double *sums) {
        const std::size_t begin = 0, count = last - first, size = count * K;
        room.spread(smoothing, first, last, K);
        room.counts.resize(tile * K);
        room.rest.resize(tile * K);
        const double *one = given.at(first, last, room.counts.data());
        const double *zero = zeros ? zeros->data() + first * K : room.rest.data();
        if (!zeros) dispatch<Smooth<true>>(one, all, Alpha{&nought, true}, begin, count, K, K, room.rest.data());
        if (by_class) {
            room.spread(of_classes.data(), K);
        } else {
            room.totals.resize(tile * K);
            for (std::size_t i = 0; i < size; ++i) room.totals[i] = one[i] + zero[i] + 2 * room.alpha[i];
            dispatch_wide<Logarithms>(room.totals.data(), size);
        }
        const double *alphas = room.alpha.data(), *by = room.totals.data();
        double *p = log_p.data() + first * K, *not_p = log_not.data() + first * K;
        dispatch_wide<LogRatios>(one, alphas, by, half, size, p, sums);
        dispatch_wide<LogRatios>(zero, alphas, by, half, size, not_p, sums);
    });
}

// The weights that score rows: those of words with the totals of the classes, or of presence and absence
// if `seen` says how often each class was, whose `constants` are the log-probability that nothing is there.
// Returns the log density of the smoothing, and whether all weights are below +inf.
template <typename Real>
nb::object make_weights(Strided<const double> counts, Vector<const double> alpha, Vector<const double> log_totals,
                        std::optional<Vector<const double>> seen, Vector<Real> table,
                        std::optional<Vector<float>> remainder, Vector<double> mean, Vector<double> constants,
                        int threads) {
    const Lines given(counts);
    const std::size_t lines = given.count, K = given.classes, stride = (K + 3) / 4 * 4;
    check(table.shape(0) >= lines * K && (!remainder || remainder->shape(0) >= lines * K) && mean.shape(0) == lines &&
              constants.shape(0) == K && log_totals.shape(0) == K && (!seen || seen->shape(0) == K) && threads >= 1,
          "shapes differ");
    const Alpha smoothing = alpha_of(alpha, lines);
    const bool pairs = seen.has_value();
    std::vector<double> totals(stride), all(pairs ? stride : 0);
    std::copy(log_totals.data(), log_totals.data() + K, totals.begin());
    if (pairs) std::copy(seen->data(), seen->data() + K, all.begin());
    std::vector<WeightSummary> found(ranges(lines));
    Sums sums(ranges(lines), stride);  // of the constants
    {
        nb::gil_scoped_release release;
        parallel_for_ranges(lines, range, threads, [&](std::size_t first, std::size_t last) {
            std::vector<double> room(tile * K), logs(2 * tile * stride);
            for (std::size_t at = first; at < last; at += tile) {
                const std::size_t begin = 0, count = std::min(last, at + tile) - at, size = count * stride;
                const double *from = given.at(at, at + count, room.data()), *of_classes = all.data();
                const Alpha own = smoothing.from(at);
                double *log = logs.data();
                dispatch<Smooth<false>>(from, of_classes, own, begin, count, K, stride, log);
                if (pairs) dispatch<Smooth<true>>(from, of_classes, own, begin, count, K, stride, log + size);
                dispatch_wide<Logarithms>(log, (pairs ? 2 : 1) * size);
                const auto make = [&](auto kernel) {
                    kernel(K, own, static_cast<const double *>(totals.data()), count, K, table.data() + at * K,
                           remainder ? remainder->data() + at * K : nullptr, mean.data() + at,
                           sums.of(first / range), log, &found[first / range]);
                };
                pairs ? make(MakeWeightsOf<Real, true>{}) : make(MakeWeightsOf<Real, false>{});
            }
        });
    }
    const std::vector<double> total = sums.total();
    std::copy(total.begin(), total.begin() + K, constants.data());
    WeightSummary both;
    for (const WeightSummary &one : found) {
        both.density += one.density;
        both.bounded &= one.bounded;
    }
    return nb::make_tuple(both.density, both.bounded);
}

// The expected score of counts under weights: the sum of counts * (table + remainder + mean).
template <typename Real>
double expected_score(Matrix<const double> counts, Vector<const Real> table,
                      std::optional<Vector<const float>> remainder, Vector<const double> mean, int threads) {
    const std::size_t lines = counts.shape(0), K = counts.shape(1);
    check(table.shape(0) >= lines * K && (!remainder || remainder->shape(0) >= lines * K) && mean.shape(0) == lines &&
              threads >= 1,
          "shapes differ");
    const double *from = counts.data(), *middle = mean.data();
    const Real *weights = table.data();
    const float *less = remainder ? remainder->data() : nullptr;
    nb::gil_scoped_release release;
    std::vector<double> sums(ranges(lines));
    parallel_for_ranges(lines, range, threads, [&](std::size_t first, std::size_t last) {
        double &own = sums[first / range];
        dispatch<ExpectedScore>(from, weights, less, first * K, last * K, &own);
        for (std::size_t j = first; j < last; ++j) {
            own += middle[j] * std::accumulate(from + j * K, from + (j + 1) * K, 0.0);
        }
    });
    return in_order(sums);
}

// out = counts, line by line.
void by_column(Strided<const double> counts, Matrix<double> out, int threads) {
    const Lines given(counts);
    check(out.shape(0) == given.count && out.shape(1) == given.classes && threads >= 1, "shapes differ");
    double *to = out.data();
    nb::gil_scoped_release release;
    parallel_for_ranges(given.count, range, threads, [&](std::size_t first, std::size_t last) {
        for (std::size_t at = first; at < last; at += tile) {
            given.copy(at, std::min(last, at + tile), to + at * given.classes);
        }
    });
}

// out = a + b
void add(Vector<const double> a, Vector<const double> b, Vector<double> out, int threads) {
    const std::size_t size = out.shape(0);
    check(a.shape(0) == size && b.shape(0) == size && threads >= 1, "shapes differ");
    const double *one = a.data(), *two = b.data();
    double *to = out.data();
    nb::gil_scoped_release release;
    parallel_for_ranges(size, 1 << 15, threads, [=](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) to[i] = one[i] + two[i];
    });
}

template <typename Real>
void define_weights(nb::module_ &m) {
    m.def("make_weights", &make_weights<Real>, nb::arg("counts"), nb::arg("alpha"), nb::arg("log_totals"),
          nb::arg("seen").none(), nb::arg("table").noconvert(), nb::arg("remainder").noconvert().none(),
          nb::arg("mean").noconvert(), nb::arg("constants").noconvert(), nb::arg("threads"));
    m.def("expected_score", &expected_score<Real>, nb::arg("counts"), nb::arg("table").noconvert(),
          nb::arg("remainder").none(), nb::arg("mean"), nb::arg("threads"));
}

}  // namespace

void define_params(nb::module_ &m) {
    m.def("log_probabilities", &log_probabilities, nb::arg("counts"), nb::arg("alpha"), nb::arg("log_totals"),
          nb::arg("log_p").noconvert(), nb::arg("threads"));
    m.def("log_odds", &log_odds, nb::arg("ones"), nb::arg("zeros").none(), nb::arg("seen"), nb::arg("alpha"),
          nb::arg("log_p").noconvert(), nb::arg("log_not").noconvert(), nb::arg("threads"));
    m.def("add", &add, nb::arg("a"), nb::arg("b"), nb::arg("out").noconvert(), nb::arg("threads"));
    m.def("by_column", &by_column, nb::arg("counts"), nb::arg("out").noconvert(), nb::arg("threads"));
    define_weights<float>(m);
    define_weights<double>(m);
}

}  // namespace tacit
