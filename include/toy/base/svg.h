// Writes drawings as SVG, with one style for light and dark readers.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace toy::svg {

/// The most pixels that a character takes in the fonts a reader may have: in a text, a `title`, and `code`.
inline constexpr double kCharacter = 7.2, kTitleCharacter = 8.4, kCodeCharacter = 6.7;
/// Colors of series, classes `c0` to `c7`; `r0` to `r7` are those of a ramp.
inline constexpr int kColors = 8;

/// Rules for the classes of a drawing:
///   boxes   paper, layer, forward, backward, update
///   lines   grid, axis, flow, residual, limit, lead; k1 to k3 dash them
///   texts   title, name, code, soft, label; right and middle are where x is
///   series  a group `line`, which may be faint, thin or hot; c0 to c7 and r0 to r7 color it
/// A page that holds drawings has them once; a drawing of its own brings them along.
std::string style();

/// Collects shapes; x and y are pixels from the upper left corner.
class Drawing {
 public:
  using Points = std::vector<std::pair<double, double>>;

  /// A box whose upper left corner is (x, y).
  void rect(double x, double y, double w, double h, std::string_view css, double radius = 4);
  /// Of a series, whose color it has.
  void circle(double x, double y, double radius);
  /// A straight line.
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  /// Straight lines from point to point.
  void line(const Points& points);
  /// `arrow`: it ends with one.
  void path(std::string_view commands, std::string_view css, bool arrow = false);
  /// y is the base line; `more` follows in soft letters.
  void text(double x, double y, std::string_view text, std::string_view css = {}, std::string_view more = {});
  /// Shapes that share classes and a name; a `titled` group shows it under the pointer.
  void group(const Drawing& shapes, std::string_view css, std::string_view name, bool titled);
  /// Shapes in the same coordinates, cut off outside a box.
  void window(const Drawing& shapes, double x, double y, double w, double h);

  /// An element of a page that has style(), as wide as its box. `label` is for readers who do not see it.
  std::string element(double width, double height, std::string_view label, std::string_view attributes = {}) const;
  /// The same as a file of its own, as wide as its page but at most `width` pixels.
  std::string file(double width, double height, std::string_view label, std::string_view attributes = {}) const;

 private:
  std::string body_;
  bool has_arrows_ = false;
};

}  // namespace toy::svg
