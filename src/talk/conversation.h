// The messages of a conversation, and their file: a line of JSON that `toy train --data` reads.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace toy::talk {

using nlohmann::ordered_json;

/// Messages as dialog::normalized_messages() has them, and the tools that may be called. A turn is a user's message and
/// what follows it up to the next one: answers, calls and their results.
class Conversation {
 public:
  Conversation() = default;
  explicit Conversation(ordered_json messages) : messages_(std::move(messages)) {}
  /// From {"messages": [...]}, perhaps with "tools". Throws Error{bad_input}, beginning with `where`, for anything
  /// else: another key, a message that is none.
  static Conversation parse(std::string_view where, std::string_view line);
  /// As parse() reads it, without a line break.
  std::string line() const;

  const ordered_json& messages() const { return messages_; }
  /// As dialog::normalized_tools() has them; null: none.
  const ordered_json& tools() const { return tools_; }
  void set_tools(ordered_json tools) { tools_ = std::move(tools); }
  /// Replaces the system message, which comes first; "" removes it.
  void set_system(const std::string& text);
  void add_user(const std::string& text);
  void add(ordered_json message) { messages_.push_back(std::move(message)); }

  size_t turns() const;
  /// The user's latest message.
  std::optional<std::string> last_user() const;
  /// Does the user's latest message, or the result of a call, wait for an answer?
  bool waits() const;
  /// Calls of the latest message, whose results are missing; an empty list: none.
  ordered_json open_calls() const;
  /// Removes the latest message.
  void drop_last() { messages_.erase(messages_.size() - 1); }
  /// Removes the answer to the user's latest message, with calls and results, if there is one.
  void drop_answer();
  /// Removes the latest turn. False: there is none.
  bool undo();
  /// Removes the `count` oldest turns; the system message stays.
  void drop_oldest(size_t count);
  /// Removes all but the system message.
  void clear() { drop_oldest(turns()); }

 private:
  size_t begin_of_turn(size_t turn) const;  // index of its first message; of the end for turns()
  ordered_json messages_ = ordered_json::array();
  ordered_json tools_;
};

/// Reads a conversation. Throws Error{bad_input} for a file that does not hold exactly one.
Conversation load_conversation(const std::string& path);
/// Whether the file exists and is not empty.
bool is_taken(const std::string& path);
/// Whether the file exists and holds something else than a conversation.
bool is_another_file(const std::string& path);
/// Writes it, completely or not at all. Throws Error{bad_input} where the file exists and is no conversation.
void save_conversation(const std::string& path, const Conversation& conversation);

}  // namespace toy::talk
