// Kernels behind the families. Each is a plain loop over rows in a fixed order, so that the same
// input gives the same bits; the NumPy code beside the caller is the oracle it is tested against.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>

namespace nb = nanobind;

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

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Native kernels of tacit.";
    m.def("gather", &gather, nb::arg("codes"), nb::arg("table"), nb::arg("scores"));
    m.def("accumulate", &accumulate, nb::arg("codes"), nb::arg("weights"), nb::arg("counts"));
}
