// The Huffman decoding of a sequential JPEG (T.81 F.2.2), which is half of all the work, in place of libjpeg's: one
// table step gives run, size and value of a coefficient, and short restart segments cost nothing extra. It knows sound
// data only. At the first irregularity it gives up through libjpeg's error exit, and the picture is decoded once more
// in libjpeg's own way: what libjpeg makes of damaged data is the law.
#pragma once

#include <array>
#include <cstdint>

#include "core/libjpeg.h"

namespace trainload {

// What libjpeg's client_data points to: the objects that its callbacks need.
class JpegMemory;
class HuffmanDecoder;
struct JpegClient {
    JpegMemory* memory;
    HuffmanDecoder* huffman;
};

// One table of a JPEG, ready for decoding; kept while the next picture brings the same one.
class HuffmanTable {
  public:
    static constexpr int kLookBits = 10;

    // Returns false where libjpeg's checks would be needed. is_ac: entries hold whole coefficients.
    bool build(const JHUFF_TBL& source, bool is_ac);

    // Of the next bits, the first at the top. From the lowest bit: 8 bits how many bits to take; 8 bits the zeros
    // before the coefficient (kEndOfBlock: there is none); 16 bits its value. With kCodeOnly in the first 8 bits: only
    // the code is taken, and the second 8 bits are its symbol; a length of 0: the code is longer than kLookBits.
    std::uint32_t look(std::uint64_t bits) const { return entries_[bits >> (64 - kLookBits)]; }
    static constexpr std::uint32_t kCodeOnly = 0x80, kEndOfBlock = 128;
    static bool is_whole(std::uint32_t entry) { return (entry & kCodeOnly) == 0; }

    // The symbol of a long code and its length; false where there is no such code.
    bool find_long(std::uint64_t bits, int& symbol, int& length) const;

  private:
    void add_code(unsigned code, int length, int symbol, bool is_ac);

    std::array<std::uint8_t, 17> counts_{};
    std::array<std::uint8_t, 256> symbols_{};
    std::array<std::uint32_t, 1 << kLookBits> entries_;
    std::array<std::int32_t, 17> end_;     // of each length: one more than its last code
    std::array<std::int32_t, 17> offset_;  // a code plus this is its symbol's position
    bool is_ready_ = false;
};

// Entropy-coded bytes as bits, up to the next marker.
struct BitReader {
    const std::uint8_t* at = nullptr;
    const std::uint8_t* end = nullptr;
    std::uint64_t bits = 0;  // the next ones at the top
    int count = 0;           // of them that are there; below zero: the data ended too early

    void refill();  // to at least 56, where there are as many
    void take(int taken) { bits <<= taken, count -= taken; }
    int take_value(int size);
};

class HuffmanDecoder {
  public:
    // Takes over the scan that libjpeg is about to decode, if it is one that this class knows. After
    // jpeg_start_decompress.
    void attach(jpeg_decompress_struct& decoder);

    // Coefficients are wanted in these columns of MCUs only.
    void set_columns(int first, int end) { first_column_ = first, end_column_ = end; }

    // Whether it gave up, which is why libjpeg reported an error.
    bool gave_up() const { return gave_up_; }
    void forget() { gave_up_ = false; }

  private:
    struct Block {
        const HuffmanTable* dc;
        const HuffmanTable* ac;
        int component;
    };
    template <bool stores>
    bool decode_blocks(JBLOCKROW* blocks);
    template <bool stores>
    static bool decode_block(BitReader& reader, const Block& block, int& last_dc, JCOEF* out);

    static boolean decode_mcu(j_decompress_ptr decoder, JBLOCKROW* blocks);
    [[noreturn]] void give_up(j_decompress_ptr decoder);
    bool read_restart();

    std::array<HuffmanTable, NUM_HUFF_TBLS> dc_tables_, ac_tables_;
    std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks_;
    std::array<int, MAX_COMPS_IN_SCAN> last_dc_;
    int block_count_ = 0;
    int restart_interval_ = 0, mcus_to_restart_ = 0, next_restart_ = 0;
    int columns_ = 0, column_ = 0, first_column_ = 0, end_column_ = 0;
    BitReader reader_;
    bool gave_up_ = false;
};

}  // namespace trainload
