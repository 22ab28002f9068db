// From counts to the weights of the next round: tables with a line for each column of the data and a
// number for each class.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "arrays.h"
#include "simd.h"
#include "sums.h"

namespace tacit {

constexpr std::size_t tile = 32;  // lines that are at hand while they are worked on

// Smoothing: one number for all lines, or one a line.
struct Alpha {
    const double *values;
    bool one;
    TACIT_INLINE double operator[](std::size_t line) const { return values[one ? 0 : line]; }
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

// Lines of counts once they are summed up: adds them to `totals` and, times the weights of the round
// before, which are still in the table (with `fine` in lines that are `heavy`; 0 * -inf = 0), to `score`.
// Then says which lines are heavy now: one of their counts is so large that the rounding of its weight
// matters in the sum of all.
struct Weigh {
    template <typename Real>
    static TACIT_INLINE void run(const double *counts, const Real *table, const Real *fine,
                                 Real *heavy, std::size_t first, std::size_t last, std::size_t K,
                                 double *totals, double *score) {
        Vec<double, 4> all{};
        double rest = 0;
        for (std::size_t j = first; j < last; ++j) {
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

// What a pass over the counts leaves beside its table.
struct Prepared {
    bool bounded = true;  // no weight is +inf
    double density = 0;
};

// The weights of words, log((counts + alpha) / total), or of presence and absence, the same less
// log((seen - counts + alpha) / total), which `constants` sums up. They go into the table less their
// mean over the classes where they are finite; the mean is kept in float64. `fine` has what rounding
// took off, in lines that are `heavy`: of the others too little depends on it. `logs` has the logarithms
// of counts + alpha and, after all of them, those of seen - counts + alpha. `table` begins with the first
// of the lines, all else with the first of all.
//
// A line is N vectors of 4, or as many as it takes if N is 0; what is behind the last class is 0.
template <typename Real, bool Pairs, int N>
struct Prepare {
    static TACIT_INLINE void run(Alpha alpha, const double *log_totals, std::size_t first,
                                 std::size_t last, std::size_t K, Real *table, Real *fine,
                                 const Real *heavy, double *mean, double *constants, double *logs,
                                 Prepared *found) {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        const std::size_t vectors = N ? N : (K + 3) / 4, size = (last - first) * vectors * 4;
        double density = 0;
        const double share = 1.0 / static_cast<double>(K);
        for (std::size_t j = first; j < last; ++j) {
            double *a = logs + (j - first) * vectors * 4, *b = a + size;
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
            Real *to = table + (j - first) * K, *off = fine + j * K;
            const bool exact = heavy[j] != 0;
            // The next lines cover what is too much; where there are none, numbers come one by one.
            if (j * K + vectors * 4 <= last * K) {
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

// What is done with lines of counts once they are summed up: those of labelled rows are added, the
// expected score under the table is taken, and the table is made anew from the counts.
template <typename Real>
class Update {
  public:
    // `table` has three parts: the weights, what rounding took off them, and which lines are heavy.
    // `seen`, where given, says how often each class was: weights are those of presence and absence.
    // `known` are the counts of labelled rows, `occupied` the lines where there are any. `columns` are
    // the sums of the counts over the classes: times the means, part of what is expected. `change`,
    // where given, gets how far the weights come apart, with `by` added (see Differ).
    Update(Vector<Real> table, Vector<double> mean, Vector<double> constants,
           Vector<const double> alpha, Vector<const double> log_totals,
           std::optional<Vector<const double>> seen, std::optional<Vector<const double>> columns,
           std::optional<Matrix<const double>> known, std::optional<Vector<const bool>> occupied,
           std::optional<Vector<float>> change, std::optional<Vector<const double>> by)
        : lines(mean.shape(0)), classes(constants.shape(0)), stride_((classes + 3) / 4 * 4),
          table_(table), mean_(mean), constants_(constants), alpha_(alpha), columns_(columns),
          known_(known), occupied_(occupied), change_(change), by_(by), smoothing_(alpha_of(alpha, lines)), log_totals_(stride_),
          seen_(seen ? stride_ : 0) {
        check(table.shape(0) >= lines * (2 * classes + 1) && log_totals.shape(0) == classes &&
                  (!seen || seen->shape(0) == classes) &&
                  (!columns || columns->shape(0) == lines) && known.has_value() == occupied.has_value() &&
                  (!known || (known->shape(0) == lines && known->shape(1) == classes &&
                              occupied->shape(0) == lines)) &&
                  change.has_value() == by.has_value() &&
                  (!change || (change->shape(0) == lines && by->shape(0) == classes)),
              "shapes differ");
        std::copy(log_totals.data(), log_totals.data() + classes, log_totals_.begin());
        if (seen) std::copy(seen->data(), seen->data() + classes, seen_.begin());
    }

    struct Part {  // of the lines, with what belongs to it alone
        std::vector<double> constants, logs;
        std::vector<Real> weights;
        Prepared found;
        double score = 0;
    };
    Part part() const { return {std::vector<double>(stride_), {}, {}, {}, 0}; }

    void add_known(double *counts, std::size_t first, std::size_t last) const {
        if (!known_) return;
        const double *from = known_->data();
        for (std::size_t j = first; j < last; ++j) {
            if (!occupied_->data()[j]) continue;
            for (std::size_t k = 0; k < classes; ++k) counts[j * classes + k] += from[j * classes + k];
        }
    }

    // Adds lines of counts to `totals` and what they expect to the part, and makes their weights anew. All
    // cores have just read the table: a line of it that is written to has to be fetched back from the others,
    // for which whole tiles wait less than numbers one by one.
    void renew(const double *counts, std::size_t first, std::size_t last, double *totals,
               Part &part) const {
        part.logs.resize(2 * tile * stride_);
        part.weights.resize(tile * classes);
        const bool pairs = !seen_.empty();
        const std::size_t size = (last - first) * stride_;
        double *logs = part.logs.data();
        const double *seen = seen_.data();
        Real *table = table_.data(), *fine = table + lines * classes, *heavy = fine + lines * classes;
        Real *anew = part.weights.data();
        best<Weigh>(counts, static_cast<const Real *>(table), static_cast<const Real *>(fine), heavy,
                    first, last, classes, totals, &part.score);
        for (std::size_t j = first; columns_ && j < last; ++j) {
            part.score += columns_->data()[j] * mean_.data()[j];
        }
        best<Smooth<false>>(counts, seen, smoothing_, first, last, classes, stride_, logs);
        if (pairs) best<Smooth<true>>(counts, seen, smoothing_, first, last, classes, stride_, logs + size);
        widest<Logarithms>(logs, (pairs ? 2 : 1) * size);
        const auto fill = [&](auto kernel) {
            kernel(classes, smoothing_, log_totals_.data(), first, last, classes, anew, fine,
                   static_cast<const Real *>(heavy), mean_.data(), part.constants.data(), logs,
                   &part.found);
        };
        pairs ? fill(PrepareLines<Real, true>{}) : fill(PrepareLines<Real, false>{});
        if (change_) {
            const Real *before = table + first * classes, *now = anew;
            best<Differ>(before, now, by_->data(), last - first, classes, change_->data() + first);
        }
        std::copy(anew, anew + (last - first) * classes, table + first * classes);
    }

    // Adds up what was found in the parts, in order.
    void finish(const std::vector<Part> &parts) {
        density = score = 0;
        bounded = true;
        std::fill(constants_.data(), constants_.data() + classes, 0.0);
        for (const Part &part : parts) {
            for (std::size_t k = 0; k < classes; ++k) constants_.data()[k] += part.constants[k];
            density += part.found.density;
            bounded &= part.found.bounded;
            score += part.score;
        }
    }

    const std::size_t lines, classes;
    double density = 0, score = 0;  // the log density of the smoothing; the expected score
    bool bounded = true;            // no weight is +inf

  private:
    const std::size_t stride_;
    Vector<Real> table_;
    Vector<double> mean_, constants_;
    Vector<const double> alpha_;
    std::optional<Vector<const double>> columns_;
    std::optional<Matrix<const double>> known_;
    std::optional<Vector<const bool>> occupied_;
    std::optional<Vector<float>> change_;
    std::optional<Vector<const double>> by_;
    const Alpha smoothing_;
    std::vector<double> log_totals_, seen_;
};

}  // namespace tacit
