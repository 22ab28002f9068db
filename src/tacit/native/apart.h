// How far the scores of rows can have come apart since a round before, by what the weights of their columns did.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "packed.h"
#include "threads.h"

namespace tacit {

// What so little of the data changed by more than that it takes no time to look at it; inf if nothing is.
inline float hardly_changed(const Side &columns, std::size_t entries, const float *change) {
    constexpr int steps = 5;
    constexpr float at[steps] = {0.0f, 2e-5f, 2e-4f, 2e-3f, 2e-2f};
    std::size_t above[steps] = {};
    for (std::size_t j = 0; j < columns.lines; ++j) {
        if (change[j] <= 0) continue;
        const std::size_t size = static_cast<std::size_t>(columns.size_of(j));
        for (int step = 0; step < steps; ++step) above[step] += change[j] > at[step] ? size : 0;
    }
    for (int step = 0; step < steps; ++step) {
        if (above[step] <= entries / 8) return at[step];
    }
    return std::numeric_limits<float>::infinity();
}

// apart[i] += x[i, j] (change[j] - less), column by column, where that is positive.
inline void spread_changes(const Side &columns, const float *change, float less, float *apart) {
    with_types(columns, [&](auto lines) {
        const auto add = [&](const auto &entries, std::size_t j) {
            for (std::int64_t p = entries.begin[j]; p < entries.end[j]; ++p) {
                apart[entries.indices[p]] += value_at<float>(entries, p) * (change[j] - less);
            }
        };
        for (std::size_t j = 0; j < columns.lines; ++j) {
            if (change[j] <= less) continue;
            add(lines.ones, j);
            add(lines.rest, j);
        }
    });
}

// For each row drift[0] + drift[1] * its sum + the row times `change`, or somewhat more. Where that leaves most
// of some rows as they are, what hardly changed is not looked at column by column, but taken to have changed
// by what is hardly a change; else all entries are, row by row. Nothing if nearly all rows have less leeway.
inline std::vector<float> moved_apart(const Side &rows, const Side &columns, std::size_t entries,
                                      const float *lengths, const float *change, std::pair<double, double> drift,
                                      const float *leeway, int threads) {
    const float hardly = hardly_changed(columns, entries, change);
    const auto least = [&](std::size_t i, float of_each) {
        return static_cast<float>(drift.first) + lengths[i] * (static_cast<float>(drift.second) + of_each);
    };
    std::vector<float> apart;
    with_types(rows, [&](auto lines) {
        const auto sum = [=](const auto &entries, std::size_t i, float less) {
            float total = 0;
            for (std::int64_t p = entries.begin[i]; p < entries.end[i]; ++p) {
                total += value_at<float>(entries, p) * std::max(change[entries.indices[p]] - less, 0.0f);
            }
            return total;
        };
        const auto of_row = [&](std::size_t i, float less) {
            return least(i, less) + sum(lines.ones, i, less) + sum(lines.rest, i, less);
        };
        constexpr std::size_t some = 64;
        std::size_t stay = 0, stay_at_least = 0;
        for (std::size_t one = 0; one < some; ++one) {
            const std::size_t i = one * rows.lines / some;
            stay += leeway[i] > of_row(i, 0.0f);
            stay_at_least += leeway[i] > of_row(i, hardly);
        }
        if (2 * stay_at_least > some) {
            apart.resize(rows.lines);
            for (std::size_t i = 0; i < apart.size(); ++i) apart[i] = least(i, hardly);
            spread_changes(columns, change, hardly, apart.data());
        } else if (8 * stay > some) {
            apart.resize(rows.lines);
            constexpr std::size_t range = 512;  // rows that one task takes
            share_ranges(rows.lines, range, threads, [&](std::size_t first, std::size_t last) {
                for (std::size_t i = first; i < last; ++i) apart[i] = of_row(i, 0.0f);
            });
        }
    });
    return apart;
}

}  // namespace tacit
