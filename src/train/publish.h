// The folder of a run's results: made, proven, and the names under which the model is found in it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "toy/models/save_as.h"

namespace toy {

/// `<out>/model.gguf`, or `<out>/adapter.gguf` of a run that makes an adapter.
std::string model_path(const std::string& out, bool adapter = false);
/// `<out>/model-ema.gguf`, or `<out>/adapter-ema.gguf`: the averaged weights, where an average is kept.
std::string average_path(const std::string& out, bool adapter = false);
/// Writes a model, or its last adapter where it has some.
void save_result(const Model& model, const std::string& path, const StoredAs& stored);
/// Makes the folder and proves, before any time is spent, that it can be written and has room for `needed` bytes.
/// Throws Error{bad_input} naming --out.
void prepare_folder(const std::string& out, size_t needed);

/// One weight of a model.
struct Weight {
  std::string tensor;
  float value = 0;
};
/// The first weight, or the first in a matrix, whose magnitude is above `limit`, or that is no number.
std::optional<Weight> first_beyond(const Model& model, float limit, bool matrices_alone = false);

/// Writes it, and gives the same file the name `<out>/weights/latest.gguf`: a hard link, so that each can be copied or
/// moved alone; a relative symbolic link where the file system has no hard links, and a copy where it has neither.
/// An adapter has one name. Returns model_path(). Throws as save_model() does.
std::string publish_model(const Model& model, const std::string& out, const StoredAs& stored);

}  // namespace toy
