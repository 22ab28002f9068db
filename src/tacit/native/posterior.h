// From scores to posteriors: the softmax of a block of rows.
//
// Scores may be float32, but the softmax is taken in float64: then the log-likelihood is exact to second
// order in the rounding of the scores (see `Block`).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "simd.h"

namespace tacit {

constexpr std::size_t block = 64;  // rows whose scores are held before their softmax

// How many scores a row takes: whole vectors. Tables have no such gaps: a vector may read into the
// next line, and what it finds there counts for nothing.
inline std::size_t padded(std::size_t classes) {
    return classes <= 4 ? 4 : (classes + 7) / 8 * 8;
}

// A block of rows and what their softmax leaves.
//
// The log-likelihood of a row is its expected score under its posterior r plus the entropy of r. With r
// as it is stored, of weight w, and scores s whose largest is `top`,
//     sum_k r_k s_k  +  w log total - sum_k r_k (s_k - top) + (w - sum_k r_k) top,
// and the first term, which is large, is summed up later from the expected counts and exact weights, in
// float64. What rounding did to the scores enters in second order only. `rest` has the last two terms.
template <typename Real>
struct Block {
    std::size_t count, classes;
    Real *scores;           // count rows of whole vectors: scores in, posteriors times weights out
    double *exps;           // room for as many
    const double *weight;   // of the rows, or null: 1
    double *tops, *totals;  // log p(x) = top + log total
    double *rest, *left;    // see above; left = w - sum_k r_k
    double *sums;           // of the posteriors of each class: these are added
};

// Below this a posterior is 0: denormal numbers are slow, and count for nothing.
template <typename Real>
constexpr double lowest = sizeof(Real) == 4 ? -60.0 : -708.0;

template <typename Real, int L>
TACIT_INLINE void widen(Vec<double, L> &to, const Vec<Real, L> &from) {
    for (int l = 0; l < L; ++l) to[l] = static_cast<double>(from[l]);  // (GCC lowers convertvector to halves)
}

// What is stored, and what it is after rounding. (GCC 12 would take double(float(x)) of a vector for x.)
template <typename Real, int L>
TACIT_INLINE void store_rounded(Real *to, const Vec<double, L> &from, Vec<double, L> &rounded) {
    Vec<Real, L> x;
    for (int l = 0; l < L; ++l) x[l] = static_cast<Real>(from[l]);
    store<Real, L>(to, x);
    asm volatile("" ::"r"(to) : "memory");
    load<Real, L>(x, to);
    widen<Real, L>(rounded, x);
}

// x = max(x - base, lowest), and e its exponential.
template <typename Real, int L>
TACIT_INLINE void exponential_below(Vec<Real, L> &x, const Vec<Real, L> &base, Vec<double, L> &e) {
    const Vec<Real, L> least = Vec<Real, L>{} + static_cast<Real>(lowest<Real>);
    x -= base;
    x = x > least ? x : least;
    widen<Real, L>(e, x);
    exponential<L, sizeof(Real) == 4 ? 10 : 13>(e, lowest<Real>);
}

// The softmax of the rows of a block, N vectors each, or as many as it takes if N is 0. Lanes behind
// the last class hold -inf, thus 0 in the end. A row of -inf alone is all zeros, its top is -inf. Each of
// the steps is done for all rows before the next, as within a row they wait for one another.
template <int N, int L, typename Real>
TACIT_INLINE void normalize_block(const Block<Real> &block) {
    typedef Vec<Real, L> V;
    typedef Vec<double, L> D;
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    const std::size_t K = block.classes, stride = padded(K), vectors = N ? N : stride / L;
    for (std::size_t i = 0; i < block.count; ++i) {
        const Real *row = block.scores + i * stride;
        V most, x;
        load<Real, L>(most, row);
        for (std::size_t q = 1; q < vectors; ++q) {
            load<Real, L>(x, row + q * L);
            most = x > most ? x : most;
        }
        block.tops[i] = static_cast<double>(largest<Real, L>(most));
    }
    for (std::size_t i = 0; i < block.count; ++i) {
        Real *row = block.scores + i * stride;
        const Real top = static_cast<Real>(block.tops[i]);
        const V base = V{} + (top > -infinity ? top : Real{0});
        D total{};
        for (std::size_t q = 0; q < vectors; ++q) {
            V x;
            D e;
            load<Real, L>(x, row + q * L);
            exponential_below<Real, L>(x, base, e);
            store<Real, L>(row + q * L, x);
            store<double, L>(block.exps + i * stride + q * L, e);
            total += e;
        }
        block.totals[i] = sum<double, L>(total);
    }
    for (std::size_t i = 0; i < block.count; ++i) {
        Real *row = block.scores + i * stride;
        const double weight = block.weight ? block.weight[i] : 1.0, total = block.totals[i];
        const double scale = total > 0 ? weight / total : 0.0;
        D given{}, spread{};
        for (std::size_t q = 0; q < vectors; ++q) {
            V x;
            D e, below, part;
            load<Real, L>(x, row + q * L);
            widen<Real, L>(below, x);
            load<double, L>(e, block.exps + i * stride + q * L);
            store_rounded<Real, L>(row + q * L, e * scale, part);
            given += part;
            spread += part * below;
        }
        std::size_t k = 0;
        for (; k + 4 <= K; k += 4) {
            Vec<double, 4> so_far, part;
            load<double, 4>(so_far, block.sums + k);
            for (int l = 0; l < 4; ++l) part[l] = static_cast<double>(row[k + l]);
            store<double, 4>(block.sums + k, so_far + part);
        }
        for (; k < K; ++k) block.sums[k] += static_cast<double>(row[k]);
        block.left[i] = weight - sum<double, L>(given);
        const double base = block.tops[i] > -infinity ? block.tops[i] : 0.0;
        block.rest[i] = block.left[i] * base - sum<double, L>(spread);
    }
}

// The same for K classes, R rows side by side, so that nothing is summed up within a vector.
template <int K, int R, typename Real>
TACIT_INLINE void normalize_few(const Block<Real> &block) {
    typedef Vec<Real, R> V;
    typedef Vec<double, R> D;
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    constexpr int stride = K <= 4 ? 4 : 8, bits_of_row = R == 8 ? 3 : 2, bits_of_class = K <= 4 ? 2 : 3;
    D sums[K];
    for (int k = 0; k < K; ++k) sums[k] = D{};
    for (std::size_t i = 0; i < block.count; i += R) {
        const std::size_t rows = std::min<std::size_t>(R, block.count - i);
        Real *row = block.scores + i * stride;
        V x[stride];
        for (int q = 0; q < stride; ++q) load<Real, R>(x[q], row + q * R);
        transpose<bits_of_row, stride, Real, R>(x);
        V top = x[0];
        for (int k = 1; k < K; ++k) top = x[k] > top ? x[k] : top;
        const V base = top > -infinity ? top : V{};
        D e[K], total{}, weight{};
        for (int k = 0; k < K; ++k) {
            exponential_below<Real, R>(x[k], base, e[k]);
            total += e[k];
        }
        if (rows == R && !block.weight) {
            weight += 1.0;
        } else {
            for (std::size_t r = 0; r < rows; ++r) weight[r] = block.weight ? block.weight[i + r] : 1.0;
        }
        const D scale = total > 0.0 ? weight / total : D{};
        D given{}, spread{}, part, below, tops, bases;
        Real rounded[R];
        for (int k = 0; k < K; ++k) {
            widen<Real, R>(below, x[k]);
            store_rounded<Real, R>(rounded, e[k] * scale, part);
            load<Real, R>(x[k], rounded);
            given += part;
            spread += part * below;
            sums[k] += part;
        }
        for (int k = K; k < stride; ++k) x[k] = V{};
        transpose<bits_of_class, stride, Real, R>(x);
        for (int q = 0; q < stride; ++q) store<Real, R>(row + q * R, x[q]);
        widen<Real, R>(tops, top);
        widen<Real, R>(bases, base);
        const D left = weight - given;
        store<double, R>(block.tops + i, tops);
        store<double, R>(block.totals + i, total);
        store<double, R>(block.left + i, left);
        store<double, R>(block.rest + i, left * bases - spread);
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
        constexpr int L = bytes / sizeof(double);
        const std::size_t stride = padded(block.classes);
        if (stride == 4) {
            normalize_block<1, 4>(block);
        } else if (stride == 2 * L) {
            normalize_block<2, L>(block);
        } else if (stride == 3 * L) {
            normalize_block<3, L>(block);
        } else {
            normalize_block<0, L>(block);
        }
    }
};

template <typename Real>
void add_evidence(Real *scores, std::size_t count, std::size_t stride, const double *evidence, std::size_t K) {
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
void impossible_row(const Block<Real> &part, std::size_t i, std::size_t stride, const double *prior,
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
    for (std::size_t k = 0; k < K; ++k) {
        Real &r = part.scores[i * stride + k];
        r = static_cast<Real>(p[k] * (part.weight ? part.weight[i] : 1.0));
        part.sums[k] += static_cast<double>(r);
    }
}

// From the scores of a block of rows to their posteriors, with all that may come between.
template <typename Real>
class Posteriors {
  public:
    Posteriors(std::size_t K, const double *prior, bool hard)
        : K_(K), stride_(padded(K)), prior_(prior), hard_(hard), scores_(block * stride_), exps_(block * stride_) {}

    // Where the scores of the block belong: `block` rows of `padded(K)` numbers, -inf behind the last
    // class, or up to `few` classes anything.
    Real *scores() { return scores_.data(); }

    // `evidence` (or null) is added to the scores of `count` rows, and they are normalised: the posteriors
    // are where the scores were. `sums` gets those of each class.
    const Block<Real> &normalize(std::size_t count, const double *evidence, const double *weight, double *sums) {
        block_ = {count, K_, scores_.data(), exps_.data(), weight, tops_, totals_, rest_, left_, sums};
        if (evidence) add_evidence(scores_.data(), count, stride_, evidence, K_);
        if (hard_) choose(scores_.data(), count, stride_, K_, best_tops_);
        K_ <= few ? dispatch_wide<NormalizeFew>(block_) : dispatch_wide<Normalize>(block_);
        if (hard_) std::copy(best_tops_, best_tops_ + count, tops_);
        for (std::size_t i = 0; i < count; ++i) {
            if (std::isinf(tops_[i])) impossible_row(block_, i, stride_, prior_, evidence, hard_);
        }
        return block_;
    }

    // What the block adds to the log-likelihood beside the expected scores (see `Block`); `evidence` is part
    // of the scores, and not of what is summed up from counts.
    double entropy(const double *evidence) {
        double sum = 0;
        for (std::size_t i = 0; evidence && i < block_.count; ++i) {
            for (std::size_t k = 0; k < K_; ++k) {
                const double r = static_cast<double>(scores_[i * stride_ + k]);
                if (r != 0) sum += r * evidence[i * K_ + k];
            }
        }
        double *totals = totals_;
        dispatch_wide<Logarithms>(totals, block_.count);
        for (std::size_t i = 0; i < block_.count; ++i) {
            if (std::isinf(tops_[i])) return tops_[i];
            sum += (block_.weight ? block_.weight[i] : 1.0) * totals_[i] + rest_[i];
        }
        return sum;
    }

  private:
    const std::size_t K_, stride_;
    const double *prior_;
    const bool hard_;
    std::vector<Real> scores_;
    std::vector<double> exps_;
    double tops_[block], totals_[block], rest_[block], left_[block], best_tops_[block];
    Block<Real> block_{};
};

}  // namespace tacit
