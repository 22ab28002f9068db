// How sparse rows are packed and transposed.
#include "packed.h"

#include <nanobind/stl/optional.h>

#include <atomic>
#include <cstring>
#include <stdexcept>

#include "sums.h"

namespace tacit {
namespace {

constexpr std::size_t slice = 1 << 15;  // entries of the columns that one task counts

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
        pack(starts, picked, wide, threads);
    }
    if (rows_.own_indices) held_indices_ = Anything();
    if (rows_.values != values.data()) held_values_ = Anything();
}

void Packed::transpose(int threads) {
    nb::gil_scoped_release release;
    std::call_once(transposed_, [=] { make_columns(threads); });
}

void Packed::make_columns(int threads) {
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

void Packed::pack(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked,
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
void Packed::find_rows(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked) {
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
void Packed::take_indices(std::size_t size, int threads) {
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
void Packed::take_values(std::size_t size, int threads) {
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
void Packed::scatter(const Rows &rows, std::size_t first, std::size_t last, std::int64_t *place) {
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

}  // namespace

void define_packed(nb::module_ &m) {
    define_duplicates<std::int32_t>(m);
    define_duplicates<std::int64_t>(m);
}

}  // namespace tacit
