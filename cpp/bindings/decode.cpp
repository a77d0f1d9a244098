#include "bindings/arrays.h"
#include "core/heap.h"
#include "core/pixels.h"

namespace nb = nanobind;
using namespace trainload;
using namespace trainload::bindings;

void bind_decode(nb::module_& module) {
    module.def(
        "decode_jpeg", [](const ByteArray& data) { return decoded(data, {{0, 0, 0, 0}, 1, false}); }, nb::arg("data"),
        "The whole picture as RGB: uint8[height, width, 3]. ValueError where it is not good.");
    module.def("give_back_freed_memory", &give_back_freed_memory, nb::call_guard<nb::gil_scoped_release>(),
               "What this process has freed goes back to the system, where the C library keeps it.");
}
