// Memory for libjpeg that is kept from picture to picture: one block that is handed out from its start and taken back
// whole. libjpeg's own pools ask the system for memory, and give it back, for every picture.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/libjpeg.h"

namespace trainload {

class JpegMemory {
  public:
    JpegMemory() = default;
    JpegMemory(const JpegMemory&) = delete;
    JpegMemory& operator=(const JpegMemory&) = delete;

    // Puts this memory behind a decompress object that has just been created and whose client_data is a JpegClient; it
    // must outlive the object.
    static void install(jpeg_decompress_struct& decoder);

    // Takes everything back that was handed out since the last call; also the Huffman and quantisation tables, so that
    // no picture can see those of the one before.
    void reset(jpeg_decompress_struct& decoder);

    // `size` bytes, aligned to 64; nullptr where that is beyond the limit.
    void* take(std::size_t size);

  private:
    struct Chunk {
        std::unique_ptr<std::byte[]> bytes;
        std::size_t size;
    };
    std::vector<Chunk> chunks_;
    std::size_t used_ = 0;   // of the last chunk
    std::size_t total_ = 0;  // handed out since the last reset
};

}  // namespace trainload
