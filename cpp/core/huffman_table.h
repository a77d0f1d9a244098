// Huffman tables of a JPEG (T.81 C and F.2.2), made for decoding many coefficients in few steps: one look at the next
// bits of the data tells up to two coefficients of a block. Each keeps its memory while the next picture brings the
// same table.
#pragma once

#include <array>
#include <cstdint>

#include "core/libjpeg.h"

namespace trainload {

// The codes of one table (T.81 C.2), and the way to a symbol for those that are longer than a look.
class HuffmanCodes {
  public:
    static constexpr int kMaxLength = 16;

    // The symbol that the next bits (the first at the top) start with, and the length of its code, which is more than
    // `length` tells; false where there is no such code.
    bool find_longer(std::uint64_t bits, int& symbol, int& length) const;

  protected:
    bool is(const JHUFF_TBL& source) const;

    // False where the source is no table: libjpeg's checks would be needed.
    bool take(const JHUFF_TBL& source);
    void forget() { is_ready_ = false; }

    // Calls use(first, count, length, symbol): the looks [first, first + count) start with this code. bits: of a look.
    template <typename Use>
    void each_code(int bits, const Use& use) const {
        unsigned code = 0;
        int position = 0;
        for (int length = 1; length <= bits; ++length, code <<= 1)
            for (int i = 0; i < counts_[length]; ++i, ++code, ++position)
                use(code << (bits - length), 1U << (bits - length), length, symbols_[position]);
    }

  private:
    std::array<std::uint8_t, kMaxLength + 1> counts_{};
    std::array<std::uint8_t, 256> symbols_{};
    std::array<std::int32_t, kMaxLength + 1> end_;     // of each length: one more than its last code
    std::array<std::int32_t, kMaxLength + 1> offset_;  // a code plus this is its symbol's position
    bool is_ready_ = false;
};

// For the first coefficient of a block, the difference of two means: a symbol is the number of its bits.
class DcTable : public HuffmanCodes {
  public:
    static constexpr int kLookBits = 9;
    struct Entry {
        std::uint8_t length;  // of the code; 0: longer than a look, or none
        std::uint8_t size;
    };

    bool build(const JHUFF_TBL& source);
    Entry look(std::uint64_t bits) const { return entries_[bits >> (64 - kLookBits)]; }

  private:
    std::array<Entry, 1 << kLookBits> entries_;
};

// For the others: a symbol is a run of zeros and the number of bits of the coefficient after it.
class AcTable : public HuffmanCodes {
  public:
    static constexpr int kLookBits = 10;

    // What a look tells: a first coefficient (not always there), whole with its value, then a second one, of which only
    // the code lies in the look, or the end of the block. Places count from where the block stands.
    struct Entry {
        std::uint8_t length;  // bits of all that
        std::uint8_t first_place;
        std::uint8_t place;  // of the second; kLonger, kImpossible: this entry tells nothing; kEndOfBlock and more
        std::int16_t first_value;  // 0 where there is no first
        std::uint16_t mask;        // of the bits of the second's value, the last of the `length` bits
    };
    static constexpr int kLonger = 64, kImpossible = 65, kEndOfBlock = 128;

    bool build(const JHUFF_TBL& source);
    const Entry& look(std::uint64_t bits) const { return entries_[bits >> (64 - kLookBits)]; }

    // The entry of a symbol alone; kImpossible: a coefficient that pictures of 8 bits cannot have.
    static Entry single(int length, int symbol);

  private:
    void add_pairs(const std::array<Entry, 1 << kLookBits>& singles, unsigned first, unsigned count);

    std::array<Entry, 1 << kLookBits> entries_;
};

// The value that the `size` bits at the top stand for (T.81 F.2.2.1, EXTEND); 0 where there are none.
inline int extended(std::uint64_t bits, int size) {
    const auto value = static_cast<std::int32_t>(bits >> 1 >> (63 - size));
    const auto negative = static_cast<std::int32_t>(static_cast<std::int64_t>(~bits) >> 63);
    return value + (negative & (1 - (1 << size)));
}

// The same for the lowest bits, those of the mask.
inline int extended_low(std::uint64_t bits, unsigned mask) {
    const auto value = static_cast<unsigned>(bits) & mask;
    return static_cast<int>(value - (2 * value <= mask ? mask : 0));
}

}  // namespace trainload
