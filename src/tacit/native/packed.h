// Sparse rows as the kernels take them, packed once, by rows and by columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "arrays.h"
#include "simd.h"
#include "threads.h"

namespace tacit {

constexpr std::int64_t prefetch_distance = 32;  // entries that are fetched before their turn

// Values that are all 1 are not stored.
struct One {};

// Entries of a compressed sparse matrix by lines (rows or columns): line i holds (indices[p], values[p])
// for begin[i] <= p < end[i].
template <typename Index, typename Value>
struct Entries {
    const std::int64_t *begin, *end;
    const Index *indices;
    const Value *values;
    std::int64_t last;  // no entry comes after this one
};

// All entries of the lines. Counts are most often 1: these are kept apart, to be added without a look at
// their values.
template <typename Index, typename Value>
struct Lines {
    Entries<Index, One> ones;
    Entries<Index, Value> rest;
};

template <typename Real, typename Index, typename Value>
TACIT_INLINE Real value_at(const Entries<Index, Value> &entries, std::int64_t p) {
    return static_cast<Real>(entries.values[p]);
}
template <typename Real, typename Index>
TACIT_INLINE Real value_at(const Entries<Index, One> &, std::int64_t) {
    return Real{1};
}
template <typename Real>
struct Bytes {  // looked up faster than converted
    Real of[256];
    Bytes() {
        for (int i = 0; i < 256; ++i) of[i] = static_cast<Real>(i);
    }
};
template <typename Real>
inline const Bytes<Real> bytes;
template <typename Real, typename Index>
TACIT_INLINE Real value_at(const Entries<Index, std::uint8_t> &entries, std::int64_t p) {
    return bytes<Real>.of[entries.values[p]];
}

// The same without their types, with the memory that is their own.
struct Part {
    std::vector<std::int64_t> bounds;
    const std::int64_t *begin = nullptr, *end = nullptr;
    const void *indices = nullptr, *values = nullptr;
    std::int64_t last = -1;
    std::unique_ptr<char[]> own_indices, own_values;

    template <typename Index, typename Value>
    Entries<Index, Value> as() const {
        return {begin, end, static_cast<const Index *>(indices), static_cast<const Value *>(values), last};
    }
    // The bounds of lines one behind the other.
    void bound() {
        begin = bounds.data();
        end = begin + 1;
        last = bounds.back() - 1;
    }
    std::int64_t size_of(std::size_t line) const { return end[line] - begin[line]; }
};

struct Side {
    std::size_t lines = 0;
    bool narrow = false;  // 16-bit indices
    bool bytes = false;   // the rest is whole numbers below 256, else any
    Part ones, rest;

    std::int64_t size_of(std::size_t line) const { return ones.size_of(line) + rest.size_of(line); }
};

// Calls work(lines) with the lines in their types.
template <typename Index, typename Work>
void with_values(const Side &side, const Work &work) {
    const auto ones = side.ones.as<Index, One>();
    side.bytes ? work(Lines<Index, std::uint8_t>{ones, side.rest.as<Index, std::uint8_t>()})
               : work(Lines<Index, double>{ones, side.rest.as<Index, double>()});
}
template <typename Work>
void with_types(const Side &side, const Work &work) {
    side.narrow ? with_values<std::uint16_t>(side, work) : with_values<std::int32_t>(side, work);
}

// Ranges of lines with about equal numbers of entries, whatever the number of threads: their first
// lines, and the end.
inline std::vector<std::size_t> cuts(const Side &side, std::size_t entries) {
    std::vector<std::size_t> first{0};
    std::int64_t held = 0;
    for (std::size_t i = 0; i < side.lines; ++i) {
        held += side.size_of(i) + 1;
        if (static_cast<std::size_t>(held) >= entries) {
            first.push_back(i + 1);
            held = 0;
        }
    }
    if (first.back() != side.lines) first.push_back(side.lines);
    return first;
}

// Rows of a CSR matrix, all or those picked, without a copy of what can be used as it is.
class Packed {
  public:
    Packed(Anything starts, Anything indices, Anything values, std::size_t columns,
           std::optional<Vector<const std::int64_t>> picked, int threads);

    std::size_t entries() const { return entries_; }

    // The same entries by columns. Rows are cut into parts that threads share; within a column the
    // rows keep their order.
    void transpose(int threads);

  protected:
    std::size_t columns_, entries_ = 0;
    Side rows_, by_column_;
    std::vector<std::size_t> cuts_;  // ranges of columns: tasks

  private:
    template <typename Index>
    void pack(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked, int threads);
    template <typename Index>
    void find_rows(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked);
    template <typename Index, typename T>
    void take(int threads);
    template <typename To, typename Index, typename T>
    void set_ones_apart(int threads);
    void make_columns(int threads);
    template <typename Entries>
    void turn(const Entries &rows, Part &to, int threads) const;

    std::once_flag transposed_;
    Anything held_indices_, held_values_;
};

}  // namespace tacit
