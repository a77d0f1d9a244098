#include "core/shuffle.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "bindings/arrays.h"

namespace nb = nanobind;

using namespace trainload;
using bindings::ByteArray;

namespace {

using Memory = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <void (*move)(const std::uint8_t*, std::uint8_t*, std::size_t, std::size_t)>
void checked(const ByteArray& from, Memory& to, std::size_t size) {
    if (size < 1 || from.size() != to.size())
        throw nb::value_error("both sides have one size, elements a byte at least");
    const nb::gil_scoped_release release;
    move(from.data(), to.data(), from.size(), size);
}

}  // namespace

void bind_shuffle(nb::module_& module) {
    module.def("shuffle", &checked<shuffle>, nb::arg("data"), nb::arg("planes"), nb::arg("element_size"),
               "Write the bytes of `data` to `planes`: all first bytes of the elements, then all second bytes, ...");
    module.def("unshuffle", &checked<unshuffle>, nb::arg("planes"), nb::arg("data"), nb::arg("element_size"),
               "The inverse of shuffle.");
}
