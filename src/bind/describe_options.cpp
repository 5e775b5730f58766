#include "bind/describe_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bind/bound_graph.h"
#include "bind/bound_model.h"
#include "bind/convert.h"
#include "bind/eval_embeddings.h"
#include "bind/evaluate.h"
#include "bind/files.h"
#include "bind/text_options.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/train/recipes.h"

namespace toy::bind {
namespace {

using nlohmann::ordered_json;

template <class T>
const char* type_of(const Option& option) {
  if constexpr (requires(T v) { v.value(); }) {
    return type_of<std::decay_t<decltype(std::declval<T>().value())>>(option);
  } else if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_floating_point_v<T>) {
    return option.text == "TIME" ? "str" : "float";
  } else if constexpr (std::is_integral_v<T>) {
    return option.text == "SIZE" ? "str" : "int";
  } else if constexpr (requires(T v) { v.push_back({}); } && !std::is_same_v<T, std::string>) {
    return "list[str]";
  } else {
    return "str";
  }
}

template <class T>
ordered_json default_of(const Option& option, const T& value) {
  if (option.derived || option.required || option.text == "SIZE" || option.text == "TIME") return nullptr;
  if constexpr (Named<T>)
    return name_in_list(value);
  else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
    return value;
  else
    return nullptr;
}

std::string underscored(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

class Describer {
 public:
  template <class T>
  void operator()(const Option& option, const T& value) {
    std::string what = takes<T>(option.limits);
    if (what.empty() || what == "true or false")
      what = option.text.find('|') != option.text.npos ? std::string(option.text) : "";
    std::string help(option.help);
    if (const size_t at = help.find("{}"); at != help.npos) help.replace(at, 2, takes<T>(option.limits));
    list.push_back({{"name", by_flag ? underscored(option.flag().substr(2)) : std::string(option.name)},
                    {"help", help},
                    {"group", option.group},
                    {"type", type_of<T>(option)},
                    {"takes", what},
                    {"default", default_of(option, value)},
                    {"required", option.required}});
  }
  void also(const char* name, const char* help, const char* group, const char* type) {
    list.push_back({{"name", name},
                    {"help", help},
                    {"group", group},
                    {"type", type},
                    {"takes", ""},
                    {"default", nullptr},
                    {"required", false}});
  }
  ordered_json list = ordered_json::array();
  bool by_flag = false;  // names of command lines
};

void describe_text(Describer& d, bool chat) {
  TextOptions o;
  o.generate.logprobs = false;
  TextOptions::fields(o, d);
  SamplerOptions s{.temperature = chat ? 0.8 : 0.0};
  SamplerOptions::fields(s, [&](Option option, const auto& value) {
    if (option.group.empty()) option.group = "Sampling";
    if (option.name == "seed") option.derived = true;
    d(option, value);
  });
  d.also("samplers", "Steps in their order, such as 'top_k(40);temperature'", "Sampling", "str");
  d.also("logit_bias", "What is added to the logits of token ids", "Sampling", "object");
  d.also("dry_sequence_breakers", "Texts that end a repetition for dry", "Sampling", "list[str]");
  d.also("json_schema", "A JSON Schema that the text follows", "Output", "object");
  d.also("grammar", "A grammar (GBNF) that the text follows", "Output", "str");
  if (!chat) return;
  d.also("tools", "Functions that the model may call, as OpenAI's API has them", "Prompt", "object");
  d.also("chat_template", "Name or file of a chat template, instead of the model's", "Prompt", "str");
}

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> all;
  for (const auto& [name, kind] : NamesOf<Recipe::Kind>::list) all.emplace_back(name);
  return all;
}

std::string options_json(std::string_view call) {
  Describer d;
  if (call == "generate" || call == "chat") {
    describe_text(d, call == "chat");
  } else if (call == "choices") {
    ChoicesCallOptions o;
    ChoicesCallOptions::fields(o, d);
  } else if (call == "answers") {
    AnswersCallOptions o;
    AnswersCallOptions::fields(o, d);
  } else if (call == "score" || call == "kl" || call == "lmc") {
    ScoreTextOptions o;
    ScoreTextOptions::fields(o, d);
  } else if (call == "sts") {
    EvalEmbedOptions o;
    EvalEmbedOptions::fields(o, d);
  } else if (call == "retrieval") {
    RetrievalCallOptions o;
    RetrievalCallOptions::fields(o, d);
  } else if (call == "logits") {
    TextOptions o;
    TextOptions::read_fields(o, d);
  } else if (call == "embed") {
    EmbedTextOptions o;
    EmbedTextOptions::fields(o, d);
  } else if (call == "minimize") {
    d.also("optimizer", "Name of an optimizer, with settings: 'sgd(momentum=0.5)'", "Optimizer", "str");
    OptimizerOptions o;
    OptimizerOptions::fields(o, d);
  } else if (call == "session") {
    SessionOptions o;
    SessionOptions::fields(o, d);
  } else if (call == "quantize") {
    QuantizeOptions o;
    QuantizeOptions::fields(o, d);
  } else if (call == "merge") {
    MergeOptions o;
    MergeOptions::fields(o, d);
  } else if (call == "convert") {
    ConvertFileOptions o;
    ConvertFileOptions::fields(o, d);
  } else if (call == "load") {
    LoadOptions o;
    LoadOptions::fields(o, d);
  } else {
    Recipe::Kind kind;
    const std::string wrong = read_value(call, {}, kind);
    check(wrong.empty(), "recipe {}", wrong);
    Recipe recipe(kind);
    d.by_flag = true;
    Recipe::fields(recipe, d);
    DeviceOptions device;
    DeviceOptions::fields(device, d);
  }
  return json_text(d.list);
}

}  // namespace toy::bind
