// From a text to the documents that are scored.
#include <fmt/format.h>

#include <algorithm>

#include "toy/base/error.h"
#include "toy/eval/score.h"

namespace toy {

EvalText tokenize_for_eval(const Tokenizer& tokenizer, std::span<const std::string> documents, bool with_bos) {
  EvalText text;
  if (with_bos && tokenizer.adds_bos()) text.bos = tokenizer.bos();
  const auto encode = [&](const std::string& document) {
    try {
      return tokenizer.encode(document);
    } catch (const EncodeError& e) {
      if (documents.size() == 1) throw;
      fail("{}",
           e.at(fmt::format("byte {} of document {} of {}", e.offset(), text.documents.size() + 1, documents.size())));
    }
  };
  for (const std::string& document : documents) {
    const std::vector<int32_t>& ids = text.documents.emplace_back(encode(document));
    if (ids.empty()) continue;
    // decode(), unlike token_bytes(), leaves out a space that the tokenizer put in front of the text.
    const size_t unscored = text.bos ? 0 : tokenizer.decode(std::span(ids).first(1)).size();
    text.bytes += int64_t(document.size() - std::min(unscored, document.size()));
  }
  return text;
}

std::vector<std::string> split_documents(std::string_view text) {
  std::vector<std::string> documents;
  bool open = false;  // does the next line belong to the last document?
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (!blank && open) {
      documents.back() += '\n';
      documents.back() += line;
    } else if (!blank) {
      documents.emplace_back(line);
    }
    open = !blank;
    begin = end + 1;
  }
  return documents;
}

}  // namespace toy
