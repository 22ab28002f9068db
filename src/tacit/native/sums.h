// Sums over the lines of a table.
#pragma once

#include "simd.h"

namespace tacit {

struct AddLines {  // sums[k] = sum of counts[j, k] over the lines
    static TACIT_INLINE void run(const double *counts, std::size_t first, std::size_t last,
                                 std::size_t K, double *sums) {
        std::size_t k = 0;
        for (; k + 4 <= K; k += 4) {
            Vec<double, 4> total{};
            for (std::size_t j = first; j < last; ++j) {
                Vec<double, 4> x;
                load<double, 4>(x, counts + j * K + k);
                total += x;
            }
            store<double, 4>(sums + k, total);
        }
        for (; k < K; ++k) {
            double total = 0;
            for (std::size_t j = first; j < last; ++j) total += counts[j * K + k];
            sums[k] = total;
        }
    }
};

}  // namespace tacit
