// Kernels behind the families. Each is a plain loop over rows in a fixed order, so that the same
// input gives the same bits; the NumPy code beside the caller is the oracle it is tested against.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "arrays.h"
#include "threads.h"

namespace nb = nanobind;

// A kernel is written once, inlined into a plain function and into one for AVX2 with FMA, and the
// processor is asked which to call. (GCC's target_clones do nothing for templates.)
#define TACIT_INLINE inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__GNUC__)
#define TACIT_AVX2 __attribute__((target("avx2,fma")))
const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
#define TACIT_AVX2
const bool has_avx2 = false;
#endif

namespace {

using Codes = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Input = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void check(bool holds, const char *what) {
    if (!holds) throw nb::value_error(what);
}

// Calls visit(i, code) for every observed cell, after a bounds check that costs nothing beside
// the memory access it guards.
template <typename Visit>
void for_each_code(const Codes &codes, std::size_t size, Visit visit) {
    const std::int32_t *code = codes.data();
    for (std::size_t i = 0; i < codes.shape(0); ++i) {
        for (std::size_t j = 0; j < codes.shape(1); ++j, ++code) {
            if (*code < 0) continue;  // a missing cell
            check(static_cast<std::size_t>(*code) < size, "a code lies outside its table");
            visit(i, static_cast<std::size_t>(*code));
        }
    }
}

// scores[i, k] = sum over the codes c of row i of table[c, k]
void gather(Codes codes, Input table, Output scores) {
    const std::size_t classes = table.shape(1);
    check(scores.shape(0) == codes.shape(0) && scores.shape(1) == classes, "shapes differ");
    const double *from = table.data();
    double *to = scores.data();
    nb::gil_scoped_release release;
    for (std::size_t i = 0; i < scores.shape(0) * classes; ++i) to[i] = 0;
    for_each_code(codes, table.shape(0), [=](std::size_t i, std::size_t code) {
        for (std::size_t k = 0; k < classes; ++k) to[i * classes + k] += from[code * classes + k];
    });
}

// counts[c, k] += weights[i, k] for each code c of each row i
void accumulate(Codes codes, Input weights, Output counts) {
    const std::size_t classes = weights.shape(1);
    check(weights.shape(0) == codes.shape(0) && counts.shape(1) == classes, "shapes differ");
    const double *from = weights.data();
    double *to = counts.data();
    nb::gil_scoped_release release;
    for_each_code(codes, counts.shape(0), [=](std::size_t i, std::size_t code) {
        for (std::size_t k = 0; k < classes; ++k) to[code * classes + k] += from[i * classes + k];
    });
}

// sums[k, j] += w (x - pilot[k, j]) and squares[k, j] += w (x - pilot[k, j])^2 over the rows x of
// class k, which is labels[i] for row i, with weight w.
void moments(Input X, nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig> labels,
             nb::ndarray<const double, nb::ndim<1>, nb::c_contig> weights, Input pilot, Output sums,
             Output squares) {
    const std::size_t rows = X.shape(0), width = X.shape(1), classes = pilot.shape(0);
    check(labels.shape(0) == rows && weights.shape(0) == rows && pilot.shape(1) == width &&
              sums.shape(0) == classes && sums.shape(1) == width && squares.shape(0) == classes &&
              squares.shape(1) == width,
          "shapes differ");
    const double *x = X.data();
    nb::gil_scoped_release release;
    for (std::size_t i = 0; i < rows; ++i, x += width) {
        const std::size_t k = static_cast<std::size_t>(labels.data()[i]);
        check(k < classes, "a label lies outside the classes");
        const double weight = weights.data()[i];
        const double *centre = pilot.data() + k * width;
        double *sum = sums.data() + k * width, *square = squares.data() + k * width;
        for (std::size_t j = 0; j < width; ++j) {
            const double apart = x[j] - centre[j];
            sum[j] += weight * apart;
            square[j] += weight * apart * apart;
        }
    }
}

// L doubles, loaded from anywhere. (As a template argument the type would lose its alignment.)
template <int L>
struct Vectors {
    typedef double type __attribute__((vector_size(L * sizeof(double)), aligned(8)));
};

// A compressed sparse matrix: row r holds (indices[p], values[p]) for starts[r] <= p < starts[r + 1].
template <typename Index, typename Value>
struct Sparse {
    const Index *starts;
    const Index *indices;
    const Value *values;
};

// out[r, from ..] = sum of value * dense[index, from ..] over row r, N vectors wide, for the rows
// [begin, end). The N sums stay in registers.
template <int N, int L, typename Index, typename Value>
TACIT_INLINE void multiply_block(Sparse<Index, Value> matrix, std::size_t begin, std::size_t end,
                                 const double *dense, double *out, std::size_t width,
                                 std::size_t from) {
    typedef typename Vectors<L>::type Lanes;
    for (std::size_t r = begin; r < end; ++r) {
        Lanes sums[N];
        for (int q = 0; q < N; ++q) sums[q] = Lanes{};
        for (Index p = matrix.starts[r]; p < matrix.starts[r + 1]; ++p) {
            const std::size_t row = static_cast<std::size_t>(matrix.indices[p]);
            const double *source = dense + row * width + from;
            const double value = static_cast<double>(matrix.values[p]);
            for (int q = 0; q < N; ++q) {
                sums[q] += value * *reinterpret_cast<const Lanes *>(source + q * L);
            }
        }
        double *target = out + r * width + from;
        for (int q = 0; q < N; ++q) *reinterpret_cast<Lanes *>(target + q * L) = sums[q];
    }
}

// All columns, `width` being two or a multiple of four: blocks of 24, and what is left.
template <typename Index, typename Value>
TACIT_INLINE void multiply_all(Sparse<Index, Value> matrix, std::size_t begin, std::size_t end,
                               const double *dense, double *out, std::size_t width) {
    if (width == 2) {
        multiply_block<1, 2>(matrix, begin, end, dense, out, width, 0);
        return;
    }
    for (std::size_t from = 0; from < width;) {
        const std::size_t blocks = std::min<std::size_t>((width - from) / 4, 6);
        switch (blocks) {
            case 6: multiply_block<6, 4>(matrix, begin, end, dense, out, width, from); break;
            case 5: multiply_block<5, 4>(matrix, begin, end, dense, out, width, from); break;
            case 4: multiply_block<4, 4>(matrix, begin, end, dense, out, width, from); break;
            case 3: multiply_block<3, 4>(matrix, begin, end, dense, out, width, from); break;
            case 2: multiply_block<2, 4>(matrix, begin, end, dense, out, width, from); break;
            default: multiply_block<1, 4>(matrix, begin, end, dense, out, width, from); break;
        }
        from += blocks * 4;
    }
}

template <typename Index, typename Value>
void multiply_plain(Sparse<Index, Value> matrix, std::size_t begin, std::size_t end,
                    const double *dense, double *out, std::size_t width) {
    multiply_all(matrix, begin, end, dense, out, width);
}

template <typename Index, typename Value>
TACIT_AVX2 void multiply_avx2(Sparse<Index, Value> matrix, std::size_t begin, std::size_t end,
                              const double *dense, double *out, std::size_t width) {
    multiply_all(matrix, begin, end, dense, out, width);
}

// Calls work(begin, end) for parts of the rows of about equal size, each in a thread of its own.
// A row is in one part whole, so that nothing depends on their number.
template <typename Index, typename Work>
void in_threads(const Index *starts, std::size_t rows, int threads, Work work) {
    const auto cut = [=](int part) {
        const Index entries = static_cast<Index>(starts[rows] / threads * part);
        return static_cast<std::size_t>(std::lower_bound(starts, starts + rows, entries) - starts);
    };
    std::vector<std::thread> pool;
    for (int part = 1; part < threads; ++part) {
        pool.emplace_back(work, cut(part), part + 1 < threads ? cut(part + 1) : rows);
    }
    work(std::size_t{0}, threads > 1 ? cut(1) : rows);
    for (std::thread &thread : pool) thread.join();
}

template <typename T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// out = matrix @ dense, for a compressed sparse matrix whose indices the caller has checked.
template <typename Index, typename Value>
void multiply(Vector<Index> starts, Vector<Index> indices, Vector<Value> values, Input dense,
              Output out, int threads) {
    const std::size_t rows = out.shape(0), classes = out.shape(1);
    check(starts.shape(0) == rows + 1 && indices.shape(0) == values.shape(0) &&
              static_cast<std::size_t>(starts.data()[rows]) <= indices.shape(0) &&
              dense.shape(1) == classes && threads >= 1,
          "shapes differ");
    const Sparse<Index, Value> matrix{starts.data(), indices.data(), values.data()};
    const double *from = dense.data();
    double *to = out.data();
    const std::size_t inner = dense.shape(0);
    nb::gil_scoped_release release;
    const std::size_t width = classes <= 2 ? 2 : (classes + 3) / 4 * 4;
    std::vector<double> wide_from, wide_to;
    if (width != classes) {  // pad each line with zeros to whole vectors
        wide_from.assign(inner * width, 0.0);
        for (std::size_t i = 0; i < inner; ++i) {
            std::memcpy(&wide_from[i * width], from + i * classes, classes * sizeof(double));
        }
        wide_to.resize(rows * width);
    }
    const double *source = width == classes ? from : wide_from.data();
    double *target = width == classes ? to : wide_to.data();
    in_threads(matrix.starts, rows, threads, [=](std::size_t begin, std::size_t end) {
        const auto kernel = has_avx2 ? multiply_avx2<Index, Value> : multiply_plain<Index, Value>;
        kernel(matrix, begin, end, source, target, width);
        if (target == to) return;
        for (std::size_t r = begin; r < end; ++r) {
            std::memcpy(to + r * classes, target + r * width, classes * sizeof(double));
        }
    });
}

// counts[:, k] += weight * row i of the matrix, for each (k, weight) that row i of the labels holds.
// Threads share the columns, and each goes through the rows in order.
template <typename Index, typename Value>
void tally(Vector<Index> starts, Vector<Index> indices, Vector<Value> values,
           Vector<std::int64_t> label_starts, Vector<std::int64_t> labels, Vector<double> weights,
           Output counts, int threads) {
    const std::size_t rows = starts.shape(0) - 1, K = counts.shape(1);
    check(label_starts.shape(0) == rows + 1 && labels.shape(0) == weights.shape(0) && threads >= 1,
          "shapes differ");
    const Index *start = starts.data(), *index = indices.data();
    const Value *value = values.data();
    const std::int64_t *label_start = label_starts.data(), *label = labels.data();
    const double *weight = weights.data();
    double *to = counts.data();
    const std::size_t columns = counts.shape(0), parts = static_cast<std::size_t>(threads);
    nb::gil_scoped_release release;
    tacit::share(parts, threads, [=](std::size_t part) {
        const std::size_t first = columns * part / parts, last = columns * (part + 1) / parts;
        for (std::size_t i = 0; i < rows; ++i) {
            for (std::int64_t l = label_start[i]; l < label_start[i + 1]; ++l) {
                double *line = to + label[l];
                for (Index p = start[i]; p < start[i + 1]; ++p) {
                    const std::size_t j = static_cast<std::size_t>(index[p]);
                    if (j - first < last - first) line[j * K] += weight[l] * static_cast<double>(value[p]);
                }
            }
        }
    });
}

// Each row of log p(x, y) becomes p(y | x), and log_p its log p(x); zeros and -inf if it is all -inf.
void normalize(Output joint, nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> log_p,
               int threads) {
    const std::size_t rows = joint.shape(0), classes = joint.shape(1);
    check(log_p.shape(0) == rows && threads >= 1, "shapes differ");
    double *all = joint.data(), *log_sums = log_p.data();
    nb::gil_scoped_release release;
    const auto work = [=](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            double *row = all + i * classes;
            const double top = *std::max_element(row, row + classes);
            if (std::isinf(top)) {
                std::fill(row, row + classes, 0.0);
                log_sums[i] = top;
                continue;
            }
            double total = 0;
            for (std::size_t k = 0; k < classes; ++k) total += row[k] = std::exp(row[k] - top);
            for (std::size_t k = 0; k < classes; ++k) row[k] /= total;
            log_sums[i] = top + std::log(total);
        }
    };
    std::vector<std::thread> pool;
    for (int part = 1; part < threads; ++part) {
        pool.emplace_back(work, rows * part / threads, rows * (part + 1) / threads);
    }
    work(0, rows / threads);
    for (std::thread &thread : pool) thread.join();
}

template <typename Index, typename Value>
void define_sparse(nb::module_ &m) {
    m.def("multiply", &multiply<Index, Value>, nb::arg("starts").noconvert(),
          nb::arg("indices").noconvert(), nb::arg("values").noconvert(), nb::arg("dense"),
          nb::arg("out").noconvert(), nb::arg("threads"));
    m.def("tally", &tally<Index, Value>, nb::arg("starts").noconvert(),
          nb::arg("indices").noconvert(), nb::arg("values").noconvert(), nb::arg("label_starts"),
          nb::arg("labels"), nb::arg("weights"), nb::arg("counts").noconvert(), nb::arg("threads"));
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Native kernels of tacit.";
    tacit::define_bags(m);
    tacit::define_codes(m);
    tacit::define_tables(m);
    m.def("gather", &gather, nb::arg("codes"), nb::arg("table"), nb::arg("scores"));
    define_sparse<std::int32_t, double>(m);
    define_sparse<std::int64_t, double>(m);
    define_sparse<std::int32_t, float>(m);
    define_sparse<std::int64_t, float>(m);
    m.def("normalize", &normalize, nb::arg("joint").noconvert(), nb::arg("log_p").noconvert(),
          nb::arg("threads"));
    m.def("moments", &moments, nb::arg("X"), nb::arg("labels"), nb::arg("weights"),
          nb::arg("pilot"), nb::arg("sums").noconvert(), nb::arg("squares").noconvert());
    m.def("accumulate", &accumulate, nb::arg("codes"), nb::arg("weights"), nb::arg("counts"));
}
