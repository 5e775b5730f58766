// Short conversations about a small world, whose answers are all known: rows to train a first chat model on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace toy {

/// A question and its answer.
struct ChatTurn {
  std::string question, answer;
};
/// Conversation i of a seed, of one to nine turns: animals, sums, opposites, a name that is asked for later. It
/// depends on (seed, i) alone.
std::vector<ChatTurn> chat_turns(uint64_t seed, int64_t i);
/// The conversations 0 to rows - 1 as JSON Lines with "messages", as `toy train --data` reads them.
std::string write_chats(uint64_t seed, int64_t rows);

}  // namespace toy
