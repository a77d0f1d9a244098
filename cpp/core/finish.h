// The last pass: rows of 8-bit RGB become the batch's numbers in the batch's layout, normalised, with erased boxes.
// Flips cost nothing here: the resampling writes its rows and columns in reverse (resample.h, `mirrored`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/geometry.h"
#include "core/kernels.h"

namespace trainload {

enum class OutputType : std::uint8_t { uint8, float32, float16 };
enum class OutputLayout : std::uint8_t { nhwc, nchw, nhwc4 };  // nhwc4: a fourth channel of zeros

struct OutputFormat {
    OutputType type;
    OutputLayout layout;
    int width, height;
    // Floats are pixel * (1 / (255 std)) + (-mean / std): both factors rounded to single precision first.
    std::array<double, 3> mean, std;

    int channels() const { return layout == OutputLayout::nhwc4 ? 4 : 3; }
    std::size_t item_bytes() const { return type == OutputType::uint8 ? 1 : type == OutputType::float16 ? 2 : 4; }
    std::size_t picture_bytes() const {
        return item_bytes() * static_cast<std::size_t>(channels()) * static_cast<std::size_t>(width) *
               static_cast<std::size_t>(height);
    }
};

struct Erasure {
    Box box;
    bool noise;  // normal numbers instead of `value`
    std::array<float, 3> value;
    Draws draws;  // for the noise
};

// The box that random_erasing draws, if it draws one (geometry.h has the parameters and the order of the draws).
bool plan_erasure(const OpSpec& op, Size picture, Draws draws, Erasure& erasure);

class LastPass {
  public:
    explicit LastPass(const OutputFormat& format);

    const OutputFormat& format() const { return format_; }

    // Where row y of a picture may be written as RGB bytes with no further step; nullptr if the format needs one.
    std::uint8_t* rgb_row(std::byte* picture, int y) const;

    // Writes row y. scratch: of this thread, grows once.
    void write_row(const Kernels& kernels, const std::uint8_t* rgb, std::byte* picture, int y,
                   std::vector<std::uint8_t>& scratch) const;

    void erase(Erasure& erasure, std::byte* picture) const;

  private:
    void write_numbers(const Kernels& kernels, const std::uint8_t* values, int channel, int count,
                       std::byte* out) const;

    OutputFormat format_;
    std::array<std::vector<float>, 3> scale_, offset_;  // nchw: of each plane's row; else [0]: of an interleaved row
};

}  // namespace trainload
