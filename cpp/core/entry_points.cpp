#include "core/entry_points.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/clones.h"

namespace trainload {
namespace {

constexpr std::size_t kPictureBytes = 96;  // of the map, for each picture

std::size_t bytes_of(std::size_t points) {
    return points * sizeof(EntryPoint) + kPictureBytes;
}

// 32-bit words side by side, enough of them to wait for no multiplication.
using Lanes = std::uint32_t __attribute__((vector_size(32)));
constexpr std::size_t kVectors = 8, kStride = kVectors * sizeof(Lanes);
constexpr std::uint32_t kOdd = 0x9E3779B1U;

using LaneState = std::array<Lanes, kVectors>;

// Every step is reversible, so one changed word changes its lane for good.
TRAINLOAD_CLONES void take_strides(const std::uint8_t* at, std::size_t strides, LaneState& state) {
    LaneState lanes = state;
    for (; strides != 0; --strides, at += kStride) {
#pragma GCC unroll 8
        for (std::size_t i = 0; i < kVectors; ++i) {
            Lanes words;
            std::memcpy(&words, at + i * sizeof words, sizeof words);
            lanes[i] = (lanes[i] ^ words) * kOdd;
            lanes[i] ^= lanes[i] >> 15;
        }
    }
    state = lanes;
}

// All 128 bits of the product count.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
    const auto wide = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(wide) ^ static_cast<std::uint64_t>(wide >> 64);
}

}  // namespace

bool EntryPointStore::load(std::uint64_t id, std::uint64_t fingerprint, EntryPoints& points) {
    points.clear();
    Shard& shard = shard_of(id);
    const std::unique_lock lock(shard.mutex, std::try_to_lock);
    if (!lock) return false;
    const auto found = shard.pictures.find(id);
    if (found != shard.pictures.end() && found->second.fingerprint == fingerprint) points = found->second.points;
    return !points.empty() || used_bytes_ + kPictureBytes <= budget_bytes_;
}

void EntryPointStore::save(std::uint64_t id, std::uint64_t fingerprint, const EntryPoints& points) {
    Shard& shard = shard_of(id);
    const std::unique_lock lock(shard.mutex, std::try_to_lock);
    if (!lock) return;
    const auto found = shard.pictures.find(id);
    const bool is_there = found != shard.pictures.end();
    if (is_there && found->second.fingerprint == fingerprint && found->second.points.size() >= points.size()) return;
    if (!reserve(bytes_of(points.size()))) return;
    if (is_there) used_bytes_ -= bytes_of(found->second.points.size());
    // A new vector is as large as what it holds.
    shard.pictures.insert_or_assign(id, Picture{fingerprint, EntryPoints(points.begin(), points.end())});
}

bool EntryPointStore::reserve(std::size_t bytes) {
    if ((used_bytes_ += bytes) <= budget_bytes_) return true;
    used_bytes_ -= bytes;
    return false;
}

std::uint64_t fingerprint_of(Bytes bytes) {
    LaneState lanes{};
    const std::size_t whole = bytes.size() / kStride;
    take_strides(bytes.data(), whole, lanes);
    std::array<std::uint8_t, kStride> rest{};
    std::ranges::copy(bytes.subspan(whole * kStride), rest.begin());
    take_strides(rest.data(), 1, lanes);
    std::array<std::uint64_t, kStride / 8> words;
    std::memcpy(words.data(), lanes.data(), kStride);
    std::uint64_t fingerprint = bytes.size();
    for (std::size_t i = 0; i < words.size(); ++i)
        fingerprint = product(fingerprint ^ words[i], 0x243F6A8885A308D3ULL + 2 * i);
    return fingerprint;
}

}  // namespace trainload
