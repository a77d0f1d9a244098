#include "core/affine.h"

#include <cmath>
#include <numbers>

#include "core/clones.h"

namespace trainload {

namespace {

// The picture as it was before the operation, rows packed.
struct Source {
    const std::uint8_t* data;
    int width, height;

    const std::uint8_t* pixel(int x, int y) const {
        return data + (static_cast<std::size_t>(y) * static_cast<std::size_t>(width) + static_cast<std::size_t>(x)) * 3;
    }
    int inside_x(int x) const { return x < 0 ? 0 : x < width ? x : width - 1; }
    int inside_y(int y) const { return y < 0 ? 0 : y < height ? y : height - 1; }
};

void put(std::uint8_t* pixel, const std::uint8_t* colour) {
    pixel[0] = colour[0];
    pixel[1] = colour[1];
    pixel[2] = colour[2];
}

std::int64_t fixed_point(double value) {
    return static_cast<std::int64_t>(std::floor(value * 65536.0 + 0.5));
}

// Coordinates in 16.16 fixed point, as in Pillow's affine_fixed.
void sample_nearest(const Source& source, const AffineMatrix& m, const Rgb& fill, PictureView picture) {
    const std::int64_t x_right = fixed_point(m[0]), x_down = fixed_point(m[1]);
    const std::int64_t y_right = fixed_point(m[3]), y_down = fixed_point(m[4]);
    std::int64_t x_start = fixed_point(m[2] + m[0] * 0.5 + m[1] * 0.5);
    std::int64_t y_start = fixed_point(m[5] + m[3] * 0.5 + m[4] * 0.5);
    const std::int64_t x_end = std::int64_t{source.width} << 16, y_end = std::int64_t{source.height} << 16;
    for (int y = 0; y < picture.height; ++y, x_start += x_down, y_start += y_down) {
        std::uint8_t* pixel = picture.row(y);
        std::int64_t x_in = x_start, y_in = y_start;
        for (int x = 0; x < picture.width; ++x, pixel += 3, x_in += x_right, y_in += y_right) {
            const bool inside = x_in >= 0 && x_in < x_end && y_in >= 0 && y_in < y_end;
            put(pixel, inside ? source.pixel(static_cast<int>(x_in >> 16), static_cast<int>(y_in >> 16)) : fill.data());
        }
    }
}

inline double between(double from, double to, double part) {
    return from + (to - from) * part;
}

// Pillow's bilinear_filter32RGB: double precision, cut towards zero; the edge pixel is repeated.
inline void sample_bilinear_at(const Source& source, double x_in, double y_in, std::uint8_t* pixel) {
    x_in -= 0.5;
    y_in -= 0.5;
    const int x = static_cast<int>(std::floor(x_in)), y = static_cast<int>(std::floor(y_in));
    const double part_x = x_in - x, part_y = y_in - y;
    const int left = source.inside_x(x), right = source.inside_x(x + 1);
    const int top = source.inside_y(y), bottom = source.inside_y(y + 1);
    const std::uint8_t *top_left = source.pixel(left, top), *top_right = source.pixel(right, top);
    const std::uint8_t *bottom_left = source.pixel(left, bottom), *bottom_right = source.pixel(right, bottom);
    for (int channel = 0; channel < 3; ++channel) {
        const double above = between(top_left[channel], top_right[channel], part_x);
        const double below = between(bottom_left[channel], bottom_right[channel], part_x);
        pixel[channel] = static_cast<std::uint8_t>(between(above, below, part_y));
    }
}

TRAINLOAD_CLONES void sample_bilinear(const Source& source, const AffineMatrix& m, const Rgb& fill,
                                      PictureView picture) {
    for (int y = 0; y < picture.height; ++y) {
        std::uint8_t* pixel = picture.row(y);
        for (int x = 0; x < picture.width; ++x, pixel += 3) {
            const double x_in = m[0] * (x + 0.5) + m[1] * (y + 0.5) + m[2];
            const double y_in = m[3] * (x + 0.5) + m[4] * (y + 0.5) + m[5];
            if (x_in >= 0.0 && x_in < source.width && y_in >= 0.0 && y_in < source.height) {
                sample_bilinear_at(source, x_in, y_in, pixel);
            } else {
                put(pixel, fill.data());
            }
        }
    }
}

// Pixels moved, none mixed: a quarter turn counter-clockwise (turns 1) or clockwise (turns 3) of a square picture.
void quarter_turn(PictureView picture, int turns, OpScratch& scratch) {
    const Source source{copy_pixels(picture, scratch), picture.width, picture.height};
    const int last = picture.width - 1;
    for (int y = 0; y < picture.height; ++y) {
        std::uint8_t* pixel = picture.row(y);
        for (int x = 0; x < picture.width; ++x, pixel += 3) {
            put(pixel, turns == 1 ? source.pixel(last - y, x) : source.pixel(y, last - x));
        }
    }
}

bool turned_exactly(PictureView picture, double degrees, OpScratch& scratch) {
    if (degrees == 180.0) {
        flip_horizontally(picture);
        flip_vertically(picture);
    } else if ((degrees == 90.0 || degrees == 270.0) && picture.width == picture.height) {
        quarter_turn(picture, degrees == 90.0 ? 1 : 3, scratch);
    } else {
        return degrees == 0.0;
    }
    return true;
}

// Python's round(value, 15): the product's lost bits decide where it seems to lie half-way.
double to_15_decimals(double value) {
    const double scaled = value * 1e15, lost = std::fma(value, 1e15, -scaled);
    const double below = std::floor(scaled);
    return (scaled - below + lost >= 0.5 ? below + 1.0 : below) / 1e15;
}

}  // namespace

void transform(PictureView picture, const AffineMatrix& matrix, Sampling sampling, OpScratch& scratch) {
    const Source source{copy_pixels(picture, scratch), picture.width, picture.height};
    if (sampling.interpolation == Interpolation::nearest) {
        sample_nearest(source, matrix, sampling.fill, picture);
    } else {
        sample_bilinear(source, matrix, sampling.fill, picture);
    }
}

void rotate(PictureView picture, double degrees, std::optional<Point> center, Sampling sampling, OpScratch& scratch) {
    degrees = std::fmod(degrees, 360.0);
    if (degrees < 0.0) degrees += 360.0;
    if (!center && turned_exactly(picture, degrees, scratch)) return;
    const Point about = center.value_or(Point{picture.width / 2.0, picture.height / 2.0});
    const double radians = -degrees * (std::numbers::pi / 180.0);
    const double cosine = to_15_decimals(std::cos(radians)), sine = to_15_decimals(std::sin(radians));
    const double x_shift = cosine * -about.x + sine * -about.y + about.x;
    const double y_shift = -sine * -about.x + cosine * -about.y + about.y;
    transform(picture, {cosine, sine, x_shift, -sine, cosine, y_shift}, sampling, scratch);
}

void flip_horizontally(PictureView picture) {
    for (int y = 0; y < picture.height; ++y) {
        std::uint8_t* left = picture.row(y);
        for (std::uint8_t* right = left + picture.row_bytes() - 3; left < right; left += 3, right -= 3) {
            std::swap_ranges(left, left + 3, right);
        }
    }
}

void flip_vertically(PictureView picture) {
    for (int top = 0, bottom = picture.height - 1; top < bottom; ++top, --bottom) {
        std::swap_ranges(picture.row(top), picture.row(top) + picture.row_bytes(), picture.row(bottom));
    }
}

}  // namespace trainload
