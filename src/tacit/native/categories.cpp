// Columns of categories: from numbers to codes, equal rows, and sums by code.
#include <cstring>

#include "arrays.h"
#include "simd.h"
#include "threads.h"

namespace tacit {
namespace {

// Calls visit(i, code) for every observed cell, after a bounds check that costs nothing beside
// the memory access it guards.
template <typename Visit>
void for_each_code(const Matrix<const std::int32_t> &codes, std::size_t size, Visit visit) {
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
void gather(Matrix<const std::int32_t> codes, Matrix<const double> table, Matrix<double> scores) {
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
void accumulate(Matrix<const std::int32_t> codes, Matrix<const double> weights, Matrix<double> counts) {
    const std::size_t classes = weights.shape(1);
    check(weights.shape(0) == codes.shape(0) && counts.shape(1) == classes, "shapes differ");
    const double *from = weights.data();
    double *to = counts.data();
    nb::gil_scoped_release release;
    for_each_code(codes, counts.shape(0), [=](std::size_t i, std::size_t code) {
        for (std::size_t k = 0; k < classes; ++k) to[code * classes + k] += from[i * classes + k];
    });
}

// Rows of bytes that are equal: the first row of each kind and which kind each row is; nothing if
// more than half of the rows differ.
nb::object distinct(Matrix<const std::uint8_t> rows) {
    const std::size_t n = rows.shape(0), width = rows.shape(1);
    const std::uint8_t *data = rows.data();
    std::vector<std::int64_t> first, which(n);
    bool many = false;
    {
        nb::gil_scoped_release release;
        std::size_t slots = 1024;
        std::vector<std::int64_t> table(slots, -1);
        const auto hash = [=](std::size_t i) {
            std::uint64_t h = 0x9e3779b97f4a7c15u;
            const std::uint8_t *at = data + i * width;
            std::size_t left = width;
            for (; left >= 8; left -= 8, at += 8) {
                std::uint64_t word;
                std::memcpy(&word, at, 8);
                h = (h ^ word) * 0xff51afd7ed558ccdu;
                h ^= h >> 32;
            }
            std::uint64_t word = 0;
            std::memcpy(&word, at, left);
            h = (h ^ word) * 0xff51afd7ed558ccdu;
            return h ^ (h >> 32);
        };
        const auto find = [&](std::size_t i) {
            std::size_t slot = hash(i) & (slots - 1);
            while (table[slot] >= 0 &&
                   std::memcmp(data + first[table[slot]] * width, data + i * width, width) != 0) {
                slot = (slot + 1) & (slots - 1);
            }
            return slot;
        };
        for (std::size_t i = 0; i < n && !many; ++i) {
            std::size_t slot = find(i);
            if (table[slot] < 0) {
                table[slot] = static_cast<std::int64_t>(first.size());
                first.push_back(static_cast<std::int64_t>(i));
                many = first.size() > n / 2;
                if (2 * first.size() > slots) {
                    slots *= 4;
                    table.assign(slots, -1);
                    for (std::size_t f = 0; f < first.size(); ++f) {
                        table[find(static_cast<std::size_t>(first[f]))] = static_cast<std::int64_t>(f);
                    }
                    slot = find(i);
                }
            }
            which[i] = table[slot];
        }
    }
    if (many) return nb::none();
    const std::size_t kinds = first.size();
    return nb::make_tuple(to_numpy(std::move(first), kinds), to_numpy(std::move(which), n));
}

// The largest number in each column; returns the smallest of all, at most 0.
template <typename T>
std::int64_t largest_categories(Matrix<const T> X, Vector<std::int64_t> tops, int threads) {
    const std::size_t rows = X.shape(0), columns = X.shape(1), part = 1 << 14;
    check(tops.shape(0) == columns && threads >= 1, "shapes differ");
    const T *from = X.data();
    const std::size_t parts = (rows + part - 1) / part;
    std::vector<std::int64_t> top(parts * columns, 0), least(parts, 0);
    {
        nb::gil_scoped_release release;
        parallel_for_ranges(rows, part, threads, [&](std::size_t first, std::size_t last) {
            std::vector<T> most(columns, 0), fewest(columns, 0);
            for (std::size_t i = first; i < last; ++i) {
                for (std::size_t j = 0; j < columns; ++j) {
                    const T x = from[i * columns + j];
                    most[j] = x > most[j] ? x : most[j];
                    fewest[j] = x < fewest[j] ? x : fewest[j];
                }
            }
            std::copy(most.begin(), most.end(), &top[first / part * columns]);
            least[first / part] = *std::min_element(fewest.begin(), fewest.end());
        });
    }
    std::fill(tops.data(), tops.data() + columns, 0);
    for (std::size_t p = 0; p < parts; ++p) {
        for (std::size_t j = 0; j < columns; ++j) {
            tops.data()[j] = std::max(tops.data()[j], top[p * columns + j]);
        }
    }
    return parts ? *std::min_element(least.begin(), least.end()) : 0;
}

// codes = X + starts, column by column; returns whether a number is none of its column's levels.
template <typename T>
bool offset_categories(Matrix<const T> X, Vector<const std::int64_t> starts, Matrix<std::int32_t> codes,
                 int threads) {
    const std::size_t rows = X.shape(0), columns = X.shape(1);
    check(starts.shape(0) == columns + 1 && codes.shape(0) == rows && codes.shape(1) == columns &&
              threads >= 1,
          "shapes differ");
    const T *from = X.data();
    std::int32_t *to = codes.data();
    std::vector<T> start(columns), levels(columns);
    for (std::size_t j = 0; j < columns; ++j) {
        start[j] = static_cast<T>(starts.data()[j]);
        levels[j] = static_cast<T>(starts.data()[j + 1] - starts.data()[j]);
    }
    nb::gil_scoped_release release;
    std::atomic<bool> beyond{false};
    parallel_for_ranges(rows, 1 << 14, threads, [&](std::size_t first, std::size_t last) {
        bool own = false;
        for (std::size_t i = first; i < last; ++i) {
            for (std::size_t j = 0; j < columns; ++j) {
                const T x = from[i * columns + j];
                own |= x < 0 || x >= levels[j];
                to[i * columns + j] = static_cast<std::int32_t>(x + start[j]);
            }
        }
        if (own) beyond = true;
    });
    return beyond;
}

// counts[code, label] += weight, for the codes of each row that are not -1.
void count_labelled_categories(Matrix<const std::int32_t> codes, Vector<const std::int64_t> labels,
                 Vector<const double> weights, Matrix<double> counts, int threads) {
    const std::size_t rows = codes.shape(0), columns = codes.shape(1), K = counts.shape(1);
    const std::size_t lines = counts.shape(0);
    check(labels.shape(0) == rows && weights.shape(0) == rows && threads >= 1, "shapes differ");
    const std::int32_t *from = codes.data();
    const std::int64_t *label = labels.data();
    const double *weight = weights.data();
    double *to = counts.data();
    std::atomic<bool> outside{false};
    {
        nb::gil_scoped_release release;
        const std::size_t part = std::max<std::size_t>(1 << 14, 8 * lines);
        std::vector<std::vector<double>> all((rows + part - 1) / part);
        parallel_for_ranges(rows, part, threads, [&](std::size_t first, std::size_t last) {
            std::vector<double> &own = all[first / part];
            own.assign(lines * K, 0.0);
            for (std::size_t i = first; i < last; ++i) {
                const std::size_t k = static_cast<std::size_t>(label[i]);
                for (std::size_t j = 0; j < columns; ++j) {
                    const std::int32_t code = from[i * columns + j];
                    if (code < 0) continue;
                    if (static_cast<std::size_t>(code) >= lines || k >= K) {
                        outside = true;
                        return;
                    }
                    own[static_cast<std::size_t>(code) * K + k] += weight[i];
                }
            }
        });
        if (!outside) {
            for (const std::vector<double> &own : all) {
                for (std::size_t i = 0; i < own.size(); ++i) to[i] += own[i];
            }
        }
    }
    check(!outside, "a code lies outside its table");
}

template <typename T>
void define_typed(nb::module_ &m) {
    m.def("largest_categories", &largest_categories<T>, nb::arg("X").noconvert(), nb::arg("tops").noconvert(),
          nb::arg("threads"));
    m.def("offset_categories", &offset_categories<T>, nb::arg("X").noconvert(), nb::arg("starts"),
          nb::arg("codes").noconvert(), nb::arg("threads"));
}

}  // namespace

void define_categories(nb::module_ &m) {
    define_typed<std::int64_t>(m);
    define_typed<std::int32_t>(m);
    m.def("gather", &gather, nb::arg("codes"), nb::arg("table"), nb::arg("scores"));
    m.def("accumulate", &accumulate, nb::arg("codes"), nb::arg("weights"), nb::arg("counts"));
    m.def("count_labelled_categories", &count_labelled_categories, nb::arg("codes"), nb::arg("labels"), nb::arg("weights"),
          nb::arg("counts").noconvert(), nb::arg("threads"));
    m.def("distinct", &distinct, nb::arg("rows"));
}

}  // namespace tacit
