// The fields of a request that say how tokens are drawn.
#pragma once

#include "dialog/fields.h"
#include "serve/api/api.h"

namespace toy::serve {

/// All of them. Throws FieldError.
void read_sampler_fields(Fields& f, CompletionRequest& r);
/// `top_p`: 0 keeps the likeliest token only.
void read_top_p(Fields& f, SamplerOptions& s);
/// `top_k`: 0 and -1 keep all.
void read_top_k(Fields& f, SamplerOptions& s);

}  // namespace toy::serve
