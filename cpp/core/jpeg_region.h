// Rows of a part of a JPEG as RGB, by libjpeg-turbo: whole MCU rows and columns that the part does not need are
// skipped. The result equals a full decode that is cropped afterwards, bit for bit. One object per thread; it keeps its
// buffers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "core/bytes.h"
#include "core/entry_points.h"
#include "core/geometry.h"
#include "core/jpeg_header.h"

namespace trainload {

enum class Verdict : std::int32_t {
    good = 0,
    other_decoder = 1,  // a kind of picture that this decoder leaves to Pillow (CMYK, 12 bits, PNG, ...)
    corrupt = 2,
    too_large = 3,  // takes more memory than a picture may that is decoded beside others
};

// Takes rows as they are decoded, top to bottom. rows[i] is row first + i of the region: 4 bytes per pixel (red, green,
// blue, anything), readable for 64 bytes beyond its end.
class RowSink {
  public:
    static constexpr int kMaxRows = 4;  // at a time, so that they still lie in the first-level cache
    virtual void rows(const std::uint8_t* const* rows, int first, int count) = 0;

  protected:
    ~RowSink() = default;
};

// Lets every row go: what is left is the decoding alone.
class NoSink final : public RowSink {
  public:
    void rows(const std::uint8_t* const*, int, int) override {}
};

class RegionDecoder {
  public:
    RegionDecoder();
    ~RegionDecoder();
    RegionDecoder(const RegionDecoder&) = delete;
    RegionDecoder& operator=(const RegionDecoder&) = delete;

    // Decodes `region` of the picture scaled down by `denominator` (1, 2 or 4; sides rounded up). header: of these
    // bytes. Rows that were handed over before a failure are to be thrown away.
    Verdict decode(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink);

    // The same by way of entry points: jumps to those that are known and adds those that it passes. False where the
    // data is not sound as far as the region needs it, or the points are those of other bytes: nothing is decided then,
    // and no point is left.
    bool decode_by_points(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink,
                          EntryPoints& points, Verdict& verdict);

    // Why the last decode was not good.
    const char* message() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Whether this decoder takes the picture at all: 8-bit Huffman-coded gray or three-colour.
bool is_decodable(const JpegHeader& header);

}  // namespace trainload
