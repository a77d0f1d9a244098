// From JPEG bytes to one picture of a batch: header, geometry, region decode, resample, pixel operations, last pass.
// A Pipeline is constant and shared by all threads; a Scratch belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/finish.h"
#include "core/geometry.h"
#include "core/jpeg_decoder.h"
#include "core/kernels.h"
#include "core/picture.h"
#include "core/stage.h"

namespace trainload {

enum class DctScale : std::uint8_t { off, automatic };

// Of one picture, checked before anything is allocated for it.
struct PictureLimits {
    std::int64_t pixels;       // a picture that claims more is corrupt
    std::size_t memory_bytes;  // one that takes more is too_large
};

// One of several samples that are made of one picture: its stages, the first of which waits for rows of `region`.
struct Repeat {
    explicit Repeat(const Kernels& loops) : stage(loops) {}

    std::vector<Stage> stages;
    StageRunner stage;
    Box region{};
};

// What one thread keeps from picture to picture.
struct Scratch {
    explicit Scratch(const Kernels& loops = best_kernels()) : kernels(&loops), stage(loops) {}

    const Kernels* kernels;
    JpegDecoder decoder;
    StageRunner stage;
    OpScratch ops;
    std::vector<Stage> stages;
    std::vector<Repeat> repeats;
    std::vector<Erasure> erasures;
    std::vector<std::uint8_t> picture, next, row, values;
    std::size_t need_bytes = 0;                                 // of the last picture
    std::vector<std::pair<std::size_t, std::string>> messages;  // of the last slice: position, reason
    std::vector<std::pair<std::size_t, std::size_t>> needs;     // of those that are too large: position, bytes
};

// Where the pictures of a slice lie and where they go.
struct Slice {
    Bytes arena;
    std::span<const std::uint64_t> offsets, sizes, ids;
    std::byte* out;                           // pictures one after the other
    std::span<std::int32_t> codes;            // Verdict, per picture; on entry `good`: to be decoded
    EntryPointStore* entry_points = nullptr;  // by sample id; nullptr: none are kept
    std::span<const std::uint32_t> draws{};   // as SampleKey::draw; empty: all 0

    std::uint32_t draw(std::size_t i) const { return draws.empty() ? 0 : draws[i]; }
    bool wants(std::size_t i) const { return codes[i] == static_cast<std::int32_t>(Verdict::good); }
    // Where the samples from `first` on end that are made of the same bytes.
    std::size_t end_of_repeats(std::size_t first) const {
        std::size_t end = first + 1;
        while (end < ids.size() && wants(end) && ids[end] == ids[first] && offsets[end] == offsets[first] &&
               sizes[end] == sizes[first])
            ++end;
        return end;
    }
    bool holds(std::size_t i) const { return offsets[i] <= arena.size() && sizes[i] <= arena.size() - offsets[i]; }
    Bytes jpeg(std::size_t i) const { return arena.subspan(offsets[i], sizes[i]); }
};

class Pipeline {
  public:
    Pipeline(std::vector<OpSpec> ops, const OutputFormat& format, DctScale dct_scale, PictureLimits limits);

    const OutputFormat& format() const { return last_pass_.format(); }

    // Decodes the pictures of a slice that it wants; the others keep their codes. Never throws for bad bytes: codes and
    // scratch.messages tell. A picture that comes several times in a row is decoded once, as far as any of them needs.
    void run(Scratch& scratch, const Slice& slice, std::uint64_t seed, std::uint32_t epoch) const;

    // Only the region decode of the same crops, into nothing: the limit that benchmarks measure against.
    void run_decode_only(Scratch& scratch, const Slice& slice, std::uint64_t seed, std::uint32_t epoch) const;

    // One picture of a slice. message: why the verdict is not good.
    Verdict run_jpeg(Scratch& scratch, Bytes jpeg, const SampleKey& key, std::byte* out, std::string& message,
                     EntryPointStore* entry_points = nullptr) const;

    // What the planned picture takes beyond what every picture takes.
    static std::size_t memory_of(const Scratch& scratch, const JpegHeader& header);

    // The same operations on a picture that is already decoded. Throws GeometryError.
    void run_pixels(Scratch& scratch, PictureView picture, const SampleKey& key, std::byte* out) const;

  private:
    bool run_together(Scratch& scratch, const Slice& slice, std::size_t first, std::size_t end, std::uint64_t seed,
                      std::uint32_t epoch) const;
    bool plan_together(Scratch& scratch, const JpegHeader& header, std::span<const SampleKey> keys, Box& region,
                       int& denominator) const;
    void plan(Scratch& scratch, Size picture, const SampleKey& key) const;
    int denominator_of(const Stage& stage, const JpegHeader& header) const;
    Box begin_stage(Scratch& scratch, std::size_t index, int denominator, const SampleKey& key) const;
    Verdict decode_first_stage(Scratch& scratch, Bytes jpeg, const JpegHeader& header, const SampleKey& key,
                               RowSink& sink, EntryPointStore* entry_points) const;
    void run_stages(Scratch& scratch, const SampleKey& key, std::byte* out) const;
    void run_ops(Scratch& scratch, PictureView picture, bool flips_wait, const SampleKey& key, std::byte* out) const;
    void erase(Scratch& scratch, const SampleKey& key, std::byte* out) const;

    std::vector<OpSpec> ops_;
    LastPass last_pass_;
    DctScale dct_scale_;
    PictureLimits limits_;
    std::vector<OpSpec> early_flips_;  // before every operation that could tell: done while resampling
    std::vector<OpSpec> pixel_ops_;    // with the flips that stand between them
    std::vector<OpSpec> erasing_;
};

}  // namespace trainload
