// The byte shuffle of recordings (docs/spec/hyperframe.md, section 4): all first bytes of the elements, then all second
// bytes, and so on. What is left over after the last whole element stays at the end as it is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trainload {

// `bytes` bytes of elements of `size` (at least 1) bytes to planes. The memories must not overlap.
void shuffle(const std::uint8_t* data, std::uint8_t* planes, std::size_t bytes, std::size_t size);

// The inverse.
void unshuffle(const std::uint8_t* planes, std::uint8_t* data, std::size_t bytes, std::size_t size);

}  // namespace trainload
