// Ollama's endpoints.
#include "serve/api/ollama.h"
#include "serve/endpoints.h"
#include "toy/text/fill_tokens.h"

namespace toy::serve {

using nlohmann::ordered_json;

void Server::ollama_version(const std::shared_ptr<Exchange>& exchange) {
  constexpr const char* kApi = "0.9.0";  // whose requests and replies these are
  send_json(*exchange, {{"version", kApi}});
}

ordered_json Server::ollama_model(const std::string& name) const {
  const ordered_json& family = meta_["architecture"];
  return {{"name", name},
          {"model", name},
          {"modified_at", ollama_time(started_)},
          {"size", 0},
          {"digest", ""},
          {"details",
           {{"format", "gguf"},
            {"family", family},
            {"families", {family}},
            {"parameter_size", fmt::format("{:.1f}M", meta_["parameters"].get<double>() / 1e6)},
            {"quantization_level", ""}}}};
}

void Server::ollama_tags(const std::shared_ptr<Exchange>& exchange) {
  ordered_json list = ordered_json::array({ollama_model(options_.name)});
  for (const auto* names : {&options_.aliases, &options_.adapters})
    for (const std::string& name : *names) list.push_back(ollama_model(name));
  send_json(*exchange, {{"models", list}});
}

void Server::ollama_running(const std::shared_ptr<Exchange>& exchange) { ollama_tags(exchange); }

void Server::ollama_show(const std::shared_ptr<Exchange>& exchange) {
  const std::string model = read(exchange, parse_ollama_show);
  require_model(model);
  note_model(exchange, model);
  const std::string family = meta_["architecture"];
  ordered_json capabilities{"completion", "embedding"};
  if (form_) capabilities.push_back("tools");
  if (!thoughts_.close.empty() && template_.find(thoughts_.close) != template_.npos) capabilities.push_back("thinking");
  if (fill_tokens(tokenizer_)) capabilities.push_back("insert");
  ordered_json j{{"modelfile", ""},
                 {"parameters", ""},
                 {"template", template_},
                 {"details", ollama_model(options_.name)["details"]},
                 {"model_info",
                  {{"general.architecture", family},
                   {"general.parameter_count", meta_["parameters"]},
                   {family + ".context_length", meta_["context"]},
                   {family + ".embedding_length", meta_["width"]},
                   {family + ".block_count", meta_["layers"]}}},
                 {"capabilities", std::move(capabilities)},
                 {"modified_at", ollama_time(started_)}};
  send_json(*exchange, j);
}

void Server::ollama_chat(const std::shared_ptr<Exchange>& exchange) {
  const OllamaRequest r = read(exchange, [this](const std::string& body) { return parse_ollama_chat(body, usual_); });
  ollama_answer(exchange, r);
}

void Server::ollama_generate(const std::shared_ptr<Exchange>& exchange) {
  const bool has_template = !template_.empty();
  const OllamaRequest r =
      read(exchange, [&](const std::string& body) { return parse_ollama_generate(body, has_template, usual_); });
  ollama_answer(exchange, r);
}

void Server::ollama_answer(const std::shared_ptr<Exchange>& exchange, const OllamaRequest& r) {
  auto format = std::make_unique<OllamaFormat>(head("", r.completion), r.generates);
  if (!r.loads_only) return start(exchange, r.completion, std::move(format));
  require_model(r.completion.model);
  exchange->send({.body = format->loaded()});
}

void Server::ollama_embed(const std::shared_ptr<Exchange>& exchange) {
  embed(exchange, read(exchange, [](const std::string& body) { return parse_ollama_embeddings(body, false); }));
}

void Server::ollama_embeddings(const std::shared_ptr<Exchange>& exchange) {
  embed(exchange, read(exchange, [](const std::string& body) { return parse_ollama_embeddings(body, true); }));
}

}  // namespace toy::serve
