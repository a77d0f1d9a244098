// Places in a picture's entropy-coded data where decoding may begin, besides its start. They are found while the data
// is decoded the first time; then a later epoch's crop jumps over the rows above it and the columns beside it, as
// restart markers would let it. An entry point is sound: everything before it has been decoded without a fault.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/bytes.h"

namespace trainload {

// What the decoder knows before an MCU.
struct EntryPoint {
    std::uint32_t bit;                  // from the start of the scan's data, stuffed zeros counted
    std::array<std::int16_t, 3> means;  // the last DC coefficient of each component

    bool operator==(const EntryPoint&) const = default;
};

// Of one picture, every so many MCUs (HuffmanDecoder knows how many) from its start, as far as it has been decoded.
using EntryPoints = std::vector<EntryPoint>;

// Of many pictures, by sample id, within a budget of bytes. For all threads. Nobody waits: what another thread (or one
// that a fork has left behind) holds is taken for unknown, which costs time and nothing else.
class EntryPointStore {
  public:
    explicit EntryPointStore(std::size_t budget_bytes) : budget_bytes_(budget_bytes) {}

    // Copies what is known of a picture, which is nothing if its fingerprint is another one. False: nothing is known,
    // and nothing more can be kept.
    bool load(std::uint64_t id, std::uint64_t fingerprint, EntryPoints& points);

    // Keeps them where they are more than those that are known and the budget allows it.
    void save(std::uint64_t id, std::uint64_t fingerprint, const EntryPoints& points);

    // Of all that is kept; never more than the budget.
    std::size_t size_bytes() const { return used_bytes_; }

  private:
    struct Picture {
        std::uint64_t fingerprint;
        EntryPoints points;
    };
    struct Shard {
        std::mutex mutex;
        std::unordered_map<std::uint64_t, Picture> pictures;
    };
    Shard& shard_of(std::uint64_t id) { return shards_[id % shards_.size()]; }
    bool reserve(std::size_t bytes);

    std::array<Shard, 64> shards_;
    std::size_t budget_bytes_;
    std::atomic<std::size_t> used_bytes_ = 0;
};

// A number that tells a picture's bytes from others, of every byte: entry points speak for bytes that a decoder passes
// over later, so damage anywhere must show. At the speed of memory; for accidents, not against who means to collide.
std::uint64_t fingerprint_of(Bytes bytes);

}  // namespace trainload
