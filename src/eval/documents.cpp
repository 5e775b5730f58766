// From a text to the documents that are scored.
#include <fmt/format.h>

#include <algorithm>

#include "toy/base/error.h"
#include "toy/eval/score.h"

namespace toy {
namespace {

// Of the text that begins with the token: decode(), unlike token_bytes(), leaves out a space that the tokenizer put in
// front; a control token stands there with its name.
size_t bytes_at_the_beginning(const Tokenizer& tokenizer, int32_t id) {
  if (tokenizer.token_bytes(id).empty()) return tokenizer.written(id).size();
  return tokenizer.decode(std::span(&id, 1)).size();
}

}  // namespace

EvalText tokenize_for_eval(const Tokenizer& tokenizer, std::span<const std::string> documents, bool with_bos,
                           EncodeOptions options) {
  EvalText text;
  if (with_bos && tokenizer.adds_bos()) text.bos = tokenizer.bos();
  const auto encode = [&](const std::string& document) {
    try {
      return tokenizer.encode(document, options);
    } catch (const EncodeError& e) {
      if (documents.size() == 1) throw;
      fail("{}",
           e.at(fmt::format("byte {} of document {} of {}", e.offset(), text.documents.size() + 1, documents.size())));
    }
  };
  for (const std::string& document : documents) {
    std::vector<int32_t>& ids = text.documents.emplace_back(encode(document));
    if (ids.empty()) continue;
    const bool begins_with_bos = text.bos && ids[0] == *text.bos;
    const size_t unscored = text.bos && !begins_with_bos ? 0 : bytes_at_the_beginning(tokenizer, ids[0]);
    if (begins_with_bos) ids.erase(ids.begin());
    text.bytes += int64_t(document.size() - std::min(unscored, document.size()));
  }
  return text;
}

EvalText examples_for_eval(const Tokenizer& tokenizer, std::vector<Example> examples) {
  EvalText text;
  for (Example& e : examples) {
    std::vector<int32_t> scored;
    for (size_t i = 1; i < e.ids.size(); ++i)
      if (e.trained[i]) scored.push_back(e.ids[i]);
    text.bytes += int64_t(tokenizer.decode(scored).size());
    text.documents.push_back(std::move(e.ids));
    text.counted.push_back(std::move(e.trained));
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
