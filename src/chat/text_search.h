// Where a text stands in another one, in time that grows with the sum of their lengths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "chat/budget.h"

namespace toy::chat {

inline constexpr size_t kNotFound = SIZE_MAX;

/// Calls f(position) for each place where `part` stands, from the left or from the right, of those that overlap the
/// first; until f() is false. `part` is not empty.
void each_match(std::string_view text, std::string_view part, bool from_right, Budget& budget,
                const std::function<bool(size_t)>& f);
/// The first (or last) place; kNotFound: none. An empty part is at the beginning (or end).
size_t find_text(std::string_view text, std::string_view part, Budget& budget, bool from_right = false);

}  // namespace toy::chat
