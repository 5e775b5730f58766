// Draws what training wrote.
#pragma once

#include <string>

/// Reads every *.csv of `folder`, and of each task writes two SVG there: accuracy by step on sequences as in training,
/// and by size at the end. Prints a table of the latter.
int draw(const std::string& folder);
