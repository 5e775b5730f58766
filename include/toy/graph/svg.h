// Writes drawings as self-contained SVG files.
#pragma once

#include <string>
#include <string_view>

namespace toy::svg {

/// Width of a text of the class `small` or of no class, in pixels: the font is monospaced.
inline constexpr double kCharacter = 6.7, kSmallCharacter = 5.9;

/// Collects shapes; x and y are pixels from the upper left corner. Classes: of boxes `layer`, `op`, `forward`,
/// `backward`, `update`; of lines `flow`, `residual`, `grid`, `limit`; of texts `title`, `small`, `right` and `middle`.
class Drawing {
 public:
  /// A box whose upper left corner is (x, y).
  void rect(double x, double y, double w, double h, std::string_view css, double radius = 4);
  /// A straight line.
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  /// `arrow`: it ends with one.
  void path(std::string_view commands, std::string_view css, bool arrow = false);
  /// y is the base line.
  void text(double x, double y, std::string_view text, std::string_view css = {});
  /// The file, for a drawing of this size.
  std::string finish(double width, double height) const;

 private:
  std::string body_;
};

}  // namespace toy::svg
