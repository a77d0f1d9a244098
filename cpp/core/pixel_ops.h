// Operations on the 8-bit RGB picture at its final size: colour, blur, noise, rotation, policies, and flips that cannot
// wait for the last pass. Each is the 8-bit arithmetic of Pillow; docs/operations.md has the table. The Python oracle
// of the random numbers is images/ops/plan.py. Parameters and draws, every operation from its own stream:
//
// color_jitter {brightness_min, brightness_max, contrast_min, .._max, saturation_min, .._max, hue_min, hue_max}
//     order = [brightness, contrast, saturation, hue], shuffled: for i = 3, 2, 1: exchange i with below(i + 1). Then
//     four factors, uniform(min, max), in the order of the parameters. A range [1, 1] (hue: [0, 0]) changes nothing.
// random_grayscale {p}                                       gray if uniform() < p
// random_autocontrast {p}                                    stretched if uniform() < p
// gaussian_noise {mean, sigma}                               two words: the key of noise.h
// gaussian_blur {kernel_width, kernel_height, sigma_min, sigma_max}   sigma = uniform(min, max)
// random_rotation {degrees_min, degrees_max, interpolation, has_center, x, y, r, g, b}   angle = uniform(min, max)
// rand_augment, auto_augment                                 see policies.h
// horizontal_flip {p}, vertical_flip {p}                     flipped if uniform() < p
#pragma once

#include "core/op_spec.h"
#include "core/philox.h"
#include "core/picture.h"

namespace trainload {

// Runs one operation in place. draws: the operation's own numbers for this sample. Knows every kind of the group
// "pixels" of op_spec.h and the two flips; does nothing for the others.
void apply_pixel_op(const OpSpec& op, Draws& draws, PictureView picture, OpScratch& scratch);

// True where flipping before the operation or after it gives the same picture, so that a flip which stands before it in
// the user's list may wait for the last pass. False (rotation, policies, noise): call apply_pixel_op for the flip at
// its place.
bool commutes_with_flips(OpKind kind);

}  // namespace trainload
