// What `toy infer MODEL` does with models that tell classes: of pictures (--image) and of texts (--prompt).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/run/prompts.h"
#include "toy/backend/device.h"
#include "toy/models/model.h"

namespace toy::cli {

/// Pictures to classify.
struct ClassifyOptions {
  std::vector<std::string> files;
  int64_t top = 5;
  void add(CLI::App& app);
};

/// Throws Error{bad_input} naming an option that was given and says nothing about pictures, which `option` asks for.
void refuse_options_of_text(const CLI::App& app, const char* option);

/// Loads a model that tells classes of pictures. Throws Error{bad_input} for another one.
Model load_classifier(const std::string& path, const Device& device);
/// Prints the likeliest `top` classes of each prompt's text.
void classify_texts(Device& device, const Model& model, const std::string& model_path, const PromptOptions& prompts,
                    int64_t top, bool json);
/// Throws Error{bad_input} naming an option that was given and says nothing about texts that are classified.
void refuse_options_of_generation(const CLI::App& app);
/// Prints the likeliest classes of each picture.
void classify(Device& device, const std::string& model_path, const ClassifyOptions& options, bool json);

}  // namespace toy::cli
