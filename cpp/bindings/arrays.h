// NumPy arrays in and out of the core.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/kernels.h"

namespace trainload::bindings {

namespace nb = nanobind;

using ByteArray = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using RgbArray = nb::ndarray<const std::uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;
using NewRgbArray = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<3>>;

// Gives the vector's memory to a new array of shape (height, width, 3).
inline NewRgbArray to_array(std::vector<std::uint8_t>&& pixels, int width, int height) {
    auto* const owned = new std::vector<std::uint8_t>(std::move(pixels));
    const nb::capsule owner(owned,
                            [](void* memory) noexcept { delete static_cast<std::vector<std::uint8_t>*>(memory); });
    return NewRgbArray(owned->data(), {static_cast<std::size_t>(height), static_cast<std::size_t>(width), 3}, owner);
}

// The loops of that name ("": the fastest), or a ValueError.
inline const Kernels& checked_kernels(const std::string& name) {
    const Kernels* const kernels = kernels_called(name);
    if (kernels == nullptr) throw nb::value_error(("no kernels are called '" + name + "' here").c_str());
    return *kernels;
}

}  // namespace trainload::bindings
