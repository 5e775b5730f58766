#include "serve/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <exception>
#include <random>
#include <thread>

#include "serve/endpoints.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::serve {
namespace {

// Seconds that streams pause, about, for the prompts of others.
constexpr double kLongestPause = 0.15;

// Positions of one text: the shared pages bound them, too.
int64_t context_of(Decoder& decoder) {
  const DecodeState& state = decoder.state();
  if (state.shape().shared_pages == 0 || !state.shared_pool()) return decoder.context();
  return std::min(decoder.context(), state.shape().shared_pages * kPagePositions);
}

}  // namespace

uint64_t random_number() {
  std::random_device device;
  return (uint64_t(device()) << 32) | device();
}

Server::Server(Decoder& decoder, const Model& model, const std::optional<ChatTemplate>& chat,
               const ServerOptions& options)
    : options_(options),
      tokenizer_(*model.tokenizer),
      service_(decoder, model.tokenizer.get(), options.most_waiting, options.speculation),
      dialog_(chat ? std::make_unique<Dialog>(*model.tokenizer, *chat) : nullptr),
      form_(dialog_ ? dialog_->form() : nullptr),
      prompts_(*model.tokenizer, dialog_.get(), context_of(decoder), decoder.vocab()),
      width_(model.spec.d_model),
      cache_bytes_(int64_t(decoder.state().bytes())),
      parallel_(decoder.state().shape().sequences),
      pooling_(stated_pooling(model.metadata)),
      template_(chat ? chat->source() : ""),
      thoughts_(thought_marks(template_)),
      constraints_(*model.tokenizer, form_, thoughts_),
      ids_(fmt::format("{:016x}", random_number())),
      started_(std::time(nullptr)),
      keep_alive_(options.keep_alive) {
  service_.limit_pause(kLongestPause);
  if (!options.state_folder.empty())
    states_ = std::make_unique<States>(options.state_folder, options.adapters, model, decoder);
  const ModelSpec& spec = model.spec;
  meta_ = {{"architecture", spec.architecture}, {"parameters", parameter_count(spec)},
           {"layers", spec.layers.size()},      {"width", spec.d_model},
           {"vocabulary", spec.vocab},          {"context", context_of(decoder)},
           {"chat_template", chat.has_value()}};
}

void Server::stop() {
  stopping_ = true;
  service_.close(true);
}

void Server::handle(const std::shared_ptr<Exchange>& exchange) {
  answer(exchange, [&] {
    require_key(*exchange);
    const std::string& encoding = exchange->request.content_encoding;
    if (!encoding.empty() && encoding != "identity")
      throw ApiError(415, fmt::format("the request's body has the encoding '{}', which is not supported; send it as it "
                                      "is, without Content-Encoding",
                                      one_line(encoding)));
    route(exchange);
  });
}

void Server::send_error(Exchange& exchange, const std::exception_ptr& error) {
  const Route* r = route_of(exchange.request.target);
  send(exchange, error_reply(api_error(error), r ? r->errors : error_body));
}

void Server::send(Exchange& exchange, HttpReply reply) {
  count(reply.status);
  exchange.send(std::move(reply));
}

void Server::send_json(Exchange& exchange, const nlohmann::ordered_json& j) { send(exchange, {.body = json_text(j)}); }

void Server::count(int status) {
  const std::scoped_lock lock(mutex_);
  ++replies_[status];
}

void serve(HttpServer& http, Decoder& decoder, const Model& model, const std::optional<ChatTemplate>& chat,
           const ServerOptions& options) {
  check(model.tokenizer != nullptr, "serve: the model {} has no tokenizer", model.spec.name);
  Server server(decoder, model, chat, options);
  std::exception_ptr broken;
  std::thread computing([&] {
    try {
      server.service().serve();
    } catch (...) {
      broken = std::current_exception();
      server.service().close(false);
      http.stop();
    }
  });
  http.run([&](const std::shared_ptr<Exchange>& exchange) { server.handle(exchange); },
           [](int status, const std::string& message) { return error_reply(ApiError(status, message)); },
           [&] { server.stop(); }, [&] { server.service().close(false); });
  server.service().close(false);
  computing.join();
  if (broken) std::rethrow_exception(broken);
}

}  // namespace toy::serve
