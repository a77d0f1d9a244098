#include "core/pipeline.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "core/claims.h"
#include "core/pixel_ops.h"

namespace trainload {
namespace {

constexpr std::size_t kBytesPerColumn = 128;  // 32 rows of three components and 4 rows of RGBX, at most

bool is_flip(OpKind kind) {
    return kind == OpKind::horizontal_flip || kind == OpKind::vertical_flip;
}

bool is_pixel_op(OpKind kind) {
    return (kind >= OpKind::color_jitter && kind <= OpKind::auto_augment) || kind == OpKind::random_autocontrast ||
           kind == OpKind::gaussian_noise;
}

std::string size_text(Size size) {
    return std::to_string(size.width) + "x" + std::to_string(size.height);
}

PictureView packed(std::vector<std::uint8_t>& bytes, Size size) {
    const std::size_t stride = static_cast<std::size_t>(size.width) * 3;
    grow_anew(bytes, stride * static_cast<std::size_t>(size.height));
    return {bytes.data(), size.width, size.height, stride};
}

// Gathers the rows of a window in a picture in memory.
class PictureSink final : public WindowSink {
  public:
    explicit PictureSink(PictureView picture) : picture_(picture) {}
    std::uint8_t* room(int y) override { return picture_.row(y); }
    void row(int, const std::uint8_t*) override {}

  private:
    PictureView picture_;
};

// Sends the rows of a window through the last pass into the batch.
class BatchSink final : public WindowSink {
  public:
    BatchSink(const LastPass& last_pass, Scratch& scratch, std::byte* out)
        : last_pass_(last_pass), scratch_(scratch), out_(out) {
        const std::size_t row_bytes = static_cast<std::size_t>(last_pass.format().width) * 3;
        if (scratch.row.size() < row_bytes) scratch.row.resize(row_bytes);
    }
    std::uint8_t* room(int y) override {
        std::uint8_t* const direct = last_pass_.rgb_row(out_, y);
        return direct != nullptr ? direct : scratch_.row.data();
    }
    void row(int y, const std::uint8_t* rgb) override {
        if (rgb != last_pass_.rgb_row(out_, y)) last_pass_.write_row(*scratch_.kernels, rgb, out_, y, scratch_.values);
    }

  private:
    const LastPass& last_pass_;
    Scratch& scratch_;
    std::byte* out_;
};

// Gives rows of a region to several stages, to each what it asked for.
class RepeatSink final : public RowSink {
  public:
    RepeatSink(std::span<Repeat> repeats, Box region) : repeats_(repeats), region_(region) {}

    void rows(const std::uint8_t* const* rows, int first, int count) override {
        for (Repeat& repeat : repeats_) {
            const Box wanted = repeat.region;
            const int top = wanted.y - region_.y, from = std::max(first, top);
            const int to = std::min(first + count, top + wanted.height);
            if (from >= to || wanted.width <= 0) continue;
            std::array<const std::uint8_t*, kMaxRows> part;
            for (int y = from; y < to; ++y) part[y - from] = rows[y - first] + (wanted.x - region_.x) * 4;
            repeat.stage.rows(part.data(), from - top, to - from);
        }
    }

  private:
    std::span<Repeat> repeats_;
    Box region_;
};

bool is_empty(Box box) {
    return box.width <= 0 || box.height <= 0;
}

Box joined(Box a, Box b) {
    if (is_empty(a)) return b;
    if (is_empty(b)) return a;
    const int x = std::min(a.x, b.x), y = std::min(a.y, b.y);
    return {x, y, std::max(a.x + a.width, b.x + b.width) - x, std::max(a.y + a.height, b.y + b.height) - y};
}

// libjpeg's rows, and its memory while that grows from one block to a larger one.
std::size_t decoding_bytes(const JpegHeader& header) {
    return static_cast<std::size_t>(header.width) * kBytesPerColumn + coefficient_bytes(header) / 2 * 3;
}

}  // namespace

Pipeline::Pipeline(std::vector<OpSpec> ops, const OutputFormat& format, DctScale dct_scale, PictureLimits limits)
    : ops_(std::move(ops)), last_pass_(format), dct_scale_(dct_scale), limits_(limits) {
    bool commutes = true;
    for (const OpSpec& op : ops_) {
        if (is_pixel_op(op.kind)) {
            if (!erasing_.empty()) throw std::invalid_argument("random_erasing stands after every pixel operation");
            commutes = commutes && commutes_with_flips(op.kind);
            pixel_ops_.push_back(op);
        } else if (is_flip(op.kind)) {
            (commutes ? early_flips_ : pixel_ops_).push_back(op);
        }
        if (op.kind == OpKind::random_erasing) erasing_.push_back(op);
    }
}

void Pipeline::run(Scratch& scratch, const Slice& slice, std::uint64_t seed, std::uint32_t epoch) const {
    scratch.messages.clear();
    scratch.needs.clear();
    std::size_t alone = 0;  // up to here each by itself
    for (std::size_t i = 0; i < slice.ids.size(); ++i) {
        if (!slice.wants(i)) continue;
        if (i >= alone) {
            alone = slice.end_of_repeats(i);
            if (alone - i > 1 && run_together(scratch, slice, i, alone, seed, epoch)) {
                i = alone - 1;
                continue;
            }
        }
        Verdict verdict = Verdict::corrupt;
        std::string message;
        if (slice.holds(i))
            verdict = run_jpeg(scratch, slice.jpeg(i), {seed, epoch, slice.ids[i], slice.draw(i)},
                               slice.out + i * format().picture_bytes(), message, slice.entry_points);
        else
            message = "the picture's bytes lie outside of the buffer";
        slice.codes[i] = static_cast<std::int32_t>(verdict);
        if (verdict == Verdict::too_large)
            scratch.needs.emplace_back(i, scratch.need_bytes);
        else if (verdict != Verdict::good)
            scratch.messages.emplace_back(i, std::move(message));
    }
}

void Pipeline::run_decode_only(Scratch& scratch, const Slice& slice, std::uint64_t seed, std::uint32_t epoch) const {
    NoSink sink;
    for (std::size_t i = 0; i < slice.ids.size(); ++i) {
        if (!slice.wants(i) || !slice.holds(i)) continue;
        const Bytes jpeg = slice.jpeg(i);
        const SampleKey key{seed, epoch, slice.ids[i], slice.draw(i)};
        JpegHeader header;
        if (!parse_jpeg_header(jpeg, header) || !is_decodable(header)) continue;
        plan(scratch, {header.width, header.height}, key);
        slice.codes[i] =
            static_cast<std::int32_t>(decode_first_stage(scratch, jpeg, header, key, sink, slice.entry_points));
    }
}

Verdict Pipeline::run_jpeg(Scratch& scratch, Bytes jpeg, const SampleKey& key, std::byte* out, std::string& message,
                           EntryPointStore* entry_points) const {
    JpegHeader header;
    const Verdict claim = judge_header(jpeg, limits_.pixels, header, message);
    if (claim != Verdict::good) return claim;
    try {
        plan(scratch, {header.width, header.height}, key);
    } catch (const GeometryError& error) {
        message = error.what();
        return Verdict::corrupt;
    }
    scratch.need_bytes = memory_of(scratch, header);
    if (scratch.need_bytes > limits_.memory_bytes) return Verdict::too_large;
    const Verdict verdict = decode_first_stage(scratch, jpeg, header, key, scratch.stage, entry_points);
    if (verdict != Verdict::good) {
        message = scratch.decoder.message();
        return verdict;
    }
    run_stages(scratch, key, out);
    return verdict;
}

// The samples first .. end-1 of one picture, which all become good. False where one of them does not, or where they
// need more memory together than a picture may: then nothing is decided, and each is to be decoded by itself.
bool Pipeline::run_together(Scratch& scratch, const Slice& slice, std::size_t first, std::size_t end,
                            std::uint64_t seed, std::uint32_t epoch) const {
    JpegHeader header;
    std::string message;
    if (!slice.holds(first) || judge_header(slice.jpeg(first), limits_.pixels, header, message) != Verdict::good)
        return false;
    std::vector<SampleKey> keys;
    for (std::size_t i = first; i < end; ++i) keys.push_back({seed, epoch, slice.ids[i], slice.draw(i)});
    Box region{};
    int denominator = 1;
    if (!plan_together(scratch, header, keys, region, denominator)) return false;
    RepeatSink sink(std::span(scratch.repeats).first(keys.size()), region);
    if (!is_empty(region) && scratch.decoder.decode(slice.jpeg(first), header, region, denominator, sink,
                                                    slice.entry_points, slice.ids[first]) != Verdict::good)
        return false;
    for (std::size_t k = 0; k < keys.size(); ++k) {
        std::swap(scratch.stages, scratch.repeats[k].stages);
        std::swap(scratch.stage, scratch.repeats[k].stage);
        run_stages(scratch, keys[k], slice.out + (first + k) * format().picture_bytes());
        std::swap(scratch.stage, scratch.repeats[k].stage);
    }
    return true;
}

// Begins the first stage of each; region: of the picture scaled down by `denominator`, all that they read.
bool Pipeline::plan_together(Scratch& scratch, const JpegHeader& header, std::span<const SampleKey> keys, Box& region,
                             int& denominator) const {
    const std::size_t decoding = decoding_bytes(header);
    while (scratch.repeats.size() < keys.size()) scratch.repeats.emplace_back(*scratch.kernels);
    for (std::size_t k = 0; k < keys.size(); ++k) {
        try {
            plan(scratch, {header.width, header.height}, keys[k]);
        } catch (const GeometryError&) {
            return false;
        }
        const std::size_t own = memory_of(scratch, header) - decoding;
        if (decoding > limits_.memory_bytes || own > (limits_.memory_bytes - decoding) / keys.size()) return false;
        const int wanted = denominator_of(scratch.stages[0], header);
        if (k > 0 && wanted != denominator) return false;
        denominator = wanted;
        Repeat& repeat = scratch.repeats[k];
        std::swap(scratch.stage, repeat.stage);
        repeat.region = begin_stage(scratch, 0, denominator, keys[k]);
        std::swap(scratch.stage, repeat.stage);
        std::swap(scratch.stages, repeat.stages);
        region = joined(region, repeat.region);
    }
    return true;
}

void Pipeline::run_pixels(Scratch& scratch, PictureView picture, const SampleKey& key, std::byte* out) const {
    plan(scratch, {picture.width, picture.height}, key);
    scratch.stage.rows_of(picture, begin_stage(scratch, 0, 1, key));
    run_stages(scratch, key, out);
}

void Pipeline::plan(Scratch& scratch, Size picture, const SampleKey& key) const {
    plan_geometry(ops_, picture, key, scratch.stages);
    const Box window = scratch.stages.back().window;
    const Size made{window.width, window.height}, wanted{format().width, format().height};
    if (made != wanted)
        throw GeometryError("the operations make a picture of " + size_text(made) + " where the batch takes " +
                            size_text(wanted));
}

std::size_t Pipeline::memory_of(const Scratch& scratch, const JpegHeader& header) {
    std::size_t between = 0, pictures = 0;
    for (std::size_t i = 0; i < scratch.stages.size(); ++i) {
        const Stage& stage = scratch.stages[i];
        between = std::max(between, StageRunner::memory_of(stage));
        if (i + 1 == scratch.stages.size()) break;  // the last one's pictures are as large as the output
        const Box part = StageRunner::visible(stage);
        const std::int64_t pixels = std::int64_t{part.width} * part.height,
                           padded = stage.pads() ? std::int64_t{stage.window.width} * stage.window.height : 0;
        pictures = std::max(pictures, static_cast<std::size_t>(pixels + padded) * 3);
    }
    return decoding_bytes(header) + between + pictures;
}

// dct_scale: the inverse transform gives half or quarter size for less work, if the box is that much too large.
int Pipeline::denominator_of(const Stage& stage, const JpegHeader& header) const {
    if (dct_scale_ == DctScale::off || !stage.scales() || stage.filter == Filter::nearest) return 1;
    // Chroma of an eighth (4:1:0): libjpeg scales a part of the picture in another way than the whole.
    if (header.mcu_width() * header.mcu_height() > 256) return 1;
    for (const int denominator : {4, 2})
        if (stage.box.width >= denominator * stage.scaled.width &&
            stage.box.height >= denominator * stage.scaled.height)
            return denominator;
    return 1;
}

// The flips that come before everything that could tell are done by the resampling, unless it leaves room for padding.
Box Pipeline::begin_stage(Scratch& scratch, std::size_t index, int denominator, const SampleKey& key) const {
    const Stage& stage = scratch.stages[index];
    bool mirror_x = false, mirror_y = false;
    if (index + 1 == scratch.stages.size() && !stage.pads()) {
        for (const OpSpec& op : early_flips_)
            if (flips(op, key)) (op.kind == OpKind::horizontal_flip ? mirror_x : mirror_y) ^= true;
    }
    return scratch.stage.begin(stage, denominator, mirror_x, mirror_y);
}

Verdict Pipeline::decode_first_stage(Scratch& scratch, Bytes jpeg, const JpegHeader& header, const SampleKey& key,
                                     RowSink& sink, EntryPointStore* entry_points) const {
    const int denominator = denominator_of(scratch.stages[0], header);
    const Box region = begin_stage(scratch, 0, denominator, key);
    if (region.width <= 0 || region.height <= 0) return Verdict::good;  // a window that is all padding
    return scratch.decoder.decode(jpeg, header, region, denominator, sink, entry_points, key.id);
}

// The source of the first stage has been handed over: finish it, run the others, then the operations.
void Pipeline::run_stages(Scratch& scratch, const SampleKey& key, std::byte* out) const {
    for (std::size_t i = 0;; ++i) {
        const Stage& stage = scratch.stages[i];
        const bool last = i + 1 == scratch.stages.size();
        if (last && !stage.pads() && pixel_ops_.empty()) {
            BatchSink sink(last_pass_, scratch, out);
            scratch.stage.finish(sink);
            return erase(scratch, key, out);
        }
        const Box part = StageRunner::visible(stage);
        PictureView picture = packed(scratch.picture, {part.width, part.height});
        PictureSink sink(picture);
        scratch.stage.finish(sink);
        if (stage.pads()) {
            const PictureView window = packed(scratch.next, {stage.window.width, stage.window.height});
            pad_window(stage, picture, window);
            std::swap(scratch.picture, scratch.next);
            picture = window;
        }
        if (last) return run_ops(scratch, picture, stage.pads(), key, out);
        scratch.stage.rows_of(picture, begin_stage(scratch, i + 1, 1, key));
    }
}

void Pipeline::run_ops(Scratch& scratch, PictureView picture, bool flips_wait, const SampleKey& key,
                       std::byte* out) const {
    const auto apply = [&](const OpSpec& op) {
        Draws draws = key.draws(op);
        apply_pixel_op(op, draws, picture, scratch.ops);
    };
    if (flips_wait) std::ranges::for_each(early_flips_, apply);
    std::ranges::for_each(pixel_ops_, apply);
    for (int y = 0; y < picture.height; ++y)
        last_pass_.write_row(*scratch.kernels, picture.row(y), out, y, scratch.values);
    erase(scratch, key, out);
}

// Boxes are drawn where their operation stands in the list: a flip that comes later moves them.
void Pipeline::erase(Scratch& scratch, const SampleKey& key, std::byte* out) const {
    if (erasing_.empty()) return;
    const Size size{format().width, format().height};
    scratch.erasures.clear();
    for (const OpSpec& op : ops_) {
        Erasure erasure{{}, false, {}, key.draws(op)};
        if (op.kind == OpKind::random_erasing && plan_erasure(op, size, key.draws(op), erasure))
            scratch.erasures.push_back(erasure);
        if (!is_flip(op.kind) || scratch.erasures.empty() || !flips(op, key)) continue;
        for (Erasure& earlier : scratch.erasures) {
            Box& box = earlier.box;
            if (op.kind == OpKind::horizontal_flip)
                box.x = size.width - box.x - box.width;
            else
                box.y = size.height - box.y - box.height;
        }
    }
    for (Erasure& erasure : scratch.erasures) last_pass_.erase(erasure, out);
}

}  // namespace trainload
