// RandAugment (Cubuk et al., arXiv:1909.13719) and AutoAugment (arXiv:1805.09501) with torchvision v2's magnitudes:
// each random choice is one lookup in a table, then one operation of colour.h, blur.h or affine.h.
//
// rand_augment {num_ops, magnitude, num_magnitude_bins, interpolation, r, g, b}
//     num_ops times two draws: below(14) names the augmentation (in the order of the enum), uniform() < 0.5 its sign.
// auto_augment {policy, interpolation, r, g, b}
//     five draws: below(25) names the pair, then for each of the two: uniform() < probability, uniform() < 0.5 (sign).
// A sign is drawn always and used where the augmentation has one.
#pragma once

#include <array>
#include <string_view>

#include "core/affine.h"
#include "core/op_spec.h"
#include "core/philox.h"

namespace trainload {

enum class Augmentation : std::uint8_t {
    identity,
    shear_x,      // magnitude: tangent of the angle, about the upper left corner
    shear_y,      //
    translate_x,  // pixels, cut to a whole number
    translate_y,  //
    rotate,       // degrees, counter-clockwise
    brightness,   // factor - 1, as for the next three
    color,        //
    contrast,     //
    sharpness,    //
    posterize,    // bits that stay
    solarize,     // threshold as a part of 255
    auto_contrast,
    equalize,
    invert,
};

inline constexpr std::array<std::string_view, 15> augmentation_names{
    "Identity", "ShearX",    "ShearY",    "TranslateX", "TranslateY",   "Rotate",   "Brightness", "Color",
    "Contrast", "Sharpness", "Posterize", "Solarize",   "AutoContrast", "Equalize", "Invert"};

// One step of a learned pair: the bin (of 10) is -1 where the augmentation has no magnitude.
struct PolicyStep {
    Augmentation augmentation;
    double probability;
    int bin;
};
using Policy = std::array<std::array<PolicyStep, 2>, 25>;

// policy: 0 ImageNet, 1 CIFAR-10, 2 SVHN.
const Policy& learned_policy(int policy);

// The magnitude of a bin (without sign) for a picture of this size, rounded to single precision as torchvision's
// torch.linspace has it: a threshold or a number of pixels may hang on the last bit. 0 where there is none.
double magnitude_of(Augmentation augmentation, int bin, int bins, int width, int height);
bool has_sign(Augmentation augmentation);

void augment(PictureView picture, Augmentation augmentation, double magnitude, Sampling sampling, OpScratch& scratch);

void rand_augment(const OpSpec& op, Draws& draws, PictureView picture, OpScratch& scratch);
void auto_augment(const OpSpec& op, Draws& draws, PictureView picture, OpScratch& scratch);

}  // namespace trainload
