// A picture of pictures: what training sees of a folder.
#pragma once

#include <cstdint>
#include <string>

#include "toy/image/augment.h"

namespace toy::cli {

/// What is drawn.
struct ContactSheet {
  std::string data;   ///< as read_images() takes it
  std::string out;    ///< PNG file
  int64_t rows = 10;  ///< pictures, spread over the set; 0: all, at most 100
  int64_t size = 0;   ///< side of the pictures; 0: that of the data
  uint64_t seed = 0;
  AugmentOptions augment = {};
};

/// Draws a row for each picture: as it is, then changed in seven ways as the options say. Returns what the rows show:
/// names of files and classes, a line each. Throws Error{bad_input} for data that cannot be read, for a file that
/// exists and is no PNG, for more than 100 rows, and a page that is too large.
std::string draw_contact_sheet(const ContactSheet& sheet);

}  // namespace toy::cli
