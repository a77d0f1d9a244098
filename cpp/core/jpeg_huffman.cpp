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

// Closer entry points cost more memory (a picture of 500x375 has 370 of them, 4.4 KB) and save no more time.
constexpr int kBlocksBetweenPoints = 24;
constexpr std::size_t kMostBytes = std::size_t{1} << 28;  // of data whose bits an entry point can count

// Where a coefficient's place in the zigzag order stands in the block. Places that are none, which only damaged data
// has, stand for the last one: such a block is given up.
constexpr std::array<std::uint8_t, 64 + 16> kNaturalOrder{
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

std::uint64_t load_big_endian(const std::uint8_t* bytes) {
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    return std::endian::native == std::endian::little ? __builtin_bswap64(word) : word;
}

bool has_byte_ff(std::uint64_t word) {
    return ((~word - 0x0101010101010101ULL) & word & 0x8080808080808080ULL) != 0;
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

void HuffmanDecoder::attach(jpeg_decompress_struct& decoder, EntryPoints* points) {
    if (decoder.progressive_mode || decoder.arith_code || jpeg_has_multiple_scans(&decoder)) return;
    if (!take_tables(decoder)) return;
    restart_interval_ = mcus_to_restart_ = static_cast<int>(decoder.restart_interval);
    next_restart_ = 0;
    columns_ = end_column_ = static_cast<int>(decoder.MCUs_per_row);
    column_ = first_column_ = asked_mcu_ = mcu_ = 0;
    last_dc_.fill(0);
    start_ = decoder.src->next_input_byte;
    reader_ = {start_, start_ + decoder.src->bytes_in_buffer, 0, 0};
    points_ = decoder.src->bytes_in_buffer <= kMostBytes ? points : nullptr;
    next_point_ = -1;
    if (points_ != nullptr) {
        step_ = next_point_ = std::max(1, kBlocksBetweenPoints / block_count_);
        points_->reserve(static_cast<std::size_t>(columns_) * decoder.MCU_rows_in_scan / static_cast<unsigned>(step_));
    }
    reinterpret_cast<EntropyDecoder*>(decoder.entropy)->decode_mcu = decode_mcu;
}

bool HuffmanDecoder::take_tables(const jpeg_decompress_struct& decoder) {
    block_count_ = decoder.blocks_in_MCU;
    for (int i = 0; i < block_count_; ++i) {
        const int component = decoder.MCU_membership[i];
        const jpeg_component_info& info = *decoder.cur_comp_info[component];
        const JHUFF_TBL* const dc = decoder.dc_huff_tbl_ptrs[info.dc_tbl_no];
        const JHUFF_TBL* const ac = decoder.ac_huff_tbl_ptrs[info.ac_tbl_no];
        if (dc == nullptr || ac == nullptr) return false;
        DcTable& dc_table = dc_tables_[info.dc_tbl_no];
        AcTable& ac_table = ac_tables_[info.ac_tbl_no];
        if (!dc_table.build(*dc) || !ac_table.build(*ac)) return false;
        blocks_[i] = {&dc_table, &ac_table, component};
    }
    return true;
}

void HuffmanDecoder::give_up(j_decompress_ptr decoder) {
    gave_up_ = true;
    decoder->err->msg_code = JERR_BAD_STATE;
    (*decoder->err->error_exit)(reinterpret_cast<j_common_ptr>(decoder));
    __builtin_unreachable();
}

// blocks: null where the rows of this MCU are skipped. What is not wanted is left lying until more is wanted.
boolean HuffmanDecoder::decode_mcu(j_decompress_ptr decoder, JBLOCKROW* blocks) {
    HuffmanDecoder& self = *static_cast<JpegClient*>(decoder->client_data)->huffman;
    const int mcu = self.asked_mcu_++, column = self.column_;
    self.column_ = column + 1 == self.columns_ ? 0 : column + 1;
    if (blocks == nullptr || column < self.first_column_ || column >= self.end_column_) return TRUE;
    if ((self.mcu_ != mcu && !self.go_to(mcu)) || !self.decode_next<true>(blocks)) self.give_up(decoder);
    return TRUE;
}

bool HuffmanDecoder::go_to(int mcu) {
    if (points_ != nullptr) {
        const int nearest = std::min(mcu / step_, static_cast<int>(points_->size()));
        if (nearest * step_ > mcu_ && !enter(nearest * step_, (*points_)[static_cast<std::size_t>(nearest - 1)]))
            return false;
    }
    while (mcu_ < mcu)
        if (!decode_next<false>(nullptr)) return false;
    return true;
}

bool HuffmanDecoder::enter(int mcu, const EntryPoint& point) {
    if (point.bit / 8 > static_cast<std::size_t>(reader_.end - start_)) return false;
    reader_ = {start_ + point.bit / 8, reader_.end, 0, 0};
    reader_.refill();
    reader_.take(static_cast<int>(point.bit % 8));
    std::ranges::copy(point.means, last_dc_.begin());
    mcu_ = mcu;
    next_point_ = mcu + step_;
    if (restart_interval_ != 0) {
        next_restart_ = (mcu - 1) / restart_interval_ & 7;
        mcus_to_restart_ = (restart_interval_ - mcu % restart_interval_) % restart_interval_;
    }
    return reader_.count >= 0;
}

// The state before the next MCU. The bytes that were read ahead are counted back, with their stuffed zeros.
EntryPoint HuffmanDecoder::entry_point() const {
    const std::uint8_t* at = reader_.at;
    for (int count = reader_.count; count > 0; count -= 8)
        at -= at - start_ >= 2 && at[-1] == 0 && at[-2] == 0xFF ? 2 : 1;
    EntryPoint point{static_cast<std::uint32_t>((at - start_) * 8 + (-reader_.count & 7)), {}};
    for (std::size_t i = 0; i < point.means.size(); ++i) point.means[i] = static_cast<std::int16_t>(last_dc_[i]);
    return point;
}

// False where another entry point is known: it belongs to other bytes.
bool HuffmanDecoder::pass_entry_point() {
    const auto i = static_cast<std::size_t>(mcu_ / step_ - 1);
    const EntryPoint point = entry_point();
    next_point_ += step_;
    if (i < points_->size()) return (*points_)[i] == point;
    points_->push_back(point);
    return true;
}

bool HuffmanDecoder::read_restart() {
    // Fewer than 8 bits are left over, and the marker is the expected one.
    const std::uint8_t* const at = reader_.at;
    if (reader_.count >= 8 || reader_.end - at < 2 || at[0] != 0xFF || at[1] != 0xD0 + next_restart_) return false;
    reader_ = {at + 2, reader_.end, 0, 0};
    last_dc_.fill(0);
    next_restart_ = (next_restart_ + 1) & 7;
    mcus_to_restart_ = restart_interval_;
    return true;
}

template <bool stores>
bool HuffmanDecoder::decode_next(JBLOCKROW* blocks) {
    if (restart_interval_ != 0 && mcus_to_restart_-- == 0) {
        if (!read_restart()) return false;
        --mcus_to_restart_;
    }
    BitReader reader = reader_;  // stays in registers
    for (int i = 0; i < block_count_; ++i) {
        const Block& block = blocks_[static_cast<std::size_t>(i)];
        int& last_dc = last_dc_[static_cast<std::size_t>(block.component)];
        if (!decode_block<stores>(reader, block, last_dc, stores ? *blocks[i] : nullptr)) return false;
    }
    reader_ = reader;
    return ++mcu_ != next_point_ || pass_entry_point();
}

template <bool stores>
inline bool HuffmanDecoder::decode_block(BitReader& reader, const Block& block, int& last_dc, JCOEF* out) {
    reader.refill();
    auto [length, size] = block.dc->look(reader.bits);
    if (length == 0) [[unlikely]] {
        int symbol, code_length = DcTable::kLookBits;
        if (!block.dc->find_longer(reader.bits, symbol, code_length)) return false;
        length = static_cast<std::uint8_t>(code_length);
        size = static_cast<std::uint8_t>(symbol & 15);
    }
    if (size > 11) return false;  // pictures of 8 bits have no such difference
    last_dc += extended(reader.bits << length, size);
    reader.take(length + size);
    if (last_dc != static_cast<JCOEF>(last_dc)) return false;
    if (stores) out[0] = static_cast<JCOEF>(last_dc);
    // 56 bits are enough for the mean and a look (27 and 20 bits), and for two looks (one of them 26, if it is longer).
    for (int place = 1;;) {
        place = take_coefficients<stores>(reader, *block.ac, place, out);
        if (place >= 64) return place == 64 && reader.count >= 0;
        reader.refill();
        place = take_coefficients<stores>(reader, *block.ac, place, out);
        if (place >= 64) return place == 64 && reader.count >= 0;
    }
}

// Takes what one look at the table tells, from `place` in the zigzag order on. Returns the place after it; 64: the
// block has ended; more: there is something wrong.
template <bool stores>
inline int HuffmanDecoder::take_coefficients(BitReader& reader, const AcTable& table, int place, JCOEF* out) {
    const AcTable::Entry& entry = table.look(reader.bits);
    const int first = place + entry.first_place, second = place + entry.place;
    if (stores) out[kNaturalOrder[first]] = entry.first_value;  // 0 if there is no first: the second stands there, or 0
    if (second >= 64) [[unlikely]] {
        if (entry.place < AcTable::kEndOfBlock || first >= 63)
            return take_alone<stores>(reader, table, place, out, entry.place == AcTable::kLonger);
        reader.take(entry.length);
        return 64;
    }
    if (stores)
        out[kNaturalOrder[second]] = static_cast<JCOEF>(extended_low(std::rotl(reader.bits, entry.length), entry.mask));
    reader.take(entry.length);
    return second + 1;
}

// The same for one symbol, by its code: where that is longer than a look, or the block ends with its last coefficient.
template <bool stores>
inline int HuffmanDecoder::take_alone(BitReader& reader, const AcTable& table, int place, JCOEF* out, bool is_longer) {
    reader.refill();
    int symbol, length = is_longer ? AcTable::kLookBits : 0;
    if (!table.find_longer(reader.bits, symbol, length)) return 65;
    const AcTable::Entry entry = AcTable::single(length, symbol);
    const int value = extended_low(std::rotl(reader.bits, entry.length), entry.mask);
    reader.take(entry.length);
    if (entry.place >= AcTable::kEndOfBlock) return 64;
    if (place + entry.place >= 64) return 65;
    if (stores) out[kNaturalOrder[place + entry.place]] = static_cast<JCOEF>(value);
    return place + entry.place + 1;
}

}  // namespace trainload
