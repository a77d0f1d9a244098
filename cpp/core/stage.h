// Runs one geometry stage: rows of a source (a JPEG's region or a picture in memory) are resampled to the stage's
// window.
#pragma once

#include <cstdint>
#include <vector>

#include "core/geometry.h"
#include "core/jpeg_region.h"
#include "core/kernels.h"
#include "core/picture.h"
#include "core/resample.h"

namespace trainload {

// Takes finished rows of RGB. room(y): where the bytes of row y may be written; row(y, rgb): they are there.
class WindowSink {
  public:
    virtual std::uint8_t* room(int y) = 0;
    virtual void row(int y, const std::uint8_t* rgb) = 0;

  protected:
    ~WindowSink() = default;
};

// One thread's buffers for stages; they grow to the largest picture and stay.
class StageRunner final : public RowSink {
  public:
    explicit StageRunner(const Kernels& kernels) : kernels_(&kernels) {}

    // Prepares the visible part of the stage's window (what lies inside the scaled picture), for a source that is
    // `denominator` times smaller than stage.input says. Returns the region of the source to hand to rows().
    Box begin(const Stage& stage, int denominator, bool mirror_x, bool mirror_y);

    // From the source, top to bottom, 4 bytes per pixel.
    void rows(const std::uint8_t* const* rows, int first, int count) override;

    // The same from a picture in memory; region: what begin() returned.
    void rows_of(PictureView source, Box region);

    // Hands every row of the visible part to the sink.
    void finish(WindowSink& sink);

    // The part of the window that has pixels: all of it unless the stage pads with a constant.
    static Box visible(const Stage& stage);

    // The rows between the two directions of the resampling, in bytes: about as much as begin() takes.
    static std::size_t memory_of(const Stage& stage);

  private:
    const Kernels* kernels_;
    AxisFilter columns_, rows_;
    std::vector<std::uint8_t> between_;   // rows of the source, columns of the output
    std::vector<std::uint8_t> spare_;     // takes the rows of an incomplete group of four
    std::vector<std::uint8_t> expanded_;  // source rows as 4 bytes per pixel
    std::size_t stride_ = 0;
};

// Fills `window` from the visible part of a stage, by the stage's padding rule. Both are packed RGB.
void pad_window(const Stage& stage, PictureView visible, PictureView window);

}  // namespace trainload
