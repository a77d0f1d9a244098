#include "core/pixels.h"

#include <cstring>
#include <limits>
#include <stdexcept>

#include "core/claims.h"
#include "core/jpeg_decoder.h"

namespace trainload {
namespace {

void check_inside(Box box, Size size) {
    if (box.x < 0 || box.y < 0 || box.width < 1 || box.height < 1 || box.x > size.width - box.width ||
        box.y > size.height - box.height)
        throw std::invalid_argument("the region lies outside of the picture");
}

Pixels new_pixels(Size size) {
    return {size, std::vector<std::uint8_t>(static_cast<std::size_t>(size.width) * size.height * 3)};
}

// Keeps the rows of a region.
class RegionSink final : public RowSink {
  public:
    explicit RegionSink(Pixels& pixels) : pixels_(pixels) {}
    void rows(const std::uint8_t* const* rows, int first, int count) override {
        const auto width = static_cast<std::size_t>(pixels_.size.width);
        for (int y = 0; y < count; ++y) {
            std::uint8_t* const out = pixels_.bytes.data() + static_cast<std::size_t>(first + y) * width * 3;
            for (std::size_t x = 0; x < width; ++x) std::memcpy(out + x * 3, rows[y] + x * 4, 3);
        }
    }

  private:
    Pixels& pixels_;
};

}  // namespace

Verdict decode_pixels(Bytes jpeg, const DecodeRequest& request, Pixels& pixels, std::string& message) {
    JpegHeader header;
    const Verdict claim = judge_header(jpeg, std::numeric_limits<std::int64_t>::max(), header, message);
    if (claim != Verdict::good) return claim;
    const int denominator = request.denominator;
    const Size size{(header.width + denominator - 1) / denominator, (header.height + denominator - 1) / denominator};
    const Box region = request.region.width == 0 ? Box{0, 0, size.width, size.height} : request.region;
    check_inside(region, size);
    pixels = new_pixels({region.width, region.height});
    RegionSink sink(pixels);
    const auto decode = [&](auto&& decoder) {
        const Verdict verdict = decoder.decode(jpeg, header, region, denominator, sink);
        if (verdict != Verdict::good) message = decoder.message();
        return verdict;
    };
    return request.splices ? decode(JpegDecoder()) : decode(RegionDecoder());
}

}  // namespace trainload
