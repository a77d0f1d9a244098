#include "core/blur.h"

#include <cmath>

#include "core/clones.h"
#include "core/colour.h"

namespace trainload {

namespace {

// A weight below this part of the largest changes no 8-bit result by more than 0.001.
constexpr double negligible = 1e-7;

// Weights of distance 0 .. radius in scratch.weights; returns the radius, which leaves out negligible ends.
int gaussian_weights(int kernel, double sigma, OpScratch& scratch) {
    const int half = kernel / 2;
    grow(scratch.weights, static_cast<std::size_t>(half) + 1);
    double sum = 0.0;
    int radius = 0;
    for (int distance = 0; distance <= half; ++distance) {
        const double weight = std::exp(-0.5 * (distance / sigma) * (distance / sigma));
        sum += distance == 0 ? weight : 2.0 * weight;
        if (weight > negligible) radius = distance;
        scratch.weights[static_cast<std::size_t>(distance)] = static_cast<float>(weight);
    }
    for (int distance = 0; distance <= radius; ++distance) {
        auto& weight = scratch.weights[static_cast<std::size_t>(distance)];
        weight = static_cast<float>(weight / sum);
    }
    return radius;
}

// Position -3 -2 -1 | 0 1 2 3 of a line of 4 reads 3 2 1 | 0 1 2 3: mirrored about the centre of the edge pixel.
int mirrored(int position, int count) {
    if (count == 1) return 0;
    const int period = 2 * (count - 1);
    position = std::abs(position) % period;
    return position < count ? position : period - position;
}

// out[i] = w[0] * line[i] + sum over d of w[d] * (before[d][i] + after[d][i]): mirror images of the input give mirror
// images of the output, bit for bit. before(d), after(d): the line at distance d on either side.
TRAINLOAD_CLONES void scale_line(const float* line, float weight, std::size_t count, float* out) {
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = weight * line[i];
    }
}

TRAINLOAD_CLONES void add_pair(const float* before, const float* after, float weight, std::size_t count, float* out) {
    for (std::size_t i = 0; i < count; ++i) {
        out[i] += weight * (before[i] + after[i]);
    }
}

TRAINLOAD_CLONES void widen(const std::uint8_t* bytes, std::size_t count, float* out) {
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<float>(bytes[i]);
    }
}

TRAINLOAD_CLONES void round_to_bytes(const float* sums, std::size_t count, std::uint8_t* bytes) {
    for (std::size_t i = 0; i < count; ++i) {
        bytes[i] = static_cast<std::uint8_t>(static_cast<int>(std::min(sums[i] + 0.5f, 255.0f)));
    }
}

// (1 1 1, 1 5 1, 1 1 1) / 13, rounded, for all but the first and the last pixel of a row.
TRAINLOAD_CLONES void smooth_row(const std::uint8_t* above, const std::uint8_t* here, const std::uint8_t* below,
                                 std::ptrdiff_t count, std::uint8_t* out) {
    for (std::ptrdiff_t i = 3; i < count - 3; ++i) {
        const int sum = above[i - 3] + above[i] + above[i + 3] + here[i - 3] + 5 * here[i] + here[i + 3] +
                        below[i - 3] + below[i] + below[i + 3];
        out[i] = static_cast<std::uint8_t>((2 * sum + 13) / 26);
    }
}

void blur_rows(PictureView picture, int radius, OpScratch& scratch) {
    const std::size_t edge = static_cast<std::size_t>(radius) * 3, bytes = picture.row_bytes();
    grow(scratch.padded, bytes + 2 * edge);
    float* center = scratch.padded.data() + edge;
    for (int y = 0; y < picture.height; ++y) {
        const std::uint8_t* row = picture.row(y);
        widen(row, bytes, center);
        for (int x = 1; x <= radius; ++x) {
            for (int channel = 0; channel < 3; ++channel) {
                center[channel - 3 * x] = row[3 * mirrored(-x, picture.width) + channel];
                center[3 * (picture.width - 1 + x) + channel] =
                    row[3 * mirrored(picture.width - 1 + x, picture.width) + channel];
            }
        }
        float* sums = scratch.rows.data() + static_cast<std::size_t>(y) * bytes;
        scale_line(center, scratch.weights[0], bytes, sums);
        for (int x = 1; x <= radius; ++x) {
            add_pair(center - 3 * x, center + 3 * x, scratch.weights[static_cast<std::size_t>(x)], bytes, sums);
        }
    }
}

void blur_columns(PictureView picture, int radius, OpScratch& scratch) {
    const std::size_t bytes = picture.row_bytes();
    const float* weights = scratch.weights.data();
    const auto line = [&](int y) {
        return scratch.rows.data() + static_cast<std::size_t>(mirrored(y, picture.height)) * bytes;
    };
    grow(scratch.padded, bytes);
    float* sums = scratch.padded.data();
    for (int y = 0; y < picture.height; ++y) {
        scale_line(line(y), weights[0], bytes, sums);
        for (int distance = 1; distance <= radius; ++distance) {
            add_pair(line(y - distance), line(y + distance), weights[distance], bytes, sums);
        }
        round_to_bytes(sums, bytes, picture.row(y));
    }
}

}  // namespace

void gaussian_blur(PictureView picture, int kernel_width, int kernel_height, double sigma, OpScratch& scratch) {
    grow(scratch.rows, picture.row_bytes() * static_cast<std::size_t>(picture.height));
    const int across = gaussian_weights(kernel_width, sigma, scratch);
    blur_rows(picture, across, scratch);
    const int down = gaussian_weights(kernel_height, sigma, scratch);
    blur_columns(picture, down, scratch);
}

void adjust_sharpness(PictureView picture, float factor, OpScratch& scratch) {
    if (picture.width < 3 || picture.height < 3) return;
    const std::uint8_t* before = copy_pixels(picture, scratch);
    const auto bytes = static_cast<std::ptrdiff_t>(picture.row_bytes());
    grow(scratch.line, picture.row_bytes());
    std::uint8_t* smooth = scratch.line.data();
    for (int y = 1; y < picture.height - 1; ++y) {
        const std::uint8_t* middle = before + y * bytes;
        smooth_row(middle - bytes, middle, middle + bytes, bytes, smooth);
        blend_row(smooth + 3, factor, picture.row_bytes() - 6, picture.row(y) + 3);
    }
}

}  // namespace trainload
