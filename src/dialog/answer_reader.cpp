#include "dialog/answer_reader.h"

#include <optional>
#include <utility>

namespace toy::dialog {

AnswerReader answer_reader(const AnswerKind& kind, const Constraints& constraints, const std::string& salt) {
  const bool has_channels = kind.form && kind.form->kind == CallForm::channels,  // which have the thoughts
      addressed = kind.form && kind.form->addressed();
  std::optional<ThoughtSplitter> thoughts;
  std::unique_ptr<CallParser> calls;
  if (kind.chat && !has_channels) thoughts.emplace(kind.thoughts, kind.state == ThoughtState::begun);
  if (kind.tools || (kind.chat && addressed))
    calls = std::make_unique<CallParser>(*kind.form,
                                         kind.tools ? kind.tools : std::make_shared<const std::vector<Tool>>(), salt);
  std::vector<int32_t> named;
  if (kind.chat) named = constraints.marks(kind.tools != nullptr || addressed || kind.is_formed);
  return {std::move(named), OutputParser(std::move(thoughts), std::move(calls))};
}

std::string call_salt(const std::vector<int32_t>& prompt, int64_t choice) {
  return std::string(reinterpret_cast<const char*>(prompt.data()), prompt.size() * sizeof(int32_t)) +
         std::to_string(choice);
}

}  // namespace toy::dialog
