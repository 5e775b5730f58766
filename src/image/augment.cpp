#include "toy/image/augment.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>
#include <utility>

#include "toy/base/philox.h"

namespace toy {
namespace {

using Values = std::vector<float>;

constexpr double kPi = 3.141592653589793;
constexpr uint64_t kDraws = 1 << 12;  // numbers that one picture may draw in an epoch

// The numbers of one picture in one epoch.
class Draws {
 public:
  Draws(uint64_t seed, const char* what, int64_t epoch, int64_t n, int64_t i)
      : random_(seed, what), at_((uint64_t(epoch) * uint64_t(n) + uint64_t(i)) * kDraws) {}
  double unit() { return random_.uniform(at_++); }
  double between(double low, double high) { return low + (high - low) * unit(); }
  double around_0(double most) { return between(-most, most); }
  int64_t below(int64_t n) { return std::min(n - 1, int64_t(unit() * double(n))); }
  // Johnk's method: of u^(1/a) and v^(1/a) whose sum is at most 1, the first one's share.
  double beta(double a) {
    constexpr int kTries = 200;  // of which one in 6 is good where a is 2
    for (int i = 0; i < kTries; ++i) {
      const double x = std::pow(unit(), 1 / a), y = std::pow(unit(), 1 / a);
      if (x + y <= 1 && x + y > 0) return x / (x + y);
    }
    return 0.5;
  }

 private:
  Philox random_;
  uint64_t at_;
};

// Where the pixels of the new picture are taken from: (x,y) - center is multiplied by the matrix, then moved.
struct Warp {
  double xx = 1, xy = 0, yx = 0, yy = 1, x = 0, y = 0;
  static Warp rotation(double degrees) {
    const double a = degrees * kPi / 180;
    return {std::cos(a), -std::sin(a), std::sin(a), std::cos(a)};
  }
  Warp after(const Warp& w) const {  // this one of what w gives
    return {xx * w.xx + xy * w.yx, xx * w.xy + xy * w.yy,   yx * w.xx + yy * w.yx,
            yx * w.xy + yy * w.yy, xx * w.x + xy * w.y + x, yx * w.x + yy * w.y + y};
  }
};

// Between pixels by bilinear interpolation, black beyond the edge. Moves by complete pixels are exact.
Values warped(const Values& from, int64_t size, int64_t channels, const Warp& w) {
  Values out(from.size());
  const double center = double(size - 1) / 2;
  for (int64_t y = 0; y < size; ++y)
    for (int64_t x = 0; x < size; ++x) {
      const double u = double(x) - center, v = double(y) - center;
      const double sx = w.xx * u + w.xy * v + w.x + center, sy = w.yx * u + w.yy * v + w.y + center;
      const auto left = int64_t(std::floor(sx)), top = int64_t(std::floor(sy));
      const double right = sx - double(left), down = sy - double(top);
      for (int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (const auto& [px, py, weight] :
             {std::tuple(left, top, (1 - right) * (1 - down)), std::tuple(left + 1, top, right * (1 - down)),
              std::tuple(left, top + 1, (1 - right) * down), std::tuple(left + 1, top + 1, right * down)})
          if (weight > 0 && px >= 0 && py >= 0 && px < size && py < size)
            sum += weight * double(from[size_t((py * size + px) * channels + c)]);
        out[size_t((y * size + x) * channels + c)] = float(sum);
      }
    }
  return out;
}

// Toward `to` (a factor below 1) or away from it.
void blend(Values& v, double factor, const auto& to) {
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = float(std::clamp(double(to(i)) + factor * (double(v[i]) - double(to(i))), 0.0, 255.0));
}

// What a change is given: how strong it is, 0 to 1, its sign and the sides of the picture.
struct Change {
  double strength, sign;
  int64_t size, channels;
};
using Changes = void (*)(Values&, const Change&);

double mean_of(const Values& v) {
  double sum = 0;
  for (const float x : v) sum += double(x);
  return sum / double(v.size());
}

void auto_contrast(Values& v, const Change&) {
  const auto [low, high] = std::ranges::minmax(v);
  if (high <= low) return;
  for (float& x : v) x = (x - low) * 255.0f / (high - low);
}
void brightness(Values& v, const Change& c) {
  blend(v, 1 + 0.9 * c.sign * c.strength, [](size_t) { return 0; });
}
void contrast(Values& v, const Change& c) {
  const double mean = mean_of(v);
  blend(v, 1 + 0.9 * c.sign * c.strength, [&](size_t) { return mean; });
}
void colour(Values& v, const Change& c) {
  const Values before = v;
  blend(v, 1 + 0.9 * c.sign * c.strength, [&](size_t i) {
    const size_t n = size_t(c.channels), first = i / n * n;
    double sum = 0;
    for (size_t k = 0; k < n; ++k) sum += double(before[first + k]);
    return sum / double(n);
  });
}
void posterize(Values& v, const Change& c) {
  const double step = std::exp2(std::round(4 * c.strength));  // up to 4 of 8 bits are lost
  for (float& x : v) x = float(std::floor(double(x) / step) * step);
}
void solarize(Values& v, const Change& c) {
  const double from = 256 - 256 * c.strength;
  for (float& x : v)
    if (double(x) >= from) x = 255 - x;
}
void rotate(Values& v, const Change& c) { v = warped(v, c.size, c.channels, Warp::rotation(30 * c.sign * c.strength)); }
void shear_x(Values& v, const Change& c) { v = warped(v, c.size, c.channels, {.xy = 0.3 * c.sign * c.strength}); }
void shear_y(Values& v, const Change& c) { v = warped(v, c.size, c.channels, {.yx = 0.3 * c.sign * c.strength}); }
void move_x(Values& v, const Change& c) {
  v = warped(v, c.size, c.channels, {.x = std::round(0.3 * c.sign * c.strength * double(c.size))});
}
void move_y(Values& v, const Change& c) {
  v = warped(v, c.size, c.channels, {.y = std::round(0.3 * c.sign * c.strength * double(c.size))});
}
void unchanged(Values&, const Change&) {}

constexpr Changes kChanges[] = {unchanged, auto_contrast, brightness, contrast, colour, posterize,
                                solarize,  rotate,        shear_x,    shear_y,  move_x, move_y};

// All numbers are drawn whatever the options, so that those of one change do not depend on another.
Values changed(const ImageSet& set, int64_t i, int64_t epoch, const AugmentOptions& o, uint64_t seed) {
  const auto picture = set.picture(i);
  Values v(picture.begin(), picture.end());
  Draws draws(seed, "augment", epoch, set.count(), i);
  const int64_t most = o.crop >= 0 ? o.crop : set.size / 8;
  const double flip = o.flip >= 0 ? o.flip : set.channels == 3 ? 0.5 : 0;
  Warp w{.x = double(draws.below(2 * most + 1) - most), .y = double(draws.below(2 * most + 1) - most)};
  if (draws.unit() < flip) w = Warp{.xx = -1}.after(w);
  const double turn = draws.around_0(o.rotate), sx = std::exp(draws.around_0(std::log1p(o.zoom))),
               sy = std::exp(draws.around_0(std::log1p(o.zoom))), shear = draws.around_0(o.shear);
  if (turn != 0) w = Warp::rotation(turn).after(w);
  if (o.zoom > 0) w = Warp{.xx = sx, .yy = sy}.after(w);
  if (shear != 0) w = Warp{.xy = shear}.after(w);
  v = warped(v, set.size, set.channels, w);
  for (int64_t k = 0; k < o.rand_augment; ++k) {
    const Changes change = kChanges[draws.below(int64_t(std::size(kChanges)))];
    change(v, {o.magnitude / 10, draws.unit() < 0.5 ? -1.0 : 1.0, set.size, set.channels});
  }
  return v;
}

struct Box {
  int64_t left, top, right, bottom;
  double share(int64_t size) const { return double((right - left) * (bottom - top)) / double(size * size); }
};

// Around a random pixel, cut at the edges.
Box box(Draws& draws, int64_t size, double width, double height) {
  const double x = draws.unit() * double(size), y = draws.unit() * double(size);
  const auto at = [&](double v) { return std::clamp<int64_t>(std::llround(v), 0, size); };
  return {at(x - width / 2), at(y - height / 2), at(x + width / 2), at(y + height / 2)};
}

template <class F>
void each(const Box& b, int64_t size, int64_t channels, const F& f) {
  for (int64_t y = b.top; y < b.bottom; ++y)
    for (int64_t i = (y * size + b.left) * channels; i < (y * size + b.right) * channels; ++i) f(size_t(i));
}

void erase(Values& v, const ImageSet& set, int64_t i, int64_t epoch, const AugmentOptions& o, uint64_t seed) {
  Draws draws(seed, "erase", epoch, set.count(), i), noise(seed, "noise", epoch, set.count(), i);
  if (draws.unit() >= o.erase) return;
  const double area = draws.between(0.02, 0.33) * double(set.size * set.size),
               ratio = std::exp(draws.around_0(std::log(3.3)));
  const Box b = box(draws, set.size, std::sqrt(area * ratio), std::sqrt(area / ratio));
  each(b, set.size, set.channels, [&](size_t at) { v[at] = float(255 * noise.unit()); });
}

// Adds another picture, or a rectangle of it; returns its share.
double mix(Values& v, const Values& other, const ImageSet& set, const AugmentOptions& o, Draws& draws) {
  const bool cuts = o.cutmix > 0 && (o.mixup == 0 || draws.unit() < 0.5);
  const double own = draws.beta(cuts ? o.cutmix : o.mixup);
  if (!cuts) {
    for (size_t i = 0; i < v.size(); ++i) v[i] = float(own * double(v[i]) + (1 - own) * double(other[i]));
    return 1 - own;
  }
  const double side = double(set.size) * std::sqrt(1 - own);
  const Box b = box(draws, set.size, side, side);
  each(b, set.size, set.channels, [&](size_t at) { v[at] = other[at]; });
  return b.share(set.size);
}

}  // namespace

AugmentedPicture augmented(const ImageSet& set, int64_t i, int64_t epoch, const AugmentOptions& o, uint64_t seed) {
  AugmentedPicture out{changed(set, i, epoch, o, seed), Values(set.classes.size())};
  if (o.erase > 0) erase(out.values, set, i, epoch, o, seed);
  std::vector<double> shares(set.classes.size());
  shares[size_t(set.labels[size_t(i)])] = 1;
  if (o.mixup > 0 || o.cutmix > 0) {
    Draws draws(seed, "mix", epoch, set.count(), i);
    const int64_t partner = draws.below(set.count());
    const double theirs = mix(out.values, changed(set, partner, epoch, o, seed), set, o, draws);
    shares[size_t(set.labels[size_t(i)])] -= theirs;
    shares[size_t(set.labels[size_t(partner)])] += theirs;
  }
  for (size_t k = 0; k < shares.size(); ++k)
    out.shares[k] = float((1 - o.label_smoothing) * shares[k] + o.label_smoothing / double(shares.size()));
  return out;
}

}  // namespace toy
