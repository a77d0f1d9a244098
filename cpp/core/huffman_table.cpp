#include "core/huffman_table.h"

#include <algorithm>
#include <bit>

namespace trainload {

bool HuffmanCodes::is(const JHUFF_TBL& source) const {
    return is_ready_ && std::equal(counts_.begin(), counts_.end(), source.bits) &&
           std::equal(symbols_.begin(), symbols_.end(), source.huffval);
}

bool HuffmanCodes::take(const JHUFF_TBL& source) {
    is_ready_ = false;
    std::copy_n(source.bits, counts_.size(), counts_.begin());
    std::copy_n(source.huffval, symbols_.size(), symbols_.begin());
    int code = 0, position = 0;
    for (int length = 1; length <= kMaxLength; ++length, code <<= 1) {
        offset_[length] = position - code;
        code += counts_[length];
        position += counts_[length];
        if (position > 256 || code > 1 << length) return false;
        end_[length] = code;
    }
    return is_ready_ = true;
}

bool HuffmanCodes::find_longer(std::uint64_t bits, int& symbol, int& length) const {
    while (++length <= kMaxLength) {
        const auto code = static_cast<std::int32_t>(bits >> (64 - length));
        if (code >= end_[length]) continue;
        symbol = symbols_[static_cast<std::size_t>(code + offset_[length])];
        return true;
    }
    return false;
}

bool DcTable::build(const JHUFF_TBL& source) {
    if (is(source)) return true;
    if (!take(source)) return false;
    entries_.fill({0, 0});
    each_code(kLookBits, [&](unsigned first, unsigned count, int length, int symbol) {
        const Entry entry{static_cast<std::uint8_t>(length), static_cast<std::uint8_t>(symbol & 15)};
        std::fill_n(entries_.begin() + first, count, entry);
    });
    return true;
}

AcTable::Entry AcTable::single(int length, int symbol) {
    const int run = symbol >> 4, size = symbol & 15;
    if (size > 10) return {0, 0, kImpossible, 0, 0};
    const int place = size == 0 && run != 15 ? kEndOfBlock : run;
    return {static_cast<std::uint8_t>(length + size), 0, static_cast<std::uint8_t>(place), 0,
            static_cast<std::uint16_t>((1 << size) - 1)};
}

bool AcTable::build(const JHUFF_TBL& source) {
    if (is(source)) return true;
    if (!take(source)) return false;
    std::array<Entry, 1 << kLookBits> singles;
    singles.fill({0, 0, kLonger, 0, 0});
    each_code(kLookBits, [&](unsigned first, unsigned count, int length, int symbol) {
        std::fill_n(singles.begin() + first, count, single(length, symbol));
    });
    entries_ = singles;
    each_code(kLookBits, [&](unsigned first, unsigned count, int, int) {
        const Entry entry = singles[first];
        if (entry.place < kLonger && entry.length < kLookBits) add_pairs(singles, first, count);
    });
    return true;
}

// The looks [first, first + count) start with one code: where its coefficient is whole, what comes after it is added.
void AcTable::add_pairs(const std::array<Entry, 1 << kLookBits>& singles, unsigned first, unsigned count) {
    const Entry one = singles[first];
    const int rest = kLookBits - one.length;  // bits of a look after the coefficient
    for (unsigned at = first; at < first + count; at += 1U << rest) {
        const int value = extended_low(at >> rest, one.mask);
        for (unsigned tail = 0; tail < 1U << rest; ++tail) {
            Entry second = singles[tail << one.length];
            const int code_length = second.length - std::popcount(second.mask);
            if (second.place == kLonger || second.place == kImpossible || code_length > rest) continue;
            second.length = static_cast<std::uint8_t>(second.length + one.length);
            second.first_place = one.place;
            second.place = static_cast<std::uint8_t>(second.place + one.place + 1);
            second.first_value = static_cast<std::int16_t>(value);
            entries_[at + tail] = second;
        }
    }
}

}  // namespace trainload
