// Rows of categories for EM. Columns are packed into groups that one look-up serves: four columns of
// four levels are one byte and a table of 256 lines.
#include <nanobind/stl/optional.h>

#include <cstring>
#include <optional>

#include "arrays.h"
#include "posterior.h"
#include "sums.h"
#include "threads.h"

namespace tacit {
namespace {

constexpr std::size_t most_levels = 256;  // of a group of more than one column

// scores[i, :] = constants + the sum over the groups of tables[group's offset + code].
struct ScoreCodes {
    template <int L, typename Real, typename Code>
    static TACIT_INLINE void lanes(const Code *codes, std::size_t count, std::size_t groups,
                                   const std::size_t *offsets, const Real *tables,
                                   const Real *constants, std::size_t stride, Real *scores) {
        for (std::size_t i = 0; i < count; ++i, codes += groups) {
            for (std::size_t from = 0; from < stride; from += L) {
                Vec<Real, L> total;
                load<Real, L>(total, constants + from);
                for (std::size_t g = 0; g < groups; ++g) {
                    Vec<Real, L> part;
                    load<Real, L>(part, tables + (offsets[g] + codes[g]) * stride + from);
                    total += part;
                }
                store<Real, L>(scores + i * stride + from, total);
            }
        }
    }
    template <typename Real, typename Code>
    static TACIT_INLINE void run(const Code *codes, std::size_t count, std::size_t groups,
                                 const std::size_t *offsets, const Real *tables,
                                 const Real *constants, std::size_t stride, Real *scores) {
        if (stride % (32 / sizeof(Real))) {
            lanes<4>(codes, count, groups, offsets, tables, constants, stride, scores);
        } else {
            lanes<32 / sizeof(Real)>(codes, count, groups, offsets, tables, constants, stride, scores);
        }
    }
};

// sums[group's offset + code, :] += posteriors[i, :], for the groups of each row.
template <int bytes>
struct CountCodes {
    template <int L, typename Real, typename Code>
    static TACIT_INLINE void lanes(const Code *codes, std::size_t count, std::size_t groups,
                                   const std::size_t *offsets, const Real *posteriors,
                                   std::size_t stride, double *sums) {
        for (std::size_t i = 0; i < count; ++i, codes += groups) {
            for (std::size_t from = 0; from < stride; from += L) {
                Vec<double, L> now;
                for (int l = 0; l < L; ++l) now[l] = static_cast<double>(posteriors[i * stride + from + l]);
                for (std::size_t g = 0; g < groups; ++g) {
                    double *at = sums + (offsets[g] + codes[g]) * stride + from;
                    Vec<double, L> total;
                    load<double, L>(total, at);
                    store<double, L>(at, total + now);
                }
            }
        }
    }
    template <typename Real, typename Code>
    static TACIT_INLINE void run(const Code *codes, std::size_t count, std::size_t groups,
                                 const std::size_t *offsets, const Real *posteriors,
                                 std::size_t stride, double *sums) {
        constexpr std::size_t L = bytes / sizeof(double);
        if (stride % L) {
            lanes<4>(codes, count, groups, offsets, posteriors, stride, sums);
        } else {
            lanes<L>(codes, count, groups, offsets, posteriors, stride, sums);
        }
    }
};

class CategoricalRows {
  public:
    // `codes[i, j]` lies between starts[j] and starts[j + 1], or is -1 where a cell is missing.
    CategoricalRows(Matrix<const std::int32_t> codes, Vector<const std::int64_t> starts, int threads)
        : rows_(codes.shape(0)), columns_(codes.shape(1)) {
        check(starts.shape(0) == columns_ + 1 && threads >= 1, "shapes differ");
        starts_.assign(starts.data(), starts.data() + columns_ + 1);
        const std::int32_t *from = codes.data();
        nb::gil_scoped_release release;
        std::vector<char> missing = look(from, threads);
        std::size_t lines = 0;
        for (std::size_t j = 0; j < columns_; ++j) {
            const std::size_t own = static_cast<std::size_t>(starts_[j + 1] - starts_[j]) + missing[j];
            if (groups_.empty() || groups_.back().levels * own > most_levels) {
                if (!groups_.empty()) lines += groups_.back().levels;
                groups_.push_back({j, j, 1});
                offsets_.push_back(lines);
            }
            groups_.back().levels *= own;
            groups_.back().last = j + 1;
            levels_.push_back(own);
        }
        if (!groups_.empty()) lines += groups_.back().levels;
        lines_ = lines;
        for (const Group &group : groups_) wide_ |= group.levels > 256;
        packed_.resize(rows_ * groups_.size() * (wide_ ? 4 : 1));
        parallel_for_ranges(rows_, 1 << 13, threads, [&](std::size_t first, std::size_t last) {
            wide_ ? pack(from, first, last, reinterpret_cast<std::uint32_t *>(packed_.data()))
                  : pack(from, first, last, packed_.data());
        });
    }

    // The packed rows as bytes: equal rows have equal bytes.
    nb::object bytes() const {
        std::vector<std::uint8_t> copy(packed_);
        const std::size_t width = rows_ ? copy.size() / rows_ : 0;
        return to_numpy(std::move(copy), rows_, width);
    }

    // Scores, posteriors and counts in one pass, scores in float32 if `single`. `counts` has a line
    // for each code, `classes` the sums of the posteriors. Returns the log-likelihood (see `Block`).
    double expect(Matrix<const double> log_p, Vector<const double> prior,
                  std::optional<Matrix<const double>> evidence,
                  std::optional<Vector<const double>> weight, bool hard, Matrix<double> counts,
                  Vector<double> classes, bool single, int threads) const {
        const std::size_t K = prior.shape(0), size = static_cast<std::size_t>(starts_[columns_]);
        check(log_p.shape(0) == size && log_p.shape(1) == K && counts.shape(0) == size &&
                  counts.shape(1) == K && classes.shape(0) == K && threads >= 1 &&
                  (!evidence || (evidence->shape(0) == rows_ && evidence->shape(1) == K)) &&
                  (!weight || weight->shape(0) == rows_),
              "shapes differ");
        const Task task{K, log_p.data(), prior.data(), evidence ? evidence->data() : nullptr,
                        weight ? weight->data() : nullptr, hard, counts.data(), classes.data()};
        nb::gil_scoped_release release;
        return single ? expect_in<float>(task, threads) : expect_in<double>(task, threads);
    }

  private:
    struct Group {  // the columns [first, last), and the number of their combinations
        std::size_t first, last, levels;
    };

    struct Task {
        std::size_t K;
        const double *log_p, *prior, *evidence, *weight;
        bool hard;
        double *counts, *classes;
    };

    template <typename Real>
    double expect_in(const Task &task, int threads) const {
        const std::size_t K = task.K, stride = padded(K), groups = groups_.size();
        std::vector<double> means;  // over the classes, of each line of a group's table
        const std::vector<Real> tables = grouped<Real>(task.log_p, K, stride, means);
        std::vector<Real> base(stride, -std::numeric_limits<Real>::infinity());
        std::copy(task.prior, task.prior + K, base.begin());
        const bool carried = K < stride && K <= few;  // the means go along in a lane that is free
        if (carried) base[K] = Real{0};
        // Rows that share sums: many, as these are to be added; few, as threads are to have enough parts.
        const std::size_t part = std::max(std::clamp<std::size_t>(rows_ / 16, 1 << 12, 1 << 14), 4 * lines_);
        const std::size_t parts = (rows_ + part - 1) / part;
        std::vector<std::vector<double>> all(parts);
        Sums sums(parts, K + 1);  // of the posteriors of each class, and the log-likelihood
        parallel_for(parts, threads, [&](std::size_t p) {
            all[p].assign(lines_ * stride, 0.0);
            Posteriors<Real> posteriors(K, task.prior, task.hard);
            const std::size_t last = std::min(rows_, (p + 1) * part);
            for (std::size_t first = p * part; first < last; first += block) {
                const std::size_t count = std::min(block, last - first);
                const double *weight = task.weight ? task.weight + first : nullptr;
                const double *evidence = task.evidence ? task.evidence + first * K : nullptr;
                on_codes(first, [&](auto codes) {
                    dispatch<ScoreCodes>(codes, count, groups, offsets_.data(), tables.data(), base.data(),
                                     stride, posteriors.scores());
                });
                double middle[block] = {};
                for (std::size_t i = 0; carried && i < count; ++i) {
                    middle[i] = static_cast<double>(posteriors.scores()[i * stride + K]);
                }
                const Block<Real> &one = posteriors.normalize(count, evidence, weight, sums.of(p));
                on_codes(first, [&](auto codes) {
                    dispatch_wide<CountCodes>(codes, count, groups, offsets_.data(),
                                       static_cast<const Real *>(one.scores), stride, all[p].data());
                    for (std::size_t i = 0; !carried && i < count; ++i) {
                        for (std::size_t g = 0; g < groups; ++g) {
                            middle[i] += means[offsets_[g] + codes[i * groups + g]];
                        }
                    }
                });
                for (std::size_t i = 0; i < count; ++i) one.rest[i] += one.left[i] * middle[i];
                sums.of(p)[K] += posteriors.entropy(evidence);
            }
        });
        const std::size_t size = static_cast<std::size_t>(starts_[columns_]);
        std::fill(task.counts, task.counts + size * K, 0.0);
        parallel_for_ranges(parts > 1 ? all[0].size() : 0, 1 << 10, threads, [&](std::size_t first, std::size_t last) {
            for (std::size_t p = 1; p < parts; ++p) {
                for (std::size_t i = first; i < last; ++i) all[0][i] += all[p][i];
            }
        });
        const std::vector<double> found = sums.total();
        std::copy(found.begin(), found.end() - 1, task.classes);
        double total = found[K];
        if (parts) spread(all[0], K, stride, task.counts);
        for (std::size_t i = 0; i < size * K; ++i) {
            if (task.counts[i] != 0) total += task.counts[i] * task.log_p[i];
        }
        for (std::size_t k = 0; k < K; ++k) {
            if (task.classes[k] != 0) total += task.classes[k] * task.prior[k];
        }
        return total;
    }

    // Checks the codes, and says in which columns cells are missing.
    std::vector<char> look(const std::int32_t *from, int threads) const {
        std::vector<std::atomic<char>> missing(columns_);
        std::atomic<bool> outside{false};
        parallel_for_ranges(rows_, 1 << 14, threads, [&](std::size_t first, std::size_t last) {
            for (std::size_t i = first; i < last; ++i) {
                for (std::size_t j = 0; j < columns_; ++j) {
                    const std::int32_t code = from[i * columns_ + j];
                    if (code < 0) {
                        missing[j].store(1, std::memory_order_relaxed);
                    } else if (code < starts_[j] || code >= starts_[j + 1]) {
                        outside = true;
                    }
                }
            }
        });
        if (outside) throw std::out_of_range("a code lies outside its table");
        return std::vector<char>(missing.begin(), missing.end());
    }

    template <typename Code>
    void pack(const std::int32_t *from, std::size_t first, std::size_t last, Code *to) const {
        for (std::size_t i = first; i < last; ++i) {
            for (std::size_t g = 0; g < groups_.size(); ++g) {
                std::size_t code = 0;
                for (std::size_t j = groups_[g].first; j < groups_[g].last; ++j) {
                    const std::int32_t own = from[i * columns_ + j];
                    const std::size_t level = own < 0 ? levels_[j] - 1 : static_cast<std::size_t>(own - starts_[j]);
                    code = code * levels_[j] + level;
                }
                to[i * groups_.size() + g] = static_cast<Code>(code);
            }
        }
    }

    template <typename Work>
    void on_codes(std::size_t row, const Work &work) const {
        const std::uint8_t *bytes = packed_.data();
        if (wide_) {
            work(reinterpret_cast<const std::uint32_t *>(bytes) + row * groups_.size());
        } else {
            work(bytes + row * groups_.size());
        }
    }

    // Calls visit(line, code) for each combination of a group and the codes in it that are observed.
    template <typename Visit>
    void for_each(const Visit &visit) const {
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            for (std::size_t code = 0; code < groups_[g].levels; ++code) {
                std::size_t left = code;
                for (std::size_t j = groups_[g].last; j-- > groups_[g].first;) {
                    const std::int64_t own = starts_[j] + static_cast<std::int64_t>(left % levels_[j]);
                    left /= levels_[j];
                    if (own < starts_[j + 1]) visit(offsets_[g] + code, static_cast<std::size_t>(own));
                }
            }
        }
    }

    // The tables of the groups, less the mean of each line over the classes where it is finite.
    template <typename Real>
    std::vector<Real> grouped(const double *table, std::size_t K, std::size_t stride,
                              std::vector<double> &means) const {
        std::vector<double> sums(lines_ * K, 0.0);
        for_each([&](std::size_t line, std::size_t code) {
            for (std::size_t k = 0; k < K; ++k) sums[line * K + k] += table[code * K + k];
        });
        std::vector<Real> tables(lines_ * stride, Real{0});
        means.assign(lines_, 0.0);
        for (std::size_t line = 0; line < lines_; ++line) {
            double among = 0;
            for (std::size_t k = 0; k < K; ++k) {
                if (std::isinf(sums[line * K + k])) continue;
                means[line] += sums[line * K + k];
                ++among;
            }
            means[line] = among > 0 ? means[line] / among : 0.0;
            for (std::size_t k = 0; k < K; ++k) {
                tables[line * stride + k] = static_cast<Real>(sums[line * K + k] - means[line]);
            }
            if (K < stride) tables[line * stride + K] = static_cast<Real>(means[line]);
        }
        return tables;
    }

    void spread(const std::vector<double> &sums, std::size_t K, std::size_t stride, double *to) const {
        for_each([&](std::size_t line, std::size_t code) {
            for (std::size_t k = 0; k < K; ++k) to[code * K + k] += sums[line * stride + k];
        });
    }

    std::size_t rows_, columns_, lines_ = 0;
    bool wide_ = false;
    std::vector<std::int64_t> starts_;
    std::vector<std::size_t> levels_, offsets_;
    std::vector<Group> groups_;
    std::vector<std::uint8_t> packed_;
};

}  // namespace

void define_categorical(nb::module_ &m) {
    nb::class_<CategoricalRows>(m, "CategoricalRows")
        .def(nb::init<Matrix<const std::int32_t>, Vector<const std::int64_t>, int>(),
             nb::arg("codes"), nb::arg("starts"), nb::arg("threads"))
        .def("bytes", &CategoricalRows::bytes)
        .def("expect", &CategoricalRows::expect, nb::arg("log_p"), nb::arg("prior"),
             nb::arg("evidence").none(), nb::arg("weight").none(), nb::arg("hard"),
             nb::arg("counts").noconvert(), nb::arg("classes").noconvert(), nb::arg("single"),
             nb::arg("threads"));
}

}  // namespace tacit
