// Kernels behind the families. The same input gives the same bits, for any number of threads; the NumPy
// code beside the caller is the oracle they are tested against.
#include "arrays.h"

NB_MODULE(_native, m) {
    m.doc() = "Native kernels of tacit.";
    tacit::define_categorical(m);
    tacit::define_categories(m);
    tacit::define_gaussian(m);
    tacit::define_packed(m);
    tacit::define_scores(m);
    tacit::define_sparse(m);
    tacit::define_params(m);
    tacit::define_tally(m);
    tacit::define_text(m);
}
