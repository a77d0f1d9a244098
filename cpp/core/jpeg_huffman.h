// The Huffman decoding of a sequential JPEG (T.81 F.2.2), which is half of all the work, in place of libjpeg's: one
// table step gives run, size and value of a coefficient, and short restart segments cost nothing extra. It knows sound
// data only. At the first irregularity it gives up through libjpeg's error exit, and the picture is decoded once more
// in libjpeg's own way: what libjpeg makes of damaged data is the law.
#pragma once

#include <array>
#include <cstdint>

#include "core/entry_points.h"
#include "core/huffman_table.h"
#include "core/libjpeg.h"

namespace trainload {

// What libjpeg's client_data points to: the objects that its callbacks need.
class JpegMemory;
class HuffmanDecoder;
struct JpegClient {
    JpegMemory* memory;
    HuffmanDecoder* huffman;
};

// Entropy-coded bytes as bits, up to the next marker.
struct BitReader {
    const std::uint8_t* at = nullptr;
    const std::uint8_t* end = nullptr;
    std::uint64_t bits = 0;  // the next ones at the top
    int count = 0;           // of them that are there; below zero: the data ended too early

    void refill();  // to at least 56, where there are as many
    void take(int taken) { bits <<= taken, count -= taken; }
};

class HuffmanDecoder {
  public:
    // Takes over the scan that libjpeg is about to decode, if it is one that this class knows. After
    // jpeg_start_decompress. points: those of this very picture that are known, to jump to; new ones are added. May be
    // nullptr.
    void attach(jpeg_decompress_struct& decoder, EntryPoints* points);

    // Coefficients are wanted in these columns of MCUs only.
    void set_columns(int first, int end) { first_column_ = first, end_column_ = end; }

    // Whether it gave up, which is why libjpeg reported an error.
    bool gave_up() const { return gave_up_; }
    void forget() { gave_up_ = false; }

  private:
    struct Block {
        const DcTable* dc;
        const AcTable* ac;
        int component;
    };
    template <bool stores>
    bool decode_next(JBLOCKROW* blocks);
    template <bool stores>
    static bool decode_block(BitReader& reader, const Block& block, int& last_dc, JCOEF* out);
    template <bool stores>
    static int take_coefficients(BitReader& reader, const AcTable& table, int place, JCOEF* out);
    template <bool stores>
    static int take_alone(BitReader& reader, const AcTable& table, int place, JCOEF* out, bool is_longer);

    static boolean decode_mcu(j_decompress_ptr decoder, JBLOCKROW* blocks);
    [[noreturn]] void give_up(j_decompress_ptr decoder);
    bool take_tables(const jpeg_decompress_struct& decoder);
    bool go_to(int mcu);
    bool enter(int mcu, const EntryPoint& point);
    bool pass_entry_point();
    EntryPoint entry_point() const;
    bool read_restart();

    std::array<DcTable, NUM_HUFF_TBLS> dc_tables_;
    std::array<AcTable, NUM_HUFF_TBLS> ac_tables_;
    std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks_;
    std::array<int, MAX_COMPS_IN_SCAN> last_dc_;
    int block_count_ = 0;
    int restart_interval_ = 0, mcus_to_restart_ = 0, next_restart_ = 0;
    int columns_ = 0, column_ = 0, first_column_ = 0, end_column_ = 0;
    int asked_mcu_ = 0, mcu_ = 0;  // the next that libjpeg asks for, the next that the reader stands at
    EntryPoints* points_ = nullptr;
    int step_ = 1, next_point_ = -1;  // MCUs between entry points, the MCU of the next one that the reader passes
    const std::uint8_t* start_ = nullptr;
    BitReader reader_;
    bool gave_up_ = false;
};

}  // namespace trainload
