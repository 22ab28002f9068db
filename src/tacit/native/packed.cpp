// How sparse rows are packed and transposed.
#include "packed.h"

#include <nanobind/stl/optional.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "sums.h"

namespace tacit {
namespace {

constexpr std::size_t slice = 1 << 15;  // entries of the columns that one task counts

template <typename T>
struct ValueKinds {  // what kind of numbers the values are
    bool one = true, byte = true;
    void see(T value) {
        const double x = static_cast<double>(value);
        one &= x == 1.0;
        byte &= x >= 0.0 && x <= 255.0 && x == static_cast<double>(static_cast<std::uint8_t>(x));
    }
};

template <typename From, typename To>
std::unique_ptr<char[]> converted(const From *from, std::size_t size, int threads) {
    std::unique_ptr<char[]> own(new char[size * sizeof(To) + 1]);
    To *to = reinterpret_cast<To *>(own.get());
    parallel_for_ranges(size, 1 << 18, threads, [=](std::size_t begin, std::size_t end) {
        for (std::size_t p = begin; p < end; ++p) to[p] = static_cast<To>(from[p]);
    });
    return own;
}

}  // namespace

Packed::Packed(Anything starts, Anything indices, Anything values, std::size_t columns,
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
        wide ? pack<std::int64_t>(starts, picked, threads) : pack<std::int32_t>(starts, picked, threads);
    }
    if (rows_.rest.indices != indices.data() && rows_.ones.indices != indices.data()) held_indices_ = Anything();
    if (rows_.rest.values != values.data()) held_values_ = Anything();
}

void Packed::transpose(int threads) {
    nb::gil_scoped_release release;
    std::call_once(transposed_, [=] { make_columns(threads); });
}

void Packed::make_columns(int threads) {
    by_column_.lines = columns_;
    by_column_.bytes = rows_.bytes;
    by_column_.narrow = rows_.lines <= 0x10000;
    with_types(rows_, [&](auto rows) {
        turn(rows.ones, by_column_.ones, threads);
        turn(rows.rest, by_column_.rest, threads);
    });
    cuts_ = cuts(by_column_, slice);
}

// Sorts entries by their columns.
template <typename Entries>
void Packed::turn(const Entries &rows, Part &to, int threads) const {
    using Value = std::remove_cv_t<std::remove_pointer_t<decltype(rows.values)>>;
    const std::size_t lines = rows_.lines, size = static_cast<std::size_t>(rows.last + 1);
    const std::size_t parts = std::max<std::size_t>(
        1, std::min<std::size_t>(static_cast<std::size_t>(threads), size / (1 << 16)));
    std::vector<std::vector<std::int64_t>> places(parts);
    parallel_for(parts, threads, [&](std::size_t part) {
        std::vector<std::int64_t> &count = places[part];
        count.assign(columns_, 0);
        for (std::size_t i = lines * part / parts; i < lines * (part + 1) / parts; ++i) {
            for (std::int64_t p = rows.begin[i]; p < rows.end[i]; ++p) ++count[rows.indices[p]];
        }
    });
    to.bounds.resize(columns_ + 1);
    std::int64_t total = 0;
    for (std::size_t j = 0; j < columns_; ++j) {
        to.bounds[j] = total;
        for (std::vector<std::int64_t> &count : places) {
            const std::int64_t own = count[j];
            count[j] = total;
            total += own;
        }
    }
    to.bounds[columns_] = total;
    to.bound();
    const std::size_t width = by_column_.narrow ? 2 : 4, entries = static_cast<std::size_t>(total);
    constexpr bool bare = std::is_same<Value, One>::value;
    to.own_indices.reset(new char[(entries + prefetch_distance) * width]);
    std::memset(to.own_indices.get() + entries * width, 0, prefetch_distance * width);
    if (!bare) to.own_values.reset(new char[entries * sizeof(Value) + 1]);
    to.indices = to.own_indices.get();
    to.values = to.own_values.get();
    const auto scatter = [&](std::size_t part, auto *index) {
        using Row = std::remove_pointer_t<decltype(index)>;
        std::int64_t *place = places[part].data();
        Value *value = reinterpret_cast<Value *>(to.own_values.get());
        for (std::size_t i = lines * part / parts; i < lines * (part + 1) / parts; ++i) {
            for (std::int64_t p = rows.begin[i]; p < rows.end[i]; ++p) {
                const std::int64_t at = place[rows.indices[p]]++;
                index[at] = static_cast<Row>(i);
                if constexpr (!bare) value[at] = rows.values[p];
            }
        }
    };
    parallel_for(parts, threads, [&](std::size_t part) {
        char *index = to.own_indices.get();
        by_column_.narrow ? scatter(part, reinterpret_cast<std::uint16_t *>(index))
                          : scatter(part, reinterpret_cast<std::int32_t *>(index));
    });
}

template <typename Index>
void Packed::pack(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked, int threads) {
    find_rows<Index>(starts, picked);
    const auto type = held_values_.dtype();
    if (type == nb::dtype<double>()) take<Index, double>(threads);
    else if (type == nb::dtype<float>()) take<Index, float>(threads);
    else if (type == nb::dtype<std::int64_t>()) take<Index, std::int64_t>(threads);
    else if (type == nb::dtype<std::int32_t>()) take<Index, std::int32_t>(threads);
    else throw std::invalid_argument("values must be float64, float32, int64 or int32");
    for (std::size_t i = 0; i < rows_.lines; ++i) entries_ += static_cast<std::size_t>(rows_.size_of(i));
}

template <typename Index>
void Packed::find_rows(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked) {
    const Index *start = static_cast<const Index *>(starts.data());
    const std::size_t all = starts.shape(0) - 1;
    rows_.lines = picked ? picked->shape(0) : all;
    check(start[0] >= 0 && static_cast<std::size_t>(start[all]) <= held_indices_.shape(0),
          "shapes differ");
    rows_.rest.bounds.resize(picked ? 2 * rows_.lines : all + 1);
    if (picked) {
        for (std::size_t i = 0; i < rows_.lines; ++i) {
            const std::size_t row = static_cast<std::size_t>(picked->data()[i]);
            if (row >= all) throw std::out_of_range("no such row");
            rows_.rest.bounds[i] = start[row];
            rows_.rest.bounds[rows_.lines + i] = start[row + 1];
        }
    } else {
        std::copy(start, start + all + 1, rows_.rest.bounds.begin());
    }
    rows_.rest.begin = rows_.rest.bounds.data();
    rows_.rest.end = rows_.rest.begin + (picked ? rows_.lines : 1);
    rows_.rest.last = static_cast<std::int64_t>(held_indices_.shape(0)) - 1;
}

template <typename Index, typename T>
void Packed::take(int threads) {
    const std::size_t size = held_values_.shape(0);
    const T *from = static_cast<const T *>(held_values_.data());
    std::atomic<int> found{3};
    parallel_for_ranges(size, 1 << 16, threads, [&](std::size_t begin, std::size_t end) {
        ValueKinds<T> own;
        for (std::size_t p = begin; p < end; ++p) own.see(from[p]);
        found.fetch_and(own.one + 2 * own.byte);
    });
    const bool one = found & 1, byte = found & 2;
    rows_.narrow = columns_ <= 0x10000;
    if (byte && !one) {
        rows_.narrow ? set_ones_apart<std::uint16_t, Index, T>(threads) : set_ones_apart<std::int32_t, Index, T>(threads);
        return;
    }
    Part &rest = rows_.rest;
    const Index *indices = static_cast<const Index *>(held_indices_.data());
    if (rows_.narrow) {
        rest.own_indices = converted<Index, std::uint16_t>(indices, size, threads);
    } else if (sizeof(Index) == 8) {
        rest.own_indices = converted<Index, std::int32_t>(indices, size, threads);
    }
    rest.indices = rest.own_indices ? rest.own_indices.get() : held_indices_.data();
    if (one) {
        rows_.bytes = true;
        rows_.ones = std::move(rest);
        rest = {};
        rest.begin = rest.end = rows_.ones.begin;
        return;
    }
    rows_.ones.begin = rows_.ones.end = rest.begin;
    constexpr bool real = std::is_same<T, double>::value;
    if (!real) rest.own_values = converted<T, double>(from, size, threads);
    rest.values = real ? static_cast<const void *>(from) : rest.own_values.get();
}

template <typename To, typename Index, typename T>
void Packed::set_ones_apart(int threads) {
    const std::size_t lines = rows_.lines;
    const Index *index = static_cast<const Index *>(held_indices_.data());
    const T *value = static_cast<const T *>(held_values_.data());
    const Part given = std::move(rows_.rest);
    Part ones, rest;
    ones.bounds.resize(lines + 1);
    rest.bounds.resize(lines + 1);
    constexpr std::size_t some = 512;  // rows that one task takes
    parallel_for_ranges(lines, some, threads, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
            ones.bounds[i + 1] = std::count(value + given.begin[i], value + given.end[i], T{1});
            rest.bounds[i + 1] = given.size_of(i) - ones.bounds[i + 1];
        }
    });
    for (Part *part : {&ones, &rest}) {
        for (std::size_t i = 0; i < lines; ++i) part->bounds[i + 1] += part->bounds[i];
        part->bound();
        part->own_indices.reset(new char[static_cast<std::size_t>(part->bounds[lines] + 1) * sizeof(To)]);
        part->indices = part->own_indices.get();
    }
    rest.own_values.reset(new char[static_cast<std::size_t>(rest.bounds[lines]) + 1]);
    rest.values = rest.own_values.get();
    To *bare = reinterpret_cast<To *>(ones.own_indices.get()), *others = reinterpret_cast<To *>(rest.own_indices.get());
    std::uint8_t *values = reinterpret_cast<std::uint8_t *>(rest.own_values.get());
    parallel_for_ranges(lines, some, threads, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
            std::int64_t to_ones = ones.begin[i], to_rest = rest.begin[i];
            for (std::int64_t p = given.begin[i]; p < given.end[i]; ++p) {
                if (value[p] == T{1}) {
                    bare[to_ones++] = static_cast<To>(index[p]);
                } else {
                    others[to_rest] = static_cast<To>(index[p]);
                    values[to_rest++] = static_cast<std::uint8_t>(value[p]);
                }
            }
        }
    });
    rows_.bytes = true;
    rows_.ones = std::move(ones);
    rows_.rest = std::move(rest);
}

namespace {

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
    check(starts.shape(0) >= 1 && starts.data()[0] == 0 && threads >= 1, "indptr must begin with 0");
    const std::size_t rows = starts.shape(0) - 1, size = indices.shape(0);
    const Index *start = starts.data(), *index = indices.data();
    for (std::size_t i = 0; i < rows; ++i) check(start[i] <= start[i + 1], "indptr must not fall");
    check(static_cast<std::size_t>(start[rows]) <= size, "indptr goes beyond the indices");
    std::atomic<bool> outside{false}, twice{false};
    {
        nb::gil_scoped_release release;
        parallel_for_ranges(rows, 1024, threads, [&](std::size_t first, std::size_t last) {
            const auto begin = static_cast<std::size_t>(start[first]), end = static_cast<std::size_t>(start[last]);
            std::make_unsigned_t<Index> most = 0;
            std::size_t falls = 0;
            dispatch<IndexRange<Index>>(index, begin, end, &most, &falls);
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

// Which columns are alike for EM: those whose only entry is in the same row and has the same value, and
// those without any. Returns the kind of each column, numbered as they come, and how many kinds there
// are; None if that is more than three quarters of the columns.
template <typename Index, typename Value>
nb::object alike(Vector<const Index> starts, Vector<const Index> indices, Vector<const Value> values,
                 std::size_t columns) {
    const std::size_t rows = starts.shape(0) - 1;
    const Index *start = starts.data(), *index = indices.data();
    const Value *value = values.data();
    std::vector<std::int32_t> first(columns), kind(columns);  // of the columns that are like this one
    std::int32_t kinds = 0;
    {
        nb::gil_scoped_release release;
        std::vector<std::uint8_t> entries(columns);  // 2 are many
        for (Index p = start[0]; p < start[rows]; ++p) {
            std::uint8_t &held = entries[static_cast<std::size_t>(index[p])];
            held += held < 2;
        }
        std::iota(first.begin(), first.end(), 0);
        constexpr std::size_t some = 16;  // different values of a row that are told apart
        std::vector<std::pair<Value, std::int32_t>> seen;
        for (std::size_t i = 0; i < rows; ++i) {
            seen.clear();
            for (Index p = start[i]; p < start[i + 1]; ++p) {
                const auto j = static_cast<std::int32_t>(index[p]);
                if (entries[j] != 1) continue;
                const Value x = value[p];
                const auto at = std::find_if(seen.begin(), seen.end(), [x](const auto &one) { return one.first == x; });
                if (at != seen.end()) first[j] = at->second;
                else if (seen.size() < some) seen.emplace_back(x, j);
            }
        }
        const auto empty = static_cast<std::int32_t>(std::find(entries.begin(), entries.end(), 0) - entries.begin());
        for (std::size_t j = 0; j < columns; ++j) {
            if (!entries[j]) first[j] = empty;
            if (first[j] == static_cast<std::int32_t>(j)) kind[j] = kinds++;
        }
        for (std::size_t j = 0; j < columns; ++j) kind[j] = kind[first[j]];
    }
    if (4 * static_cast<std::size_t>(kinds) > 3 * columns) return nb::none();
    return nb::make_tuple(to_numpy(std::move(kind), columns), kinds);
}

template <typename Index, typename Value>
void define_alike(nb::module_ &m) {
    m.def("alike", &alike<Index, Value>, nb::arg("starts").noconvert(), nb::arg("indices").noconvert(),
          nb::arg("values").noconvert(), nb::arg("columns"));
}

template <typename Index>
void define_looks(nb::module_ &m) {
    m.def("has_duplicates", &has_duplicates<Index>, nb::arg("starts").noconvert(),
          nb::arg("indices").noconvert(), nb::arg("columns"), nb::arg("threads"));
    define_alike<Index, double>(m);
    define_alike<Index, float>(m);
    define_alike<Index, std::int64_t>(m);
    define_alike<Index, std::int32_t>(m);
}

}  // namespace

void define_packed(nb::module_ &m) {
    define_looks<std::int32_t>(m);
    define_looks<std::int64_t>(m);
}

}  // namespace tacit
