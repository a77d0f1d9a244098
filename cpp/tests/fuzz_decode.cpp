// Mutates JPEGs and runs them through the whole core; for a build with sanitizers. Without FILES, those of
// made_jpegs.h. Ends with a count of verdicts; a crash or a report of the sanitizers is a failure. Also checks that
// entry points change no result, that samples of one picture are the same together and alone, and that a picture
// decodes to the same bytes after every hundred mutations.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/pipeline.h"
#include "tests/made_jpegs.h"

namespace {

using namespace trainload;

File read_file(const char* path) {
    std::ifstream stream(path, std::ios::binary);
    return File(std::istreambuf_iterator<char>(stream), {});
}

// Bytes changed, markers put in, parts cut out or doubled, or the end missing.
File mutated(File data, std::mt19937& random) {
    const int changes = static_cast<int>(random() % 6);
    for (int i = 0; i < changes && !data.empty(); ++i) {
        const auto at = data.begin() + static_cast<std::ptrdiff_t>(random() % data.size());
        const auto part = at + static_cast<std::ptrdiff_t>(std::min<std::size_t>(random() % 40, data.end() - at));
        const File doubled(at, part);
        switch (random() % 7) {
            case 0:
            case 1:
                *at = static_cast<std::uint8_t>(random());
                break;
            case 2:
                *at = 0xFF;
                if (at + 1 != data.end()) at[1] = static_cast<std::uint8_t>(0xC0 + random() % 63);
                break;
            case 3:
                data.erase(at, part);
                break;
            case 4:
                data.insert(at, doubled.begin(), doubled.end());
                break;
            case 5:
                if (random() % 8 == 0) data.erase(at, data.end());
                break;
            default:  // in the headers, where most of the meaning is
                data[random() % std::min<std::size_t>(data.size(), 700)] = static_cast<std::uint8_t>(random());
        }
    }
    return data;
}

OpSpec op(OpKind kind, std::uint32_t index, std::initializer_list<double> parameters) {
    OpSpec spec{kind, index, {}};
    std::copy(parameters.begin(), parameters.end(), spec.parameters.begin());
    return spec;
}

std::vector<Pipeline> pipelines() {
    const std::array<double, 3> mean{0.5, 0.5, 0.5}, std{0.2, 0.2, 0.2};
    const OpSpec crop = op(OpKind::random_resized_crop, 0, {61, 47, 0.08, 1, 0.75, 1.3333});
    const OpSpec padded = op(OpKind::random_crop, 1, {47, 47, 5, 5, 5, 5, 1, 2});
    const OpSpec flip = op(OpKind::horizontal_flip, 2, {0.5});
    const OpSpec turn = op(OpKind::random_rotation, 3, {-30, 30});
    const OpSpec erase = op(OpKind::random_erasing, 4, {0.5, 0.02, 0.33, 0.3, 3.3, 1});
    const OpSpec jitter = op(OpKind::color_jitter, 5, {0.6, 1.4, 0.6, 1.4, 0.6, 1.4, -0.2, 0.2});
    const OpSpec blur = op(OpKind::gaussian_blur, 6, {5, 7, 0.1, 2});
    const OpSpec random = op(OpKind::rand_augment, 7, {2, 9, 31, 1, 1, 2, 3});
    const OpSpec policy = op(OpKind::auto_augment, 8, {0, 0, 0, 0, 0});
    const OpSpec scaled = op(OpKind::random_scale, 9, {0.2, 2.5, static_cast<double>(Filter::bicubic)});
    const OpSpec edged = op(OpKind::pad, 10, {9, 8, 7, 6, 3});
    const OpSpec wide =
        op(OpKind::random_resized_crop, 11, {61, 47, 0.08, 1, 0.75, 1.3333, static_cast<double>(Filter::lanczos)});
    const OpSpec stretched = op(OpKind::random_autocontrast, 12, {0.5});
    const OpSpec noise = op(OpKind::gaussian_noise, 13, {0.1, 0.2});
    const PictureLimits limits{1 << 24, std::size_t{1} << 30};
    std::vector<Pipeline> made;
    made.emplace_back(std::vector{crop, flip}, OutputFormat{OutputType::uint8, OutputLayout::nhwc, 47, 61, mean, std},
                      DctScale::off, limits);
    made.emplace_back(std::vector{crop, flip, erase},
                      OutputFormat{OutputType::float32, OutputLayout::nchw, 47, 61, mean, std}, DctScale::automatic,
                      limits);
    made.emplace_back(std::vector{crop, padded, turn, flip},
                      OutputFormat{OutputType::float16, OutputLayout::nhwc4, 47, 47, mean, std}, DctScale::automatic,
                      limits);
    made.emplace_back(std::vector{crop, flip, jitter, blur, random, policy},
                      OutputFormat{OutputType::uint8, OutputLayout::nchw, 47, 61, mean, std}, DctScale::off, limits);
    made.emplace_back(std::vector{scaled, edged, wide, stretched, noise, flip},
                      OutputFormat{OutputType::uint8, OutputLayout::nhwc, 47, 61, mean, std}, DctScale::automatic,
                      limits);
    made.emplace_back(std::vector{wide, flip}, OutputFormat{OutputType::uint8, OutputLayout::nhwc, 47, 61, mean, std},
                      DctScale::automatic, limits);
    return made;
}

// Whether several samples of one picture, decoded together, are what each is alone: codes and bytes.
bool same_together(const Pipeline& pipeline, Scratch& scratch, Bytes jpeg, std::uint64_t id) {
    constexpr std::size_t kRepeats = 5;
    const std::size_t size = pipeline.format().picture_bytes();
    const std::vector<std::uint64_t> offsets(kRepeats, 0), sizes(kRepeats, jpeg.size()), ids(kRepeats, id);
    std::vector<std::uint32_t> draws;
    for (std::uint32_t draw = 0; draw < kRepeats; ++draw) draws.push_back(draw);
    std::vector<std::int32_t> codes(kRepeats, 0);
    std::vector<std::byte> together(kRepeats * size), alone(size);
    pipeline.run(scratch, {jpeg, offsets, sizes, ids, together.data(), codes, nullptr, draws}, 1, 0);
    std::string message;
    for (std::uint32_t draw = 0; draw < kRepeats; ++draw) {
        const Verdict verdict = pipeline.run_jpeg(scratch, jpeg, {1, 0, id, draw}, alone.data(), message);
        if (codes[draw] != static_cast<std::int32_t>(verdict)) return false;
        if (verdict == Verdict::good && !std::equal(alone.begin(), alone.end(), together.begin() + draw * size))
            return false;
    }
    return true;
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) return std::fprintf(stderr, "usage: fuzz_decode MUTATIONS [FILES...]\n"), 2;
    std::vector<File> seeds;
    if (count == 2) seeds = made_jpegs();
    for (int i = 2; i < count; ++i) seeds.push_back(read_file(arguments[i]));
    const auto made = pipelines();
    std::vector<std::unique_ptr<Scratch>> scratches;
    for (const Kernels* kernels : all_kernels()) scratches.push_back(std::make_unique<Scratch>(*kernels));
    std::mt19937 random(1);
    std::array<long, 3> verdicts{};
    std::vector<std::byte> expected;
    EntryPointStore store(std::size_t{1} << 22);
    const long mutations = std::atol(arguments[1]);
    for (long i = 0; i < mutations; ++i) {
        const Pipeline& pipeline = made[i % made.size()];
        Scratch& scratch = *scratches[i % scratches.size()];
        // Its own block of exactly its size, so that a read beyond the end is seen.
        const File data = mutated(seeds[i % seeds.size()], random);
        const auto bytes = std::make_unique<std::uint8_t[]>(data.size());
        std::copy(data.begin(), data.end(), bytes.get());
        std::vector<std::byte> out(pipeline.format().picture_bytes());
        std::string message;
        for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
            const SampleKey key{1, epoch, static_cast<std::uint64_t>(i)};
            const Bytes jpeg{bytes.get(), data.size()};
            const Verdict verdict = pipeline.run_jpeg(scratch, jpeg, key, out.data(), message);
            ++verdicts[static_cast<std::size_t>(verdict)];
            std::vector<std::byte> jumped(out.size());
            if (pipeline.run_jpeg(scratch, jpeg, key, jumped.data(), message, &store) != verdict ||
                (verdict == Verdict::good && jumped != out))
                return std::fprintf(stderr, "mutation %ld is another picture with entry points\n", i), 1;
        }
        if (i % 4 == 0 && !same_together(pipeline, scratch, {bytes.get(), data.size()}, static_cast<std::uint64_t>(i)))
            return std::fprintf(stderr, "mutation %ld is another picture among its repeats\n", i), 1;
        if (i % 100 != 0) continue;
        std::vector<std::byte> again(made[0].format().picture_bytes());
        if (made[0].run_jpeg(scratch, seeds[0], {1, 2, 3}, again.data(), message) != Verdict::good)
            return std::fprintf(stderr, "the first file must be a good JPEG: %s\n", message.c_str()), 2;
        if (expected.empty()) expected = again;
        if (again != expected) return std::fprintf(stderr, "mutation %ld left something behind\n", i), 1;
    }
    std::printf("good %ld, for another decoder %ld, corrupt %ld\n", verdicts[0], verdicts[1], verdicts[2]);
}
