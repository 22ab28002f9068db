// Passes over data as it comes: what numbers there are, and sums by label.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "arrays.h"
#include "sums.h"
#include "threads.h"

namespace tacit {
namespace {

template <typename T>
void prefetch(const T *from, const T *to) {
    for (const char *at = reinterpret_cast<const char *>(from); at < reinterpret_cast<const char *>(to); at += 64) {
        __builtin_prefetch(at);
    }
}

// counts[k] = the sum of weight * row i of the matrix, over the (k, weight) that row i of the labels
// holds, and totals[k] = the sum of that. A task takes rows of one class, so that the line it adds to
// stays at hand: that of the class, or if another has it, one of its own.
template <typename Index, typename Value>
void tally(Vector<const Index> starts, Vector<const Index> indices, Vector<const Value> values,
           Vector<const std::int64_t> label_starts, Vector<const std::int64_t> labels, Vector<const double> weights,
           Matrix<double> counts, Vector<double> totals, int threads) {
    const std::size_t rows = starts.shape(0) - 1, K = counts.shape(0), columns = counts.shape(1);
    check(label_starts.shape(0) == rows + 1 && labels.shape(0) == weights.shape(0) && threads >= 1 &&
              totals.shape(0) == K,
          "shapes differ");
    const Index *start = starts.data(), *index = indices.data();
    const Value *value = values.data();
    const std::int64_t *label_start = label_starts.data(), *label = labels.data();
    const double *weight = weights.data();
    double *to = counts.data(), *all = totals.data();
    const std::size_t size = rows ? static_cast<std::size_t>(label_start[rows]) : 0;
    check(label_start[0] == 0 && size <= labels.shape(0), "shapes differ");
    std::vector<std::size_t> places(K + 1);  // where the members of each class begin
    for (std::size_t l = 0; l < size; ++l) {
        check(static_cast<std::size_t>(label[l]) < K, "no such class");
        ++places[static_cast<std::size_t>(label[l]) + 1];
    }
    for (std::size_t i = 0; i < rows; ++i) check(label_start[i] <= label_start[i + 1], "shapes differ");
    nb::gil_scoped_release release;
    struct Row {
        std::size_t row;
        double weight;
    };
    for (std::size_t k = 0; k < K; ++k) places[k + 1] += places[k];
    std::vector<std::size_t> next(places);
    const std::unique_ptr<Row[]> members(new Row[size]);
    for (std::size_t i = 0; i < rows; ++i) {
        for (std::int64_t l = label_start[i]; l < label_start[i + 1]; ++l) {
            members[next[static_cast<std::size_t>(label[l])]++] = {i, weight[l]};
        }
    }
    const std::size_t entries = static_cast<std::size_t>(start[rows]);
    const std::size_t most = std::max({std::size_t{1} << 19, 4 * columns, entries / 32});
    struct Task {
        std::size_t k, first, last;
        std::unique_ptr<double[]> extra;  // a line of its own
        double total;
    };
    std::vector<Task> tasks;
    for (std::size_t k = 0; k < K; ++k) {
        std::size_t first = places[k], held = 0;
        for (std::size_t m = first; m < places[k + 1]; ++m) {
            const std::size_t i = members[m].row;
            held += static_cast<std::size_t>(start[i + 1] - start[i]);
            if (held >= most || m + 1 == places[k + 1]) {
                std::unique_ptr<double[]> extra(first > places[k] ? new double[columns] : nullptr);
                tasks.push_back({k, first, m + 1, std::move(extra), 0.0});
                first = m + 1;
                held = 0;
            }
        }
    }
    for (std::size_t k = 0; k < K; ++k) {
        if (places[k] == places[k + 1]) std::fill(to + k * columns, to + (k + 1) * columns, 0.0);
    }
    parallel_for(tasks.size(), threads, [&](std::size_t t) {
        double *line = tasks[t].extra ? tasks[t].extra.get() : to + tasks[t].k * columns, total = 0;
        std::fill(line, line + columns, 0.0);
        for (std::size_t m = tasks[t].first; m < tasks[t].last; ++m) {
            const Row row = members[m];
            if (m + 2 < tasks[t].last) {  // the rows of a class are not next to each other
                const std::size_t later = members[m + 2].row;
                prefetch(index + start[later], index + start[later + 1]);
                prefetch(value + start[later], value + start[later + 1]);
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
    const auto has_extra = [](const Task &task) { return task.extra != nullptr; };
    const std::size_t width = std::any_of(tasks.begin(), tasks.end(), has_extra) ? columns : 0;
    parallel_for_ranges(width, 1 << 12, threads, [&](std::size_t first, std::size_t last) {
        for (const Task &task : tasks) {
            double *line = to + task.k * columns;
            for (std::size_t j = first; j < last && task.extra; ++j) line[j] += task.extra[j];
        }
    });
    std::fill(all, all + K, 0.0);
    for (const Task &task : tasks) all[task.k] += task.total;
}

// Finds the least and the most of some numbers, at most and at least 0; returns whether all are
// finite, and whether none is zero.
template <typename T>
nb::object scan(Vector<const T> values, int threads) {
    const std::size_t size = values.shape(0), part = 1 << 15, parts = (size + part - 1) / part;
    const T *from = values.data();
    std::vector<T> least(parts), most(parts);
    std::atomic<bool> finite{true}, full{true};
    {
        nb::gil_scoped_release release;
        parallel_for_ranges(size, part, threads, [&](std::size_t first, std::size_t last) {
            Range<T> found;
            const T *at = from;
            dispatch<Scan<T>>(at, first, last, &found);
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

void define_tally(nb::module_ &m) {
    define_index<std::int32_t>(m);
    define_index<std::int64_t>(m);
    define_scan<double>(m);
    define_scan<float>(m);
    define_scan<std::int64_t>(m);
    define_scan<std::int32_t>(m);
}

}  // namespace tacit
