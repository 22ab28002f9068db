// Sums of tasks, and over the lines of a table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "simd.h"

namespace tacit {

constexpr std::size_t line_pair = 128;  // bytes of the two cache lines that are fetched together

// Sums of some tasks, so many each, out of each other's way: threads that write to the same cache line
// wait for each other.
class Sums {
  public:
    Sums(std::size_t tasks, std::size_t size)
        : size_(size), stride_(size + line_pair / sizeof(double)), sums_(tasks * stride_) {}

    double *of(std::size_t task) { return &sums_[task * stride_]; }

    // Adds those of all tasks, in order.
    std::vector<double> total() const {
        std::vector<double> all(size_);
        for (std::size_t at = 0; at < sums_.size(); at += stride_) {
            for (std::size_t i = 0; i < size_; ++i) all[i] += sums_[at + i];
        }
        return all;
    }

  private:
    std::size_t size_, stride_;
    std::vector<double> sums_;
};

struct AddLines {  // sums[k] += the sum of counts[j, k] over the lines
    static TACIT_INLINE void run(const double *counts, std::size_t first, std::size_t last,
                                 std::size_t K, double *sums) {
        std::size_t k = 0;
        for (; k + 4 <= K; k += 4) {
            Vec<double, 4> total;
            load<double, 4>(total, sums + k);
            for (std::size_t j = first; j < last; ++j) {
                Vec<double, 4> x;
                load<double, 4>(x, counts + j * K + k);
                total += x;
            }
            store<double, 4>(sums + k, total);
        }
        for (; k < K; ++k) {
            for (std::size_t j = first; j < last; ++j) sums[k] += counts[j * K + k];
        }
    }
};

// Sums of the rows [first, last) and of their squares around the centre of each row's class.
struct Moments {
    static TACIT_INLINE void run(const double *X, const std::int64_t *labels, const double *weights,
                                 const double *centres, std::size_t first, std::size_t last,
                                 std::size_t width, double *sums, double *squares) {
        for (std::size_t i = first; i < last; ++i) {
            const std::size_t k = static_cast<std::size_t>(labels[i]) * width;
            const double *x = X + i * width, weight = weights[i];
            std::size_t j = 0;
            for (; j + 4 <= width; j += 4) {
                Vec<double, 4> apart, centre, sum, square;
                load<double, 4>(apart, x + j);
                load<double, 4>(centre, centres + k + j);
                load<double, 4>(sum, sums + k + j);
                load<double, 4>(square, squares + k + j);
                apart -= centre;
                store<double, 4>(sums + k + j, sum + weight * apart);
                store<double, 4>(squares + k + j, square + weight * apart * apart);
            }
            for (; j < width; ++j) {
                const double apart = x[j] - centres[k + j];
                sums[k + j] += weight * apart;
                squares[k + j] += weight * apart * apart;
            }
        }
    }
};

template <typename T>
struct Range {
    T least = 0, most = 0;
    bool finite = true, full = true;  // no NaN and no infinity; no zero
};

template <typename T>
struct Scan {
    static TACIT_INLINE void run(const T *values, std::size_t first, std::size_t last,
                                 Range<T> *found) {
        constexpr int L = 128 / sizeof(T);
        T least[L] = {}, most[L] = {};
        T strange[L] = {};  // x - x, which is NaN unless x is finite
        T zeros[L] = {};
        std::size_t i = first;
        for (; i + L <= last; i += L) {
            for (int l = 0; l < L; ++l) {
                const T x = values[i + l];
                least[l] = x < least[l] ? x : least[l];
                most[l] = x > most[l] ? x : most[l];
                strange[l] += x - x;
                zeros[l] = x == 0 ? T{1} : zeros[l];
            }
        }
        for (; i < last; ++i) {
            const T x = values[i];
            least[0] = x < least[0] ? x : least[0];
            most[0] = x > most[0] ? x : most[0];
            strange[0] += x - x;
            zeros[0] = x == 0 ? T{1} : zeros[0];
        }
        for (int l = 0; l < L; ++l) {
            found->least = std::min(found->least, least[l]);
            found->most = std::max(found->most, most[l]);
            found->finite &= strange[l] == 0;
            found->full &= zeros[l] == 0;
        }
    }
};

// Of the indices [first, last): the largest, negative ones being larger than any other, and how many are
// no larger than the one before.
template <typename Index>
struct IndexRange {
    static TACIT_INLINE void run(const Index *indices, std::size_t first, std::size_t last,
                                 std::make_unsigned_t<Index> *most, std::size_t *falls) {
        using Size = std::make_unsigned_t<Index>;
        Size largest = 0, fallen = 0;
        for (std::size_t p = first; p < last; ++p) {
            largest = std::max(largest, static_cast<Size>(indices[p]));
        }
        for (std::size_t p = std::max<std::size_t>(first, 1); p < last; ++p) {
            fallen += indices[p] <= indices[p - 1];
        }
        *most = largest;
        *falls = fallen;
    }
};

}  // namespace tacit
