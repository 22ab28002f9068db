// The sparse rows of a fit, packed once for its rounds, and what EM asks of them.
#include "bags.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>

#include "apart.h"
#include "arrays.h"
#include "stripes.h"
#include "sums.h"
#include "tables.h"

namespace tacit {
namespace {

constexpr std::size_t slack = 8;  // numbers behind a table that a whole vector may read

class Bags : public Packed {
  public:
    using Packed::Packed;

    // The E-step in one pass: the posteriors, times the weights, go into `kept`, of shape
    // (rows, classes); `classes` gets their sums. Returned is the log-likelihood without the expected
    // scores (see `Block`), which an `Update` takes while `count` or `shift` sums up.
    //
    // Where `again`, `kept` holds the posteriors of a round before, and rows of which none moved by
    // more than `still` stay as they are there. Then what moved is returned as well: the rows and
    // by how much; or nothing, if too many did for it to be worth while.
    //
    // Scores are constants + table + the sum of the row times `shift`.
    //
    // Rows that are sure of their class need not be scored where `again` while their scores cannot have come
    // far enough apart: by `leeway`, which is noted when they are scored. Since the round before, the scores
    // of two classes have moved by at most drift[0] + drift[1] * the sum of the row + the row times `change`.
    // What such a row adds to what is returned is in `entropies`, where all rows are noted.
    template <typename Real>
    nb::object expect(Vector<const Real> table, Vector<const double> constants,
                      std::optional<Vector<const double>> shift,
                      std::optional<Matrix<const double>> evidence,
                      std::optional<Vector<const double>> weight, Vector<const double> prior,
                      bool hard, Vector<Real> kept, Vector<double> classes, bool again, double still,
                      std::optional<Vector<Real>> leeway, std::optional<Vector<double>> entropies,
                      std::optional<Vector<const float>> change, std::pair<double, double> drift, int threads) {
        const std::size_t K = constants.shape(0), stride = padded(K), n = rows_.lines;
        check(table.shape(0) >= columns_ * K + slack && kept.shape(0) >= n * K + slack && classes.shape(0) == K && prior.shape(0) == K && threads >= 1 &&
                  (!shift || shift->shape(0) == K) && (!evidence || (evidence->shape(0) == n && evidence->shape(1) == K)) &&
                  (!weight || weight->shape(0) == n) && leeway.has_value() == entropies.has_value() &&
                  (!leeway || (leeway->shape(0) == n && entropies->shape(0) == n)) && (!change || (leeway && change->shape(0) == columns_)),
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
        Real *to = kept.data(), *left = leeway ? leeway->data() : nullptr;
        double *noted = leeway ? entropies->data() : nullptr;
        Stripes<Real> stripes(n, K, again);
        if (change) transpose(threads);
        {
            nb::gil_scoped_release release;
            std::vector<float> apart;
            if constexpr (std::is_same<Real, float>::value) {  // there is no leeway in float64
                if (change) {
                    apart = moved_apart(rows_, by_column_, entries(), sums_of_rows<float>(), change->data(), drift,
                                        left, threads);
                }
            }
            with_types(rows_, [&](auto rows) {
                const auto run = [&](std::size_t task, bool compare) {
                    Posteriors<Real> posteriors(K, log_prior, hard);
                    std::vector<Real> anew(compare ? 0 : block * K);  // written to `kept` in one go
                    const auto look = [&](std::size_t first, std::size_t count) {
                        widest<Score>(rows, first, count, from, K, begin, stride, posteriors.scores());
                        const double *own = log_evidence ? log_evidence + first * K : nullptr;
                        const Block<Real> &part = posteriors.normalize(
                            count, own,
                            weights ? weights + first : nullptr, compare ? to + first * K : anew.data(),
                            stripes.sums.of(task), compare, static_cast<Real>(still), left ? left + first : nullptr);
                        if (compare) stripes.note(task, first, part, stride);
                        else std::copy(anew.begin(), anew.begin() + count * K, to + first * K);
                        stripes.add(task, part, own, noted ? noted + first : nullptr);
                    };
                    const std::size_t last = std::min(n, (task + 1) * stripe);
                    for (std::size_t first = task * stripe; first < last; first += block) {
                        const std::size_t end = std::min(last, first + block);
                        if (!compare || apart.empty()) {
                            look(first, end - first);
                            continue;
                        }
                        const auto stays = [&](std::size_t i) { return left[i] > apart[i]; };
                        for (std::size_t i = first, next; i < end; i = next) {
                            next = i + 1;
                            if (stays(i)) {
                                left[i] -= apart[i];
                                for (std::size_t k = 0; k < K; ++k) stripes.sums.of(task)[k] += to[i * K + k];
                                stripes.sums.of(task)[K] += noted[i];
                            } else {
                                while (next < end && !stays(next)) ++next;
                                look(i, next - i);
                            }
                        }
                    }
                };
                // If most of the first rows moved, the others are not even looked at.
                const std::size_t probed = again && stripes.tasks > 1 ? 1 : 0;
                if (probed) run(0, true);
                const bool compare = again && !(probed && stripes.most_moved(0));
                share(stripes.tasks - probed, threads, [&](std::size_t task) { run(task + probed, compare); });
            });
        }
        const std::vector<double> total = stripes.sums.total();
        std::copy(total.begin(), total.end() - 1, classes.data());
        return nb::make_tuple(total[K], stripes.moved());
    }

    // The bare gather: every row's scores, and their softmax if asked for, which are thrown away. What the
    // benchmark holds a round against.
    double gather(Vector<const float> table, std::size_t K, bool softmax, int threads) const {
        const std::size_t stride = padded(K), n = rows_.lines;
        check(table.shape(0) >= columns_ * K + slack && K >= 1 && threads >= 1, "shapes differ");
        const float *from = table.data();
        const std::vector<float> nothing(stride, 0.0f);
        const Base<float> begin{nothing.data(), nothing.data(), nullptr, nullptr};
        std::vector<double> seen((n + stripe - 1) / stripe);
        nb::gil_scoped_release release;
        with_types(rows_, [&](auto rows) {
            share(seen.size(), threads, [&](std::size_t task) {
                Posteriors<float> posteriors(K, nullptr, false);
                std::vector<float> kept(block * K + slack);
                std::vector<double> sums(K);
                const std::size_t last = std::min(n, (task + 1) * stripe);
                for (std::size_t first = task * stripe; first < last; first += block) {
                    const std::size_t count = std::min(block, last - first);
                    widest<Score>(rows, first, count, from, K, begin, stride, posteriors.scores());
                    if (softmax) posteriors.normalize(count, nullptr, nullptr, kept.data(), sums.data());
                    seen[task] += static_cast<double>(posteriors.scores()[0]);
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
        Sums sums(tasks, 3);
        nb::gil_scoped_release release;
        with_types(rows_, [&](auto rows) {
            share(tasks, threads, [&](std::size_t task) {
                double *own = sums.of(task);
                const std::size_t first = task * stripe, count = std::min(stripe, n - first);
                float ones[stripe];
                double entropy[stripe];
                for (std::size_t i = count; i < (count + 7) / 8 * 8; ++i) ones[i] = 0;
                best<ScoreOdds>(rows, first, count, from, static_cast<float>(constant),
                                static_cast<float>(shift), lengths, ones);
                best<SoftmaxOdds>(ones, entropy, (count + 7) / 8 * 8);
                for (std::size_t i = 0; i < count; ++i) {
                    const double w = weights ? weights[first + i] : 1.0;
                    own[0] += w * entropy[i];
                    to[first + i] = static_cast<float>(w * static_cast<double>(ones[i]));
                    own[1] += w - static_cast<double>(to[first + i]);  // as `count_odds` has it
                    own[2] += static_cast<double>(to[first + i]);
                }
            });
        });
        const std::vector<double> total = sums.total();
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

    // out[j, k] = before[j, k] + sum over some rows i of x[i, j] change[i, k]. Threads share the columns, and
    // each goes through the rows in order. Returned are the columns in which `out` is not as `before`.
    //
    // Where only the columns `stale` of `out` are not as `before` already, no others are copied. Where the rest is
    // `settled`, which is to say that `update` knows what it expects and `totals` are those of `before`, only the
    // columns that changed are looked at.
    template <typename Real>
    nb::object shift(Vector<const std::int64_t> moved, Matrix<const double> change,
                     Matrix<const double> before, std::optional<Vector<const std::int32_t>> stale,
                     Matrix<double> out, Vector<double> totals, Update<Real> *update, bool settled, int threads) {
        const std::size_t K = out.shape(1), size = moved.shape(0);
        check(size == change.shape(0) && change.shape(1) == K && before.shape(0) == columns_ &&
                  before.shape(1) == K && out.shape(0) == columns_ && totals.shape(0) == K && threads >= 1 &&
                  (!settled || (update && update->lines == columns_ && update->classes == K)),
              "shapes differ");
        const std::int64_t *which = moved.data();
        for (std::size_t m = 0; m < size; ++m) {
            check(static_cast<std::size_t>(which[m]) < rows_.lines, "no such row");
        }
        for (std::size_t i = 0; stale && i < stale->shape(0); ++i) {
            check(static_cast<std::size_t>(stale->data()[i]) < columns_, "no such column");
        }
        const double *by = change.data(), *from = before.data();
        double *to = out.data();
        transpose(threads);
        std::vector<std::int32_t> changed;
        {
            nb::gil_scoped_release release;
            const bool some = stale && stale->shape(0) <= columns_ / 4;
            for (std::size_t i = 0; some && i < stale->shape(0); ++i) {
                const std::size_t j = static_cast<std::size_t>(stale->data()[i]);
                std::copy(from + j * K, from + (j + 1) * K, to + j * K);
            }
            const std::size_t tasks = cuts_.size() - 1;
            const std::size_t parts = std::min<std::size_t>(tasks, 2 * threads);
            std::vector<char> touched(columns_);
            with_types(rows_, [&](auto rows) {
                share(parts, threads, [&](std::size_t part) {
                    const std::size_t first = cuts_[tasks * part / parts];
                    const std::size_t last = cuts_[tasks * (part + 1) / parts];
                    if (!some) std::copy(from + first * K, from + last * K, to + first * K);
                    for (std::size_t m = 0; m < size; ++m) {
                        const std::size_t i = static_cast<std::size_t>(which[m]);
                        best<ShiftLine>(rows, i, first, last, by + m * K, K, to, touched.data());
                    }
                    for (std::size_t j = first; j < last; ++j) {
                        if (!touched[j]) continue;
                        for (std::size_t k = j * K; k < (j + 1) * K; ++k) to[k] = std::max(to[k], 0.0);  // rounding
                    }
                });
            });
            for (std::size_t j = 0; j < columns_; ++j) {
                if (touched[j]) changed.push_back(static_cast<std::int32_t>(j));
            }
            settled &= changed.size() <= columns_ / 4;  // else it is faster to look at all of them
            if (settled) {
                for (const std::int32_t j : changed) {
                    for (std::size_t k = 0; k < K; ++k) totals.data()[k] += to[j * K + k] - from[j * K + k];
                }
                update->renew_some(to, changed, threads);
            }
        }
        if (!settled) by_columns(out, totals, update, false, threads, [](auto, auto, auto) {});
        const std::size_t found = changed.size();
        return to_numpy(std::move(changed), found);
    }

  private:
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
        Sums sums(tasks, K);
        using Part = typename Update<Real>::Part;
        std::vector<Part> parts(update ? tasks : 0);
        with_types(by_column_, [&](auto columns) {
            share(tasks, threads, [&](std::size_t task) {
                Part part = update ? update->part() : Part{};
                for (std::size_t first = cuts_[task]; first < cuts_[task + 1]; first += tile) {
                    const std::size_t last = std::min(cuts_[task + 1], first + tile);
                    double *own = sums.of(task);
                    work(columns, first, last);
                    if (!update) {
                        best<AddLines>(static_cast<const double *>(lines), first, last, K, own);
                        continue;
                    }
                    if (anew) update->add_known(lines, first, last);
                    update->renew(update->at(lines, first, last), own, part);
                }
                if (update) parts[task] = std::move(part);
            });
        });
        const std::vector<double> total = sums.total();
        std::copy(total.begin(), total.end(), all);
        if (update) update->finish(parts);
    }
};

}  // namespace

template <typename Real>
void define_real(nb::class_<Bags> &bags) {
    bags.def("expect", &Bags::expect<Real>, nb::arg("table").noconvert(), nb::arg("constants"),
             nb::arg("shift").none(), nb::arg("evidence").none(), nb::arg("weight").none(), nb::arg("prior"), nb::arg("hard"),
             nb::arg("kept").noconvert(), nb::arg("classes").noconvert(), nb::arg("again"),
             nb::arg("still"), nb::arg("leeway").noconvert().none(), nb::arg("entropies").noconvert().none(), nb::arg("change").none(),
             nb::arg("drift"), nb::arg("threads"));
    bags.def("count", &Bags::count<Real>, nb::arg("weights").noconvert(),
             nb::arg("out").noconvert(), nb::arg("totals").noconvert(),
             nb::arg("update").none(), nb::arg("threads"));
    bags.def("shift", &Bags::shift<Real>, nb::arg("moved"), nb::arg("change").noconvert(),
             nb::arg("before"), nb::arg("stale").none(), nb::arg("out").noconvert(), nb::arg("totals").noconvert(),
             nb::arg("update").none(), nb::arg("settled"), nb::arg("threads"));
}

void define_bags(nb::module_ &m) {
    nb::class_<Bags> bags(m, "Bags");
    bags.def(nb::init<Anything, Anything, Anything, std::size_t,
                      std::optional<Vector<const std::int64_t>>, int>(),
             nb::arg("starts"), nb::arg("indices"), nb::arg("values"), nb::arg("columns"),
             nb::arg("picked").none(), nb::arg("threads"));
    bags.def_prop_ro("entries", &Bags::entries);
    bags.def_prop_ro("small", &Bags::small);
    define_real<float>(bags);
    define_real<double>(bags);
    bags.def("gather", &Bags::gather, nb::arg("table").noconvert(), nb::arg("classes"),
             nb::arg("softmax"), nb::arg("threads"));
    bags.def("expect_odds", &Bags::expect_odds, nb::arg("table").noconvert(), nb::arg("constant"),
             nb::arg("shift"), nb::arg("weight").none(), nb::arg("kept").noconvert(), nb::arg("classes").noconvert(),
             nb::arg("threads"));
    bags.def("count_odds", &Bags::count_odds, nb::arg("weights").noconvert(), nb::arg("both"),
             nb::arg("out").noconvert(), nb::arg("totals").noconvert(),
             nb::arg("update").none(), nb::arg("threads"));
}

}  // namespace tacit
