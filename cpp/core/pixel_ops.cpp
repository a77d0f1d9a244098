#include "core/pixel_ops.h"

#include <utility>

#include "core/affine.h"
#include "core/blur.h"
#include "core/colour.h"
#include "core/noise.h"
#include "core/policies.h"

namespace trainload {

namespace {

// A factor's range; [nothing, nothing] leaves the picture alone.
struct Range {
    double low, high, nothing;

    bool changes() const { return low != nothing || high != nothing; }
};

void jitter(int adjustment, double factor, PictureView picture, OpScratch& scratch) {
    switch (adjustment) {
        case 0:
            return adjust_brightness(picture, static_cast<float>(factor));
        case 1:
            return adjust_contrast(picture, static_cast<float>(factor));
        case 2:
            return adjust_saturation(picture, static_cast<float>(factor), scratch);
        default:
            return adjust_hue(picture, factor);
    }
}

void color_jitter(const OpSpec& op, Draws& draws, PictureView picture, OpScratch& scratch) {
    std::array<int, 4> order{0, 1, 2, 3};
    for (std::uint32_t i = 3; i > 0; --i) {
        std::swap(order[i], order[draws.below(i + 1)]);
    }
    std::array<Range, 4> ranges;
    std::array<double, 4> factors;
    for (std::size_t i = 0; i < 4; ++i) {
        ranges[i] = {op.parameters[2 * i], op.parameters[2 * i + 1], i == 3 ? 0.0 : 1.0};
        factors[i] = draws.uniform(ranges[i].low, ranges[i].high);
    }
    for (const int adjustment : order) {
        const auto i = static_cast<std::size_t>(adjustment);
        if (ranges[i].changes()) jitter(adjustment, factors[i], picture, scratch);
    }
}

void random_rotation(const OpSpec& op, Draws& draws, PictureView picture, OpScratch& scratch) {
    const auto& numbers = op.parameters;
    const double degrees = draws.uniform(numbers[0], numbers[1]);
    const auto center = numbers[3] != 0.0 ? std::optional(Point{numbers[4], numbers[5]}) : std::nullopt;
    const Rgb fill{static_cast<std::uint8_t>(numbers[6]), static_cast<std::uint8_t>(numbers[7]),
                   static_cast<std::uint8_t>(numbers[8])};
    rotate(picture, degrees, center, {static_cast<Interpolation>(numbers[2]), fill}, scratch);
}

}  // namespace

void apply_pixel_op(const OpSpec& op, Draws& draws, PictureView picture, OpScratch& scratch) {
    const auto& numbers = op.parameters;
    switch (op.kind) {
        case OpKind::color_jitter:
            return color_jitter(op, draws, picture, scratch);
        case OpKind::random_grayscale:
            if (draws.uniform() < numbers[0]) grayscale(picture);
            return;
        case OpKind::gaussian_blur:
            return gaussian_blur(picture, static_cast<int>(numbers[0]), static_cast<int>(numbers[1]),
                                 draws.uniform(numbers[2], numbers[3]), scratch);
        case OpKind::random_rotation:
            return random_rotation(op, draws, picture, scratch);
        case OpKind::rand_augment:
            return rand_augment(op, draws, picture, scratch);
        case OpKind::auto_augment:
            return auto_augment(op, draws, picture, scratch);
        case OpKind::random_autocontrast:
            if (draws.uniform() < numbers[0]) autocontrast(picture);
            return;
        case OpKind::gaussian_noise: {
            const std::uint32_t first = draws.bits();
            return add_gaussian_noise(picture, numbers[0], numbers[1], {first, draws.bits()}, scratch);
        }
        case OpKind::horizontal_flip:
            if (draws.uniform() < numbers[0]) flip_horizontally(picture);
            return;
        case OpKind::vertical_flip:
            if (draws.uniform() < numbers[0]) flip_vertically(picture);
            return;
        default:
            return;
    }
}

bool commutes_with_flips(OpKind kind) {
    return kind != OpKind::random_rotation && kind != OpKind::rand_augment && kind != OpKind::auto_augment &&
           kind != OpKind::gaussian_noise;
}

}  // namespace trainload
