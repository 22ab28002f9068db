// Kernels behind the families. Each is a plain loop over rows in a fixed order, so that the same
// input gives the same bits; the NumPy code beside the caller is the oracle it is tested against.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "arrays.h"
#include "sums.h"
#include "threads.h"

namespace nb = nanobind;

namespace {

using Codes = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Input = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void check(bool holds, const char *what) {
    if (!holds) throw nb::value_error(what);
}

// Calls visit(i, code) for every observed cell, after a bounds check that costs nothing beside
// the memory access it guards.
template <typename Visit>
void for_each_code(const Codes &codes, std::size_t size, Visit visit) {
    const std::int32_t *code = codes.data();
    for (std::size_t i = 0; i < codes.shape(0); ++i) {
        for (std::size_t j = 0; j < codes.shape(1); ++j, ++code) {
            if (*code < 0) continue;  // a missing cell
            check(static_cast<std::size_t>(*code) < size, "a code lies outside its table");
            visit(i, static_cast<std::size_t>(*code));
        }
    }
}

// scores[i, k] = sum over the codes c of row i of table[c, k]
void gather(Codes codes, Input table, Output scores) {
    const std::size_t classes = table.shape(1);
    check(scores.shape(0) == codes.shape(0) && scores.shape(1) == classes, "shapes differ");
    const double *from = table.data();
    double *to = scores.data();
    nb::gil_scoped_release release;
    for (std::size_t i = 0; i < scores.shape(0) * classes; ++i) to[i] = 0;
    for_each_code(codes, table.shape(0), [=](std::size_t i, std::size_t code) {
        for (std::size_t k = 0; k < classes; ++k) to[i * classes + k] += from[code * classes + k];
    });
}

// counts[c, k] += weights[i, k] for each code c of each row i
void accumulate(Codes codes, Input weights, Output counts) {
    const std::size_t classes = weights.shape(1);
    check(weights.shape(0) == codes.shape(0) && counts.shape(1) == classes, "shapes differ");
    const double *from = weights.data();
    double *to = counts.data();
    nb::gil_scoped_release release;
    for_each_code(codes, counts.shape(0), [=](std::size_t i, std::size_t code) {
        for (std::size_t k = 0; k < classes; ++k) to[code * classes + k] += from[i * classes + k];
    });
}

// sums[k, j] = the sum of w (x - pilot[k, j]) and squares[k, j] that of w (x - pilot[k, j])^2 over the
// rows x of class k, which is labels[i] for row i, with weight w. Parts of the rows are summed up
// each for itself, and added in order.
void moments(Input X, nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig> labels,
             nb::ndarray<const double, nb::ndim<1>, nb::c_contig> weights, Input pilot, Output sums,
             Output squares, int threads) {
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
    const std::size_t size = classes * width, part = std::max<std::size_t>(1 << 13, 4 * classes);
    nb::gil_scoped_release release;
    std::vector<std::vector<double>> all((rows + part - 1) / part);
    tacit::share_ranges(rows, part, threads, [&](std::size_t first, std::size_t last) {
        std::vector<double> &own = all[first / part];
        own.assign(2 * size, 0.0);
        tacit::best<tacit::Moments>(x, label, weight, centre, first, last, width, own.data(),
                                    own.data() + size);
    });
    for (int q = 0; q < 2; ++q) {
        std::fill(to[q], to[q] + size, 0.0);
        for (const std::vector<double> &own : all) {
            for (std::size_t i = 0; i < size; ++i) to[q][i] += own[q * size + i];
        }
    }
}

template <typename T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
void prefetch(const T *from, const T *to) {
    for (const char *at = reinterpret_cast<const char *>(from); at < reinterpret_cast<const char *>(to); at += 64) {
        __builtin_prefetch(at);
    }
}

// counts[:, k] = the sum of weight * row i of the matrix, over the (k, weight) that row i of the labels
// holds, and totals[k] = the sum of that. A task takes rows of one class, so that the line it adds to
// stays at hand.
template <typename Index, typename Value>
void tally(Vector<Index> starts, Vector<Index> indices, Vector<Value> values,
           Vector<std::int64_t> label_starts, Vector<std::int64_t> labels, Vector<double> weights,
           Output counts, nb::ndarray<double, nb::ndim<1>, nb::c_contig> totals, int threads) {
    const std::size_t rows = starts.shape(0) - 1, K = counts.shape(1), columns = counts.shape(0);
    check(label_starts.shape(0) == rows + 1 && labels.shape(0) == weights.shape(0) && threads >= 1 &&
              totals.shape(0) == K,
          "shapes differ");
    const Index *start = starts.data(), *index = indices.data();
    const Value *value = values.data();
    const std::int64_t *label_start = label_starts.data(), *label = labels.data();
    const double *weight = weights.data();
    double *to = counts.data(), *all = totals.data();
    nb::gil_scoped_release release;
    struct Row {
        std::size_t row;
        double weight;
    };
    std::vector<std::vector<Row>> members(K);
    for (std::size_t i = 0; i < rows; ++i) {
        for (std::int64_t l = label_start[i]; l < label_start[i + 1]; ++l) {
            members[static_cast<std::size_t>(label[l])].push_back({i, weight[l]});
        }
    }
    const std::size_t entries = static_cast<std::size_t>(start[rows]);
    const std::size_t most = std::max({std::size_t{1} << 19, 4 * columns, entries / 32});
    struct Task {
        std::size_t k, first, last;
        bool more;    // the class has had a task before
        double total;
    };
    std::vector<Task> tasks;
    for (std::size_t k = 0; k < K; ++k) {
        std::size_t first = 0, held = 0;
        for (std::size_t m = 0; m < members[k].size(); ++m) {
            const std::size_t i = members[k][m].row;
            held += static_cast<std::size_t>(start[i + 1] - start[i]);
            if (held >= most || m + 1 == members[k].size()) {
                tasks.push_back({k, first, m + 1, first > 0, 0.0});
                first = m + 1;
                held = 0;
            }
        }
    }
    const std::unique_ptr<double[]> lines(new double[tasks.size() * columns]);
    tacit::share(tasks.size(), threads, [&](std::size_t t) {
        double *line = &lines[t * columns], total = 0;
        std::fill(line, line + columns, 0.0);
        for (std::size_t m = tasks[t].first; m < tasks[t].last; ++m) {
            const Row row = members[tasks[t].k][m];
            if (m + 2 < tasks[t].last) {  // the rows of a class are not next to each other
                const std::size_t next = members[tasks[t].k][m + 2].row;
                prefetch(index + start[next], index + start[next + 1]);
                prefetch(value + start[next], value + start[next + 1]);
            }
            double own[4] = {};  // an addition takes longer than the next load
            Index p = start[row.row];
            for (; p + 4 <= start[row.row + 1]; p += 4) {
                for (int q = 0; q < 4; ++q) {
                    const double x = static_cast<double>(value[p + q]);
                    line[index[p + q]] += row.weight * x;
                    own[q] += x;
                }
            }
            for (; p < start[row.row + 1]; ++p) {
                line[index[p]] += row.weight * static_cast<double>(value[p]);
                own[0] += static_cast<double>(value[p]);
            }
            total += row.weight * ((own[0] + own[1]) + (own[2] + own[3]));
        }
        tasks[t].total = total;
    });
    tacit::share_ranges(columns, 256, threads, [&](std::size_t first, std::size_t last) {
        for (std::size_t k = 0; k < K; ++k) {
            for (std::size_t j = first; j < last && members[k].empty(); ++j) to[j * K + k] = 0.0;
        }
        for (std::size_t t = 0; t < tasks.size(); ++t) {
            const double *line = &lines[t * columns];
            double *column = to + tasks[t].k;
            for (std::size_t j = first; j < last && tasks[t].more; ++j) column[j * K] += line[j];
            for (std::size_t j = first; j < last && !tasks[t].more; ++j) column[j * K] = line[j];
        }
    });
    std::fill(all, all + K, 0.0);
    for (const Task &task : tasks) all[task.k] += task.total;
}

// Finds the least and the most of some numbers, at most and at least 0; returns whether all are
// finite, and whether none is zero.
template <typename T>
nb::object scan(Vector<T> values, int threads) {
    const std::size_t size = values.shape(0), part = 1 << 15, parts = (size + part - 1) / part;
    const T *from = values.data();
    std::vector<T> least(parts), most(parts);
    std::atomic<bool> finite{true}, full{true};
    {
        nb::gil_scoped_release release;
        tacit::share_ranges(size, part, threads, [&](std::size_t first, std::size_t last) {
            tacit::Range<T> found;
            const T *at = from;
            tacit::best<tacit::Scan<T>>(at, first, last, &found);
            least[first / part] = found.least;
            most[first / part] = found.most;
            if (!found.finite) finite = false;
            if (!found.full) full = false;
        });
    }
    const T zero = 0;
    return nb::make_tuple(parts ? std::min(zero, *std::min_element(least.begin(), least.end())) : zero,
                          parts ? std::max(zero, *std::max_element(most.begin(), most.end())) : zero,
                          finite.load(), full.load());
}

template <typename T>
void define_scan(nb::module_ &m) {
    m.def("scan", &scan<T>, nb::arg("values").noconvert(), nb::arg("threads"));
}

template <typename Index, typename Value>
void define_sparse(nb::module_ &m) {
    m.def("tally", &tally<Index, Value>, nb::arg("starts").noconvert(),
          nb::arg("indices").noconvert(), nb::arg("values").noconvert(), nb::arg("label_starts"),
          nb::arg("labels"), nb::arg("weights"), nb::arg("counts").noconvert(),
          nb::arg("totals").noconvert(), nb::arg("threads"));
}

template <typename Index>
void define_index(nb::module_ &m) {
    define_sparse<Index, double>(m);
    define_sparse<Index, float>(m);
    define_sparse<Index, std::int64_t>(m);
    define_sparse<Index, std::int32_t>(m);
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Native kernels of tacit.";
    tacit::define_bags(m);
    tacit::define_codes(m);
    tacit::define_numbers(m);
    tacit::define_scores(m);
    tacit::define_tables(m);
    m.def("gather", &gather, nb::arg("codes"), nb::arg("table"), nb::arg("scores"));
    define_index<std::int32_t>(m);
    define_index<std::int64_t>(m);
    define_scan<double>(m);
    define_scan<float>(m);
    define_scan<std::int64_t>(m);
    define_scan<std::int32_t>(m);
    m.def("moments", &moments, nb::arg("X"), nb::arg("labels"), nb::arg("weights"),
          nb::arg("pilot"), nb::arg("sums").noconvert(), nb::arg("squares").noconvert(),
          nb::arg("threads"));
    m.def("accumulate", &accumulate, nb::arg("codes"), nb::arg("weights"), nb::arg("counts"));
}
