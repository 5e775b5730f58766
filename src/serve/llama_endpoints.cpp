// llama-server's own endpoints.
#include "serve/api/llama_server.h"
#include "serve/endpoints.h"

namespace toy::serve {

using nlohmann::ordered_json;

void Server::props(const std::shared_ptr<Exchange>& exchange) {
  ordered_json params = ordered_json::object();  // of requests that say nothing
  SamplerOptions::fields(usual_.options, [&](const Option& option, const auto& value) {
    if (option.name == "temperature" || usual_.says(option.name)) params[std::string(option.name)] = value;
  });
  const auto written = [this](std::optional<int32_t> id) { return id ? tokenizer_.written(*id) : ""; };
  send_json(*exchange, {{"default_generation_settings", {{"n_ctx", meta_["context"]}, {"params", params}}},
                        {"total_slots", parallel_},
                        {"model_alias", options_.name},
                        {"model_path", options_.name},
                        {"modalities", {{"vision", false}, {"audio", false}}},
                        {"chat_template", template_},
                        {"bos_token", written(tokenizer_.bos())},
                        {"eos_token", written(tokenizer_.eos())},
                        {"build_info", "toy"}});
}

void Server::slots(const std::shared_ptr<Exchange>& exchange) {
  const int64_t running = service_.counts().running;
  ordered_json list = ordered_json::array();
  for (int64_t i = 0; i < parallel_; ++i)
    list.push_back({{"id", i}, {"n_ctx", meta_["context"]}, {"is_processing", i < running}});
  send_json(*exchange, list);
}

void Server::completion(const std::shared_ptr<Exchange>& exchange) {
  const CompletionRequest r =
      read(exchange, [this](const std::string& body) { return parse_llama_completion(body, usual_); });
  start(exchange, r, std::make_unique<LlamaFormat>(head("", r), r, tokenizer_));
}

void Server::infill(const std::shared_ptr<Exchange>& exchange) {
  const CompletionRequest r = read(exchange, [this](const std::string& body) { return parse_infill(body, usual_); });
  start(exchange, r, std::make_unique<LlamaFormat>(head("", r), r, tokenizer_));
}

}  // namespace toy::serve
