// The filters that a resize may use: Pillow's, by its names. What they weigh is in resample.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace trainload {

enum class Filter : std::uint8_t { bilinear, bicubic, lanczos, box, nearest };

// In the order of the enum; Python counts them in the same order (images/ops/arguments.py).
inline constexpr std::array<std::string_view, 5> filter_names{"bilinear", "bicubic", "lanczos", "box", "nearest"};

inline Filter filter_called(std::string_view name) {
    for (std::size_t filter = 0; filter < filter_names.size(); ++filter)
        if (filter_names[filter] == name) return static_cast<Filter>(filter);
    throw std::invalid_argument("no filter is called " + std::string(name));
}

// How far a filter reaches from its centre: in inputs where it enlarges, in outputs where it shrinks.
constexpr double support_of(Filter filter) {
    switch (filter) {
        case Filter::bicubic:
            return 2.0;
        case Filter::lanczos:
            return 3.0;
        case Filter::bilinear:
            return 1.0;
        default:
            return 0.5;
    }
}

}  // namespace trainload
