// Tables of numbers: normal distributions whose features are independent within a class.
#include <nanobind/stl/optional.h>

#include <optional>

#include "arrays.h"
#include "posterior.h"
#include "simd.h"
#include "sums.h"
#include "threads.h"

namespace tacit {
namespace {

constexpr std::size_t part = 1 << 12;  // rows whose sums are taken by themselves, and added in order

// Rows of numbers, and which of them were observed: null if all were. Others are 0.
struct Table {
    const double *values;
    const bool *observed;
    std::size_t width;

    Table from(std::size_t row) const {
        return {values + row * width, observed ? observed + row * width : nullptr, width};
    }
};

// For every feature a line of as many numbers as `padded` says.
struct Shape {
    const double *means, *inverses, *norms;  // inverse variances; norms, which go with observed cells
    const double *base;                      // one line: what scores begin with
};

// scores[i, k] = base[k] - 1/2 sum of (x[i, j] - mean[j, k])^2 inverse[j, k] over the features, and if some
// cells are missing, over those observed with norm[j, k] added. R rows at a time.
template <int L, int R, bool Missing>
TACIT_INLINE void score_rows(const Table &rows, const Shape &shape, std::size_t stride, double *scores) {
    for (std::size_t from = 0; from < stride; from += L) {
        Vec<double, L> total[R];
        for (int r = 0; r < R; ++r) total[r] = Vec<double, L>{};
        for (std::size_t j = 0; j < rows.width; ++j) {
            Vec<double, L> mean, inverse, norm;
            load<double, L>(mean, shape.means + j * stride + from);
            load<double, L>(inverse, shape.inverses + j * stride + from);
            if (Missing) load<double, L>(norm, shape.norms + j * stride + from);
            for (int r = 0; r < R; ++r) {
                const Vec<double, L> apart = rows.values[r * rows.width + j] - mean;
                if (Missing) {
                    const Vec<double, L> term = apart * apart * inverse + norm;
                    total[r] += rows.observed[r * rows.width + j] ? term : Vec<double, L>{};
                } else {
                    total[r] += apart * apart * inverse;
                }
            }
        }
        Vec<double, L> base;
        load<double, L>(base, shape.base + from);
        for (int r = 0; r < R; ++r) store<double, L>(scores + r * stride + from, base - 0.5 * total[r]);
    }
}

template <int L, bool Missing>
TACIT_INLINE void score_all(Table rows, const Shape &shape, std::size_t count, std::size_t stride,
                            double *scores) {
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        score_rows<L, 4, Missing>(rows.from(i), shape, stride, scores + i * stride);
    }
    for (; i < count; ++i) score_rows<L, 1, Missing>(rows.from(i), shape, stride, scores + i * stride);
}

template <int bytes>
struct ScoreNumbers {
    static TACIT_INLINE void run(Table rows, Shape shape, std::size_t count, std::size_t stride,
                                 double *scores) {
        constexpr int L = bytes / 8;
        if (rows.observed) {
            stride == 4 ? score_all<4, true>(rows, shape, count, stride, scores)
                        : score_all<L, true>(rows, shape, count, stride, scores);
        } else {
            stride == 4 ? score_all<4, false>(rows, shape, count, stride, scores)
                        : score_all<L, false>(rows, shape, count, stride, scores);
        }
    }
};

// Adds up, for J features from j on, weight * (x - mean) and weight * (x - mean)^2 over the rows, and if
// some cells are missing, the weights of those observed.
template <int L, int J, bool Missing>
TACIT_INLINE void count_features(const Table &rows, const double *weights, std::size_t count,
                                 const double *means, std::size_t stride, std::size_t from, std::size_t j,
                                 double *sums, double *squares, double *seen) {
    Vec<double, L> mean[J], sum[J], square[J], there[J];
    for (int q = 0; q < J; ++q) {
        load<double, L>(mean[q], means + (j + q) * stride + from);
        load<double, L>(sum[q], sums + (j + q) * stride + from);
        load<double, L>(square[q], squares + (j + q) * stride + from);
        if (Missing) load<double, L>(there[q], seen + (j + q) * stride + from);
    }
    for (std::size_t i = 0; i < count; ++i) {
        Vec<double, L> weight;
        load<double, L>(weight, weights + i * stride + from);
        for (int q = 0; q < J; ++q) {
            const std::size_t cell = i * rows.width + j + q;
            Vec<double, L> own = weight;
            if (Missing) {
                own *= rows.observed[cell] ? 1.0 : 0.0;
                there[q] += own;
            }
            const Vec<double, L> apart = rows.values[cell] - mean[q], weighted = own * apart;
            sum[q] += weighted;
            square[q] += weighted * apart;
        }
    }
    for (int q = 0; q < J; ++q) {
        store<double, L>(sums + (j + q) * stride + from, sum[q]);
        store<double, L>(squares + (j + q) * stride + from, square[q]);
        if (Missing) store<double, L>(seen + (j + q) * stride + from, there[q]);
    }
}

template <int L, bool Missing>
TACIT_INLINE void count_all(const Table &rows, const double *weights, std::size_t count,
                            const double *means, std::size_t stride, double *sums, double *squares,
                            double *seen) {
    for (std::size_t from = 0; from < stride; from += L) {
        std::size_t j = 0;
        for (; j + 4 <= rows.width; j += 4) {
            count_features<L, 4, Missing>(rows, weights, count, means, stride, from, j, sums, squares, seen);
        }
        for (; j < rows.width; ++j) {
            count_features<L, 1, Missing>(rows, weights, count, means, stride, from, j, sums, squares, seen);
        }
    }
}

template <int bytes>
struct CountNumbers {
    static TACIT_INLINE void run(Table rows, const double *weights, std::size_t count,
                                 const double *means, std::size_t stride, double *sums,
                                 double *squares, double *seen) {
        constexpr int L = bytes / 8;
        if (rows.observed) {
            stride == 4 ? count_all<4, true>(rows, weights, count, means, stride, sums, squares, seen)
                        : count_all<L, true>(rows, weights, count, means, stride, sums, squares, seen);
        } else {
            stride == 4 ? count_all<4, false>(rows, weights, count, means, stride, sums, squares, seen)
                        : count_all<L, false>(rows, weights, count, means, stride, sums, squares, seen);
        }
    }
};

// A model of K classes, feature by feature in whole vectors.
class Normals {
  public:
    // `mean` and `variance` have a line for each class. Cells are known up to noise of variance `noise`.
    // The log prior (null: 0) is added to the scores.
    Normals(Matrix<const double> mean, Matrix<const double> variance, double noise,
            const double *prior)
        : K(mean.shape(0)), width(mean.shape(1)), stride(padded(K)),
          means_(width * stride), inverses_(width * stride), norms_(width * stride),
          base_(stride, -std::numeric_limits<double>::infinity()), bare_(base_) {
        check(variance.shape(0) == K && variance.shape(1) == width, "shapes differ");
        for (std::size_t k = 0; k < K; ++k) {
            double norm = 0;
            for (std::size_t j = 0; j < width; ++j) {
                const double own = variance.data()[k * width + j];
                means_[j * stride + k] = mean.data()[k * width + j];
                inverses_[j * stride + k] = 1.0 / own;
                norm += norms_[j * stride + k] = std::log(6.283185307179586 * own) + noise / own;
            }
            bare_[k] = prior ? prior[k] : 0.0;
            base_[k] = bare_[k] - 0.5 * norm;
        }
    }

    void score(const Table &rows, std::size_t count, double *scores) const {
        const Shape shape{means_.data(), inverses_.data(), norms_.data(),
                          rows.observed ? bare_.data() : base_.data()};
        dispatch_wide<ScoreNumbers>(rows, shape, count, stride, scores);
    }

    const double *means() const { return means_.data(); }

    const std::size_t K, width, stride;

  private:
    std::vector<double> means_, inverses_, norms_, base_, bare_;
};

Table table_of(const Matrix<const double> &X, const std::optional<Matrix<const bool>> &observed) {
    check(!observed || (observed->shape(0) == X.shape(0) && observed->shape(1) == X.shape(1)),
          "shapes differ");
    return {X.data(), observed ? observed->data() : nullptr, X.shape(1)};
}

// scores[i, k] = log p(row i | k)
void score_gaussian(Matrix<const double> X, std::optional<Matrix<const bool>> observed,
                   Matrix<const double> mean, Matrix<const double> variance, double noise,
                   Matrix<double> scores, int threads) {
    const Normals model(mean, variance, noise, nullptr);
    const Table all = table_of(X, observed);
    const std::size_t n = X.shape(0), K = model.K;
    check(X.shape(1) == model.width && scores.shape(0) == n && scores.shape(1) == K && threads >= 1,
          "shapes differ");
    double *to = scores.data();
    nb::gil_scoped_release release;
    parallel_for_ranges(n, part, threads, [&](std::size_t first, std::size_t last) {
        std::vector<double> own(block * model.stride);
        for (std::size_t i = first; i < last; i += block) {
            const std::size_t count = std::min(block, last - i);
            model.score(all.from(i), count, own.data());
            for (std::size_t r = 0; r < count; ++r) {
                std::copy(&own[r * model.stride], &own[r * model.stride] + K, to + (i + r) * K);
            }
        }
    });
}

// Scores, posteriors and moments around the means in one pass. `sums`, `squares` and `seen` have a line for
// each feature; `classes` are the sums of the posteriors. Returns the log-likelihood.
double expect_gaussian(Matrix<const double> X, std::optional<Matrix<const bool>> observed,
                      Matrix<const double> mean, Matrix<const double> variance, double noise,
                      Vector<const double> prior, std::optional<Matrix<const double>> evidence,
                      std::optional<Vector<const double>> weight, bool hard, Matrix<double> sums,
                      Matrix<double> squares, std::optional<Matrix<double>> seen,
                      Vector<double> classes, int threads) {
    check(prior.shape(0) == mean.shape(0), "shapes differ");
    const Normals model(mean, variance, noise, prior.data());
    const Table all = table_of(X, observed);
    const std::size_t n = X.shape(0), K = model.K, width = model.width, stride = model.stride;
    check(X.shape(1) == width && classes.shape(0) == K && threads >= 1 &&
              seen.has_value() == observed.has_value() &&
              (!evidence || (evidence->shape(0) == n && evidence->shape(1) == K)) &&
              (!weight || weight->shape(0) == n),
          "shapes differ");
    const Matrix<double> *outs[] = {&sums, &squares, seen ? &*seen : nullptr};
    for (const auto *out : outs) {
        check(!out || (out->shape(0) == width && out->shape(1) == K), "shapes differ");
    }
    const double *log_evidence = evidence ? evidence->data() : nullptr;
    const double *weights = weight ? weight->data() : nullptr, *log_prior = prior.data();
    const std::size_t size = width * stride, parts = (n + part - 1) / part;
    std::vector<std::vector<double>> moments(parts);
    Sums found(parts, K + 1);  // of the posteriors of each class, and the log-likelihood
    nb::gil_scoped_release release;
    parallel_for(parts, threads, [&](std::size_t p) {
        moments[p].assign((observed ? 3 : 2) * size, 0.0);
        double *own = moments[p].data();
        Posteriors<double> posteriors(K, log_prior, hard);
        const std::size_t last = std::min(n, (p + 1) * part);
        for (std::size_t first = p * part; first < last; first += block) {
            const std::size_t count = std::min(block, last - first);
            const Table rows = all.from(first);
            model.score(rows, count, posteriors.scores());
            const Block<double> &done = posteriors.normalize(
                count, log_evidence ? log_evidence + first * K : nullptr,
                weights ? weights + first : nullptr, found.of(p));
            const double *posterior = done.scores;
            dispatch_wide<CountNumbers>(rows, posterior, count, model.means(), stride, own, own + size, own + 2 * size);
            dispatch_wide<Logarithms>(done.totals, count);
            for (std::size_t i = 0; i < count; ++i) {
                const double log_p = std::isinf(done.tops[i]) ? done.tops[i] : done.tops[i] + done.totals[i];
                found.of(p)[K] += (done.weight ? done.weight[i] : 1.0) * log_p;
            }
        }
    });
    const std::vector<double> total = found.total();
    std::copy(total.begin(), total.end() - 1, classes.data());
    for (int q = 0; q < 3 && outs[q]; ++q) {
        double *to = outs[q]->data();
        for (std::size_t j = 0; j < width; ++j) {
            for (std::size_t k = 0; k < K; ++k) {
                double sum = 0;
                for (const auto &own : moments) sum += own[q * size + j * stride + k];
                to[j * K + k] = sum;
            }
        }
    }
    return total[K];
}

// sums[k, j] = the sum of w (x - pilot[k, j]) and squares[k, j] that of w (x - pilot[k, j])^2 over the
// rows x of class k, which is labels[i] for row i, with weight w. Parts of the rows are summed up
// each for itself, and added in order.
void moments(Matrix<const double> X, Vector<const std::int64_t> labels, Vector<const double> weights,
             Matrix<const double> pilot, Matrix<double> sums, Matrix<double> squares, int threads) {
    const std::size_t rows = X.shape(0), width = X.shape(1), classes = pilot.shape(0);
    check(labels.shape(0) == rows && weights.shape(0) == rows && pilot.shape(1) == width &&
              sums.shape(0) == classes && sums.shape(1) == width && squares.shape(0) == classes &&
              squares.shape(1) == width && threads >= 1,
          "shapes differ");
    const std::int64_t *label = labels.data();
    for (std::size_t i = 0; i < rows; ++i) {
        check(static_cast<std::size_t>(label[i]) < classes, "a label lies outside the classes");
    }
    const double *x = X.data(), *weight = weights.data(), *centre = pilot.data();
    double *to[2] = {sums.data(), squares.data()};
    const std::size_t size = classes * width, own_part = std::max<std::size_t>(1 << 13, 4 * classes);
    nb::gil_scoped_release release;
    std::vector<std::vector<double>> all((rows + own_part - 1) / own_part);
    parallel_for_ranges(rows, own_part, threads, [&](std::size_t first, std::size_t last) {
        std::vector<double> &own = all[first / own_part];
        own.assign(2 * size, 0.0);
        dispatch<Moments>(x, label, weight, centre, first, last, width, own.data(),
                                    own.data() + size);
    });
    for (int q = 0; q < 2; ++q) {
        std::fill(to[q], to[q] + size, 0.0);
        for (const std::vector<double> &own : all) {
            for (std::size_t i = 0; i < size; ++i) to[q][i] += own[q * size + i];
        }
    }
}

}  // namespace

void define_gaussian(nb::module_ &m) {
    m.def("score_gaussian", &score_gaussian, nb::arg("X"), nb::arg("observed").none(), nb::arg("mean"),
          nb::arg("variance"), nb::arg("noise"), nb::arg("scores").noconvert(), nb::arg("threads"));
    m.def("expect_gaussian", &expect_gaussian, nb::arg("X"), nb::arg("observed").none(), nb::arg("mean"),
          nb::arg("variance"), nb::arg("noise"), nb::arg("prior"), nb::arg("evidence").none(),
          nb::arg("weight").none(), nb::arg("hard"), nb::arg("sums").noconvert(),
          nb::arg("squares").noconvert(), nb::arg("seen").noconvert().none(),
          nb::arg("classes").noconvert(), nb::arg("threads"));
    m.def("moments", &moments, nb::arg("X"), nb::arg("labels"), nb::arg("weights"),
          nb::arg("pilot"), nb::arg("sums").noconvert(), nb::arg("squares").noconvert(),
          nb::arg("threads"));
}

}  // namespace tacit
