// The fields of a request that say how tokens are drawn.
#pragma once

#include <initializer_list>
#include <string_view>

#include "dialog/fields.h"
#include "serve/api/api.h"

namespace toy::serve {

/// All of them. Throws FieldError.
void read_sampler_fields(Fields& f, CompletionRequest& r);
/// The numbers, with the names and limits of SamplerOptions::fields(); `only`: those of these names. Throws FieldError.
void read_sampler_numbers(Fields& f, SamplerOptions& s, std::initializer_list<std::string_view> only = {});

}  // namespace toy::serve
