// The classes of a classifier as its vocabulary: a text is the name of one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "toy/text/tokenizer.h"

namespace toy {

/// The key of a GGUF file that has them, in the order of the outputs.
inline constexpr const char* kClassesKey = "vit.classes";

/// Token i is the name of class i; encoding any other text throws Error{bad_input} with the classes. Throws for no
/// names, and for two that are equal.
std::shared_ptr<const Tokenizer> make_class_names(std::vector<std::string> names);
/// Those of a file; nullptr: it has none.
std::shared_ptr<const Tokenizer> load_class_names(const gguf::File& file);
/// The names of a vocabulary of classes: of each token its text.
std::vector<std::string> class_names(const Tokenizer& tokenizer);

}  // namespace toy
