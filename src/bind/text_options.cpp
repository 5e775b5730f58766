#include "bind/text_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "bind/json_options.h"
#include "toy/base/error.h"
#include "toy/decode/usual_sampling.h"
#include "toy/grammar/grammar.h"

namespace toy::bind {
namespace {

using nlohmann::ordered_json;

// {"15043": 1.5}
void read_biases(const ordered_json& biases, int64_t vocab, SamplerOptions& s) {
  check(biases.is_object(), "logit_bias is {}; use an object of token ids and numbers, such as {{\"15043\": 1.5}}",
        json_text(biases));
  for (const auto& [key, value] : biases.items()) {
    int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    check(error == std::errc() && end == key.data() + key.size() && id >= 0,
          "logit_bias has the key '{}', which is not a token id", key);
    check(id < vocab, "logit_bias: token {} is outside the vocabulary (0 to {})", id, vocab - 1);
    s.logit_bias.emplace_back(id, json_number<double>(value, fmt::format("logit_bias of {}", id)));
  }
}

std::vector<std::string> list_of_texts(std::string_view name, const ordered_json& given) {
  std::vector<std::string> texts;
  for (const ordered_json& v : given.is_array() ? given : ordered_json::array({given})) {
    check(v.is_string(), "{} is {}; use a string or a list of strings", name, json_text(v));
    texts.push_back(v.get<std::string>());
  }
  return texts;
}

SamplerOptions read_sampler(JsonOptions& given, const Model& model, SamplerOptions s) {
  std::vector<std::string_view> listed;
  if (const ordered_json* chain = given.take("samplers")) {
    std::string all;
    for (const std::string& step : list_of_texts("samplers", *chain)) all += (all.empty() ? "" : ";") + step;
    listed = set_sampler_chain(s, all, "samplers");
  }
  std::vector<std::string_view> names = given.read(s);
  for (const std::string_view name : names)
    check(std::ranges::find(listed, name) == listed.end(),
          "{} and the brackets of samplers set the same; remove one of them", name);
  names.insert(names.end(), listed.begin(), listed.end());
  turn_off_left_out(s, names);
  if (std::ranges::find(names, "seed") == names.end()) s.seed = new_seed();
  if (const ordered_json* biases = given.take("logit_bias")) read_biases(*biases, model.spec.vocab, s);
  std::vector<std::string> breakers{"\n", ":", "\"", "*"};
  if (const ordered_json* b = given.take("dry_sequence_breakers"))
    breakers = list_of_texts("dry_sequence_breakers", *b);
  s = with_usual(s, usual_sampling(model.metadata), names);
  if (s.dry_multiplier > 0 && model.tokenizer) s.dry_breakers = tokens_with(*model.tokenizer, breakers);
  const Sampler options_are_sound(s);
  return s;
}

void read_form(JsonOptions& given, dialog::TextForm& form) {
  const ordered_json *schema = given.take("json_schema"), *grammar = given.take("grammar");
  check(!schema || !grammar, "json_schema and grammar exclude each other; give one of them");
  if (schema) {
    form.kind = dialog::TextForm::json_schema, form.field = "json_schema";
    form.schema = schema->is_string() ? read_json<ordered_json>("json_schema", schema->get<std::string>()) : *schema;
  }
  if (grammar) {
    check(grammar->is_string(), "grammar is {}; use the text of a grammar (GBNF)", json_text(*grammar));
    form.kind = dialog::TextForm::gbnf, form.field = "grammar", form.grammar = grammar->get<std::string>();
  }
}

}  // namespace

TextOptions parse_text_options(std::string_view json, const Model& model, TextKind kind) {
  const bool chat = kind == TextKind::chat;
  JsonOptions given(chat ? "chat" : "generate", json);
  TextOptions o;
  o.generate.logprobs = false;
  const std::vector<std::string_view> names = given.read(o);
  o.length_is_given = std::ranges::find(names, "max_tokens") != names.end();
  if (o.generate.top_logprobs > 0) o.generate.logprobs = true;
  o.generate.sampler = read_sampler(given, model, {.temperature = chat ? kUsualTemperature : 0});
  read_form(given, o.form);
  if (chat) {
    if (const ordered_json* tools = given.take("tools")) o.tools = *tools;
    if (const ordered_json* name = given.take("chat_template")) {
      check(name->is_string(), "chat_template is {}; use the name of a template or a file", json_text(*name));
      o.chat_template = name->get<std::string>();
    }
  }
  given.finish();
  return o;
}

ScoreTextOptions parse_score_options(std::string_view json) {
  JsonOptions given("score", json);
  ScoreTextOptions o;
  given.read(o);
  given.finish();
  return o;
}

}  // namespace toy::bind
