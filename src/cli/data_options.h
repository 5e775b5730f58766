// Options for what a training run reads.
#pragma once

#include <CLI/CLI.hpp>

#include "toy/train/data.h"

namespace toy::cli {

/// --corpus, --corpus-weight, --val, --val-fraction, --documents, --pack and --data-cache.
void add_data_options(CLI::App& app, DataOptions& data);
/// --tokenizer-bytes, where a tokenizer is trained.
void add_tokenizer_bytes(CLI::App& app, DataOptions& data);
/// Throws Error{bad_input} where `out`, which would be written, is one of the texts.
void refuse_overwriting_texts(const std::string& out, const DataOptions& data);

}  // namespace toy::cli
