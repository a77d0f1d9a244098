// NumPy arrays in and out of the core.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

#include "core/pixels.h"

namespace trainload::bindings {

namespace nb = nanobind;

using ByteArray = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using RgbArray = nb::ndarray<const std::uint8_t, nb::shape<-1, -1, 3>, nb::c_contig, nb::device::cpu>;
using NewRgbArray = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<3>>;

// Gives the pixels' memory to a new array of shape (height, width, 3).
inline NewRgbArray to_array(Pixels&& pixels) {
    auto* const owned = new Pixels(std::move(pixels));
    const nb::capsule owner(owned, [](void* memory) noexcept { delete static_cast<Pixels*>(memory); });
    const auto height = static_cast<std::size_t>(owned->size.height),
               width = static_cast<std::size_t>(owned->size.width);
    return NewRgbArray(owned->bytes.data(), {height, width, 3}, owner);
}

// A part of a picture as an array, or a ValueError that says why not.
inline NewRgbArray decoded(const ByteArray& data, const DecodeRequest& request) {
    Pixels pixels;
    std::string message;
    Verdict verdict;
    {
        const nb::gil_scoped_release unlocked;
        verdict = decode_pixels({data.data(), data.size()}, request, pixels, message);
    }
    if (verdict != Verdict::good) throw nb::value_error(message.c_str());
    return to_array(std::move(pixels));
}

}  // namespace trainload::bindings
