// The names under which a run's model is found.
#pragma once

#include <string>

#include "toy/models/model.h"

namespace toy {

/// `<out>/model.gguf`.
std::string model_path(const std::string& out);
/// `<out>/model-ema.gguf`: the averaged weights, where an average is kept.
std::string average_path(const std::string& out);
/// Writes it, and gives the same file the name `<out>/weights/latest.gguf`: a hard link, so that each can be copied or
/// moved alone, or a relative symbolic link where the file system has no hard ones. Returns model_path(). Throws as
/// save_model() does.
std::string publish_model(const Model& model, const std::string& out, DType stored);

}  // namespace toy
