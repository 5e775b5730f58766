// What clients ask for in OpenAI's format, checked: every field has an effect, is noted as ignored, or is refused by
// its name. No sockets here.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dialog/answer_rules.h"
#include "dialog/fields.h"
#include "dialog/messages.h"
#include "serve/api/fill.h"
#include "toy/decode/usual_sampling.h"

namespace toy::serve {

using namespace dialog;  // messages, tools, calls and thoughts

/// What a request holds may be as long as the request: a message that repeats it loses its middle. At most 1000 bytes,
/// and valid UTF-8 if `text` is.
std::string shortened(std::string text);

/// What a client did wrong, or the server cannot do, in OpenAI's format.
class ApiError : public std::runtime_error {
 public:
  ApiError(int http_status, const std::string& message, std::string of_param = "", std::string of_code = "")
      : std::runtime_error(shortened(message)),
        status(http_status),
        param(shortened(std::move(of_param))),
        code(std::move(of_code)) {}
  int status;
  std::string param, code;  ///< "": null
};
/// OpenAI's body of a reply with an error: {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
std::string error_body(const ApiError& e);

/// Limits of one request.
inline constexpr int64_t kMostChoices = 128, kMostStops = 16, kMostTopLogprobs = 20, kMostBiases = 1024;
inline constexpr size_t kMostStopBytes = 1024, kMostKeys = 4096;
/// More tokens than any context holds.
inline constexpr int64_t kMostTokens = int64_t(1) << 31;
/// Log probabilities in the reply to a request: n tokens (1 + logprobs).
inline constexpr int64_t kMostLogprobs = int64_t(1) << 19;

/// A text, or its ids.
using PromptSource = std::variant<std::string, std::vector<int32_t>>;
/// The field `name`: a string, an array of strings, of token ids, or of arrays of them. Throws ApiError.
std::vector<PromptSource> sources_of(const nlohmann::ordered_json* j, const std::string& name);

/// A request for texts: /v1/completions or /v1/chat/completions.
struct CompletionRequest : AnswerRules {
  /// `usual`: what is drawn with where the request says nothing.
  explicit CompletionRequest(const UsualSampling& usual = {}) : sampler(usual.options) {
    if (!usual.says("repeat_last_n")) sampler.penalty_last_n = -1;
  }
  std::string model;              ///< "": not said
  const char* source = "prompt";  ///< the field of what is continued, for messages
  /// Factors of the base's adapters, by number; others 0. Absent: as `model` says.
  std::optional<std::map<int64_t, double>> lora;
  std::vector<PromptSource> prompts;  ///< of completions
  bool parse_special = true;          ///< EncodeOptions' of those
  bool hole = false;                  ///< the text stands between a prompt and `suffix`
  std::string suffix;                 ///< with `hole`
  std::vector<FillFile> files;        ///< with `hole`: others of the project
  nlohmann::ordered_json messages;    ///< of chat: as normalized_messages()
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();  ///< of chat: for the template
  std::map<std::string, std::string> hints;  ///< variables that few templates know, and the fields that say them
  bool continues = false;                    ///< of chat: the last message is an answer that is to be continued
  std::optional<int64_t> max_tokens;         ///< none: 16, or for chat what fits; more than fits: what fits
  int64_t n = 1;                             ///< choices for each prompt
  int priority = 0;                          ///< lower values are handled earlier
  std::optional<double> timeout;             ///< seconds until the texts end with what they have
  std::optional<uint64_t> seed;              ///< of the first choice; the next ones have the next numbers
  SamplerOptions sampler;                    ///< all but the seed and what ends repetitions for DRY
  std::vector<std::string> dry_breakers{"\n", ":", "\"", "*"};  ///< texts; "none" for no such text
  std::vector<std::string> stops;
  bool stream = false, include_usage = false, echo = false, ignore_eos = false;
  bool token_ids = false;       ///< logprobs say the ids of tokens
  std::optional<int> logprobs;  ///< how many alternatives; 0: the token's own alone
};

/// Is the message one of the assistant, without calls? Then it can be continued.
bool is_answer(const nlohmann::ordered_json& message);
/// Sets a variable of the template as a wish of this field.
void set_hint(CompletionRequest& r, const std::string& variable, nlohmann::ordered_json value,
              const std::string& field);
/// How much a model should think: "none", or what templates call reasoning_effort.
void set_effort(CompletionRequest& r, const std::string& effort, const std::string& field);
/// {"type": "text"}, of type json_object, or json_schema: {"type", "name", "schema", ...}. `is_nested`: as in chats,
/// where the fields of the schema are in "json_schema".
TextForm text_form_of(const nlohmann::ordered_json& format, const std::string& path, bool is_nested);
/// {"type": "disabled"}, which has an effect or is refused; {"type": "enabled", "budget_tokens": ...} or "adaptive".
void read_thinking(const nlohmann::ordered_json& thinking, const std::string& path, CompletionRequest& r);
/// The limit of tokens, which has several names; the least one holds. -1: as much as the context holds.
void read_max_tokens(Fields& f, CompletionRequest& r);
/// What all forms of a request for texts have: form, seed, order, sampler, adapters, and where the text ends.
void read_common_fields(Fields& f, CompletionRequest& r);

/// The field `name`: a string, or up to kMostStops. Throws ApiError.
std::vector<std::string> stops_of(const nlohmann::ordered_json* j, const std::string& name);

/// The field `lora`, as llama-server's: [{"id": NUMBER, "scale": FACTOR}, ...]. Throws ApiError.
std::optional<std::map<int64_t, double>> lora_of(const nlohmann::ordered_json* j);

/// From the body of a request. Throws FieldError naming the field for what is not JSON, for values of a wrong type or
/// out of range, and for fields that are unknown or not supported (see IgnoredFields). null counts as absent.
CompletionRequest parse_completion(const std::string& body, bool chat, const UsualSampling& usual = {});

/// /tokenize: {"content": TEXT, "add_special": false, "parse_special": true, "with_pieces": false}.
struct TokenizeRequest {
  std::string content;
  bool add_special = false, parse_special = true, with_pieces = false;
};
TokenizeRequest parse_tokenize(const std::string& body);
/// /apply-template: {"messages": [...], "tools": [...], "chat_template_kwargs": {...}, "add_generation_prompt": true}.
struct TemplateRequest {
  nlohmann::ordered_json messages;
  std::vector<Tool> tools;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  bool add_generation_prompt = true;
};
TemplateRequest parse_apply_template(const std::string& body);
/// /detokenize: {"tokens": [1, 2]}.
std::vector<int32_t> parse_detokenize(const std::string& body);
/// {"tokens", "model"?}.
struct LookRequest {
  std::vector<int32_t> tokens;
  std::string model;
};
LookRequest parse_look(const std::string& body);

/// A token as OpenAI writes it: its text, or "bytes:\xe2\x82" where that is not UTF-8.
std::string token_text(const std::string& bytes);

}  // namespace toy::serve
