#include "core/jpeg_region.h"

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "core/jpeg_huffman.h"
#include "core/jpeg_memory.h"

namespace trainload {
namespace {

constexpr int kBytesPerPixel = 4;
constexpr int kMargin = 2;  // pixels around the region: upsampling at the edge of a cut repeats the last pixel
constexpr std::int64_t kMaxPixels = 178'956'970;  // Pillow's limit too
constexpr std::size_t kPadding = 64;

struct ErrorManager {
    jpeg_error_mgr base;  // first: libjpeg knows only this part
    std::jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr decoder) {
    auto* const errors = reinterpret_cast<ErrorManager*>(decoder->err);
    (*decoder->err->format_message)(decoder, errors->message);
    std::longjmp(errors->jump, 1);
}

void on_message(j_common_ptr decoder, int level) {
    if (level < 0) ++decoder->err->num_warnings;
}

void do_nothing(j_decompress_ptr) {}

// The bytes are all there from the start: whoever asks for more has met the end of a truncated picture. Pillow raises.
boolean on_end_of_bytes(j_decompress_ptr decoder) {
    ERREXIT(decoder, JERR_INPUT_EOF);
    return FALSE;
}

void skip_bytes(j_decompress_ptr decoder, long count) {
    if (count <= 0) return;
    jpeg_source_mgr& source = *decoder->src;
    if (static_cast<std::size_t>(count) > source.bytes_in_buffer) ERREXIT(decoder, JERR_INPUT_EOF);
    source.next_input_byte += count;
    source.bytes_in_buffer -= static_cast<std::size_t>(count);
}

bool has_end_marker(Bytes jpeg, std::size_t from) {
    for (std::size_t i = jpeg.size(); i >= from + 2; --i)
        if (jpeg[i - 2] == 0xFF && jpeg[i - 1] == 0xD9) return true;
    return false;
}

// A progressive picture whose coefficients are not all there: libjpeg smooths across blocks, which a cut would change
// and which its versions do in different ways.
bool is_smoothed(const jpeg_decompress_struct& decoder) {
    if (!decoder.progressive_mode || decoder.coef_bits == nullptr) return false;
    for (int component = 0; component < decoder.num_components; ++component)
        for (int i = 0; i < 10; ++i)
            if (decoder.coef_bits[component][i] != 0) return true;
    return false;
}

bool is_ours(const jpeg_decompress_struct& decoder, const JpegHeader& header) {
    const bool known = decoder.jpeg_color_space == JCS_GRAYSCALE || decoder.jpeg_color_space == JCS_YCbCr ||
                       decoder.jpeg_color_space == JCS_RGB;
    return known && static_cast<int>(decoder.image_width) == header.width &&
           static_cast<int>(decoder.image_height) == header.height;
}

// fast: with our own Huffman decoding. to_the_end: all rows are asked for, and what follows them is read too.
enum class Way { fast, by_libjpeg, to_the_end };

}  // namespace

struct RegionDecoder::State {
    jpeg_decompress_struct decoder{};
    ErrorManager errors{};
    jpeg_source_mgr source{};
    JpegMemory memory;
    HuffmanDecoder huffman;
    JpegClient client{&memory, &huffman};
    std::vector<std::uint8_t> lines;
    bool has_all_rows = false;  // an error comes after the last row

    Verdict attempt(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink, Way way,
                    EntryPoints* points = nullptr);
    void hand_over(Box region, RowSink& sink);
};

RegionDecoder::RegionDecoder() : state_(std::make_unique<State>()) {
    jpeg_decompress_struct& decoder = state_->decoder;
    decoder.err = jpeg_std_error(&state_->errors.base);
    state_->errors.base.error_exit = on_error;
    state_->errors.base.emit_message = on_message;
    if (setjmp(state_->errors.jump) != 0) throw std::bad_alloc();
    jpeg_create_decompress(&decoder);
    decoder.client_data = &state_->client;
    JpegMemory::install(decoder);
    state_->source.init_source = do_nothing;
    state_->source.term_source = do_nothing;
    state_->source.fill_input_buffer = on_end_of_bytes;
    state_->source.skip_input_data = skip_bytes;
    state_->source.resync_to_restart = jpeg_resync_to_restart;
    decoder.src = &state_->source;
}

RegionDecoder::~RegionDecoder() {
    jpeg_destroy_decompress(&state_->decoder);
}

const char* RegionDecoder::message() const {
    return state_->errors.message;
}

bool is_decodable(const JpegHeader& header) {
    const bool known_frame = header.is_huffman_sequential() || header.frame_marker == 0xC2;
    return known_frame && header.precision == 8 && (header.component_count == 1 || header.component_count == 3) &&
           static_cast<std::int64_t>(header.width) * header.height <= kMaxPixels;
}

Verdict RegionDecoder::decode(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink) {
    State& state = *state_;
    if (header.ends_with_eoi || has_end_marker(jpeg, header.scan_offset)) {
        const Verdict verdict = state.attempt(jpeg, header, region, denominator, sink, Way::fast);
        if (!state.huffman.gave_up()) return verdict;
    }
    // Truncated or damaged: refused if Pillow refuses the whole picture, wherever the region lies.
    NoSink nobody;
    const Box all{0, 0, header.width, header.height};
    const Verdict verdict = state.attempt(jpeg, header, all, 1, nobody, Way::to_the_end);
    if (verdict != Verdict::good) return verdict;
    return state.attempt(jpeg, header, region, denominator, sink, Way::by_libjpeg);
}

bool RegionDecoder::decode_by_points(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink,
                                     EntryPoints& points, Verdict& verdict) {
    State& state = *state_;
    const bool ends = header.ends_with_eoi || has_end_marker(jpeg, header.scan_offset);
    if (ends) verdict = state.attempt(jpeg, header, region, denominator, sink, Way::fast, &points);
    if (ends && !state.huffman.gave_up()) return true;
    points.clear();
    return false;
}

// No object with a destructor may live in this frame: libjpeg's errors jump out of it.
Verdict RegionDecoder::State::attempt(Bytes jpeg, const JpegHeader& header, Box region, int denominator, RowSink& sink,
                                      Way way, EntryPoints* points) {
    huffman.forget();
    has_all_rows = false;
    jpeg_abort_decompress(&decoder);  // whatever became of the picture before
    memory.reset(decoder);
    if (setjmp(errors.jump) != 0)
        return has_all_rows && errors.base.msg_code == JERR_INPUT_EOF ? Verdict::good : Verdict::corrupt;
    source.next_input_byte = jpeg.data();
    source.bytes_in_buffer = jpeg.size();
    jpeg_read_header(&decoder, TRUE);
    const bool ours = is_ours(decoder, header);
    if (ours) {
        decoder.out_color_space = JCS_EXT_RGBX;
        decoder.scale_num = 1;
        decoder.scale_denom = static_cast<unsigned>(denominator);
        jpeg_start_decompress(&decoder);
        if (way == Way::fast) huffman.attach(decoder, points);
    }
    if (!ours || is_smoothed(decoder)) {
        std::strcpy(errors.message, "a kind of JPEG that is left to Pillow");
        return Verdict::other_decoder;
    }
    hand_over(region, sink);
    // Pillow reads on to the end marker, refuses what it cannot read and lets pass that there is no more.
    has_all_rows = way == Way::to_the_end;
    if (has_all_rows) jpeg_finish_decompress(&decoder);
    return Verdict::good;
}

void RegionDecoder::State::hand_over(Box region, RowSink& sink) {
    JDIMENSION left = static_cast<JDIMENSION>(std::max(0, region.x - kMargin));
    JDIMENSION width =
        std::min(static_cast<JDIMENSION>(region.x + region.width + kMargin), decoder.output_width) - left;
    if (width < decoder.output_width) jpeg_crop_scanline(&decoder, &left, &width);
    const auto mcu_width = static_cast<JDIMENSION>(decoder.max_h_samp_factor * decoder.min_DCT_scaled_size);
    huffman.set_columns(static_cast<int>(left / mcu_width), static_cast<int>((left + width - 1) / mcu_width) + 1);
    const std::size_t stride = static_cast<std::size_t>(decoder.output_width) * kBytesPerPixel + kPadding;
    if (lines.size() < stride * RowSink::kMaxRows) lines.resize(stride * RowSink::kMaxRows);
    std::array<JSAMPROW, RowSink::kMaxRows> starts;
    std::array<const std::uint8_t*, RowSink::kMaxRows> pixels;
    for (int i = 0; i < RowSink::kMaxRows; ++i) {
        starts[i] = lines.data() + stride * i;
        pixels[i] = starts[i] + (region.x - static_cast<int>(left)) * kBytesPerPixel;
    }
    const int top = std::max(0, region.y - kMargin);
    if (top > 0) jpeg_skip_scanlines(&decoder, static_cast<JDIMENSION>(top));
    const int end = region.y + region.height;
    while (static_cast<int>(decoder.output_scanline) < end) {
        const int first = static_cast<int>(decoder.output_scanline);
        const int wanted =
            first < region.y ? std::min(region.y - first, RowSink::kMaxRows) : std::min(end - first, RowSink::kMaxRows);
        int count = 0;
        while (count < wanted)
            count += static_cast<int>(
                jpeg_read_scanlines(&decoder, starts.data() + count, static_cast<JDIMENSION>(wanted - count)));
        if (first >= region.y) sink.rows(pixels.data(), first - region.y, count);
    }
}

}  // namespace trainload
