// The turns of long conversations.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "dialog/turns.h"

namespace toy::dialog {

size_t common_prefix(std::string_view a, std::string_view b);
size_t common_suffix(std::string_view a, std::string_view b);

/// Where the answers of these turns stand, as another answer would change them, by two renderings: with all other
/// messages replaced by numbers, and with all messages. nullopt: the template does not show each message once, in their
/// order, and by itself.
std::optional<std::vector<TextSpan>> places_of_turns(const RenderedTurns& r, const std::vector<size_t>& turns,
                                                     const TurnFinder::Render& render);

}  // namespace toy::dialog
