// Sparse rows as the kernels take them, packed once, by rows and by columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "simd.h"
#include "threads.h"

namespace tacit {

constexpr std::int64_t ahead = 32;  // entries that are fetched before their turn

// Values that are all 1 are not stored.
struct One {};
enum class Kind { one, byte, single, real };

// The lines (rows or columns) of a compressed sparse matrix: line i holds (indices[p], values[p])
// for begin[i] <= p < end[i].
template <typename Index, typename Value>
struct Lines {
    const std::int64_t *begin, *end;
    const Index *indices;
    const Value *values;
    std::int64_t last;  // no entry comes after this one
};

template <typename Real, typename Index, typename Value>
TACIT_INLINE Real value_at(const Lines<Index, Value> &lines, std::int64_t p) {
    return static_cast<Real>(lines.values[p]);
}
template <typename Real, typename Index>
TACIT_INLINE Real value_at(const Lines<Index, One> &, std::int64_t) {
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
TACIT_INLINE Real value_at(const Lines<Index, std::uint8_t> &lines, std::int64_t p) {
    return bytes<Real>.of[lines.values[p]];
}

// The same without its types, with the memory that is its own.
struct Side {
    std::size_t lines = 0;
    std::vector<std::int64_t> bounds;
    const std::int64_t *begin = nullptr, *end = nullptr;
    bool narrow = false;  // 16-bit indices
    Kind kind = Kind::real;
    const void *indices = nullptr, *values = nullptr;
    std::int64_t last = 0;
    std::unique_ptr<char[]> own_indices, own_values;

    std::size_t entries() const {
        std::size_t total = 0;
        for (std::size_t i = 0; i < lines; ++i) total += static_cast<std::size_t>(end[i] - begin[i]);
        return total;
    }
};

inline std::size_t size_of(Kind kind) {
    return kind == Kind::one ? 0 : kind == Kind::byte ? 1 : kind == Kind::single ? 4 : 8;
}

template <typename Index, typename Work>
void with_values(const Side &side, const Work &work) {
    const Index *indices = static_cast<const Index *>(side.indices);
    switch (side.kind) {
        case Kind::one: return work(Lines<Index, One>{side.begin, side.end, indices, nullptr, side.last});
        case Kind::byte:
            return work(Lines<Index, std::uint8_t>{side.begin, side.end, indices,
                                                   static_cast<const std::uint8_t *>(side.values), side.last});
        case Kind::single:
            return work(Lines<Index, float>{side.begin, side.end, indices,
                                            static_cast<const float *>(side.values), side.last});
        case Kind::real:
            return work(Lines<Index, double>{side.begin, side.end, indices,
                                             static_cast<const double *>(side.values), side.last});
    }
}

// Calls work(lines) with the lines in their types.
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
        held += side.end[i] - side.begin[i] + 1;
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
    bool small() const { return small_; }

    // The same entries by columns. Rows are cut into parts that threads share; within a column the
    // rows keep their order.
    void transpose(int threads);

  protected:
    // The sum of each row's values, made when it is first asked for.
    template <typename Real>
    const Real *sums_of_rows() {
        std::vector<Real> &sums = std::get<std::vector<Real>>(sums_of_rows_);
        if (sums.empty() && rows_.lines) {
            sums.resize(rows_.lines);
            with_types(rows_, [&](auto rows) {
                for (std::size_t i = 0; i < rows_.lines; ++i) {
                    double total = 0;
                    for (std::int64_t p = rows.begin[i]; p < rows.end[i]; ++p) total += value_at<double>(rows, p);
                    sums[i] = static_cast<Real>(total);
                }
            });
        }
        return sums.data();
    }

    std::size_t columns_, entries_ = 0;
    Side rows_, by_column_;
    std::vector<std::size_t> cuts_;  // ranges of columns: tasks

  private:
    void pack(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked,
              bool wide, int threads);
    template <typename Index>
    void find_rows(const Anything &starts, const std::optional<Vector<const std::int64_t>> &picked);
    template <typename Index>
    void take_indices(std::size_t size, int threads);
    template <typename T>
    void take_values(std::size_t size, int threads);
    void make_columns(int threads);
    template <typename Row, typename Rows>
    void scatter(const Rows &rows, std::size_t first, std::size_t last, std::int64_t *place);

    std::tuple<std::vector<float>, std::vector<double>> sums_of_rows_;
    std::once_flag transposed_;
    bool small_ = true;  // no value is beyond 65536, so that float32 will do
    Anything held_indices_, held_values_;
};

}  // namespace tacit
