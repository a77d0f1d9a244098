#include "core/policies.h"

#include <cmath>
#include <numbers>

#include "core/blur.h"
#include "core/colour.h"

namespace trainload {

namespace {

constexpr std::uint32_t rand_augment_choices = 14;  // all but invert
constexpr int auto_augment_bins = 10;

Sampling sampling_from(const double* numbers) {
    return {static_cast<Interpolation>(numbers[0]),
            {static_cast<std::uint8_t>(numbers[1]), static_cast<std::uint8_t>(numbers[2]),
             static_cast<std::uint8_t>(numbers[3])}};
}

// torch.linspace(first, last, count)[i] in single precision: from the nearer end, one rounding (a fused multiply-add).
double linspace(double first, double last, int count, int i) {
    const float from = static_cast<float>(first), to = static_cast<float>(last);
    const double step = (to - from) / static_cast<float>(count - 1);  // a float
    return static_cast<float>(i < count / 2 ? from + step * i : to - step * (count - 1 - i));
}

// The angle of a shear on its way through torchvision's affine(), which takes degrees.
double shear_angle(double tangent) {
    return std::atan(tangent) * (180.0 / std::numbers::pi) * (std::numbers::pi / 180.0);
}

double signed_magnitude(Augmentation augmentation, int bin, int bins, bool negative, PictureView picture) {
    const double magnitude = magnitude_of(augmentation, bin, bins, picture.width, picture.height);
    return negative && has_sign(augmentation) ? -magnitude : magnitude;
}

}  // namespace

double magnitude_of(Augmentation augmentation, int bin, int bins, int width, int height) {
    const auto up_to = [&](double last) { return linspace(0.0, last, bins, bin); };
    switch (augmentation) {
        case Augmentation::shear_x:
        case Augmentation::shear_y:
            return up_to(0.3);
        case Augmentation::translate_x:
            return up_to(150.0 / 331.0 * width);
        case Augmentation::translate_y:
            return up_to(150.0 / 331.0 * height);
        case Augmentation::rotate:
            return up_to(30.0);
        case Augmentation::brightness:
        case Augmentation::color:
        case Augmentation::contrast:
        case Augmentation::sharpness:
            return up_to(0.9);
        case Augmentation::posterize:
            return std::nearbyint(8.0 - bin / ((bins - 1) / 4.0));
        case Augmentation::solarize:
            return linspace(1.0, 0.0, bins, bin);
        default:
            return 0.0;
    }
}

bool has_sign(Augmentation augmentation) {
    return augmentation >= Augmentation::shear_x && augmentation <= Augmentation::sharpness;
}

void augment(PictureView picture, Augmentation augmentation, double magnitude, Sampling sampling, OpScratch& scratch) {
    const auto factor = static_cast<float>(1.0 + magnitude);
    switch (augmentation) {
        case Augmentation::identity:
            return;
        case Augmentation::shear_x:
            return transform(picture, {1.0, std::tan(shear_angle(magnitude)), 0.0, 0.0, 1.0, 0.0}, sampling, scratch);
        case Augmentation::shear_y: {
            const double angle = shear_angle(magnitude);
            return transform(picture, {1.0, 0.0, 0.0, std::sin(angle) / std::cos(angle), 1.0, 0.0}, sampling, scratch);
        }
        case Augmentation::translate_x:
            return transform(picture, {1.0, 0.0, -std::trunc(magnitude), 0.0, 1.0, 0.0}, sampling, scratch);
        case Augmentation::translate_y:
            return transform(picture, {1.0, 0.0, 0.0, 0.0, 1.0, -std::trunc(magnitude)}, sampling, scratch);
        case Augmentation::rotate:
            return rotate(picture, magnitude, std::nullopt, sampling, scratch);
        case Augmentation::brightness:
            return adjust_brightness(picture, factor);
        case Augmentation::color:
            return adjust_saturation(picture, factor, scratch);
        case Augmentation::contrast:
            return adjust_contrast(picture, factor);
        case Augmentation::sharpness:
            return adjust_sharpness(picture, factor, scratch);
        case Augmentation::posterize:
            return posterize(picture, static_cast<int>(magnitude));
        case Augmentation::solarize:
            return solarize(picture, 255.0 * magnitude);
        case Augmentation::auto_contrast:
            return autocontrast(picture);
        case Augmentation::equalize:
            return equalize(picture);
        case Augmentation::invert:
            return invert(picture);
    }
}

void rand_augment(const OpSpec& op, Draws& draws, PictureView picture, OpScratch& scratch) {
    const auto& numbers = op.parameters;
    const int count = static_cast<int>(numbers[0]), bin = static_cast<int>(numbers[1]);
    const int bins = static_cast<int>(numbers[2]);
    const Sampling sampling = sampling_from(&numbers[3]);
    for (int step = 0; step < count; ++step) {
        const auto augmentation = static_cast<Augmentation>(draws.below(rand_augment_choices));
        const bool negative = draws.uniform() < 0.5;
        augment(picture, augmentation, signed_magnitude(augmentation, bin, bins, negative, picture), sampling, scratch);
    }
}

void auto_augment(const OpSpec& op, Draws& draws, PictureView picture, OpScratch& scratch) {
    const Policy& policy = learned_policy(static_cast<int>(op.parameters[0]));
    const Sampling sampling = sampling_from(&op.parameters[1]);
    for (const PolicyStep& step : policy[draws.below(static_cast<std::uint32_t>(policy.size()))]) {
        const bool chosen = draws.uniform() < step.probability;
        const bool negative = draws.uniform() < 0.5;
        if (!chosen) continue;
        const double magnitude =
            step.bin < 0 ? 0.0 : signed_magnitude(step.augmentation, step.bin, auto_augment_bins, negative, picture);
        augment(picture, step.augmentation, magnitude, sampling, scratch);
    }
}

}  // namespace trainload
