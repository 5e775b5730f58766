// The arena over time as a drawing.
#include <fmt/format.h>

#include <algorithm>

#include "toy/base/memory.h"
#include "toy/base/svg.h"
#include "toy/runs/drawings.h"

namespace toy {
namespace {

constexpr double kLeft = 90, kTop = 64, kWidth = 760, kHeight = 260, kLine = 16;

// A round number of bytes, so that at most five of them reach the top.
size_t tick_of(size_t most) {
  size_t tick = 1;
  while (tick * 5 < most) tick *= 2;
  return tick;
}

struct Axes {
  size_t steps, bytes;
  double x(size_t step) const { return kLeft + kWidth * double(step) / double(steps); }
  double y(size_t n) const { return kTop + kHeight * (1 - double(n) / double(bytes)); }
};

// What is in use during the steps from `begin` on that are of the same phase; returns the first that is not.
size_t draw_phase(svg::Drawing& d, const MemoryProfile& p, const Axes& axes, size_t begin) {
  size_t end = begin;
  std::string path = fmt::format("M{:.2f} {:.2f}", axes.x(begin), axes.y(0));
  for (; end < p.live.size() && p.phases[end] == p.phases[begin]; ++end)
    path += fmt::format("V{:.2f}H{:.2f}", axes.y(p.live[end]), axes.x(end + 1));
  d.path(path + fmt::format("V{:.2f}Z", axes.y(0)), name_of(p.phases[begin]));
  return end;
}

void draw_legend(svg::Drawing& d) {
  double x = kLeft;
  for (const Phase phase : kPhases) {
    d.rect(x, kTop - 24, 12, 12, name_of(phase), 2);
    d.text(x + 17, kTop - 14, name_of(phase));
    x += 100;
  }
}

}  // namespace

std::string to_svg(const MemoryProfile& p, const std::string& title) {
  svg::Drawing d;
  d.text(20, 26, title, "title");
  if (p.live.empty()) return d.file(400, 60, title);
  const Axes axes{p.live.size(), std::max<size_t>(1, p.arena_bytes)};
  for (size_t n = 0, tick = tick_of(axes.bytes); n <= axes.bytes; n += tick) {
    d.line(kLeft, axes.y(n), kLeft + kWidth, axes.y(n), "grid");
    d.text(kLeft - 8, axes.y(n) + 4, format_bytes(n), "right");
  }
  for (size_t begin = 0; begin < p.live.size();) begin = draw_phase(d, p, axes, begin);
  draw_legend(d);
  d.line(kLeft, axes.y(p.arena_bytes), kLeft + kWidth, axes.y(p.arena_bytes), "limit");
  d.text(kLeft + kWidth, axes.y(p.arena_bytes) - 5, "arena " + format_bytes(p.arena_bytes), "right");
  const double peak_x = axes.x(size_t(p.peak_step)) + 0.5 * kWidth / double(p.live.size());
  d.line(peak_x, axes.y(p.peak_bytes()), peak_x, axes.y(0) + 6, "limit");
  d.text(std::clamp(peak_x, kLeft + 40, kLeft + kWidth - 40), axes.y(0) + 18, fmt::format("step {}", p.peak_step),
         "middle");
  d.text(kLeft, axes.y(0) + 18, "0");
  d.text(kLeft + kWidth, axes.y(0) + 18, fmt::format("{} steps", p.live.size()), "right");

  double y = kTop + kHeight + 48;
  const std::vector<LiveBlock> alive = p.at(p.peak_step);
  d.text(20, y, fmt::format("the peak, {} in {} blocks:", format_bytes(p.peak_bytes()), alive.size()), "name");
  double width = kLeft + kWidth + 30;
  for (size_t i = 0; i < std::min<size_t>(12, alive.size()); ++i) {
    y += kLine;
    d.text(kLeft, y, format_bytes(alive[i].bytes), "right");
    const std::string what = fmt::format("{}, steps {} to {}", alive[i].what, alive[i].first, alive[i].last);
    d.text(kLeft + 16, y, what);
    width = std::max(width, kLeft + 36 + svg::kCharacter * double(what.size()));
  }
  return d.file(width, y + 24, title);
}

}  // namespace toy
