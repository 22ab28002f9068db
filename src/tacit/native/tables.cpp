// From counts to parameters: tables with a line for each column of the data and a number for each
// class. Lines are shared by threads in ranges, whose sums are added in order.
#include <optional>

#include <nanobind/stl/optional.h>

#include "arrays.h"
#include "simd.h"
#include "sums.h"
#include "tables.h"
#include "threads.h"

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
struct Turn {
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
        if (by_line_ == 1) return best<Turn>(from, by_class_, last - first, classes, to);
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
struct Room {
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
        share_ranges(lines, range, threads, [&](std::size_t first, std::size_t last) {
            Room room;
            for (std::size_t at = first; at < last; at += tile) {
                work(at, std::min(last, at + tile), room, parts.of(first / range));
            }
        });
    }
    const std::vector<double> total = parts.total();
    return nb::make_tuple(total[0], total[1]);
}

// Words: each class's counts over their total. Returns the sum of alpha log_p and that of counts log_p.
nb::object log_shares(Strided<const double> counts, Vector<const double> alpha,
                      Vector<const double> log_totals, Matrix<double> log_p, int threads) {
    const Lines given(counts);
    const std::size_t lines = given.count, K = given.classes;
    check(log_p.shape(0) == lines && log_p.shape(1) == K && log_totals.shape(0) == K, "shapes differ");
    const Alpha smoothing = alpha_of(alpha, lines);
    const double *totals = log_totals.data();
    const double uniform = -std::log(static_cast<double>(lines));
    return by_tiles(lines, threads, [&](std::size_t first, std::size_t last, Room &room, double *sums) {
        room.spread(smoothing, first, last, K);
        room.spread(totals, K);
        room.counts.resize(tile * K);
        const double *from = given.at(first, last, room.counts.data()), *alphas = room.alpha.data();
        const double *by = room.totals.data();
        double *to = log_p.data() + first * K;
        widest<LogRatios>(from, alphas, by, uniform, (last - first) * K, to, sums);
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
    widest<Logarithms>(of_classes.data(), of_classes.size());
    return by_tiles(lines, threads, [&](std::size_t first, std::size_t last, Room &room, double *sums) {
        const std::size_t begin = 0, count = last - first, size = count * K;
        room.spread(smoothing, first, last, K);
        room.counts.resize(tile * K);
        room.rest.resize(tile * K);
        const double *one = given.at(first, last, room.counts.data());
        const double *zero = zeros ? zeros->data() + first * K : room.rest.data();
        if (!zeros) best<Smooth<true>>(one, all, Alpha{&nought, true}, begin, count, K, K, room.rest.data());
        if (by_class) {
            room.spread(of_classes.data(), K);
        } else {
            room.totals.resize(tile * K);
            for (std::size_t i = 0; i < size; ++i) room.totals[i] = one[i] + zero[i] + 2 * room.alpha[i];
            widest<Logarithms>(room.totals.data(), size);
        }
        const double *alphas = room.alpha.data(), *by = room.totals.data();
        double *p = log_p.data() + first * K, *not_p = log_not.data() + first * K;
        widest<LogRatios>(one, alphas, by, half, size, p, sums);
        widest<LogRatios>(zero, alphas, by, half, size, not_p, sums);
    });
}

// Fills the table from counts, and says what the log density of the smoothing is.
template <typename Real>
void prepare(Update<Real> &update, Matrix<const double> counts, int threads) {
    check(counts.shape(0) == update.lines && counts.shape(1) == update.classes && threads >= 1,
          "shapes differ");
    const double *from = counts.data();
    nb::gil_scoped_release release;
    std::vector<typename Update<Real>::Part> parts(ranges(update.lines));
    share_ranges(update.lines, range, threads, [&](std::size_t first, std::size_t last) {
        std::vector<double> totals(update.classes);  // nobody asks for them
        typename Update<Real>::Part part = update.part();
        for (std::size_t at = first; at < last; at += tile) {
            update.renew(update.at(from, at, std::min(last, at + tile)), totals.data(), part);
        }
        parts[first / range] = std::move(part);
    });
    update.finish(parts);
}

// out = counts, line by line.
void by_column(Strided<const double> counts, Matrix<double> out, int threads) {
    const Lines given(counts);
    check(out.shape(0) == given.count && out.shape(1) == given.classes && threads >= 1, "shapes differ");
    double *to = out.data();
    nb::gil_scoped_release release;
    share_ranges(given.count, range, threads, [&](std::size_t first, std::size_t last) {
        for (std::size_t at = first; at < last; at += tile) {
            given.copy(at, std::min(last, at + tile), to + at * given.classes);
        }
    });
}

// Which lines hold anything else than zeros.
void occupied(Matrix<const double> counts, Vector<bool> lines, int threads) {
    const std::size_t size = counts.shape(0), K = counts.shape(1);
    check(lines.shape(0) == size && threads >= 1, "shapes differ");
    const double *from = counts.data();
    bool *to = lines.data();
    nb::gil_scoped_release release;
    share_ranges(size, range, threads, [=](std::size_t first, std::size_t last) {
        for (std::size_t j = first; j < last; ++j) {
            const auto own = from + j * K;
            to[j] = std::any_of(own, own + K, [](double x) { return x != 0; });
        }
    });
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
void define_update(nb::module_ &m, const char *name) {
    nb::class_<Update<Real>> update(m, name);
    update.def(nb::init<Vector<Real>, Vector<double>, Vector<double>, Vector<const double>,
                        Vector<const double>, std::optional<Vector<const double>>,
                        std::optional<Vector<const double>>, std::optional<Matrix<const double>>,
                        std::optional<Vector<const bool>>, std::optional<Vector<float>>,
                        std::optional<Vector<const double>>, std::optional<Vector<double>>>(),
               nb::arg("table").noconvert(), nb::arg("mean").noconvert(),
               nb::arg("constants").noconvert(), nb::arg("alpha"), nb::arg("log_totals"),
               nb::arg("seen").none(), nb::arg("columns").none(), nb::arg("known").none(),
               nb::arg("occupied").none(), nb::arg("change").noconvert().none(), nb::arg("by").none(),
               nb::arg("expected").noconvert().none());
    update.def_ro("density", &Update<Real>::density);
    update.def_ro("bounded", &Update<Real>::bounded);
    update.def_ro("score", &Update<Real>::score);
    update.def("prepare", &prepare<Real>, nb::arg("counts"), nb::arg("threads"));
}

}  // namespace

void define_tables(nb::module_ &m) {
    m.def("log_shares", &log_shares, nb::arg("counts"), nb::arg("alpha"), nb::arg("log_totals"),
          nb::arg("log_p").noconvert(), nb::arg("threads"));
    m.def("log_odds", &log_odds, nb::arg("ones"), nb::arg("zeros").none(), nb::arg("seen"), nb::arg("alpha"),
          nb::arg("log_p").noconvert(), nb::arg("log_not").noconvert(), nb::arg("threads"));
    m.def("expected_logs", &expected_logs, nb::arg("weights"), nb::arg("counts"), nb::arg("alpha"),
          nb::arg("threads"));
    m.def("add", &add, nb::arg("a"), nb::arg("b"), nb::arg("out").noconvert(), nb::arg("threads"));
    m.def("by_column", &by_column, nb::arg("counts"), nb::arg("out").noconvert(), nb::arg("threads"));
    m.def("occupied", &occupied, nb::arg("counts"), nb::arg("lines").noconvert(), nb::arg("threads"));
    define_update<float>(m, "Update32");
    define_update<double>(m, "Update64");
}

}  // namespace tacit
