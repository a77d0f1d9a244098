#include "core/jpeg_huffman.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace trainload {
namespace {

// The head of libjpeg's struct jpeg_entropy_decoder (jpegint.h, which is not installed everywhere): the same in
// libjpeg-turbo 1 to 3.
struct EntropyDecoder {
    void (*start_pass)(j_decompress_ptr);
    boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW*);
};

constexpr std::array<std::uint8_t, 64> kNaturalOrder{0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                                     12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                                     35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                                     58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// The value that `size` extra bits stand for (T.81 F.2.2.1, EXTEND).
int extended(int bits, int size) {
    return bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits;
}

std::uint64_t load_big_endian(const std::uint8_t* bytes) {
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

bool has_byte_ff(std::uint64_t word) {
    return ((~word - 0x0101010101010101ULL) & word & 0x8080808080808080ULL) != 0;
}

// The next symbol and its length, from an entry that does not hold a whole coefficient. False: there is no such code.
inline bool find_code(const HuffmanTable& table, std::uint64_t bits, std::uint32_t entry, int& symbol, int& length) {
    symbol = static_cast<int>(entry >> 8);
    length = static_cast<int>(entry & 0x7F);
    return length != 0 || table.find_long(bits, symbol, length);
}

}  // namespace

inline void BitReader::refill() {
    if (end - at >= 8) {
        const std::uint64_t word = load_big_endian(at);
        if (!has_byte_ff(word)) [[likely]] {
            // What does not fill a byte of `bits` is not counted; the next refill puts the same bits there once more.
            const int bytes = (63 - count) >> 3;
            bits |= word >> count;
            at += bytes;
            count += bytes * 8;
            return;
        }
    }
    while (count < 56 && at < end) {
        const std::uint8_t byte = *at;
        if (byte == 0xFF) {
            if (end - at < 2 || at[1] != 0) return;  // a marker
            ++at;
        }
        ++at;
        bits |= std::uint64_t{byte} << (56 - count);
        count += 8;
    }
}

inline int BitReader::take_value(int size) {
    if (size == 0) return 0;
    const int value = extended(static_cast<int>(bits >> (64 - size)), size);
    take(size);
    return value;
}

bool HuffmanTable::build(const JHUFF_TBL& source, bool is_ac) {
    if (is_ready_ && std::equal(counts_.begin(), counts_.end(), source.bits) &&
        std::equal(symbols_.begin(), symbols_.end(), source.huffval))
        return true;
    is_ready_ = false;
    std::copy_n(source.bits, counts_.size(), counts_.begin());
    std::copy_n(source.huffval, symbols_.size(), symbols_.begin());
    entries_.fill(kCodeOnly);
    int code = 0, position = 0;
    for (int length = 1; length <= 16; ++length, code <<= 1) {
        offset_[length] = position - code;
        if (position + counts_[length] > 256 || code + counts_[length] > 1 << length) return false;
        for (int i = 0; i < counts_[length]; ++i, ++code, ++position)
            if (length <= kLookBits) add_code(static_cast<unsigned>(code), length, symbols_[position], is_ac);
        end_[length] = code;
    }
    return is_ready_ = true;
}

void HuffmanTable::add_code(unsigned code, int length, int symbol, bool is_ac) {
    const int run = is_ac ? symbol >> 4 : 0, size = is_ac ? symbol & 15 : symbol, rest = kLookBits - length;
    for (unsigned tail = 0; tail < 1U << rest; ++tail) {
        auto entry = static_cast<std::uint32_t>(symbol << 8 | length) | kCodeOnly;
        if (size == 0) {
            const bool ends = is_ac && run != 15;
            entry = static_cast<std::uint32_t>(length) | (ends ? kEndOfBlock : static_cast<unsigned>(run)) << 8;
        } else if (size <= rest) {
            const int value = extended(static_cast<int>(tail >> (rest - size)), size);
            entry = static_cast<std::uint32_t>(value) << 16 | static_cast<unsigned>(run) << 8 |
                    static_cast<unsigned>(length + size);
        }
        entries_[code << rest | tail] = entry;
    }
}

bool HuffmanTable::find_long(std::uint64_t bits, int& symbol, int& length) const {
    for (length = kLookBits + 1; length <= 16; ++length) {
        const auto code = static_cast<std::int32_t>(bits >> (64 - length));
        if (code >= end_[length]) continue;
        symbol = symbols_[static_cast<std::size_t>(code + offset_[length])];
        return true;
    }
    return false;
}

void HuffmanDecoder::attach(jpeg_decompress_struct& decoder) {
    if (decoder.progressive_mode || decoder.arith_code || jpeg_has_multiple_scans(&decoder)) return;
    block_count_ = decoder.blocks_in_MCU;
    for (int i = 0; i < block_count_; ++i) {
        const int component = decoder.MCU_membership[i];
        const jpeg_component_info& info = *decoder.cur_comp_info[component];
        const JHUFF_TBL* const dc = decoder.dc_huff_tbl_ptrs[info.dc_tbl_no];
        const JHUFF_TBL* const ac = decoder.ac_huff_tbl_ptrs[info.ac_tbl_no];
        if (dc == nullptr || ac == nullptr) return;
        HuffmanTable &dc_table = dc_tables_[info.dc_tbl_no], &ac_table = ac_tables_[info.ac_tbl_no];
        if (!dc_table.build(*dc, false) || !ac_table.build(*ac, true)) return;
        blocks_[i] = {&dc_table, &ac_table, component};
    }
    restart_interval_ = mcus_to_restart_ = static_cast<int>(decoder.restart_interval);
    next_restart_ = 0;
    columns_ = end_column_ = static_cast<int>(decoder.MCUs_per_row);
    column_ = first_column_ = 0;
    last_dc_.fill(0);
    const std::uint8_t* const start = decoder.src->next_input_byte;
    reader_ = {start, start + decoder.src->bytes_in_buffer, 0, 0};
    reinterpret_cast<EntropyDecoder*>(decoder.entropy)->decode_mcu = decode_mcu;
}

void HuffmanDecoder::give_up(j_decompress_ptr decoder) {
    gave_up_ = true;
    decoder->err->msg_code = JERR_BAD_STATE;
    (*decoder->err->error_exit)(reinterpret_cast<j_common_ptr>(decoder));
    __builtin_unreachable();
}

// blocks: null where the rows of this MCU are skipped.
boolean HuffmanDecoder::decode_mcu(j_decompress_ptr decoder, JBLOCKROW* blocks) {
    HuffmanDecoder& self = *static_cast<JpegClient*>(decoder->client_data)->huffman;
    if (self.restart_interval_ != 0 && self.mcus_to_restart_-- == 0 && !self.read_restart()) self.give_up(decoder);
    const bool stores = blocks != nullptr && self.column_ >= self.first_column_ && self.column_ < self.end_column_;
    if (!(stores ? self.decode_blocks<true>(blocks) : self.decode_blocks<false>(blocks))) self.give_up(decoder);
    if (++self.column_ == self.columns_) self.column_ = 0;
    return TRUE;
}

bool HuffmanDecoder::read_restart() {
    // Fewer than 8 bits are left over, and the marker is the expected one.
    const std::uint8_t* const at = reader_.at;
    if (reader_.count >= 8 || reader_.end - at < 2 || at[0] != 0xFF || at[1] != 0xD0 + next_restart_) return false;
    reader_ = {at + 2, reader_.end, 0, 0};
    last_dc_.fill(0);
    next_restart_ = (next_restart_ + 1) & 7;
    mcus_to_restart_ = restart_interval_ - 1;
    return true;
}

template <bool stores>
bool HuffmanDecoder::decode_blocks(JBLOCKROW* blocks) {
    BitReader reader = reader_;  // stays in registers
    for (int i = 0; i < block_count_; ++i) {
        const Block& block = blocks_[static_cast<std::size_t>(i)];
        int& last_dc = last_dc_[static_cast<std::size_t>(block.component)];
        if (!decode_block<stores>(reader, block, last_dc, stores ? *blocks[i] : nullptr)) return false;
    }
    reader_ = reader;
    return true;
}

template <bool stores>
inline bool HuffmanDecoder::decode_block(BitReader& reader, const Block& block, int& last_dc, JCOEF* out) {
    reader.refill();
    std::uint32_t entry = block.dc->look(reader.bits);
    int symbol, length;
    if (HuffmanTable::is_whole(entry)) {
        last_dc += static_cast<std::int32_t>(entry) >> 16;
        reader.take(static_cast<int>(entry & 0x7F));
    } else {
        if (!find_code(*block.dc, reader.bits, entry, symbol, length)) return false;
        reader.take(length);
        last_dc += reader.take_value(symbol & 15);
    }
    if (last_dc != static_cast<JCOEF>(last_dc)) return false;
    if (stores) out[0] = static_cast<JCOEF>(last_dc);
    for (int k = 1; k < 64; ++k) {
        reader.refill();
        entry = block.ac->look(reader.bits);
        // Coefficients that are whole in the table, as many as the bits last; 32 of them stay for what comes then.
        for (int room = 56 - 32; HuffmanTable::is_whole(entry); entry = block.ac->look(reader.bits)) {
            reader.take(static_cast<int>(entry & 0x7F));
            k += static_cast<int>(entry >> 8 & 0xFF);
            if (k >= 64) return k >= static_cast<int>(HuffmanTable::kEndOfBlock) && reader.count >= 0;
            if (stores) out[kNaturalOrder[k]] = static_cast<JCOEF>(static_cast<std::int32_t>(entry) >> 16);
            if (++k == 64) return reader.count >= 0;
            room -= HuffmanTable::kLookBits;
            if (room < 0) reader.refill(), room = 56 - 32;
        }
        if (!find_code(*block.ac, reader.bits, entry, symbol, length)) return false;
        reader.take(length);
        const int run = symbol >> 4, size = symbol & 15;
        if (size == 0 && run != 15) return reader.count >= 0;
        k += run;
        if (k >= 64) return false;
        const int value = reader.take_value(size);
        if (stores && size != 0) out[kNaturalOrder[k]] = static_cast<JCOEF>(value);
    }
    return reader.count >= 0;
}

}  // namespace trainload
