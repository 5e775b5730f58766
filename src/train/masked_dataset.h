// Texts as rows in which tokens are hidden.
#pragma once

#include <memory>

#include "train/dataset.h"

namespace toy {

/// The data of a run become texts in which tokens are hidden. Throws Error{bad_input} for options that
/// mean nothing then.
void settle_masks(RecipeOptions& o, const MaskOptions& masks);

/// The windows of `texts`, which must not be packed: each a row of its own, between the tokens that begin and end a
/// text. What a validation hides is the same each time.
std::unique_ptr<Dataset> make_masked_dataset(const MaskOptions& options, std::unique_ptr<Dataset> texts);

}  // namespace toy
