// One batch on four threads over one store of entry points has the bytes that one thread without a store gives it; for
// a build with -fsanitize=thread. Samples occur several times in the batch, so that threads meet at one picture, and
// pictures change under their ids, as damage does.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "core/pipeline.h"
#include "tests/made_jpegs.h"

namespace {

using namespace trainload;

constexpr int kThreads = 4;
constexpr std::size_t kRepeats = 6, kSlice = 3;

struct Batch {
    File arena;
    std::vector<std::uint64_t> offsets, sizes, ids;

    explicit Batch(const std::vector<File>& files) {
        for (std::size_t repeat = 0; repeat < kRepeats; ++repeat) {
            for (std::size_t id = 0; id < files.size(); ++id) {
                const bool is_changed = (id + repeat) % kRepeats == 0;
                const File& file = files[is_changed ? (id + 1) % files.size() : id];
                offsets.push_back(arena.size());
                sizes.push_back(file.size());
                ids.push_back(id);
                arena.insert(arena.end(), file.begin(), file.end());
            }
        }
    }
};

struct Made {
    std::vector<std::byte> pixels;
    std::vector<std::int32_t> codes;

    bool operator==(const Made&) const = default;
};

// One slice of the batch.
void decode(const Pipeline& pipeline, Scratch& scratch, const Batch& batch, std::size_t first, std::uint32_t epoch,
            EntryPointStore* store, Made& made) {
    const std::size_t count = std::min(kSlice, batch.ids.size() - first);
    const auto part = [&](const std::vector<std::uint64_t>& numbers) {
        return std::span(numbers).subspan(first, count);
    };
    pipeline.run(scratch,
                 {batch.arena, part(batch.offsets), part(batch.sizes), part(batch.ids),
                  made.pixels.data() + first * pipeline.format().picture_bytes(),
                  std::span(made.codes).subspan(first, count), store},
                 1, epoch);
}

// The whole batch, its slices taken by whichever thread is free.
Made decoded(const Pipeline& pipeline, const Batch& batch, std::uint32_t epoch, EntryPointStore* store, int threads) {
    Made made{std::vector<std::byte>(batch.ids.size() * pipeline.format().picture_bytes()),
              std::vector<std::int32_t>(batch.ids.size())};
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        Scratch scratch;
        for (std::size_t first; (first = next.fetch_add(kSlice)) < batch.ids.size();)
            decode(pipeline, scratch, batch, first, epoch, store, made);
    };
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) running.emplace_back(work);
    running.clear();                                       // joins
    for (std::size_t i = 0; i < made.codes.size(); ++i) {  // pixels of what is not good are undefined
        const auto size = static_cast<std::ptrdiff_t>(pipeline.format().picture_bytes());
        if (made.codes[i] != 0)
            std::fill_n(made.pixels.begin() + static_cast<std::ptrdiff_t>(i) * size, size, std::byte{});
    }
    return made;
}

}  // namespace

int main() {
    const std::array<double, 3> mean{0.5, 0.5, 0.5}, std{0.2, 0.2, 0.2};
    const OpSpec crop{OpKind::random_resized_crop, 0, {61, 47, 0.08, 1, 0.75, 1.3333}};
    const OpSpec erase{OpKind::random_erasing, 1, {0.5, 0.02, 0.33, 0.3, 3.3, 1}};
    const Pipeline pipeline({crop, erase}, {OutputType::float32, OutputLayout::nchw, 47, 61, mean, std},
                            DctScale::automatic, {1 << 24, std::size_t{1} << 30});
    const Batch batch(made_jpegs());
    EntryPointStore store(std::size_t{1} << 20);
    for (std::uint32_t epoch = 0; epoch < 12; ++epoch) {
        const Made expected = decoded(pipeline, batch, epoch, nullptr, 1);
        if (decoded(pipeline, batch, epoch, &store, kThreads) != expected)
            return std::fprintf(stderr, "epoch %u has other bytes on %d threads\n", epoch, kThreads), 1;
        const auto good = std::ranges::count(expected.codes, 0);
        if (good * 2 < std::ssize(expected.codes)) return std::fprintf(stderr, "most pictures must be good\n"), 2;
    }
    if (store.size_bytes() == 0) return std::fprintf(stderr, "no entry points were kept\n"), 2;
    std::printf("%zu pictures an epoch, %zu bytes of entry points: the same on %d threads\n", batch.ids.size(),
                store.size_bytes(), kThreads);
}
