// The picture that operations work on: a view of RGB bytes, and the buffers a thread keeps for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainload {

// RGB bytes, interleaved, owned by someone else; rows `stride` bytes apart.
struct PictureView {
    std::uint8_t* data;
    int width;
    int height;
    std::size_t stride;

    std::uint8_t* row(int y) const { return data + static_cast<std::size_t>(y) * stride; }
    std::size_t row_bytes() const { return static_cast<std::size_t>(width) * 3; }
    std::int64_t pixels() const { return static_cast<std::int64_t>(width) * height; }
};

// One thread's buffers: they grow to the largest picture and stay, so that a steady state allocates nothing.
struct OpScratch {
    std::vector<std::uint8_t> pixels;  // a copy of the picture, rows packed
    std::vector<std::uint8_t> line;    // one row of what the picture is mixed with
    std::vector<float> rows;           // the picture between the two directions of a separable filter
    std::vector<float> padded;         // one row with its mirrored edges
    std::vector<float> weights;        // of the filter
};

template <typename T>
void grow(std::vector<T>& buffer, std::size_t size) {
    if (buffer.size() < size) buffer.resize(size);
}

// The same for contents that nobody needs any more: the old memory goes before the new comes.
inline void grow_anew(std::vector<std::uint8_t>& bytes, std::size_t size) {
    if (bytes.size() >= size) return;
    std::vector<std::uint8_t>().swap(bytes);
    bytes.resize(size);
}

// A copy of the picture in scratch.pixels, rows packed.
inline const std::uint8_t* copy_pixels(PictureView picture, OpScratch& scratch) {
    const std::size_t bytes = picture.row_bytes();
    grow(scratch.pixels, bytes * static_cast<std::size_t>(picture.height));
    for (int y = 0; y < picture.height; ++y) {
        const std::uint8_t* row = picture.row(y);
        std::copy(row, row + bytes, scratch.pixels.data() + static_cast<std::size_t>(y) * bytes);
    }
    return scratch.pixels.data();
}

}  // namespace trainload
