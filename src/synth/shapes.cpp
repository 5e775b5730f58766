#include "toy/synth/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "toy/base/error.h"
#include "toy/base/philox.h"

namespace toy {
namespace {

namespace fs = std::filesystem;

constexpr double kPi = 3.141592653589793;

// Is a point of the square from -1 to 1 inside? Every shape reaches about as far as the unit circle.
struct Shape2D {
  const char* name;
  bool (*inside)(double x, double y);
};

bool in_bar(double x, double y) { return std::fabs(x) < 1 && std::fabs(y) < 0.22; }

// Between the center and an edge of a star or polygon whose radius goes from `outer` at its n tips to `inner`.
bool in_star(double x, double y, int n, double outer, double inner) {
  const double step = kPi / n, angle = std::fmod(std::atan2(y, x) + 4 * kPi, 2 * step);
  const double t = std::min(angle, 2 * step - angle);  // from the nearest tip
  const double ax = outer, bx = inner * std::cos(step), by = inner * std::sin(step), r = std::hypot(x, y);
  const double px = r * std::cos(t), py = r * std::sin(t);
  return (bx - ax) * py - by * (px - ax) > 0;
}

constexpr Shape2D kShapes[] = {
    {"bar", in_bar},
    {"circle", [](double x, double y) { return std::hypot(x, y) < 0.9; }},
    {"ell",
     [](double x, double y) {
       return (std::fabs(x + 0.5) < 0.25 && std::fabs(y) < 0.9) ||
              (std::fabs(y - 0.65) < 0.25 && x > -0.75 && x < 0.75);
     }},
    {"half", [](double x, double y) { return std::hypot(x, y + 0.4) < 1 && y > -0.4; }},
    {"plus", [](double x, double y) { return in_bar(x, y) || in_bar(y, x); }},
    {"ring", [](double x, double y) { return std::fabs(std::hypot(x, y) - 0.75) < 0.2; }},
    {"square", [](double x, double y) { return std::max(std::fabs(x), std::fabs(y)) < 0.72; }},
    {"star", [](double x, double y) { return in_star(x, y, 5, 1.05, 0.42); }},
    {"tee",
     [](double x, double y) {
       return (std::fabs(y + 0.7) < 0.24 && std::fabs(x) < 0.85) || (std::fabs(x) < 0.24 && y > -0.7 && y < 0.95);
     }},
    {"triangle", [](double x, double y) { return in_star(x, y, 3, 1, 0.5); }},
};

struct Drawing {
  double x, y, radius, cos, sin;
  // How much of a pixel the shape covers, by points within it.
  double cover(const Shape2D& shape, int64_t px, int64_t py) const {
    constexpr int kPoints = 4;
    int inside = 0;
    for (int i = 0; i < kPoints * kPoints; ++i) {
      const double u = (double(px) + (i % kPoints + 0.5) / kPoints - x) / radius,
                   v = (double(py) + (i / kPoints + 0.5) / kPoints - y) / radius;
      inside += shape.inside(cos * u + sin * v, cos * v - sin * u);
    }
    return double(inside) / (kPoints * kPoints);
  }
};

}  // namespace

const std::vector<std::string>& shape_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Shape2D& s : kShapes) list.emplace_back(s.name);
    return list;
  }();
  return names;
}

Picture draw_shape(int64_t i, int64_t size, uint64_t seed, const std::string& stream) {
  const Shape2D& shape = kShapes[size_t(i) % std::size(kShapes)];
  const Philox random(seed, fmt::format("shapes {} {}", stream, i));
  uint64_t draw = 0;
  const auto between = [&](double low, double high) { return low + (high - low) * random.uniform(draw++); };
  const double side = double(size), radius = side * between(0.26, 0.4), angle = between(-0.3, 0.3);
  const double x = between(radius, side - radius), y = between(radius, side - radius);
  const Drawing d{x, y, radius, std::cos(angle), std::sin(angle)};
  // A light shape of any colour on any dark one.
  std::array<double, 3> back{}, front{};
  for (double& c : back) c = between(0, 110);
  for (double& c : front) c = between(140, 255);
  Picture p{size, size, 3};
  for (int64_t py = 0; py < size; ++py)
    for (int64_t px = 0; px < size; ++px) {
      const double cover = d.cover(shape, px, py);
      for (size_t c = 0; c < 3; ++c) {
        const double v = back[c] + cover * (front[c] - back[c]) + between(-12, 12);
        p.values.push_back(uint8_t(std::clamp(std::round(v), 0.0, 255.0)));
      }
    }
  return p;
}

void write_shapes(const ShapeOptions& o, const std::string& folder) {
  std::error_code error;
  check(!fs::exists(folder, error) || (fs::is_directory(folder, error) && fs::is_empty(folder, error)),
        "out: '{}' is there and not empty; name a new folder", folder);
  for (const auto& [part, count] : {std::pair("train", o.images), std::pair("test", o.test)}) {
    if (count == 0) continue;
    for (const std::string& name : shape_names()) fs::create_directories(fs::path(folder) / part / name, error);
    check(!error, "out: cannot make folders in '{}': {}", folder, error.message());
    for (int64_t i = 0; i < count; ++i) {
      const fs::path file =
          fs::path(folder) / part / shape_names()[size_t(i) % std::size(kShapes)] / fmt::format("{:05}.ppm", i);
      std::ofstream out(file, std::ios::binary);
      out << pnm_text(draw_shape(i, o.size, o.seed, part));
      check(bool(out), "out: cannot write {}; is the disk full?", file.string());
    }
  }
}

}  // namespace toy
