#include "serve/api/fill.h"

#include "serve/api/api.h"
#include "toy/text/fill_tokens.h"

namespace toy::serve {
namespace {

void append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  ids.insert(ids.end(), more.begin(), more.end());
}

}  // namespace

std::vector<int32_t> fill_prompt(const Tokenizer& tokenizer, const std::string& before, const std::string& after,
                                 const char* field, const std::vector<FillFile>& others) {
  const std::optional<FillTokens> marks = fill_tokens(tokenizer);
  if (!marks)
    throw ApiError(400,
                   "the model's vocabulary has no tokens for filling holes (such as <|fim_prefix|>); use a code model "
                   "that has them, or a prompt without a suffix",
                   field);
  std::vector<int32_t> ids;
  if (tokenizer.adds_bos() && tokenizer.bos()) ids.push_back(*tokenizer.bos());
  // Vocabularies for projects have a token between their files.
  const std::vector<int32_t> between = tokenizer.encode("<|file_sep|>", {.parse_special = true});
  const bool has_mark = between.size() == 1 && tokenizer.token_bytes(between[0]).empty();
  for (const FillFile& file : others) {
    append(ids, has_mark ? between : tokenizer.encode("\n\n--- snippet ---\n\n"));
    append(ids, tokenizer.encode((has_mark ? file.name + "\n" : "") + file.text));
  }
  ids.push_back(marks->prefix);
  append(ids, tokenizer.encode(before));
  ids.push_back(marks->suffix);
  append(ids, tokenizer.encode(after));
  ids.push_back(marks->middle);
  return ids;
}

}  // namespace toy::serve
