#include "core/entry_points.h"

#include <cstring>

namespace trainload {
namespace {

constexpr std::size_t kPictureBytes = 96;  // of the map, for each picture
constexpr std::size_t kWords = 8;          // of the data that go into a fingerprint

std::size_t bytes_of(std::size_t points) {
    return points * sizeof(EntryPoint) + kPictureBytes;
}

// Takes up words of 8 bytes, at every `step`-th offset from `offset` on.
std::uint64_t mixed(std::uint64_t hash, Bytes bytes, std::size_t offset, std::size_t step) {
    for (; offset + 8 <= bytes.size(); offset += step) {
        std::uint64_t word;
        std::memcpy(&word, bytes.data() + offset, sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
        hash ^= hash >> 32;
    }
    return hash;
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

std::uint64_t fingerprint_of(Bytes jpeg, const JpegHeader& header) {
    const std::size_t data = jpeg.size() - header.scan_offset;
    const std::uint64_t head = mixed(jpeg.size(), jpeg.first(header.scan_offset), 0, 8);
    return mixed(head, jpeg, header.scan_offset, data / kWords + 1);
}

}  // namespace trainload
