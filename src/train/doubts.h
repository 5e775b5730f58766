// What is probably not meant: texts that a run can train on, and that its user would rather not.
#pragma once

#include <string>
#include <vector>

#include "train/text_dataset.h"

namespace toy {

/// A line for each doubt: text that is not UTF-8, JSON Lines as plain text, validation on a
/// file of the training. Reads the beginnings of the first files.
std::vector<std::string> doubts_of(const DataOptions& options, const std::vector<DataSource>& sources,
                                   const DataSource* validation);

/// That `taken` rows of so few are many epochs, or "".
std::string doubt_of_epochs(const std::string& name, double taken, int64_t rows);

}  // namespace toy
