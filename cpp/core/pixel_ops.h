// Operations on the 8-bit RGB picture at its final size: colour, blur, rotation, policies, and flips that cannot wait
// for the last pass. Each is the 8-bit arithmetic of Pillow or torchvision v2; docs/operations.md has the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/op_spec.h"
#include "core/philox.h"

namespace trainload {

// RGB bytes, interleaved, owned by someone else; rows `stride` bytes apart.
struct PictureView {
    std::uint8_t* data;
    int width;
    int height;
    std::size_t stride;

    std::uint8_t* row(int y) const { return data + static_cast<std::size_t>(y) * stride; }
};

// One thread's buffers: they grow to the largest picture and stay, so that a steady state allocates nothing.
struct OpScratch {
    std::vector<std::uint8_t> pixels;   // a copy of the picture, rows packed
    std::vector<std::uint16_t> sums;    // rows of a separable filter between its two directions
    std::vector<std::int32_t> weights;  // of a filter
};

// Runs one operation in place. draws: the operation's own numbers for this sample. Knows every kind of the group
// "pixels" of op_spec.h and the two flips; does nothing for the others.
void apply_pixel_op(const OpSpec& op, Draws& draws, PictureView picture, OpScratch& scratch);

// True where flipping before the operation or after it gives the same picture, so that a flip which stands before it in
// the user's list may wait for the last pass. False (rotation, policies): call apply_pixel_op for the flip at its
// place.
bool commutes_with_flips(OpKind kind);

}  // namespace trainload
