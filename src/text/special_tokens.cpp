// All names are those of llama_vocab::impl::load in llama-vocab.cpp.
#include "text/special_tokens.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

namespace toy {
namespace {

/// What a token is for: a key gives it to one, or else it has one of these texts, and then it is a control token.
struct Role {
  const char* key;
  bool ends_generation;
  std::vector<std::string_view> texts;
  int32_t FillTokens::*fills = nullptr;
};
const std::vector<Role>& roles() {
  static const std::vector<Role> kRoles = {
      {"tokenizer.ggml.eot_token_id", true, {}},
      {"tokenizer.ggml.eom_token_id", true, {}},
      {"tokenizer.ggml.fim_pre_token_id",
       false,
       {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
        "<|prefix|>"},
       &FillTokens::prefix},
      {"tokenizer.ggml.fim_suf_token_id",
       false,
       {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
        "<|suffix|>"},
       &FillTokens::suffix},
      {"tokenizer.ggml.fim_mid_token_id",
       false,
       {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
        "<|middle|>"},
       &FillTokens::middle},
      {"tokenizer.ggml.fim_pad_token_id", true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {"tokenizer.ggml.fim_rep_token_id",
       true,
       {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {"tokenizer.ggml.fim_sep_token_id", true, {"<|file_sep|>"}},
  };
  return kRoles;
}

/// Control tokens that end a generation wherever they are.
constexpr std::string_view kEnds[] = {"<|eot_id|>",
                                      "<|im_end|>",
                                      "<|end|>",
                                      "<|return|>",
                                      "<|call|>",
                                      "<|flush|>",
                                      "<|calls|>",
                                      "<end_of_turn>",
                                      "<|endoftext|>",
                                      "</s>",
                                      "<|eom_id|>",
                                      "<EOT>",
                                      "_<EOT>",
                                      "[EOT]",
                                      "[EOS]",
                                      "<|end_of_text|>",
                                      "<end_of_utterance>",
                                      "<eos>",
                                      "<turn|>",
                                      "[e~[",
                                      "<|tool_response>",
                                      "<｜end▁of▁sentence｜>"};
/// Parts of an answer that are to be seen.
constexpr std::string_view kShown[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};
constexpr std::string_view kPlamoEnd = "<|plamo:eos|>";

class RoleFinder {
 public:
  explicit RoleFinder(Vocabulary& v) : v_(v) {
    for (const Role& role : roles()) know(role.texts);
    know(kEnds);
    know(kShown);
    know(std::span(&kPlamoEnd, 1));
    for (int32_t id = 0; id < v.size(); ++id) {
      const auto found = ids_.find(v.tokens[size_t(id)]);
      if (found != ids_.end() && found->second < 0) found->second = id;
    }
  }

  void run() {
    for (const Role& role : roles()) {
      const int32_t id = holder(role);
      if (role.ends_generation) end_with(id);
      if (role.fills) v_.fill.*role.fills = id;
    }
    for (const std::string_view text : kEnds) {
      set_type(id_of(text), TokenType::control);
      end_with(id_of(text));
    }
    for (const std::string_view text : kShown) show(id_of(text));
    end_with(v_.eos.value_or(-1));
    // What ends a generation elsewhere is a token like others in these vocabularies.
    const bool calls = ends("<|call|>") || ends("<|calls|>");
    if (calls && (ends("<|return|>") || ends("<|flush|>")) && no_end("<|end|>")) show(id_of("<|end|>"));
    if ((ends("<|tool_response>") || ends(kPlamoEnd)) && no_end("</s>")) set_type(id_of("</s>"), TokenType::normal);
  }

 private:
  void know(std::span<const std::string_view> texts) {
    for (const std::string_view text : texts) ids_.emplace(text, -1);
  }
  int32_t id_of(std::string_view text) const { return ids_.at(text); }
  int32_t holder(const Role& role) {
    if (const auto given = v_.other_ids.find(role.key); given != v_.other_ids.end()) return given->second;
    for (const std::string_view text : role.texts) {
      if (id_of(text) < 0) continue;
      set_type(id_of(text), TokenType::control);
      return id_of(text);
    }
    return -1;
  }
  void set_type(int32_t id, TokenType type) {
    if (id >= 0) v_.types[size_t(id)] = int32_t(type);
  }
  bool ends(std::string_view text) const {
    return std::binary_search(v_.end_of_generation.begin(), v_.end_of_generation.end(), id_of(text));
  }
  void end_with(int32_t id) {
    auto& all = v_.end_of_generation;
    const auto at = std::lower_bound(all.begin(), all.end(), id);
    if (id >= 0 && (at == all.end() || *at != id)) all.insert(at, id);
  }
  bool no_end(std::string_view text) { return std::erase(v_.end_of_generation, id_of(text)) > 0; }
  // Its name is in the text that a model writes, and yet users' texts do not have the token.
  void show(int32_t id) {
    set_type(id, TokenType::user_defined);
    if (id >= 0) v_.shown.push_back(id);
  }

  Vocabulary& v_;
  std::unordered_map<std::string_view, int32_t> ids_;  // of the texts that matter; -1: not in the vocabulary
};

}  // namespace

void find_special_tokens(std::string_view model_name, Vocabulary& v) {
  RoleFinder(v).run();
  std::string name(model_name);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  if (name.find("phi-3") == name.npos && name.find("phi3") == name.npos) return;
  constexpr std::string_view kKeepSpaces[] = {"<unk>", "<s>", "<|endoftext|>"};
  for (int32_t id = 0; id < v.size(); ++id) {
    const TokenType type = v.type(id);
    const bool special = type == TokenType::control || type == TokenType::unknown || type == TokenType::user_defined;
    if (special && std::ranges::find(kKeepSpaces, v.tokens[size_t(id)]) == std::end(kKeepSpaces))
      v.strips_after.push_back(id);
  }
}

}  // namespace toy
