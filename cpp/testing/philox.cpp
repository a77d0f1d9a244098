#include "core/philox.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>

namespace nb = nanobind;

void bind_philox(nb::module_& module) {
    module.def("philox4x32", &trainload::philox4x32, nb::arg("counter"), nb::arg("key"),
               "One block of Philox 4x32-10: four 32-bit words of a counter (4 words) and a key (2 words).");
}
