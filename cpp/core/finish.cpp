#include "core/finish.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/kernels_plain.h"

namespace trainload {
namespace {

constexpr int kTries = 10;
constexpr std::size_t kPadding = 64;

double normal(Draws& draws) {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - draws.uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * draws.uniform());
}

void store(OutputType type, float value, std::byte* out) {
    if (type == OutputType::float32) {
        std::memcpy(out, &value, sizeof value);
    } else if (type == OutputType::float16) {
        const std::uint16_t half = plain::to_half(value);
        std::memcpy(out, &half, sizeof half);
    } else {
        *out = static_cast<std::byte>(std::clamp(value, 0.0F, 255.0F));
    }
}

}  // namespace

bool plan_erasure(const OpSpec& op, Size picture, Draws draws, Erasure& erasure) {
    const auto& p = op.parameters;
    if (draws.uniform() >= p[0]) return false;
    const double log_min = std::log(p[3]), log_max = std::log(p[4]);
    for (int i = 0; i < kTries; ++i) {
        const double area = static_cast<double>(picture.height) * picture.width * draws.uniform(p[1], p[2]);
        const double ratio = std::exp(draws.uniform(log_min, log_max));
        const int height = static_cast<int>(std::nearbyint(std::sqrt(area * ratio)));
        const int width = static_cast<int>(std::nearbyint(std::sqrt(area / ratio)));
        if (height >= picture.height || width >= picture.width) continue;
        const int top = static_cast<int>(draws.below(static_cast<std::uint32_t>(picture.height - height + 1)));
        const int left = static_cast<int>(draws.below(static_cast<std::uint32_t>(picture.width - width + 1)));
        erasure = {{left, top, width, height},
                   p[5] != 0,
                   {static_cast<float>(p[6]), static_cast<float>(p[7]), static_cast<float>(p[8])},
                   draws};
        return true;
    }
    return false;
}

LastPass::LastPass(const OutputFormat& format) : format_(format) {
    const auto width = static_cast<std::size_t>(format.width);
    for (std::size_t channel = 0; channel < 3; ++channel) {
        const auto scale = static_cast<float>(1.0 / (255.0 * format.std[channel]));
        const auto offset = static_cast<float>(-format.mean[channel] / format.std[channel]);
        if (format.layout == OutputLayout::nchw) {
            scale_[channel].assign(width, scale);
            offset_[channel].assign(width, offset);
            continue;
        }
        const auto channels = static_cast<std::size_t>(format.channels());
        scale_[0].resize(width * channels, 0.0F);
        offset_[0].resize(width * channels, 0.0F);
        for (std::size_t x = 0; x < width; ++x) {
            scale_[0][x * channels + channel] = scale;
            offset_[0][x * channels + channel] = offset;
        }
    }
}

std::uint8_t* LastPass::rgb_row(std::byte* picture, int y) const {
    if (format_.type != OutputType::uint8 || format_.layout != OutputLayout::nhwc) return nullptr;
    return reinterpret_cast<std::uint8_t*>(picture) + static_cast<std::size_t>(y) * format_.width * 3;
}

void LastPass::write_row(const Kernels& kernels, const std::uint8_t* rgb, std::byte* picture, int y,
                         std::vector<std::uint8_t>& scratch) const {
    const auto width = static_cast<std::size_t>(format_.width);
    const std::size_t plane = width + kPadding;
    if (scratch.size() < 4 * plane) scratch.resize(4 * plane);
    std::uint8_t* const values = scratch.data();
    if (format_.layout == OutputLayout::nchw) {
        kernels.planes(rgb, format_.width, values, values + plane, values + 2 * plane);
        const std::size_t plane_bytes = width * format_.height * format_.item_bytes();
        for (int channel = 0; channel < 3; ++channel)
            write_numbers(kernels, values + plane * channel, channel, format_.width,
                          picture + plane_bytes * channel + y * width * format_.item_bytes());
        return;
    }
    const int count = format_.width * format_.channels();
    std::byte* const row = picture + static_cast<std::size_t>(y) * count * format_.item_bytes();
    if (format_.layout == OutputLayout::nhwc4) {
        kernels.four_channels(rgb, format_.width, values);
        rgb = values;
    }
    write_numbers(kernels, rgb, 0, count, row);
}

void LastPass::write_numbers(const Kernels& kernels, const std::uint8_t* values, int channel, int count,
                             std::byte* out) const {
    const float* const scale = scale_[channel].data();
    const float* const offset = offset_[channel].data();
    switch (format_.type) {
        case OutputType::uint8:
            std::memcpy(out, values, static_cast<std::size_t>(count));
            break;
        case OutputType::float32:
            kernels.floats(values, scale, offset, count, reinterpret_cast<float*>(out));
            break;
        case OutputType::float16:
            kernels.halves(values, scale, offset, count, reinterpret_cast<std::uint16_t*>(out));
            break;
    }
}

void LastPass::erase(Erasure& erasure, std::byte* picture) const {
    const Box box = erasure.box;
    const std::size_t item = format_.item_bytes();
    const bool planar = format_.layout == OutputLayout::nchw;
    const std::size_t pixel_step = planar ? 1 : static_cast<std::size_t>(format_.channels());
    const std::size_t channel_step = planar ? static_cast<std::size_t>(format_.width) * format_.height : 1;
    for (int y = box.y; y < box.y + box.height; ++y) {
        for (int x = box.x; x < box.x + box.width; ++x) {
            const std::size_t pixel = static_cast<std::size_t>(y) * format_.width + x;
            for (std::size_t channel = 0; channel < 3; ++channel) {
                const float value = erasure.noise ? static_cast<float>(normal(erasure.draws)) : erasure.value[channel];
                store(format_.type, value, picture + (pixel * pixel_step + channel * channel_step) * item);
            }
        }
    }
}

}  // namespace trainload
