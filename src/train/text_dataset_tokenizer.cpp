// What a tokenizer is trained on.
#include <fmt/format.h>

#include <algorithm>

#include "toy/base/memory.h"
#include "toy/chat/builtin.h"
#include "train/text_dataset.h"

namespace toy {

std::string TextDataset::tokenizer_text() const {
  std::string text;
  uint64_t all = 0;
  for (const DataSource& s : sources_) all += s.files.bytes();
  if (!o_.examples.empty()) {
    const auto chat = template_of_options();
    const auto most = [&](const DataSource& s) {
      return double(s.files.bytes()) / double(all) * double(o_.tokenizer_bytes);
    };
    for (const DataSource& s : sources_) {
      require_below(memory_, 5 * size_t(s.files.bytes()), fmt::format("reading {} for the tokenizer", s.name),
                    "fewer examples");
      text += example_text(s.files.files, chat ? &*chat : nullptr, control_tokens_of(chat ? &*chat : nullptr),
                           {.renamed = parse_field_map(o_.map)}, given_validation_ ? 0 : o_.validation_fraction,
                           size_t(most(s)), o_.bad_rows == DataOptions::skip, o_.preferences);
    }
    return text;
  }
  for (const DataSource& s : sources_) {
    const auto& files = s.files.files;
    const uint64_t end =
        given_validation_ ? s.files.bytes() : validation_begin(files, o_.validation_fraction, documents_);
    const double part = double(s.files.bytes()) / double(all);
    const uint64_t most = sources_.size() == 1 ? uint64_t(o_.tokenizer_bytes)
                                               : std::max<uint64_t>(1, uint64_t(part * double(o_.tokenizer_bytes)));
    if (end > most)
      tell_.note(fmt::format("{}: the tokenizer is trained on {} of its {} of training text", s.name,
                             format_bytes(size_t(most)), format_bytes(size_t(end))));
    require_below(memory_, size_t(std::min(end, most)), fmt::format("reading {} for the tokenizer", s.name),
                  "a smaller --tokenizer-bytes");
    text += sample_text(files, end, most);
  }
  return text;
}

std::vector<TextFile> TextDataset::files() const {
  std::vector<TextFile> all;
  for (const DataSource& s : sources_) all.insert(all.end(), s.files.files.begin(), s.files.files.end());
  return all;
}

std::vector<TextFile> TextDataset::validation_files() const {
  return given_validation_ ? given_validation_->files.files : std::vector<TextFile>();
}

std::optional<ChatTemplate> TextDataset::template_of_options() const {
  if (o_.chat_template.empty()) return std::nullopt;
  return chat_template_named(o_.chat_template);
}

std::optional<ControlTokens> TextDataset::control_tokens() const {
  if (o_.examples.empty()) return std::nullopt;
  const auto chat = template_of_options();
  return control_tokens_of(chat ? &*chat : nullptr);
}

}  // namespace toy
