// The E-step of sparse rows: posteriors by rows, then their sums by columns. Rows are packed once for both.
#include "sparse.h"

#include <nanobind/stl/optional.h>

#include <optional>

#include "arrays.h"
#include "sums.h"
#include "weights.h"

namespace tacit {
namespace {

constexpr std::size_t slack = 8;    // numbers behind a table that a whole vector may read
constexpr std::size_t stripe = 512;  // rows that one task scores

class SparseRows : public Packed {
  public:
    using Packed::Packed;

    // The posteriors of all rows, times their weights, go into `posteriors`, (rows, classes) and slack, and
    // their sums into `classes`. Scores are constants + rows @ table. Returned is the log-likelihood without
    // the expected scores, which `count` sums up (see `Block`).
    template <typename Real>
    double expect(Vector<const Real> table, Vector<const double> constants,
                  std::optional<Matrix<const double>> evidence, std::optional<Vector<const double>> weight,
                  Vector<const double> prior, bool hard, Vector<Real> posteriors, Vector<double> classes,
                  int threads) const {
        const std::size_t K = constants.shape(0), stride = padded(K), n = rows_.lines;
        check(table.shape(0) >= columns_ * K + slack && posteriors.shape(0) >= n * K + slack &&
                  classes.shape(0) == K && prior.shape(0) == K && threads >= 1 &&
                  (!evidence || (evidence->shape(0) == n && evidence->shape(1) == K)) &&
                  (!weight || weight->shape(0) == n),
              "shapes differ");
        constexpr Real infinity = std::numeric_limits<Real>::infinity();
        std::vector<Real> base(2 * stride, Real{0});
        std::fill(base.begin(), base.begin() + stride, -infinity);
        for (std::size_t k = 0; k < K; ++k) {
            base[k] = static_cast<Real>(constants.data()[k]);
            if (base[k] > -infinity) base[stride + k] = static_cast<Real>(constants.data()[k] - base[k]);
        }
        const Base<Real> begin{base.data(), &base[stride]};
        const double *log_evidence = evidence ? evidence->data() : nullptr;
        const double *weights = weight ? weight->data() : nullptr, *log_prior = prior.data();
        const Real *from = table.data();
        Real *to = posteriors.data();
        const std::size_t tasks = (n + stripe - 1) / stripe;
        Sums sums(tasks, K + 1);  // of the posteriors of each class, and the log-likelihood
        {
            nb::gil_scoped_release release;
            with_types(rows_, [&](auto rows) {
                parallel_for(tasks, threads, [&](std::size_t task) {
                    Posteriors<Real> part(K, log_prior, hard);
                    double *own = sums.of(task);
                    const std::size_t last = std::min(n, (task + 1) * stripe);
                    for (std::size_t first = task * stripe; first < last; first += block) {
                        const std::size_t count = std::min(block, last - first);
                        const double *known = log_evidence ? log_evidence + first * K : nullptr;
                        dispatch_wide<Score>(rows, first, count, from, K, begin, stride, part.scores());
                        part.normalize(count, known, weights ? weights + first : nullptr, own);
                        own[K] += part.entropy(known);
                        for (std::size_t i = 0; i < count; ++i) {
                            std::memcpy(to + (first + i) * K, part.scores() + i * stride, K * sizeof(Real));
                        }
                    }
                });
            });
        }
        const std::vector<double> total = sums.total();
        std::copy(total.begin(), total.end() - 1, classes.data());
        return total[K];
    }

    // The bare gather: every row's scores, and their softmax if asked for, which are thrown away. What the
    // benchmark holds a round against.
    double gather(Vector<const float> table, std::size_t K, bool softmax, int threads) const {
        const std::size_t stride = padded(K), n = rows_.lines;
        check(table.shape(0) >= columns_ * K + slack && K >= 1 && threads >= 1, "shapes differ");
        const float *from = table.data();
        const std::vector<float> nothing(stride, 0.0f);
        const Base<float> begin{nothing.data(), nothing.data()};
        std::vector<double> seen((n + stripe - 1) / stripe);
        nb::gil_scoped_release release;
        with_types(rows_, [&](auto rows) {
            parallel_for(seen.size(), threads, [&](std::size_t task) {
                Posteriors<float> posteriors(K, nullptr, false);
                std::vector<double> sums(K);
                const std::size_t last = std::min(n, (task + 1) * stripe);
                for (std::size_t first = task * stripe; first < last; first += block) {
                    const std::size_t count = std::min(block, last - first);
                    dispatch_wide<Score>(rows, first, count, from, K, begin, stride, posteriors.scores());
                    if (softmax) posteriors.normalize(count, nullptr, nullptr, sums.data());
                    seen[task] += static_cast<double>(posteriors.scores()[0]);
                }
            });
        });
        return seen.empty() ? 0.0 : seen[0];
    }

    // The same as `expect` for two classes, by their log-odds: `table` has one number a column, `posteriors`
    // the posterior of class 1, times the weight.
    double expect_odds(Vector<const float> table, double constant, std::optional<Vector<const double>> weight,
                       Vector<float> posteriors, Vector<double> classes, int threads) const {
        const std::size_t n = rows_.lines;
        check(table.shape(0) == columns_ && posteriors.shape(0) == n && classes.shape(0) == 2 &&
                  threads >= 1 && (!weight || weight->shape(0) == n),
              "shapes differ");
        const double *given = weight ? weight->data() : nullptr;
        const float *from = table.data();
        float *to = posteriors.data();
        const std::size_t tasks = (n + stripe - 1) / stripe;
        Sums sums(tasks, 3);
        nb::gil_scoped_release release;
        with_types(rows_, [&](auto rows) {
            parallel_for(tasks, threads, [&](std::size_t task) {
                double *own = sums.of(task), weights[stripe], entropy[stripe];
                float odds[stripe];
                const std::size_t first = task * stripe, count = std::min(stripe, n - first);
                std::fill(weights, weights + stripe, given ? 0.0 : 1.0);
                std::fill(odds, odds + stripe, 0.0f);
                if (given) std::copy(given + first, given + first + count, weights);
                dispatch<ScoreOdds>(rows, first, count, from, static_cast<float>(constant), odds);
                dispatch<SoftmaxOdds>(odds, static_cast<const double *>(weights), entropy, (count + 7) / 8 * 8);
                std::copy(odds, odds + count, to + first);
                for (std::size_t i = 0; i < count; ++i) {
                    own[0] += entropy[i];
                    own[1] += weights[i] - static_cast<double>(odds[i]);
                    own[2] += static_cast<double>(odds[i]);
                }
            });
        });
        const std::vector<double> total = sums.total();
        classes.data()[0] = total[1];
        classes.data()[1] = total[2];
        return total[0];
    }

    // out[j, k] = sum over the rows i of x[i, j] posteriors[i, k], and `totals[k]` their sum over j. Returned
    // is the sum of out times the weights of the table (see `weights.h`), where one is given.
    template <typename Real>
    double count(Vector<const Real> posteriors, std::optional<Vector<const Real>> table,
                 std::optional<Vector<const float>> remainder, Matrix<double> out, Vector<double> totals,
                 int threads) {
        const std::size_t K = out.shape(1);
        check(posteriors.shape(0) >= rows_.lines * K + slack, "shapes differ");
        const Real *from = posteriors.data();
        double *to = out.data();
        return by_columns(table, remainder, out, totals, threads, [=](auto columns, auto first, auto last) {
            dispatch_wide<Count>(columns, first, last, from, K, to);
        });
    }

    // The same for two classes by the posterior of class 1, and the sums over both classes.
    double count_odds(Vector<const float> posteriors, Vector<const double> both, Vector<const float> table,
                      Vector<const float> remainder, Matrix<double> out, Vector<double> totals, int threads) {
        check(posteriors.shape(0) == rows_.lines && out.shape(1) == 2 && both.shape(0) == columns_, "shapes differ");
        const float *from = posteriors.data();
        const double *sums = both.data();
        double *to = out.data();
        const std::optional<Vector<const float>> weights(table), rest(remainder);
        return by_columns(weights, rest, out, totals, threads, [=](auto columns, auto first, auto last) {
            dispatch<CountOdds>(columns, first, last, from, sums, to);
        });
    }

  private:
    // Calls work(columns, first, last), which sums up, for ranges of columns; adds their lines to `totals` and,
    // times the weights of the table, to what is returned.
    template <typename Real, typename Work>
    double by_columns(const std::optional<Vector<const Real>> &table, const std::optional<Vector<const float>> &remainder,
                      const Matrix<double> &out, const Vector<double> &totals, int threads, const Work &work) {
        const std::size_t K = out.shape(1), size = columns_ * K;
        check(out.shape(0) == columns_ && totals.shape(0) == K && threads >= 1 &&
                  (!table || table->shape(0) >= size) && (!remainder || (table && remainder->shape(0) >= size)),
              "shapes differ");
        transpose(threads);
        const double *lines = out.data();
        const Real *weights = table ? table->data() : nullptr;
        const float *less = remainder ? remainder->data() : nullptr;
        const std::size_t tasks = cuts_.size() - 1;
        Sums sums(tasks, K + 1);
        {
            nb::gil_scoped_release release;
            with_types(by_column_, [&](auto columns) {
                parallel_for(tasks, threads, [&](std::size_t task) {
                    double *own = sums.of(task);
                    for (std::size_t first = cuts_[task]; first < cuts_[task + 1]; first += tile) {
                        const std::size_t last = std::min(cuts_[task + 1], first + tile);
                        work(columns, first, last);
                        dispatch<AddLines>(lines, first, last, K, own);
                        if (weights) dispatch<ExpectedScore>(lines, weights, less, first * K, last * K, own + K);
                    }
                });
            });
        }
        const std::vector<double> total = sums.total();
        std::copy(total.begin(), total.end() - 1, totals.data());
        return total[K];
    }
};

template <typename Real>
void define_real(nb::class_<SparseRows> &rows) {
    rows.def("expect", &SparseRows::expect<Real>, nb::arg("table").noconvert(), nb::arg("constants"),
             nb::arg("evidence").none(), nb::arg("weight").none(), nb::arg("prior"), nb::arg("hard"),
             nb::arg("posteriors").noconvert(), nb::arg("classes").noconvert(), nb::arg("threads"));
    rows.def("count", &SparseRows::count<Real>, nb::arg("posteriors").noconvert(), nb::arg("table").noconvert().none(),
             nb::arg("remainder").noconvert().none(), nb::arg("out").noconvert(), nb::arg("totals").noconvert(),
             nb::arg("threads"));
}

}  // namespace

void define_sparse(nb::module_ &m) {
    nb::class_<SparseRows> rows(m, "SparseRows");
    rows.def(nb::init<Anything, Anything, Anything, std::size_t, std::optional<Vector<const std::int64_t>>, int>(),
             nb::arg("starts"), nb::arg("indices"), nb::arg("values"), nb::arg("columns"), nb::arg("picked").none(),
             nb::arg("threads"));
    rows.def_prop_ro("entries", &SparseRows::entries);
    define_real<float>(rows);
    define_real<double>(rows);
    rows.def("gather", &SparseRows::gather, nb::arg("table").noconvert(), nb::arg("classes"), nb::arg("softmax"),
             nb::arg("threads"));
    rows.def("expect_odds", &SparseRows::expect_odds, nb::arg("table").noconvert(), nb::arg("constant"),
             nb::arg("weight").none(), nb::arg("posteriors").noconvert(), nb::arg("classes").noconvert(),
             nb::arg("threads"));
    rows.def("count_odds", &SparseRows::count_odds, nb::arg("posteriors").noconvert(), nb::arg("both"),
             nb::arg("table").noconvert(), nb::arg("remainder").noconvert(), nb::arg("out").noconvert(),
             nb::arg("totals").noconvert(), nb::arg("threads"));
}

}  // namespace tacit
