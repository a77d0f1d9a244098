// A bounded cursor over bytes from outside: every read is checked, a failed one leaves `ok()` false and returns 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainload {

using Bytes = std::span<const std::uint8_t>;

class ByteCursor {
  public:
    explicit ByteCursor(Bytes bytes, std::size_t offset = 0) : bytes_(bytes), offset_(offset) {
        ok_ = offset <= bytes.size();
    }

    bool ok() const { return ok_; }
    std::size_t offset() const { return offset_; }
    std::size_t left() const { return ok_ ? bytes_.size() - offset_ : 0; }

    std::uint8_t u8() { return take(1) ? bytes_[offset_ - 1] : std::uint8_t{0}; }
    std::uint16_t u16_big() {
        if (!take(2)) return 0;
        return static_cast<std::uint16_t>(bytes_[offset_ - 2] << 8 | bytes_[offset_ - 1]);
    }
    void skip(std::size_t count) { take(count); }

    // The next `count` bytes as a cursor of their own.
    ByteCursor sub(std::size_t count) {
        if (!take(count)) return ByteCursor(Bytes{}, 1);
        return ByteCursor(bytes_.first(offset_), offset_ - count);
    }

  private:
    bool take(std::size_t count) {
        if (left() < count) {
            ok_ = false;
            return false;
        }
        offset_ += count;
        return true;
    }

    Bytes bytes_;
    std::size_t offset_;
    bool ok_;
};

}  // namespace trainload
