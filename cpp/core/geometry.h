// Which pixels of a picture become the output: the geometry operations as numbers, with torchvision v2's semantics.
// Knows no pixels and no JPEG. The Python oracle is images/ops/plan.py: same formulas, in doubles, in the same order.
//
// "round" is to nearest, ties to even (Python's round); "int" cuts towards zero; all other sums are in doubles.
// Every operation draws from its own Philox stream Draws(seed, epoch, sample id, op.index). Parameters and draws:
//
// random_resized_crop {height, width, scale_min, scale_max, ratio_min, ratio_max, filter}
//     up to 10 tries, each: area = W * H * uniform(scale_min, scale_max); ratio = exp(uniform(log ratio_min, log
//     ratio_max)); w = round(sqrt(area * ratio)), h = round(sqrt(area / ratio)); if 0 < w <= W and 0 < h <= H: top =
//     below(H - h + 1), left = below(W - w + 1), done. After 10 misses no further draw: the largest centred box whose
//     ratio lies in [ratio_min, ratio_max]: W / H < ratio_min: w = W, h = round(w / ratio_min); W / H > ratio_max:
//     h = H, w = round(h * ratio_max); else all; top = (H - h) / 2, left = (W - w) / 2 (integers). Then the box is
//     resized to width x height: Pillow's resize(size, filter, box=box), so the filter's foot may reach the pixels
//     around the box. filter: as filter.h counts them.
// resize {height, width, max_size, filter}
//     no draws. width > 0: that size. width = 0: the shorter side becomes `height`, the longer int(height * long /
//     short); if max_size > 0 and longer > max_size: shorter = int(max_size * shorter / longer), longer = max_size.
//     The filter sees only the picture as it is at that point of the list.
// random_scale {scale_min, scale_max, filter, each_side}
//     factor = uniform(scale_min, scale_max); the sides become int(W * factor) and int(H * factor), at least 1.
//     each_side != 0: the factor is that of the width, and a second one, drawn after it, that of the height.
// center_crop {height, width}
//     no draws. Where the picture is smaller, black is added: (need - have) / 2 before, the rest after. top =
//     round((H - height) / 2.0), left = round((W - width) / 2.0) of the picture so padded.
// random_crop {height, width, pad_left, pad_top, pad_right, pad_bottom, pad_if_needed, padding_mode, r, g, b}
//     padding first; pad_if_needed != 0: a side that is still too short by d grows by d at both ends. top = below(H -
//     height + 1), then left = below(W - width + 1), both always drawn. padding_mode: 0 constant (r, g, b), 1 edge,
//     2 reflect, 3 symmetric. A picture that stays too small is an error (GeometryError).
// pad {left, top, right, bottom, padding_mode, r, g, b}
//     no draws; the modes are those of random_crop.
// horizontal_flip {p}, vertical_flip {p}
//     one draw; flipped if uniform() < p. Done after the last crop or resize, which see the flipped picture all the
//     same: behind an odd number of flips of an axis, random places count from the axis's far end (a drawn `left` is
//     the number of pixels at the right of the box), and what has a near and a far end of its own (padding, a centre
//     between two pixels) keeps them.
// The last pass (finish.h) draws, from its own stream:
// random_erasing {p, scale_min, scale_max, ratio_min, ratio_max, value_mode, r, g, b}
//     one draw: nothing happens if uniform() >= p. Up to 10 tries, each: area = H * W * uniform(scale_min, scale_max);
//     ratio = exp(uniform(log ratio_min, log ratio_max)); h = round(sqrt(area * ratio)), w = round(sqrt(area /
//     ratio)); if h < H and w < W: top = below(H - h + 1), left = below(W - w + 1), done. value_mode 0: the constant
//     (r, g, b) in the units of the output (after Normalize; 0 to 255 for uint8). value_mode 1: a normal number per
//     pixel and channel, rows first, channels last: sqrt(-2 * log(1 - uniform())) * cos(2 * pi * uniform()).
#pragma once

#include <stdexcept>
#include <vector>

#include "core/filter.h"
#include "core/op_spec.h"
#include "core/philox.h"

namespace trainload {

struct Size {
    int width, height;
    bool operator==(const Size&) const = default;
};

struct Box {
    int x, y, width, height;
    bool operator==(const Box&) const = default;
};

enum class Padding : std::uint8_t { constant, edge, reflect, symmetric };

// One step from picture to picture: the box of the input is scaled to `scaled`; the window is cut from that. The window
// may reach outside the scaled picture: there the padding rule answers.
struct Stage {
    Size input;   // the whole picture that this stage sees
    Box reach;    // the part of the input that the filter may read: the input, or what an earlier crop left
    Box box;      // the part of the input that becomes the scaled picture
    Size scaled;  // equal to the box's size where nothing is scaled
    Box window;   // the output, in pixels of the scaled picture
    Padding padding;
    std::array<std::uint8_t, 3> fill;
    Filter filter = Filter::bilinear;

    bool scales() const { return scaled.width != box.width || scaled.height != box.height; }
    bool pads() const {
        return window.x < 0 || window.y < 0 || window.x + window.width > scaled.width ||
               window.y + window.height > scaled.height;
    }
};

struct SampleKey {
    std::uint64_t seed;
    std::uint32_t epoch;
    std::uint64_t id;
    std::uint32_t draw = 0;  // how often the epoch has had the sample before

    Draws draws(const OpSpec& op) const { return Draws(seed, epoch, id, op.index, draw); }
};

class GeometryError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// Whether a flip happens.
bool flips(const OpSpec& op, const SampleKey& key);

// The stages of a list of operations (others than geometry are skipped) for a picture of the given size: one stage
// unless a resize follows a resize or a padded crop. Reuses the vector. Throws GeometryError.
void plan_geometry(const std::vector<OpSpec>& ops, Size picture, const SampleKey& key, std::vector<Stage>& stages);

}  // namespace trainload
