#include "core/shared_counts.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>

namespace nb = nanobind;

namespace {

using Counts = nb::ndarray<std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void count_up(const Counts& counts, const Places& places, const Counts& before) {
    const std::size_t asked = places.size();
    if (before.size() != asked) throw nb::value_error("places and before have one entry per addition");
    const auto have = static_cast<std::int64_t>(counts.size());
    const auto outside = [&](std::int64_t place) { return place < 0 || place >= have; };
    if (std::any_of(places.data(), places.data() + asked, outside))
        throw nb::index_error("a place lies outside of the counts");
    for (std::size_t i = 0; i < asked; ++i) before.data()[i] = trainload::count_up(counts.data()[places.data()[i]]);
}

}  // namespace

void bind_shared_counts(nb::module_& module) {
    module.def("count_up", &count_up, nb::arg("counts").noconvert(), nb::arg("places"), nb::arg("before").noconvert(),
               "Add 1 to counts[places[i]], one after the other; before[i] is what it was. Each addition is one atomic "
               "step: processes may share the counts.");
}
