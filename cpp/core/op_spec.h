// One operation of a pipeline as plain numbers. What each kind's parameters mean stands beside the code that runs it.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace trainload {

enum class OpKind : std::uint8_t {
    // geometry: crop and resize, run by the region decode (geometry.h)
    random_resized_crop,
    resize,
    center_crop,
    random_crop,
    // pixels: on the 8-bit RGB picture at its final size (pixel_ops.h)
    color_jitter,
    random_grayscale,
    gaussian_blur,
    random_rotation,
    rand_augment,
    auto_augment,
    // last pass: fused with the write into the batch (finish.h)
    horizontal_flip,
    vertical_flip,
    random_erasing,
    // geometry and pixels, as above
    pad,
    random_scale,
    random_autocontrast,
    gaussian_noise,
};

// The kinds' names in Python, in the order of the enum.
inline constexpr std::array<std::string_view, 17> op_names{
    "random_resized_crop", "resize",        "center_crop",     "random_crop",  "color_jitter",
    "random_grayscale",    "gaussian_blur", "random_rotation", "rand_augment", "auto_augment",
    "horizontal_flip",     "vertical_flip", "random_erasing",  "pad",          "random_scale",
    "random_autocontrast", "gaussian_noise"};

inline OpKind op_kind(std::string_view name) {
    for (std::size_t kind = 0; kind < op_names.size(); ++kind) {
        if (op_names[kind] == name) return static_cast<OpKind>(kind);
    }
    throw std::invalid_argument("no operation is called " + std::string(name));
}

struct OpSpec {
    OpKind kind;
    std::uint32_t index;                // position in the user's list: names the Philox stream (philox.h)
    std::array<double, 16> parameters;  // doubles, so that Python's numbers arrive unchanged
};

}  // namespace trainload
