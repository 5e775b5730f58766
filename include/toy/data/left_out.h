// What is said of files that folders have besides texts.
#pragma once

#include <string>

#include "toy/data/text_files.h"

namespace toy {

/// What was left out of the folders in `name`, in one line; "": nothing.
std::string left_out_note(const std::string& name, const TextFiles& files);

}  // namespace toy
