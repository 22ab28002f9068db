// From counts to the weights of the next round: tables with a line for each column of the data and a
// number for each class.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "arrays.h"
#include "lines.h"
#include "simd.h"
#include "sums.h"
#include "threads.h"

namespace tacit {

// What is done with lines of counts once they are summed up: those of labelled rows are added, the
// expected score under the table is taken, and the table is made anew from the counts.
template <typename Real>
class Update {
  public:
    // `table` has three parts: the weights, what rounding took off them, and which lines are heavy.
    // `seen`, where given, says how often each class was: weights are those of presence and absence.
    // `known` are the counts of labelled rows, `occupied` the lines where there are any. `columns` are
    // the sums of the counts over the classes: times the means, part of what is expected. `change`,
    // where given, gets how far the weights come apart, with `by` added (see Differ); `expected`, what each
    // line will add to the expected score if its counts stay as they are (see ExpectLines).
    Update(Vector<Real> table, Vector<double> mean, Vector<double> constants,
           Vector<const double> alpha, Vector<const double> log_totals,
           std::optional<Vector<const double>> seen, std::optional<Vector<const double>> columns,
           std::optional<Matrix<const double>> known, std::optional<Vector<const bool>> occupied,
           std::optional<Vector<float>> change, std::optional<Vector<const double>> by,
           std::optional<Vector<double>> expected)
        : lines(mean.shape(0)), classes(constants.shape(0)), stride_((classes + 3) / 4 * 4),
          table_(table), mean_(mean), constants_(constants), alpha_(alpha), columns_(columns),
          known_(known), occupied_(occupied), change_(change), by_(by), expected_(expected),
          smoothing_(alpha_of(alpha, lines)), log_totals_(stride_),
          seen_(seen ? stride_ : 0) {
        check(table.shape(0) >= lines * (2 * classes + 1) && log_totals.shape(0) == classes &&
                  (!seen || seen->shape(0) == classes) &&
                  (!columns || columns->shape(0) == lines) && known.has_value() == occupied.has_value() &&
                  (!known || (known->shape(0) == lines && known->shape(1) == classes &&
                              occupied->shape(0) == lines)) &&
                  change.has_value() == by.has_value() &&
                  (!change || (change->shape(0) == lines && by->shape(0) == classes)) &&
                  (!expected || (columns && !seen && expected->shape(0) == lines)),
              "shapes differ");
        std::copy(log_totals.data(), log_totals.data() + classes, log_totals_.begin());
        if (seen) std::copy(seen->data(), seen->data() + classes, seen_.begin());
    }

    struct Part {  // of the lines, with what belongs to it alone
        std::vector<double> constants, logs;
        std::vector<Real> weights;
        Prepared found;
        double score = 0;
    };
    Part part() const { return {std::vector<double>(stride_), {}, {}, {}, 0}; }

    void add_known(double *counts, std::size_t first, std::size_t last) const {
        if (!known_) return;
        const double *from = known_->data();
        for (std::size_t j = first; j < last; ++j) {
            if (!occupied_->data()[j]) continue;
            for (std::size_t k = 0; k < classes; ++k) counts[j * classes + k] += from[j * classes + k];
        }
    }

    // Lines one behind the other, and what belongs to them.
    struct Tile {
        const double *counts;
        Real *table, *fine, *heavy;
        double *mean;
        const double *columns;
        Alpha alpha;
        float *change;
        double *expected;
        std::size_t size;
    };

    Tile at(const double *counts, std::size_t first, std::size_t last) const {
        Real *table = table_.data(), *fine = table + lines * classes, *heavy = fine + lines * classes;
        return {counts + first * classes, table + first * classes, fine + first * classes, heavy + first,
                mean_.data() + first, columns_ ? columns_->data() + first : nullptr, smoothing_.from(first),
                change_ ? change_->data() + first : nullptr, expected_ ? expected_->data() + first : nullptr,
                last - first};
    }

    // Adds lines of counts to `totals` and what they expect to the part, and makes their weights anew. All
    // cores have just read the table: a line of it that is written to has to be fetched back from the others,
    // for which whole tiles wait less than numbers one by one.
    void renew(const Tile &lines, double *totals, Part &part) const {
        part.logs.resize(2 * tile * stride_);
        part.weights.resize(tile * classes);
        const bool pairs = !seen_.empty();
        const std::size_t count = lines.size, size = count * stride_;
        double *logs = part.logs.data();
        const double *seen = seen_.data();
        const Real *table = lines.table, *fine = lines.fine, *heavy = lines.heavy;
        Real *anew = part.weights.data();
        best<Weigh>(lines.counts, table, fine, lines.heavy, count, classes, totals, &part.score);
        for (std::size_t j = 0; lines.columns && j < count; ++j) part.score += lines.columns[j] * lines.mean[j];
        best<Smooth<false>>(lines.counts, seen, lines.alpha, std::size_t{0}, count, classes, stride_, logs);
        if (pairs) best<Smooth<true>>(lines.counts, seen, lines.alpha, std::size_t{0}, count, classes, stride_, logs + size);
        widest<Logarithms>(logs, (pairs ? 2 : 1) * size);
        const auto fill = [&](auto kernel) {
            kernel(classes, lines.alpha, log_totals_.data(), count, classes, anew, lines.fine, heavy, lines.mean,
                   part.constants.data(), logs, &part.found);
        };
        pairs ? fill(PrepareLines<Real, true>{}) : fill(PrepareLines<Real, false>{});
        if (lines.change) best<Differ>(table, static_cast<const Real *>(anew), by_->data(), count, classes, lines.change);
        if (lines.expected) {
            best<ExpectLines>(lines.counts, static_cast<const Real *>(anew), fine, heavy, lines.columns,
                              static_cast<const double *>(lines.mean), count, classes, lines.expected);
        }
        std::copy(anew, anew + count * classes, lines.table);
    }

    // The same for some lines, wherever they are, if all others are as they were in the last round, and so are
    // the totals of words that their weights were made with. Threads share them.
    void renew_some(const double *counts, const std::vector<std::int32_t> &some, int threads) {
        check(expected_.has_value(), "nothing is known of the other lines");
        double *expected = expected_->data();
        for (const std::int32_t j : some) expected[j] = 0;
        if (change_) std::fill(change_->data(), change_->data() + lines, 0.0f);
        const double others = in_lanes(lines, [=](std::size_t j) { return expected[j]; });
        std::vector<Part> parts((some.size() + tile - 1) / tile);
        share(parts.size(), threads, [&](std::size_t task) {
            const std::int32_t *which = some.data() + task * tile;
            const std::size_t count = std::min(tile, some.size() - task * tile), K = classes;
            std::vector<Real> real(tile * (2 * K + 1));
            std::vector<double> numbers(tile * (K + 4) + K);
            float change[tile];
            double *held = numbers.data(), *mean = held + tile * K, *columns = mean + tile, *alpha = columns + tile,
                   *own = alpha + tile, *totals = own + tile;
            Real *table = real.data(), *fine = table + tile * K, *heavy = fine + tile * K;
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t j = static_cast<std::size_t>(which[i]);
                const Tile from = at(counts, j, j + 1);
                std::copy(from.counts, from.counts + K, held + i * K);
                std::copy(from.table, from.table + K, table + i * K);
                std::copy(from.fine, from.fine + K, fine + i * K);
                heavy[i] = *from.heavy;
                mean[i] = *from.mean;
                columns[i] = *from.columns;
                alpha[i] = smoothing_[j];
            }
            parts[task] = part();
            renew({held, table, fine, heavy, mean, columns, Alpha{alpha, false}, change_ ? change : nullptr, own, count},
                  totals, parts[task]);
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t j = static_cast<std::size_t>(which[i]);
                const Tile to = at(counts, j, j + 1);
                std::copy(table + i * K, table + (i + 1) * K, to.table);
                std::copy(fine + i * K, fine + (i + 1) * K, to.fine);
                *to.heavy = heavy[i];
                *to.mean = mean[i];
                *to.expected = own[i];
                if (change_) *to.change = change[i];
            }
        });
        finish(parts);
        score += others;
        const double *mean = mean_.data();
        density = static_cast<double>(classes) * in_lanes(lines, [=](std::size_t j) { return smoothing_[j] * mean[j]; });
    }

    // Adds up what was found in the parts, in order.
    void finish(const std::vector<Part> &parts) {
        density = score = 0;
        bounded = true;
        std::fill(constants_.data(), constants_.data() + classes, 0.0);
        for (const Part &part : parts) {
            for (std::size_t k = 0; k < classes; ++k) constants_.data()[k] += part.constants[k];
            density += part.found.density;
            bounded &= part.found.bounded;
            score += part.score;
        }
    }

    const std::size_t lines, classes;
    double density = 0, score = 0;  // the log density of the smoothing; the expected score
    bool bounded = true;            // no weight is +inf

  private:
    const std::size_t stride_;
    Vector<Real> table_;
    Vector<double> mean_, constants_;
    Vector<const double> alpha_;
    std::optional<Vector<const double>> columns_;
    std::optional<Matrix<const double>> known_;
    std::optional<Vector<const bool>> occupied_;
    std::optional<Vector<float>> change_;
    std::optional<Vector<const double>> by_;
    std::optional<Vector<double>> expected_;
    const Alpha smoothing_;
    std::vector<double> log_totals_, seen_;
};

}  // namespace tacit
