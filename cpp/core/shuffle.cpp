#include "core/shuffle.h"

#include <algorithm>
#include <cstring>

#include "core/clones.h"

namespace trainload {
namespace {

constexpr std::size_t block = 256;  // elements at a time: what is touched stays in the first-level cache

// `width` planes, `stride` apart, to pieces of `width` bytes: plain loops that the compiler turns into byte unpacking.
template <std::size_t width>
inline void interleave(const std::uint8_t* __restrict planes, std::size_t stride, std::uint8_t* __restrict pieces,
                       std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < width; ++k) pieces[i * width + k] = planes[k * stride + i];
    }
}

template <std::size_t width>
inline void separate(const std::uint8_t* __restrict pieces, std::uint8_t* __restrict planes, std::size_t stride,
                     std::size_t count) {
    for (std::size_t k = 0; k < width; ++k) {
        for (std::size_t i = 0; i < count; ++i) planes[k * stride + i] = pieces[i * width + k];
    }
}

// `width` neighbouring bytes of `count` elements of `size` bytes.
template <std::size_t width>
inline void shuffle_part(const std::uint8_t* data, std::uint8_t* planes, std::size_t count, std::size_t size) {
    std::uint8_t pieces[block * width];
    for (std::size_t start = 0; start < count; start += block) {
        const std::size_t here = std::min(block, count - start);
        for (std::size_t i = 0; i < here; ++i) std::memcpy(pieces + i * width, data + (start + i) * size, width);
        separate<width>(pieces, planes + start, count, here);
    }
}

template <std::size_t width>
inline void unshuffle_part(const std::uint8_t* planes, std::uint8_t* data, std::size_t count, std::size_t size) {
    std::uint8_t pieces[block * width];
    for (std::size_t start = 0; start < count; start += block) {
        const std::size_t here = std::min(block, count - start);
        interleave<width>(planes + start, count, pieces, here);
        for (std::size_t i = 0; i < here; ++i) std::memcpy(data + (start + i) * size, pieces + i * width, width);
    }
}

}  // namespace

TRAINLOAD_CLONES
void shuffle(const std::uint8_t* data, std::uint8_t* planes, std::size_t bytes, std::size_t size) {
    const std::size_t count = bytes / size, whole = count * size;
    std::size_t at = 0;
    if (size == 2 || size == 4 || size == 8) {
        if (size == 2) separate<2>(data, planes, count, count);
        if (size == 4) separate<4>(data, planes, count, count);
        if (size == 8) separate<8>(data, planes, count, count);
        at = size;
    }
    for (; at + 8 <= size; at += 8) shuffle_part<8>(data + at, planes + at * count, count, size);
    for (; at + 4 <= size; at += 4) shuffle_part<4>(data + at, planes + at * count, count, size);
    for (; at < size; ++at) {
        for (std::size_t i = 0; i < count; ++i) planes[at * count + i] = data[i * size + at];
    }
    std::copy(data + whole, data + bytes, planes + whole);
}

TRAINLOAD_CLONES
void unshuffle(const std::uint8_t* planes, std::uint8_t* data, std::size_t bytes, std::size_t size) {
    const std::size_t count = bytes / size, whole = count * size;
    std::size_t at = 0;
    if (size == 2 || size == 4 || size == 8) {
        if (size == 2) interleave<2>(planes, count, data, count);
        if (size == 4) interleave<4>(planes, count, data, count);
        if (size == 8) interleave<8>(planes, count, data, count);
        at = size;
    }
    for (; at + 8 <= size; at += 8) unshuffle_part<8>(planes + at * count, data + at, count, size);
    for (; at + 4 <= size; at += 4) unshuffle_part<4>(planes + at * count, data + at, count, size);
    for (; at < size; ++at) {
        for (std::size_t i = 0; i < count; ++i) data[i * size + at] = planes[at * count + i];
    }
    std::copy(planes + whole, planes + bytes, data + whole);
}

}  // namespace trainload
