// From scores to posteriors: the softmax of a block of rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "simd.h"

namespace tacit {

constexpr std::size_t block = 64;  // rows whose scores are held before their softmax

// How many scores a row takes: whole vectors. Tables have no such gaps: a vector may read into the
// next line, and what it finds there counts for nothing.
inline std::size_t padded(std::size_t classes) {
    return classes <= 4 ? 4 : (classes + 7) / 8 * 8;
}

// What a block of rows is normalised with, and where its posteriors go.
template <typename Real>
struct Block {
    std::size_t count, classes;
    Real *scores;          // count rows of whole vectors: the scores, then the posteriors
    Real *gaps;            // room for as many: how far each score is below the top, down to `lowest`
    const double *weight;  // of the rows, or null: 1
    Real *kept;            // posteriors times weights, of `classes` numbers each
    bool again;            // `kept` holds those of a round before
    Real still;            // rows that moved by no more, and cost no more than 10 times that many
                           // nats, stay as they are there
    bool *moved;           // the others: not in `kept` yet
    double *tops, *totals; // log p(x) = top + log total
    double *rest, *left;   // see below
    double *sums;          // of `kept`, class by class
    Real *leeway;          // or null: how far scores may come apart until all classes but the best can have
                           // more than `unsure` of a row; none (0 or less) if they have
};

// Rows of which all classes but one have no more than this together are sure, and do not move as long as that
// holds.
constexpr double unsure = 1e-9;

// The log-likelihood of a row is its expected score under its posterior r plus the entropy of r,
//     sum_k r_k score_k + log total - sum_k r_k (score_k - top),
// and the first term, which is large, is not summed up here row by row and in the precision of the
// scores, but later from the expected counts, in float64. This is exact to second order in the
// errors of r. `rest` has the last term, and what makes up for the part of the weight that is `left`
// because r does not quite sum to it.
//
// The softmax of the rows of a block, N vectors each, or as many as it takes if N is 0. Lanes behind
// the last class hold -inf, thus 0 in the end. A row of -inf alone is all zeros, its top is -inf. Each of
// the steps is done for all rows before the next, as within a row they wait for one another.
template <int N, int L, typename Real>
TACIT_INLINE void normalize_block(const Block<Real> &block) {
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    constexpr bool exact = sizeof(Real) == 8;  // divide, and do not multiply by the inverse
    const std::size_t K = block.classes, stride = padded(K), vectors = N ? N : stride / L;
    for (std::size_t i = 0; i < block.count; ++i) {
        const Real *row = block.scores + i * stride;
        Vec<Real, L> most, x;
        load<Real, L>(most, row);
        for (std::size_t q = 1; q < vectors; ++q) {
            load<Real, L>(x, row + q * L);
            most = x > most ? x : most;
        }
        block.tops[i] = static_cast<double>(largest<Real, L>(most));
    }
    const Real margin = static_cast<Real>(std::log(static_cast<double>(K) / unsure));
    for (std::size_t i = 0; block.leeway && i < block.count; ++i) {
        const Real top = static_cast<Real>(block.tops[i]);
        Vec<Real, L> next = Vec<Real, L>{} - infinity, best{}, x;
        for (std::size_t q = 0; q < vectors; ++q) {
            load<Real, L>(x, block.scores + i * stride + q * L);
            best += x == top ? Vec<Real, L>{} + Real{1} : Vec<Real, L>{};
            x = x < top ? x : Vec<Real, L>{} - infinity;
            next = x > next ? x : next;
        }
        const bool one = sum<Real, L>(best) == Real{1};
        const Real rounding = std::abs(top) / 4096;
        block.leeway[i] = one ? top - largest<Real, L>(next) - margin - rounding : Real{0};
    }
    for (std::size_t i = 0; i < block.count; ++i) {
        Real *row = block.scores + i * stride;
        const Real top = static_cast<Real>(block.tops[i]), base = top > -infinity ? top : Real{0};
        Vec<Real, L> all{}, spread{}, x;
        for (std::size_t q = 0; q < vectors; ++q) {
            load<Real, L>(x, row + q * L);
            x -= base;
            const Vec<Real, L> least = Vec<Real, L>{} + Exponential<Real>::lowest;
            const Vec<Real, L> below = x > least ? x : least;
            if (block.again) store<Real, L>(block.gaps + i * stride + q * L, below);
            Exponential<Real>::template run<L>(x);
            store<Real, L>(row + q * L, x);
            all += x;
            spread += x * below;
        }
        block.totals[i] = static_cast<double>(sum<Real, L>(all));
        block.rest[i] = static_cast<double>(sum<Real, L>(spread));
    }
    for (std::size_t i = 0; i < block.count; ++i) {
        Real *row = block.scores + i * stride, *held = block.kept + i * K;
        const Real total = static_cast<Real>(block.totals[i]);
        const Real weight = block.weight ? Real(block.weight[i]) : Real{1};
        const Real scale = total > Real{0} ? weight / total : Real{0};
        for (std::size_t q = 0; q < vectors; ++q) {
            Vec<Real, L> x;
            load<Real, L>(x, row + q * L);
            x = exact && total > Real{0} ? x * weight / total : x * scale;
            store<Real, L>(row + q * L, x);
        }
        const Real *result = row;
        if (block.again) {
            const Real *gap = block.gaps + i * stride;
            Vec<Real, 4> far{}, cost{};
            Real last = 0;
            std::size_t k = 0;
            for (; k + 4 <= K; k += 4) {
                Vec<Real, 4> now, before, below;
                load<Real, 4>(now, row + k);
                load<Real, 4>(before, held + k);
                load<Real, 4>(below, gap + k);
                now -= before;
                cost += now * below;
                now = now > Real{0} ? now : -now;
                far = now > far ? now : far;
            }
            for (; k < K; ++k) {
                cost[0] += (row[k] - held[k]) * gap[k];
                last = std::max(last, std::abs(row[k] - held[k]));
            }
            const Real most = block.still * weight;
            const Real apart = std::max(last, largest<Real, 4>(far));
            block.moved[i] = !(apart <= most && std::abs(sum<Real, 4>(cost)) <= 10 * most);
            if (!block.moved[i]) result = held;
        } else {
            std::size_t k = 0;
            for (; k + 4 <= K; k += 4) {
                Vec<Real, 4> part;
                load<Real, 4>(part, row + k);
                store<Real, 4>(held + k, part);
            }
            for (; k < K; ++k) held[k] = row[k];
        }
        std::size_t k = 0;
        Vec<double, 4> given{};
        for (; k + 4 <= K; k += 4) {
            Vec<double, 4> so_far, part;
            load<double, 4>(so_far, block.sums + k);
            for (int l = 0; l < 4; ++l) part[l] = static_cast<double>(result[k + l]);
            store<double, 4>(block.sums + k, so_far + part);
            given += part;
        }
        for (; k < K; ++k) {
            block.sums[k] += static_cast<double>(result[k]);
            given[0] += static_cast<double>(result[k]);
        }
        block.left[i] = (block.weight ? block.weight[i] : 1.0) - sum<double, 4>(given);
        const double base = block.tops[i] > -infinity ? block.tops[i] : 0.0;
        block.rest[i] = block.left[i] * base - static_cast<double>(scale) * block.rest[i];
    }
}

// The same for K classes, R rows side by side, so that nothing is summed up within a vector.
template <int K, int R, typename Real>
TACIT_INLINE void normalize_few(const Block<Real> &block) {
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    constexpr bool exact = sizeof(Real) == 8;
    constexpr int stride = K <= 4 ? 4 : 8, bits_of_row = R == 8 ? 3 : 2, bits_of_class = K <= 4 ? 2 : 3;
    Vec<double, R> sums[K];
    for (int k = 0; k < K; ++k) sums[k] = Vec<double, R>{};
    for (std::size_t i = 0; i < block.count; i += R) {
        const std::size_t rows = std::min<std::size_t>(R, block.count - i);
        Real *row = block.scores + i * stride;
        Vec<Real, R> x[stride], all{}, spread{}, weight;
        for (int q = 0; q < stride; ++q) load<Real, R>(x[q], row + q * R);
        transpose<bits_of_row, stride, Real, R>(x);
        Vec<Real, R> top = x[0];
        for (int k = 1; k < K; ++k) top = x[k] > top ? x[k] : top;
        const Vec<Real, R> base = top > -infinity ? top : Vec<Real, R>{};
        for (int k = 0; k < K; ++k) {
            x[k] -= base;
            const Vec<Real, R> least = Vec<Real, R>{} + Exponential<Real>::lowest;
            const Vec<Real, R> below = x[k] > least ? x[k] : least;
            Exponential<Real>::template run<R>(x[k]);
            all += x[k];
            spread += x[k] * below;
        }
        Vec<double, R> own{};
        if (rows == R && !block.weight) {
            own += 1.0;
        } else {
            for (std::size_t r = 0; r < rows; ++r) own[r] = block.weight ? block.weight[i + r] : 1.0;
        }
        for (int r = 0; r < R; ++r) weight[r] = static_cast<Real>(own[r]);
        const Vec<Real, R> scale = all > Real{0} ? weight / all : Vec<Real, R>{};
        Vec<double, R> given{}, part;
        for (int k = 0; k < K; ++k) {
            if (exact) {
                x[k] = all > Real{0} ? x[k] * weight / all : Vec<Real, R>{};
            } else {
                x[k] *= scale;
            }
            for (int r = 0; r < R; ++r) part[r] = static_cast<double>(x[k][r]);
            given += part;
            sums[k] += part;
        }
        for (int k = K; k < stride; ++k) x[k] = Vec<Real, R>{};
        transpose<bits_of_class, stride, Real, R>(x);
        for (int q = 0; q < stride; ++q) store<Real, R>(row + q * R, x[q]);
        for (std::size_t r = 0; r < rows; ++r) {
            std::memcpy(block.kept + (i + r) * K, row + r * stride, K * sizeof(Real));
        }
        Vec<double, R> left = own - given, tops, totals, rest;
        for (int r = 0; r < R; ++r) {
            tops[r] = static_cast<double>(top[r]);
            totals[r] = static_cast<double>(all[r]);
            rest[r] = left[r] * static_cast<double>(base[r]) -
                      static_cast<double>(scale[r]) * static_cast<double>(spread[r]);
        }
        store<double, R>(block.tops + i, tops);
        store<double, R>(block.totals + i, totals);
        store<double, R>(block.left + i, left);
        store<double, R>(block.rest + i, rest);
    }
    for (int k = 0; k < K; ++k) block.sums[k] += sum<double, R>(sums[k]);
}

constexpr std::size_t few = 8;  // classes of which many rows are normalised side by side

template <int bytes>
struct NormalizeFew {
    template <typename Real>
    static TACIT_INLINE void run(Block<Real> block) {
        constexpr int R = 32 / sizeof(Real);
        switch (block.classes) {
            case 1: return normalize_few<1, R>(block);
            case 2: return normalize_few<2, R>(block);
            case 3: return normalize_few<3, R>(block);
            case 4: return normalize_few<4, R>(block);
            case 5: return normalize_few<5, R>(block);
            case 6: return normalize_few<6, R>(block);
            case 7: return normalize_few<7, R>(block);
            default: return normalize_few<8, R>(block);
        }
    }
};

template <int bytes>
struct Normalize {
    template <typename Real>
    static TACIT_INLINE void run(Block<Real> block) {
        constexpr int L = sizeof(Real) == 4 ? 8 : bytes / 8;
        if (block.classes <= 4) {
            normalize_block<1, 4>(block);
        } else if (block.classes <= L) {
            normalize_block<1, L>(block);
        } else if (block.classes <= 2 * L) {
            normalize_block<2, L>(block);
        } else if (block.classes <= 3 * L) {
            normalize_block<3, L>(block);
        } else {
            normalize_block<0, L>(block);
        }
    }
};

template <typename Real>
void add(Real *scores, std::size_t count, std::size_t stride, const double *evidence,
                std::size_t K) {
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < K; ++k) {
            scores[i * stride + k] += static_cast<Real>(evidence[i * K + k]);
        }
    }
}

// Hard assignment: each row to the first of its best classes, whose score is returned.
template <typename Real>
void choose(Real *scores, std::size_t count, std::size_t stride, std::size_t K, double *tops) {
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    for (std::size_t i = 0; i < count; ++i) {
        Real *row = scores + i * stride, *at = std::max_element(row, row + K);
        tops[i] = static_cast<double>(*at);
        const bool possible = *at > -infinity;
        std::fill(row, row + stride, -infinity);
        if (possible) *at = Real{0};
    }
}

// A row that is impossible in every class: what the prior and the evidence say, or the evidence.
template <typename Real>
void guess(const Block<Real> &part, std::size_t i, std::size_t stride, const double *prior,
                  const double *evidence, bool hard) {
    const std::size_t K = part.classes;
    std::vector<double> p(K);
    for (const bool with_prior : {true, false}) {
        for (std::size_t k = 0; k < K; ++k) {
            p[k] = (with_prior ? prior[k] : 0.0) + (evidence ? evidence[i * K + k] : 0.0);
        }
        const double top = *std::max_element(p.begin(), p.end());
        if (std::isinf(top)) continue;
        double total = 0;
        for (double &x : p) total += x = std::exp(x - top);
        for (double &x : p) x /= total;
        break;
    }
    if (hard) {
        const auto at = std::max_element(p.begin(), p.end());
        std::fill(p.begin(), p.end(), 0.0);
        *at = 1.0;
    }
    Real *row = part.again ? part.scores + i * stride : part.kept + i * K;
    if (part.again && !part.moved[i]) {  // what `kept` held has been counted instead
        for (std::size_t k = 0; k < K; ++k) part.sums[k] -= static_cast<double>(part.kept[i * K + k]);
    }
    for (std::size_t k = 0; k < K; ++k) {
        row[k] = static_cast<Real>(p[k] * (part.weight ? part.weight[i] : 1.0));
        part.sums[k] += static_cast<double>(row[k]);
    }
    part.moved[i] = true;
}

// From the scores of a block of rows to their posteriors, with all that may come between.
template <typename Real>
class Posteriors {
  public:
    Posteriors(std::size_t K, const double *prior, bool hard)
        : K_(K), stride_(padded(K)), prior_(prior), hard_(hard), scores_(block * stride_),
          gaps_(block * stride_) {}

    // Where the scores of the block belong: `block` rows of `padded(K)` numbers, -inf behind the last
    // class, or up to `few` classes anything.
    Real *scores() { return scores_.data(); }

    // `evidence` (or null) is added to the scores of `count` rows, and they are normalised. `kept` and what
    // follows are as in `Block`. The posteriors are where the scores were.
    const Block<Real> &normalize(std::size_t count, const double *evidence, const double *weight,
                                 Real *kept, double *sums, bool again = false, Real still = 0,
                                 Real *leeway = nullptr) {
        block_ = {count,  K_,    scores_.data(), gaps_.data(), weight, kept, again, still,
                  moved_, tops_, totals_,        rest_,        left_,  sums, leeway};
        if (evidence) add(scores_.data(), count, stride_, evidence, K_);
        if (hard_) choose(scores_.data(), count, stride_, K_, best_tops_);
        if (K_ <= few && !again) {
            widest<NormalizeFew>(block_);
            if (leeway) std::fill(leeway, leeway + count, Real{0});
        } else {
            widest<Normalize>(block_);
        }
        if (hard_) std::copy(best_tops_, best_tops_ + count, tops_);
        for (std::size_t i = 0; i < count; ++i) {
            if (!std::isinf(tops_[i])) continue;
            guess(block_, i, stride_, prior_, evidence, hard_);
            if (!again) std::copy(kept + i * K_, kept + (i + 1) * K_, &scores_[i * stride_]);
        }
        return block_;
    }

  private:
    const std::size_t K_, stride_;
    const double *prior_;
    const bool hard_;
    std::vector<Real> scores_, gaps_;
    bool moved_[block] = {};
    double tops_[block], totals_[block], rest_[block], left_[block], best_tops_[block];
    Block<Real> block_{};
};

}  // namespace tacit
