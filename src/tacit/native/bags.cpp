// The sparse rows of a fit, packed once for its rounds, and what EM asks of them.
#include "bags.h"

#include <nanobind/stl/optional.h>

#include <optional>
#include <tuple>

#include "arrays.h"
#include "sums.h"
#include "tables.h"

namespace tacit {
namespace {

constexpr std::size_t stripe = 512;     // rows that one task scores
constexpr std::size_t slice = 1 << 15;  // entries of the columns that one task counts

constexpr std::size_t slack = 8;        // numbers behind a table that a whole vector may read

template <typename T>
struct Found {  // what kind of numbers the values are
    bool one = true, byte = true, single = true, small = true;
    void see(T value) {
        const double x = static_cast<double>(value);
        small &= x >= -65536.0 && x <= 65536.0;
        one &= x == 1.0;
        byte &= x >= 0.0 && x <= 255.0 && x == static_cast<double>(static_cast<std::uint8_t>(x));
        single &= x == static_cast<double>(static_cast<float>(x));
    }
};

template <typename From, typename To>
std::unique_ptr<char[]> converted(const From *from, std::size_t size, int threads) {
    std::unique_ptr<char[]> own(new char[size * sizeof(To) + 1]);
    To *to = reinterpret_cast<To *>(own.get());
    share_ranges(size, 1 << 18, threads, [=](std::size_t begin, std::size_t end) {
        for (std::size_t p = begin; p < end; ++p) to[p] = static_cast<To>(from[p]);
    });
    return own;
}

class Bags {
  public:
    Bags(Anything starts, Anything indices, Anything values, std::size_t columns,
         std::optional<Vector<const std::int64_t>> picked, int threads)
        : columns_(columns), held_indices_(indices), held_values_(values) {
        check(indices.shape(0) == values.shape(0) && starts.shape(0) >= 1 && threads >= 1 &&
                  columns <= 0x7fffffff,
              "shapes differ");
        const bool wide = starts.dtype() == nb::dtype<std::int64_t>();
        check(starts.dtype() == indices.dtype() &&
                  (wide || starts.dtype() == nb::dtype<std::int32_t>()),
              "indices must be int32 or int64");
        {
            nb::gil_scoped_release release;
            pack(starts, picked, wide, threads);
        }
        if (rows_.own_indices) held_indices_ = Anything();
        if (rows_.values != values.data()) held_values_ = Anything();
    }

    std::size_t rows() const { return rows_.lines; }
    std::size_t entries() const { return entries_; }
    bool small() const { return small_; }

    // The same entries by columns. Rows are cut into parts that threads share; within a column the
    // rows keep their order.
    void transpose(int threads) {
        if (by_column_.begin) return;
        nb::gil_scoped_release release;
        const std::size_t parts = std::max<std::size_t>(
            1, std::min<std::size_t>(static_cast<std::size_t>(threads), entries_ / (1 << 16)));
        std::vector<std::vector<std::int64_t>> places(parts);
        const std::size_t lines = rows_.lines;
        with_types(rows_, [&](auto rows) {
            share(parts, threads, [&](std::size_t part) {
                std::vector<std::int64_t> &count = places[part];
                count.assign(columns_, 0);
                for (std::size_t i = lines * part / parts; i < lines * (part + 1) / parts; ++i) {
                    for (std::int64_t p = rows.begin[i]; p < rows.end[i]; ++p) ++count[rows.indices[p]];
                }
            });
        });
        Side &side = by_column_;
        side.lines = columns_;
        side.bounds.resize(columns_ + 1);
        std::int64_t total = 0;
        for (std::size_t j = 0; j < columns_; ++j) {
            side.bounds[j] = total;
            for (std::vector<std::int64_t> &count : places) {
                const std::int64_t own = count[j];
                count[j] = total;
                total += own;
            }
        }
        side.bounds[columns_] = total;
        side.kind = rows_.kind;
        side.narrow = lines <= 0x10000;
        const std::size_t width = side.narrow ? 2 : 4;
        side.own_indices.reset(new char[(entries_ + ahead) * width]);
        std::memset(side.own_indices.get() + entries_ * width, 0, ahead * width);
        side.own_values.reset(new char[entries_ * size_of(side.kind) + 1]);
        side.indices = side.own_indices.get();
        side.values = side.own_values.get();
        with_types(rows_, [&](auto rows) {
            share(parts, threads, [&](std::size_t part) {
                const std::size_t first = lines * part / parts, last = lines * (part + 1) / parts;
                std::int64_t *place = places[part].data();
                side.narrow ? scatter<std::uint16_t>(rows, first, last, place)
                            : scatter<std::int32_t>(rows, first, last, place);
            });
        });
        side.last = total - 1;
        side.begin = side.bounds.data();
        side.end = side.begin + 1;
        cuts_ = cuts(side, slice);
    }

    // The E-step in one pass: the posteriors, times the weights, go into `kept`, of shape
    // (rows, classes); `classes` gets their sums. Returned is the log-likelihood without the expected
    // scores (see `Block`), which `count` and `shift` return.
    //
    // Where `again`, `kept` holds the posteriors of a round before, and rows of which none moved by
    // more than `still` stay as they are there. Then what moved is returned as well: the rows and
    // by how much; or nothing, if too many did for it to be worth while.
    //
    // Scores are constants + table + the sum of the row times `shift`.
    template <typename Real>
    nb::object expect(Vector<const Real> table, Vector<const double> constants,
                      std::optional<Vector<const double>> shift,
                      std::optional<Matrix<const double>> evidence,
                      std::optional<Vector<const double>> weight, Vector<const double> prior,
                      bool hard, Vector<Real> kept, Vector<double> classes, bool again, double still,
                      int threads) {
        const std::size_t K = constants.shape(0), stride = padded(K), n = rows_.lines;
        check(table.shape(0) >= columns_ * K + slack && kept.shape(0) >= n * K + slack && classes.shape(0) == K && prior.shape(0) == K && threads >= 1 &&
                  (!shift || shift->shape(0) == K) && (!evidence || (evidence->shape(0) == n && evidence->shape(1) == K)) &&
                  (!weight || weight->shape(0) == n),
              "shapes differ");
        constexpr Real infinity = std::numeric_limits<Real>::infinity();
        std::vector<Real> base(3 * stride, Real{0});  // see Base
        std::fill(base.begin(), base.begin() + stride, -infinity);
        for (std::size_t k = 0; k < K; ++k) {
            base[k] = static_cast<Real>(constants.data()[k]);
            if (base[k] > -infinity) base[stride + k] = static_cast<Real>(constants.data()[k] - base[k]);
        }
        for (std::size_t k = 0; shift && k < K; ++k) base[2 * stride + k] = static_cast<Real>(shift->data()[k]);
        const Base<Real> begin{base.data(), &base[stride], &base[2 * stride], shift ? sums_of_rows<Real>() : nullptr};
        const double *log_evidence = evidence ? evidence->data() : nullptr;
        const double *weights = weight ? weight->data() : nullptr, *log_prior = prior.data();
        const Real *from = table.data();
        Real *to = kept.data();
        Stripes<Real> stripes(n, K, again);
        {
            nb::gil_scoped_release release;
            with_types(rows_, [&](auto rows) {
                const auto run = [&](std::size_t task, bool compare) {
                    Posteriors<Real> posteriors(K, log_prior, hard);
                    const std::size_t last = std::min(n, (task + 1) * stripe);
                    for (std::size_t first = task * stripe; first < last; first += block) {
                        const std::size_t count = std::min(block, last - first);
                        widest<Score>(rows, first, count, from, K, begin, stride, posteriors.scores());
                        const Block<Real> &part = posteriors.normalize(
                            count, log_evidence ? log_evidence + first * K : nullptr,
                            weights ? weights + first : nullptr, to + first * K, stripes.sums(task),
                            compare, static_cast<Real>(still));
                        if (compare) stripes.note(task, first, part, stride);
                        stripes.add(task, part);
                    }
                };
                // If most of the first rows moved, the others are not even looked at.
                const std::size_t probed = again && stripes.tasks > 1 ? 1 : 0;
                if (probed) run(0, true);
                const bool compare = again && !(probed && stripes.most_moved(0));
                share(stripes.tasks - probed, threads, [&](std::size_t task) { run(task + probed, compare); });
            });
        }
        const double log_likelihood = stripes.total(classes.data());
        return nb::make_tuple(log_likelihood, stripes.moved());
    }

    // The bare gather: every row's scores, which are thrown away. What the benchmark holds a round
    // against.
    double gather(Vector<const float> table, std::size_t K, int threads) const {
        const std::size_t stride = padded(K), n = rows_.lines;
        check(table.shape(0) >= columns_ * K + slack && K >= 1 && threads >= 1, "shapes differ");
        const float *from = table.data();
        const std::vector<float> nothing(stride, 0.0f);
        const Base<float> begin{nothing.data(), nothing.data(), nullptr, nullptr};
        std::vector<double> seen((n + stripe - 1) / stripe);
        nb::gil_scoped_release release;
        with_types(rows_, [&](auto rows) {
            share(seen.size(), threads, [&](std::size_t task) {
                std::vector<float> scores(block * stride);
                const std::size_t last = std::min(n, (task + 1) * stripe);
                for (std::size_t first = task * stripe; first < last; first += block) {
                    const std::size_t count = std::min(block, last - first);
                    widest<Score>(rows, first, count, from, K, begin, stride, scores.data());
                    seen[task] += static_cast<double>(scores[0]);
                }
            });
        });
        return seen.empty() ? 0.0 : seen[0];
    }

    // The E-step of two classes by their log-odds: `table` has one number a column, `kept` the
    // posterior of class 1, times the weight.
    double expect_odds(Vector<const float> table, double constant, double shift,
                       std::optional<Vector<const double>> weight, Vector<float> kept,
                       Vector<double> classes, int threads) {
        const std::size_t n = rows_.lines;
        check(table.shape(0) == columns_ && kept.shape(0) == n && classes.shape(0) == 2 &&
                  threads >= 1 && (!weight || weight->shape(0) == n),
              "shapes differ");
        const double *weights = weight ? weight->data() : nullptr;
        const float *from = table.data(), *lengths = sums_of_rows<float>();
        float *to = kept.data();
        const std::size_t tasks = (n + stripe - 1) / stripe;
        std::vector<double> sums(3 * tasks);
        nb::gil_scoped_release release;
        with_types(rows_, [&](auto rows) {
            share(tasks, threads, [&](std::size_t task) {
                double *own = &sums[3 * task];
                const std::size_t first = task * stripe, count = std::min(stripe, n - first);
                float ones[stripe], zeros[stripe];
                double entropy[stripe];
                for (std::size_t i = count; i < (count + 7) / 8 * 8; ++i) ones[i] = 0;
                best<ScoreOdds>(rows, first, count, from, static_cast<float>(constant),
                                static_cast<float>(shift), lengths, ones);
                best<SoftmaxOdds>(ones, zeros, entropy, (count + 7) / 8 * 8);
                for (std::size_t i = 0; i < count; ++i) {
                    const double w = weights ? weights[first + i] : 1.0;
                    own[0] += w * entropy[i];
                    own[1] += w * static_cast<double>(zeros[i]);
                    own[2] += w * static_cast<double>(ones[i]);
                    to[first + i] = static_cast<float>(w * static_cast<double>(ones[i]));
                }
            });
        });
        double total[3] = {0, 0, 0};
        for (std::size_t task = 0; task < tasks; ++task) {
            for (int q = 0; q < 3; ++q) total[q] += sums[3 * task + q];
        }
        classes.data()[0] = total[1];
        classes.data()[1] = total[2];
        return total[0];
    }

    // The M-step's sums: out[j, k] = sum over the rows i of x[i, j] weights[i, k]; `totals[k]` is
    // their sum over j.
    template <typename Real>
    void count(Vector<const Real> weights, Matrix<double> out, Vector<double> totals,
               Update<Real> *update, int threads) {
        const std::size_t K = out.shape(1);
        check(weights.shape(0) >= rows_.lines * K + slack, "shapes differ");
        const Real *from = weights.data();
        double *to = out.data();
        by_columns(out, totals, update, true, threads, [=](auto columns, auto first, auto last) {
            widest<Count>(columns, first, last, from, K, to);
        });
    }

    // The same for two classes by the posterior of class 1, and the sums over both classes.
    void count_odds(Vector<const float> weights, Vector<const double> both, Matrix<double> out,
                    Vector<double> totals, Update<float> *update, int threads) {
        check(weights.shape(0) == rows_.lines && out.shape(1) == 2 && both.shape(0) == columns_,
              "shapes differ");
        const float *from = weights.data();
        const double *sums = both.data();
        double *to = out.data();
        by_columns(out, totals, update, true, threads, [=](auto columns, auto first, auto last) {
            best<CountOdds>(columns, first, last, from, sums, to);
        });
    }

    // out[j, k] = before[j, k] + sum over some rows i of x[i, j] change[i, k]. Threads share the
    // columns, and each goes through the rows in order.
    template <typename Real>
    void shift(Vector<const std::int64_t> moved, Matrix<const double> change,
               Matrix<const double> before, Matrix<double> out, Vector<double> totals,
               Update<Real> *update, int threads) {
        const std::size_t K = out.shape(1), size = moved.shape(0);
        check(size == change.shape(0) && change.shape(1) == K && before.shape(0) == columns_ &&
                  before.shape(1) == K,
              "shapes differ");
        const std::int64_t *which = moved.data();
        for (std::size_t m = 0; m < size; ++m) {
            check(static_cast<std::size_t>(which[m]) < rows_.lines, "no such row");
        }
        const double *by = change.data(), *from = before.data();
        double *to = out.data();
        transpose(threads);
        {
            nb::gil_scoped_release release;
            const std::size_t tasks = cuts_.size() - 1;
            const std::size_t parts = std::min<std::size_t>(tasks, 2 * threads);
            with_types(rows_, [&](auto rows) {
                share(parts, threads, [&](std::size_t part) {
                    const std::size_t first = cuts_[tasks * part / parts];
                    const std::size_t last = cuts_[tasks * (part + 1) / parts];
                    std::copy(from + first * K, from + last * K, to + first * K);
                    for (std::size_t m = 0; m < size; ++m) {
                        const std::size_t i = static_cast<std::size_t>(which[m]);
                        best<ShiftLine>(rows, i, first, last, by + m * K, K, to);
                    }
                });
            });
        }
        by_columns(out, totals, update, false, threads, [](auto, auto, auto) {});
    }

  private:
    // What the stripes of rows sum up, each for itself: added in order at the end.
    template <typename Real>
    struct Stripes {
        Stripes(std::size_t n, std::size_t K, bool again)
            : tasks((n + stripe - 1) / stripe), n(n), K(K), again(again), classes(tasks * K),
              log_likelihood(tasks), rows(again ? tasks : 0), change(again ? tasks : 0) {}

        double *sums(std::size_t task) { return &classes[task * K]; }

        // Whether more rows of a task moved than are noted; then nothing is returned in the end.
        bool most_moved(std::size_t task) const { return many && rows[task].size() >= stripe / 4; }

        // Store the posteriors that moved, and note by how much.
        void note(std::size_t task, std::size_t first, const Block<Real> &part, std::size_t stride) {
            for (std::size_t i = 0; i < part.count; ++i) {
                if (!part.moved[i]) continue;
                const Real *now = part.scores + i * stride;
                Real *held = part.kept + i * K;
                if (rows[task].size() < stripe / 4) {
                    rows[task].push_back(static_cast<std::int64_t>(first + i));
                    for (std::size_t k = 0; k < K; ++k) {
                        change[task].push_back(static_cast<double>(now[k]) - static_cast<double>(held[k]));
                    }
                } else {
                    many.store(true, std::memory_order_relaxed);
                }
                for (std::size_t k = 0; k < K; ++k) held[k] = now[k];
            }
        }

        void add(std::size_t task, const Block<Real> &part) {
            widest<Logarithms>(part.totals, part.count);
            for (std::size_t i = 0; i < part.count; ++i) {
                const double weight = part.weight ? part.weight[i] : 1.0;
                log_likelihood[task] += weight * part.totals[i] + part.rest[i];
                if (std::isinf(part.tops[i])) log_likelihood[task] = part.tops[i];
            }
        }

        double total(double *to) const {
            std::fill(to, to + K, 0.0);
            double all = 0;
            for (std::size_t task = 0; task < tasks; ++task) {
                for (std::size_t k = 0; k < K; ++k) to[k] += classes[task * K + k];
                all += log_likelihood[task];
            }
            return all;
        }

        nb::object moved() {
            if (!again || many) return nb::none();
            std::size_t size = 0;
            for (const auto &own : rows) size += own.size();
            if (size > n / 8) return nb::none();
            std::vector<std::int64_t> all;
            std::vector<double> by;
            all.reserve(size);
            by.reserve(size * K);
            for (std::size_t task = 0; task < tasks; ++task) {
                all.insert(all.end(), rows[task].begin(), rows[task].end());
                by.insert(by.end(), change[task].begin(), change[task].end());
            }
            return nb::make_tuple(to_numpy(std::move(all), size), to_numpy(std::move(by), size, K));
        }

        std::size_t tasks, n, K;
        bool again;
        std::atomic<bool> many{false};
        std::vector<double> classes, log_likelihood;
        std::vector<std::vector<std::int64_t>> rows;
        std::vector<std::vector<double>> change;
    };

    // Calls work(columns, first, last) for ranges of columns, which sums them up, and adds up the lines
    // of `out`; what `update` does with them is done on the way (known rows are added where `anew`).
    template <typename Real, typename Work>
    void by_columns(const Matrix<double> &out, const Vector<double> &totals, Update<Real> *update,
                    bool anew, int threads, const Work &work) {
        const std::size_t K = out.shape(1);
        check(out.shape(0) == columns_ && totals.shape(0) == K && threads >= 1 &&
                  (!update || (update->lines == columns_ && update->classes == K)),
              "shapes differ");
        transpose(threads);
        double *lines = out.data(), *all = totals.data();
        nb::gil_scoped_release release;
        const std::size_t tasks = cuts_.size() - 1;
        std::vector<double> sums(tasks * K);
        using Part = typename Update<Real>::Part;
        std::vector<Part> parts(update ? tasks : 0, update ? update->part() : Part{});
        with_types(by_column_, [&](auto columns) {
            share(tasks, threads, [&](std::size_t task) {
                for (std::size_t first = cuts_[task]; first < cuts_[task + 1]; first += tile) {
                    const std::size_t last = std::min(cuts_[task + 1], first + tile);
                    work(columns, first, last);
                    if (update && anew) update->add_known(lines, first, last);
                    best<AddLines>(static_cast<const double *>(lines), first, last, K, &sums[task * K]);
                    if (!update) continue;
                    update->expect(lines, first, last, parts[task]);
                    update->prepare(lines, first, last, parts[task]);
                }
            });
        });
        std::fill(all, all + K, 0.0);
        for (std::size_t task = 0; task < tasks; ++task) {
            for (std::size_t k = 0; k < K; ++k) all[k] += sums[task * K + k];
        }
        if (update) update->finish(parts);
    }

    void pack(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked,
              bool wide, int threads) {
        const std::size_t size = held_indices_.shape(0);
        wide ? find_rows<std::int64_t>(starts, picked) : find_rows<std::int32_t>(starts, picked);
        wide ? take_indices<std::int64_t>(size, threads) : take_indices<std::int32_t>(size, threads);
        const auto type = held_values_.dtype();
        if (type == nb::dtype<double>()) take_values<double>(size, threads);
        else if (type == nb::dtype<float>()) take_values<float>(size, threads);
        else if (type == nb::dtype<std::int64_t>()) take_values<std::int64_t>(size, threads);
        else if (type == nb::dtype<std::int32_t>()) take_values<std::int32_t>(size, threads);
        else throw std::invalid_argument("values must be float64, float32, int64 or int32");
        entries_ = rows_.entries();
    }

    template <typename Index>
    void find_rows(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked) {
        const Index *start = static_cast<const Index *>(starts.data());
        const std::size_t all = starts.shape(0) - 1;
        rows_.lines = picked ? picked->shape(0) : all;
        check(start[0] >= 0 && static_cast<std::size_t>(start[all]) <= held_indices_.shape(0),
              "shapes differ");
        rows_.bounds.resize(picked ? 2 * rows_.lines : all + 1);
        if (picked) {
            for (std::size_t i = 0; i < rows_.lines; ++i) {
                const std::size_t row = static_cast<std::size_t>(picked->data()[i]);
                if (row >= all) throw std::out_of_range("no such row");
                rows_.bounds[i] = start[row];
                rows_.bounds[rows_.lines + i] = start[row + 1];
            }
        } else {
            std::copy(start, start + all + 1, rows_.bounds.begin());
        }
        rows_.begin = rows_.bounds.data();
        rows_.end = rows_.begin + (picked ? rows_.lines : 1);
        rows_.last = static_cast<std::int64_t>(held_indices_.shape(0)) - 1;
    }

    template <typename Index>
    void take_indices(std::size_t size, int threads) {
        const Index *from = static_cast<const Index *>(held_indices_.data());
        rows_.narrow = columns_ <= 0x10000;
        if (rows_.narrow) {
            rows_.own_indices = converted<Index, std::uint16_t>(from, size, threads);
        } else if (sizeof(Index) == 8) {
            rows_.own_indices = converted<Index, std::int32_t>(from, size, threads);
        }
        rows_.indices = rows_.own_indices ? rows_.own_indices.get() : held_indices_.data();
    }

    template <typename T>
    void take_values(std::size_t size, int threads) {
        const T *from = static_cast<const T *>(held_values_.data());
        std::atomic<int> found{15};
        share_ranges(size, 1 << 16, threads, [&](std::size_t begin, std::size_t end) {
            Found<T> own;
            for (std::size_t p = begin; p < end; ++p) own.see(from[p]);
            found.fetch_and(own.one + 2 * own.byte + 4 * own.single + 8 * own.small);
        });
        constexpr bool whole = std::is_integral<T>::value;
        small_ = found & 8;
        if (found & 1) {
            rows_.kind = Kind::one;
        } else if (found & 2) {
            rows_.kind = Kind::byte;
            rows_.own_values = converted<T, std::uint8_t>(from, size, threads);
        } else if (whole && (found & 4)) {
            rows_.kind = Kind::single;
            rows_.own_values = converted<T, float>(from, size, threads);
        } else if (whole) {
            rows_.kind = Kind::real;
            rows_.own_values = converted<T, double>(from, size, threads);
        } else {
            rows_.kind = sizeof(T) == 4 ? Kind::single : Kind::real;
            rows_.values = from;
            return;
        }
        rows_.values = rows_.own_values.get();
    }

    template <typename Row, typename Rows>
    void scatter(const Rows &rows, std::size_t first, std::size_t last, std::int64_t *place) {
        Row *to = reinterpret_cast<Row *>(by_column_.own_indices.get());
        using Value = std::remove_cv_t<std::remove_pointer_t<decltype(rows.values)>>;
        for (std::size_t i = first; i < last; ++i) {
            for (std::int64_t p = rows.begin[i]; p < rows.end[i]; ++p) {
                const std::int64_t at = place[rows.indices[p]]++;
                to[at] = static_cast<Row>(i);
                if constexpr (!std::is_same<Value, One>::value) {
                    reinterpret_cast<Value *>(by_column_.own_values.get())[at] = rows.values[p];
                }
            }
        }
    }

    // The sum of each row's values, made when it is first asked for.
    template <typename Real>
    const Real *sums_of_rows() {
        std::vector<Real> &sums = std::get<std::vector<Real>>(sums_of_rows_);
        if (sums.empty() && rows_.lines) {
            sums.resize(rows_.lines);
            with_types(rows_, [&](auto rows) {
                for (std::size_t i = 0; i < rows_.lines; ++i) {
                    double total = 0;
                    for (std::int64_t p = rows.begin[i]; p < rows.end[i]; ++p) total += value_at<double>(rows, p);
                    sums[i] = static_cast<Real>(total);
                }
            });
        }
        return sums.data();
    }

    std::size_t columns_, entries_ = 0;
    std::tuple<std::vector<float>, std::vector<double>> sums_of_rows_;
    bool small_ = true;  // no value is beyond 65536, so that float32 will do
    Anything held_indices_, held_values_;
    Side rows_, by_column_;
    std::vector<std::size_t> cuts_;
};

}  // namespace

// Whether one of the rows [first, last) holds a column more than once.
template <typename Index>
bool repeats(const Index *start, const Index *index, std::size_t first, std::size_t last,
             std::size_t columns) {
    std::vector<std::uint16_t> held(columns, 0);  // the row of these that held each column last, from 1
    for (std::size_t i = first; i < last; ++i) {
        const auto row = static_cast<std::uint16_t>(i - first + 1);
        for (Index p = start[i]; p < start[i + 1]; ++p) {
            std::uint16_t &at = held[static_cast<std::size_t>(index[p])];
            if (at == row) return true;
            at = row;
        }
    }
    return false;
}

// Whether the rows of a CSR matrix hold a column more than once. ValueError if it is none.
template <typename Index>
bool has_duplicates(Vector<const Index> starts, Vector<const Index> indices, std::size_t columns,
                    int threads) {
    const std::size_t rows = starts.shape(0) - 1, size = indices.shape(0);
    const Index *start = starts.data(), *index = indices.data();
    check(starts.shape(0) >= 1 && start[0] == 0 && threads >= 1, "indptr must begin with 0");
    for (std::size_t i = 0; i < rows; ++i) check(start[i] <= start[i + 1], "indptr must not fall");
    check(static_cast<std::size_t>(start[rows]) <= size, "indptr goes beyond the indices");
    std::atomic<bool> outside{false}, twice{false};
    {
        nb::gil_scoped_release release;
        share_ranges(rows, 1024, threads, [&](std::size_t first, std::size_t last) {
            const auto begin = static_cast<std::size_t>(start[first]), end = static_cast<std::size_t>(start[last]);
            std::make_unsigned_t<Index> most = 0;
            std::size_t falls = 0;
            best<LookAt<Index>>(index, begin, end, &most, &falls);
            if (begin < end && most >= columns) {
                outside = true;
                return;
            }
            for (std::size_t i = first; i < last; ++i) {  // between two rows the indices may fall
                const Index p = start[i];
                falls -= p > 0 && p < start[i + 1] && index[p] <= index[p - 1];
            }
            if (falls && repeats(start, index, first, last, columns)) twice = true;
        });
    }
    check(!outside, "indices of columns must lie between 0 and the number of columns");
    return twice;
}

template <typename Index>
void define_duplicates(nb::module_ &m) {
    m.def("has_duplicates", &has_duplicates<Index>, nb::arg("starts").noconvert(),
          nb::arg("indices").noconvert(), nb::arg("columns"), nb::arg("threads"));
}

template <typename Real>
void define_real(nb::class_<Bags> &bags) {
    bags.def("expect", &Bags::expect<Real>, nb::arg("table").noconvert(), nb::arg("constants"),
             nb::arg("shift").none(), nb::arg("evidence").none(), nb::arg("weight").none(), nb::arg("prior"), nb::arg("hard"),
             nb::arg("kept").noconvert(), nb::arg("classes").noconvert(), nb::arg("again"),
             nb::arg("still"), nb::arg("threads"));
    bags.def("count", &Bags::count<Real>, nb::arg("weights").noconvert(),
             nb::arg("out").noconvert(), nb::arg("totals").noconvert(),
             nb::arg("update").none(), nb::arg("threads"));
    bags.def("shift", &Bags::shift<Real>, nb::arg("moved"), nb::arg("change").noconvert(),
             nb::arg("before"), nb::arg("out").noconvert(), nb::arg("totals").noconvert(),
             nb::arg("update").none(), nb::arg("threads"));
}

void define_bags(nb::module_ &m) {
    define_duplicates<std::int32_t>(m);
    define_duplicates<std::int64_t>(m);
    nb::class_<Bags> bags(m, "Bags");
    bags.def(nb::init<Anything, Anything, Anything, std::size_t,
                      std::optional<Vector<const std::int64_t>>, int>(),
             nb::arg("starts"), nb::arg("indices"), nb::arg("values"), nb::arg("columns"),
             nb::arg("picked").none(), nb::arg("threads"));
    bags.def("__len__", &Bags::rows);
    bags.def_prop_ro("entries", &Bags::entries);
    bags.def_prop_ro("small", &Bags::small);
    bags.def("transpose", &Bags::transpose, nb::arg("threads"));
    define_real<float>(bags);
    define_real<double>(bags);
    bags.def("gather", &Bags::gather, nb::arg("table").noconvert(), nb::arg("classes"),
             nb::arg("threads"));
    bags.def("expect_odds", &Bags::expect_odds, nb::arg("table").noconvert(), nb::arg("constant"),
             nb::arg("shift"), nb::arg("weight").none(), nb::arg("kept").noconvert(), nb::arg("classes").noconvert(),
             nb::arg("threads"));
    bags.def("count_odds", &Bags::count_odds, nb::arg("weights").noconvert(), nb::arg("both"),
             nb::arg("out").noconvert(), nb::arg("totals").noconvert(),
             nb::arg("update").none(), nb::arg("threads"));
}

}  // namespace tacit
