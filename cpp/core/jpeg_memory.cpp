#include "core/jpeg_memory.h"

#include <algorithm>
#include <cstdint>
#include <new>

#include "core/jpeg_huffman.h"

namespace trainload {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kFirstChunk = std::size_t{1} << 20;
constexpr std::size_t kLimit = std::size_t{1} << 30;

JpegMemory& memory_of(j_common_ptr decoder) {
    return *static_cast<JpegClient*>(decoder->client_data)->memory;
}

[[noreturn]] void fail(j_common_ptr decoder) {
    decoder->err->msg_code = JERR_OUT_OF_MEMORY;
    decoder->err->msg_parm.i[0] = 0;
    (*decoder->err->error_exit)(decoder);
    __builtin_unreachable();
}

void* allocate(j_common_ptr decoder, int, std::size_t size) {
    void* const memory = memory_of(decoder).take(size);
    if (memory == nullptr) fail(decoder);
    return memory;
}

template <typename Row>
Row* allocate_rows(j_common_ptr decoder, std::size_t row_bytes, JDIMENSION count) {
    // libjpeg-turbo's SIMD code reads and writes whole vectors: rows start aligned and end padded.
    row_bytes = (row_bytes + 2 * kAlignment - 1) / (2 * kAlignment) * (2 * kAlignment);
    if (count != 0 && row_bytes > kLimit / count) fail(decoder);
    auto* const rows = static_cast<Row*>(allocate(decoder, 0, count * sizeof(Row)));
    auto* const bytes = static_cast<unsigned char*>(allocate(decoder, 0, row_bytes * count));
    for (JDIMENSION i = 0; i < count; ++i) rows[i] = reinterpret_cast<Row>(bytes + i * row_bytes);
    return rows;
}

JSAMPARRAY allocate_samples(j_common_ptr decoder, int, JDIMENSION samples, JDIMENSION rows) {
    return allocate_rows<JSAMPROW>(decoder, samples * sizeof(JSAMPLE), rows);
}

JBLOCKARRAY allocate_blocks(j_common_ptr decoder, int, JDIMENSION blocks, JDIMENSION rows) {
    return allocate_rows<JBLOCKROW>(decoder, blocks * sizeof(JBLOCK), rows);
}

}  // namespace

void JpegMemory::install(jpeg_decompress_struct& decoder) {
    decoder.mem->alloc_small = allocate;
    decoder.mem->alloc_large = allocate;
    decoder.mem->alloc_sarray = allocate_samples;
    decoder.mem->alloc_barray = allocate_blocks;
}

void JpegMemory::reset(jpeg_decompress_struct& decoder) {
    std::fill(std::begin(decoder.quant_tbl_ptrs), std::end(decoder.quant_tbl_ptrs), nullptr);
    std::fill(std::begin(decoder.dc_huff_tbl_ptrs), std::end(decoder.dc_huff_tbl_ptrs), nullptr);
    std::fill(std::begin(decoder.ac_huff_tbl_ptrs), std::end(decoder.ac_huff_tbl_ptrs), nullptr);
    if (chunks_.size() > 1) {  // next time one chunk is enough
        chunks_.clear();
        chunks_.push_back({std::make_unique_for_overwrite<std::byte[]>(total_ + kAlignment), total_ + kAlignment});
    }
    used_ = total_ = 0;
}

void* JpegMemory::take(std::size_t size) {
    if (size > kLimit || total_ > kLimit) return nullptr;
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    if (chunks_.empty() || chunks_.back().size - used_ < size + kAlignment) {
        const std::size_t wanted = std::max(size + kAlignment, chunks_.empty() ? kFirstChunk : total_);
        std::unique_ptr<std::byte[]> bytes(new (std::nothrow) std::byte[wanted]);
        if (bytes == nullptr) return nullptr;
        chunks_.push_back({std::move(bytes), wanted});
        used_ = 0;
    }
    void* start = chunks_.back().bytes.get() + used_;
    std::size_t space = chunks_.back().size - used_;
    std::align(kAlignment, size, start, space);
    used_ = chunks_.back().size - space + size;
    total_ += size;
    return start;
}

}  // namespace trainload
