#include "core/pipeline.h"

#include <nanobind/stl/string.h>

#include "bindings/slices.h"
#include "testing/kernels.h"

namespace nb = nanobind;
using namespace trainload;
using namespace trainload::bindings;

namespace {

void run_decode_only(const Pipeline& pipeline, Scratch& scratch, const ByteArray& arena, const Indices& offsets,
                     const Indices& sizes, const Indices& ids, std::uint64_t seed, std::uint32_t epoch,
                     const Codes& codes, EntryPointStore* entry_points, const DrawNumbers& draws) {
    const Slice slice = to_slice(arena, offsets, sizes, ids, nullptr, codes, entry_points, draws);
    const nb::gil_scoped_release unlocked;
    pipeline.run_decode_only(scratch, slice, seed, epoch);
}

}  // namespace

void bind_pipeline(nb::module_& module) {
    module.def(
        "new_scratch", [](const std::string& kernels) { return new Scratch(checked_kernels(kernels)); },
        nb::arg("kernels"), nb::rv_policy::take_ownership, "A Scratch that resamples by the kernels of this name.");
    module.def("size_bytes", &EntryPointStore::size_bytes, nb::arg("entry_points"),
               "Of all that a store keeps; never more than its budget.");
    module.def("run_decode_only", &run_decode_only, nb::arg("pipeline"), nb::arg("scratch"), nb::arg("arena"),
               nb::arg("offsets"), nb::arg("sizes"), nb::arg("ids"), nb::arg("seed"), nb::arg("epoch"),
               nb::arg("codes").noconvert(), nb::arg("entry_points").none() = nb::none(),
               nb::arg("draws").none() = nb::none(),
               "The region decode of the same crops, into nothing: what `run` is measured against.");
}
