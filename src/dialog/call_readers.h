// Follow one call byte by byte.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "dialog/call_forms.h"

namespace toy::dialog {

/// One call of a function.
class CallReader {
 public:
  virtual ~CallReader() = default;
  enum Result { more, done, broken };
  virtual Result push(char c) = 0;
  /// Once it is known; in forms with an ID, that.
  const std::optional<std::string>& name() const { return name_; }
  /// The tool that has the name, whose schema says what values mean.
  void set_tool(const Tool& tool) { tool_ = &tool; }
  /// What has come of the arguments since the last call of this, as JSON; nothing before the name is known.
  std::string take_arguments() { return name_ ? std::exchange(arguments_, "") : ""; }

 protected:
  std::optional<std::string> name_;
  const Tool* tool_ = nullptr;
  std::string arguments_;
};

/// The reader of a call that begins with this byte.
std::unique_ptr<CallReader> call_reader(const CallForm& form, char first);
/// The same for what follows a name: an object.
std::unique_ptr<CallReader> arguments_reader(const CallForm& form, const std::string& name);

}  // namespace toy::dialog
