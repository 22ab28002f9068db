// NumPy arrays as the kernels take them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tacit {

namespace nb = nanobind;

template <typename T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Strided = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
using Anything = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline void check(bool holds, const char *what) {
    if (!holds) throw nb::value_error(what);
}

// A NumPy array that owns what a vector held.
template <typename T>
nb::object to_numpy(std::vector<T> &&values, std::size_t rows, std::size_t columns) {
    auto *held = new std::vector<T>(std::move(values));
    nb::capsule owner(held, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(held->data(), {rows, columns}, owner));
}
template <typename T>
nb::object to_numpy(std::vector<T> &&values, std::size_t size) {
    auto *held = new std::vector<T>(std::move(values));
    nb::capsule owner(held, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(held->data(), {size}, owner));
}

void define_categorical(nb::module_ &m);
void define_categories(nb::module_ &m);
void define_gaussian(nb::module_ &m);
void define_packed(nb::module_ &m);
void define_scores(nb::module_ &m);
void define_sparse(nb::module_ &m);
void define_params(nb::module_ &m);
void define_tally(nb::module_ &m);
void define_text(nb::module_ &m);

}  // namespace tacit
