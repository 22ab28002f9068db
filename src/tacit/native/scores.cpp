// Scores and posteriors of rows under a model that is given.
#include <nanobind/stl/optional.h>

#include <optional>

#include "arrays.h"
#include "sparse.h"
#include "posterior.h"
#include "sums.h"
#include "threads.h"

namespace tacit {
namespace {

enum class Wanted { joint, posterior, log_posterior };

// From the scores of a block of rows, log p(x, y), to what is wanted of them.
class Softmax {
  public:
    explicit Softmax(std::size_t K)
        : K_(K), stride_(padded(K)), scores_(block * stride_), exps_(block * stride_), sums_(K) {}

    double *scores() { return scores_.data(); }

    // Writes rows of K numbers and, but for `joint`, log p(x) of each. A row of -inf alone becomes zeros, or
    // stays as it is; its log p(x) is -inf.
    void run(std::size_t count, Wanted wanted, double *out, double *log_p) {
        for (std::size_t i = 0; i < count && wanted != Wanted::posterior; ++i) {
            std::copy_n(scores_.data() + i * stride_, K_, out + i * K_);
        }
        if (wanted == Wanted::joint) return;
        double *totals = totals_;
        dispatch_wide<Normalize>(Block<double>{count, K_, scores_.data(), exps_.data(), nullptr, tops_, totals_,
                                               rest_, left_, sums_.data()});
        dispatch_wide<Logarithms>(totals, count);
        for (std::size_t i = 0; i < count; ++i) {
            log_p[i] = std::isinf(tops_[i]) ? tops_[i] : tops_[i] + totals[i];
            double *row = out + i * K_;
            if (wanted == Wanted::posterior) {
                std::copy_n(scores_.data() + i * stride_, K_, row);
            } else if (!std::isinf(tops_[i])) {
                for (std::size_t k = 0; k < K_; ++k) row[k] -= log_p[i];
            }
        }
    }

  private:
    const std::size_t K_, stride_;
    std::vector<double> scores_, exps_, sums_;
    double tops_[block], totals_[block], rest_[block], left_[block];
};

// Each row of log p(x, y) becomes p(y | x), or if `logs`, log p(y | x); and log_p its log p(x).
void normalize(Matrix<double> joint, Vector<double> log_p, bool logs, int threads) {
    const std::size_t rows = joint.shape(0), K = joint.shape(1), stride = padded(K);
    check(log_p.shape(0) == rows && threads >= 1, "shapes differ");
    double *all = joint.data(), *log_sums = log_p.data();
    nb::gil_scoped_release release;
    parallel_for_ranges(rows, 16 * block, threads, [=](std::size_t begin, std::size_t end) {
        Softmax softmax(K);
        for (std::size_t first = begin; first < end; first += block) {
            const std::size_t count = std::min(block, end - first);
            for (std::size_t i = 0; i < count; ++i) {
                double *row = softmax.scores() + i * stride;
                std::copy(all + (first + i) * K, all + (first + i + 1) * K, row);
                std::fill(row + K, row + stride, -std::numeric_limits<double>::infinity());
            }
            softmax.run(count, logs ? Wanted::log_posterior : Wanted::posterior, all + first * K,
                        log_sums + first);
        }
    });
}

enum class Trust { all, order, nothing };

// Whether the entries [first, last) of rows are what a model takes: indices below `columns`, which rise in
// each row unless their order is trusted, and values that are positive and far from overflow.
template <typename Index, typename Value>
bool are_plain(const Index *starts, const Index *indices, const Value *values, std::size_t first,
               std::size_t last, std::size_t columns, Trust trust) {
    const auto begin = static_cast<std::size_t>(starts[first]), end = static_cast<std::size_t>(starts[last]);
    if (begin == end) return true;
    Range<Value> range;
    dispatch<Scan<Value>>(values, begin, end, &range);
    std::make_unsigned_t<Index> most = 0;
    std::size_t falls = 0;
    dispatch<IndexRange<Index>>(indices, begin, end, &most, &falls);
    for (std::size_t i = first; i < last; ++i) {  // between two rows the indices may fall
        const Index p = starts[i];
        falls -= p > 0 && p < starts[i + 1] && indices[p] <= indices[p - 1];
    }
    return most < columns && (trust == Trust::order || falls == 0) && range.finite && range.full &&
           !(range.least < 0) && static_cast<double>(range.most) <= 1e290;
}

// out[i, k] = constants[k] + the sum of value * table[index, k] over row i, where every value counts as 1 if
// `ones`; or what is `wanted` of that. Rows that are not trusted are looked at before they are used: if one
// is not plain, the answer is false, and `out` worth nothing.
template <typename Index, typename Value>
bool score(Vector<const Index> starts, Vector<const Index> indices, Vector<const Value> values,
           Matrix<const double> table, Vector<const double> constants, Matrix<double> out,
           std::optional<Vector<double>> log_p, int wanted, int trust, bool ones, int threads) {
    const std::size_t rows = out.shape(0), K = out.shape(1), columns = table.shape(0);
    const Trust trusted = static_cast<Trust>(trust);
    const Wanted result = static_cast<Wanted>(wanted);
    check(starts.shape(0) == rows + 1 && indices.shape(0) == values.shape(0) && table.shape(1) == K &&
              constants.shape(0) == K && threads >= 1 && trust >= 0 && trust <= 2 && wanted >= 0 &&
              wanted <= 2 && (result == Wanted::joint || (log_p && log_p->shape(0) == rows)),
          "shapes differ");
    const bool inside = static_cast<std::size_t>(starts.data()[rows]) <= indices.shape(0);
    check(inside || trusted != Trust::all, "indptr goes beyond the indices");
    if (!inside) return false;
    const Index *start = starts.data(), *index = indices.data();
    const Value *value = values.data();
    const double *from = table.data();
    double *to = out.data(), *log_sums = log_p ? log_p->data() : nullptr;
    const std::size_t stride = padded(K);
    nb::gil_scoped_release release;
    const std::vector<std::int64_t> bounds(start, start + rows + 1);
    if (trusted != Trust::all && !(bounds[0] == 0 && std::is_sorted(bounds.begin(), bounds.end()))) {
        return false;
    }
    const std::int64_t last_entry = static_cast<std::int64_t>(indices.shape(0)) - 1;
    const std::int64_t *begin_of = bounds.data(), *end_of = begin_of + 1;
    const Lines<Index, Value> lines{{begin_of, begin_of, index, nullptr, last_entry},
                                    {begin_of, end_of, index, value, last_entry}};
    const Lines<Index, One> bare{{begin_of, end_of, index, nullptr, last_entry},
                                 {begin_of, begin_of, index, nullptr, last_entry}};
    std::vector<double> copy;
    if (K % 4) {  // vectors read beyond the last line
        copy.resize(columns * K + 4);
        std::copy(from, from + columns * K, copy.begin());
        from = copy.data();
    }
    std::vector<double> base(2 * stride, -std::numeric_limits<double>::infinity());
    std::copy(constants.data(), constants.data() + K, base.begin());
    std::fill(base.begin() + stride, base.end(), 0.0);
    const Base<double> begin{base.data(), base.data() + stride};
    std::atomic<bool> plain{true};
    parallel_for_ranges(rows, 4 * block, threads, [&](std::size_t first, std::size_t last) {
        Softmax softmax(K);
        for (std::size_t i = first; i < last && plain; i += block) {
            const std::size_t count = std::min(block, last - i);
            if (trusted != Trust::all &&
                !are_plain(start, index, value, i, i + count, columns, trusted)) {
                plain = false;
                return;
            }
            ones ? dispatch_wide<Score>(bare, i, count, from, K, begin, stride, softmax.scores())
                 : dispatch_wide<Score>(lines, i, count, from, K, begin, stride, softmax.scores());
            softmax.run(count, result, to + i * K, log_sums ? log_sums + i : nullptr);
        }
    });
    return plain;
}

template <typename Index, typename Value>
void define_score(nb::module_ &m) {
    m.def("score", &score<Index, Value>, nb::arg("starts").noconvert(), nb::arg("indices").noconvert(),
          nb::arg("values").noconvert(), nb::arg("table"), nb::arg("constants"),
          nb::arg("out").noconvert(), nb::arg("log_p").noconvert().none(), nb::arg("wanted"),
          nb::arg("trust"), nb::arg("ones"), nb::arg("threads"));
}

template <typename Index>
void define_index(nb::module_ &m) {
    define_score<Index, double>(m);
    define_score<Index, float>(m);
    define_score<Index, std::int64_t>(m);
    define_score<Index, std::int32_t>(m);
}

}  // namespace

void define_scores(nb::module_ &m) {
    m.def("normalize", &normalize, nb::arg("joint").noconvert(), nb::arg("log_p").noconvert(),
          nb::arg("logs"), nb::arg("threads"));
    define_index<std::int32_t>(m);
    define_index<std::int64_t>(m);
}

}  // namespace tacit
