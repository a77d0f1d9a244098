// NumPy arrays as a slice of pictures for the pipeline.
#pragma once

#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/arrays.h"
#include "core/pipeline.h"

namespace trainload::bindings {

using Indices = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using DrawNumbers = std::optional<nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;
using Codes = nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

inline std::span<const std::uint32_t> to_span(const DrawNumbers& draws, std::size_t pictures) {
    if (!draws) return {};
    if (draws->size() != pictures) throw nb::value_error("draws have one entry per picture");
    return {draws->data(), pictures};
}

inline Slice to_slice(const ByteArray& arena, const Indices& offsets, const Indices& sizes, const Indices& ids,
                      std::byte* out, const Codes& codes, EntryPointStore* entry_points, const DrawNumbers& draws) {
    const std::size_t count = ids.size();
    if (offsets.size() != count || sizes.size() != count || codes.size() != count)
        throw nb::value_error("offsets, sizes, ids and codes have one entry per picture");
    return {{arena.data(), arena.size()},
            {offsets.data(), count},
            {sizes.data(), count},
            {ids.data(), count},
            out,
            {codes.data(), count},
            entry_points,
            to_span(draws, count)};
}

}  // namespace trainload::bindings
