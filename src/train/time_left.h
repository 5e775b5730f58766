// How long the remainder of a run takes.
#pragma once

#include "toy/train/recipe.h"

namespace toy {

/// Seconds of validations.
struct ValidationTime {
  double during = 0;  ///< of those between steps
  double at_end = 0;
};
/// Of the validations after step `step`; the one that is due there is among them unless `validated`. `part` and `full`:
/// seconds of a validation on at most RecipeOptions::eval_tokens, and on the complete text.
ValidationTime validation_time(const RecipeOptions& options, int64_t step, bool validated, double part, double full);

/// Seconds to the end of a run whose remaining steps take `steps` seconds, and of which `elapsed` seconds have passed.
double time_left(const RecipeOptions& options, double steps, const ValidationTime& validations, double elapsed);

}  // namespace toy
