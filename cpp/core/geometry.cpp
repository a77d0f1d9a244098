#include "core/geometry.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace trainload {
namespace {

constexpr int kMaxSide = 65535;  // of any picture on the way; JPEG's own limit
constexpr int kTries = 10;

int round_even(double value) {
    return static_cast<int>(std::nearbyint(value));
}

int side(double value) {
    if (!(value >= 0 && value <= kMaxSide))
        throw GeometryError("a side of " + std::to_string(value) + " pixels is out of range");
    return static_cast<int>(value);
}

// The flips that stand before an operation. They are done after the last stage, so what is not the same from both sides
// is turned round here: the operation sees the flipped picture, the stages hold its mirror image.
struct Mirror {
    bool x = false, y = false;
};

Size output_of(const Stage& stage) {
    return {stage.window.width, stage.window.height};
}

void start_stage(std::vector<Stage>& stages, Size input) {
    const Box all{0, 0, input.width, input.height};
    stages.push_back({input, all, all, input, all, Padding::constant, {0, 0, 0}, Filter::bilinear});
}

// Scales `box` (in pixels of the picture as it is now) to `target`. The filter reads no further than `reach`.
void scale_box(std::vector<Stage>& stages, Box box, Box reach, Size target, double filter) {
    if (target.width < 1 || target.height < 1) throw GeometryError("a resize to nothing");
    if (stages.back().scales() || stages.back().pads()) start_stage(stages, output_of(stages.back()));
    Stage& stage = stages.back();
    const int x = stage.box.x + stage.window.x, y = stage.box.y + stage.window.y;
    stage.reach = {reach.x + x, reach.y + y, reach.width, reach.height};
    stage.box = {box.x + x, box.y + y, box.width, box.height};
    stage.scaled = target;
    stage.window = {0, 0, target.width, target.height};
    stage.filter = static_cast<Filter>(std::clamp(static_cast<int>(filter), 0, static_cast<int>(Filter::nearest)));
}

// What stands outside of a picture.
struct PaddingRule {
    Padding padding = Padding::constant;
    std::array<std::uint8_t, 3> fill{};
};

// Of four numbers: mode, red, green, blue.
PaddingRule padding_rule(const double* numbers) {
    const auto channel = [](double value) { return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)); };
    return {static_cast<Padding>(std::clamp(static_cast<int>(numbers[0]), 0, 3)),
            {channel(numbers[1]), channel(numbers[2]), channel(numbers[3])}};
}

// Cuts `window` (in pixels of the picture as it is now); outside of the picture the padding rule answers.
void cut(std::vector<Stage>& stages, Box window, const PaddingRule& rule) {
    if (window.width < 1 || window.height < 1) throw GeometryError("a crop to nothing");
    const Size now = output_of(stages.back());
    const bool pads =
        window.x < 0 || window.y < 0 || window.x + window.width > now.width || window.y + window.height > now.height;
    if (pads && stages.back().window != Box{0, 0, stages.back().scaled.width, stages.back().scaled.height})
        start_stage(stages, now);
    Stage& stage = stages.back();
    stage.window = {stage.window.x + window.x, stage.window.y + window.y, window.width, window.height};
    if (pads) {
        stage.padding = rule.padding;
        stage.fill = rule.fill;
    }
}

Box random_box(const OpSpec& op, Size size, Mirror mirror, Draws draws) {
    const auto& p = op.parameters;
    const double log_min = std::log(p[4]), log_max = std::log(p[5]);
    for (int i = 0; i < kTries; ++i) {
        const double area = static_cast<double>(size.width) * size.height * draws.uniform(p[2], p[3]);
        const double ratio = std::exp(draws.uniform(log_min, log_max));
        const int width = round_even(std::sqrt(area * ratio)), height = round_even(std::sqrt(area / ratio));
        if (width < 1 || width > size.width || height < 1 || height > size.height) continue;
        const int top = static_cast<int>(draws.below(static_cast<std::uint32_t>(size.height - height + 1)));
        const int left = static_cast<int>(draws.below(static_cast<std::uint32_t>(size.width - width + 1)));
        return {left, top, width, height};
    }
    const double ratio = static_cast<double>(size.width) / size.height;
    int width = size.width, height = size.height;
    if (ratio < p[4])
        height = std::clamp(round_even(width / p[4]), 1, size.height);
    else if (ratio > p[5])
        width = std::clamp(round_even(height * p[5]), 1, size.width);
    // Half a pixel more before the box than after it, where it is flipped.
    return {(size.width - width + mirror.x) / 2, (size.height - height + mirror.y) / 2, width, height};
}

Size resized(const OpSpec& op, Size size) {
    const auto& p = op.parameters;
    if (p[1] > 0) return {side(p[1]), side(p[0])};
    int shorter = side(p[0]);
    const double in_short = std::min(size.width, size.height), in_long = std::max(size.width, size.height);
    int longer = side(std::trunc(shorter * in_long / in_short));
    const int most = side(p[2]);
    if (most > 0 && longer > most) {
        shorter = static_cast<int>(static_cast<double>(most) * shorter / longer);
        longer = most;
    }
    return size.width <= size.height ? Size{shorter, longer} : Size{longer, shorter};
}

Box centred_window(const OpSpec& op, Size size, Mirror mirror) {
    const int height = side(op.parameters[0]), width = side(op.parameters[1]);
    const auto start = [](int have, int need, bool mirrored) {
        const int before = need > have ? -((need - have) / 2) : round_even((have - need) / 2.0);
        return mirrored ? have - need - before : before;
    };
    return {start(size.width, width, mirror.x), start(size.height, height, mirror.y), width, height};
}

void cut_random(std::vector<Stage>& stages, const OpSpec& op, Mirror mirror, Draws draws) {
    const auto& p = op.parameters;
    const Size size = output_of(stages.back());
    const int height = side(p[0]), width = side(p[1]);
    int left = side(p[2]), top = side(p[3]), right = side(p[4]), bottom = side(p[5]);
    if (mirror.x) std::swap(left, right);
    if (mirror.y) std::swap(top, bottom);
    if (p[6] != 0) {
        const int lack_y = std::max(0, height - (size.height + top + bottom));
        const int lack_x = std::max(0, width - (size.width + left + right));
        top += lack_y, bottom += lack_y, left += lack_x, right += lack_x;
    }
    const int room_y = size.height + top + bottom - height, room_x = size.width + left + right - width;
    if (room_y < 0 || room_x < 0)
        throw GeometryError("random_crop takes " + std::to_string(width) + "x" + std::to_string(height) +
                            " from a picture of " + std::to_string(size.width) + "x" + std::to_string(size.height));
    const int y = static_cast<int>(draws.below(static_cast<std::uint32_t>(room_y + 1))) - top;
    const int x = static_cast<int>(draws.below(static_cast<std::uint32_t>(room_x + 1))) - left;
    cut(stages, {x, y, width, height}, padding_rule(&p[7]));
}

void pad(std::vector<Stage>& stages, const OpSpec& op, Mirror mirror) {
    const auto& p = op.parameters;
    const Size size = output_of(stages.back());
    int left = side(p[0]), top = side(p[1]), right = side(p[2]), bottom = side(p[3]);
    if (mirror.x) std::swap(left, right);
    if (mirror.y) std::swap(top, bottom);
    const int width = side(static_cast<double>(size.width) + left + right),
              height = side(static_cast<double>(size.height) + top + bottom);
    cut(stages, {-left, -top, width, height}, padding_rule(&p[4]));
}

Size scaled_by(double x, double y, Size size) {
    const auto scaled = [](int now, double factor) { return std::max(1, side(std::trunc(now * factor))); };
    return {scaled(size.width, x), scaled(size.height, y)};
}

}  // namespace

bool flips(const OpSpec& op, const SampleKey& key) {
    return key.draws(op).uniform() < op.parameters[0];
}

void plan_geometry(const std::vector<OpSpec>& ops, Size picture, const SampleKey& key, std::vector<Stage>& stages) {
    stages.clear();
    start_stage(stages, picture);
    Mirror mirror;
    for (const OpSpec& op : ops) {
        const Size size = output_of(stages.back());
        const Box all{0, 0, size.width, size.height};
        switch (op.kind) {
            case OpKind::random_resized_crop:
                scale_box(stages, random_box(op, size, mirror, key.draws(op)), all,
                          {side(op.parameters[1]), side(op.parameters[0])}, op.parameters[6]);
                break;
            case OpKind::resize:
                scale_box(stages, all, all, resized(op, size), op.parameters[3]);
                break;
            case OpKind::random_scale: {
                Draws draws = key.draws(op);
                const double x = draws.uniform(op.parameters[0], op.parameters[1]);
                const double y = op.parameters[3] != 0 ? draws.uniform(op.parameters[0], op.parameters[1]) : x;
                scale_box(stages, all, all, scaled_by(x, y, size), op.parameters[2]);
                break;
            }
            case OpKind::center_crop:
                cut(stages, centred_window(op, size, mirror), {});
                break;
            case OpKind::pad:
                pad(stages, op, mirror);
                break;
            case OpKind::random_crop:
                cut_random(stages, op, mirror, key.draws(op));
                break;
            case OpKind::horizontal_flip:
                mirror.x ^= flips(op, key);
                break;
            case OpKind::vertical_flip:
                mirror.y ^= flips(op, key);
                break;
            default:
                break;
        }
    }
}

}  // namespace trainload
