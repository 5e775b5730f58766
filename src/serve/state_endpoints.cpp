// /v1/state: what was computed of conversations, saved and restored.
#include "serve/endpoints.h"

namespace toy::serve {

States& Server::states() {
  if (!states_) throw ApiError(404, "this server keeps no states; start it with --state DIR");
  return *states_;
}

const StateOwner& Server::owner_of(const Exchange& exchange) const {
  return owners_.at(size_t(prefix_owner(exchange)));
}

void Server::list_states(const std::shared_ptr<Exchange>& exchange) {
  send_json(*exchange, states().list(owner_of(*exchange)));
}

void Server::state(const std::shared_ptr<Exchange>& exchange) {
  States& states = this->states();
  const StateRequest r = read(exchange, parse_state);
  switch (r.action) {
    case StateRequest::save:
      return save_state(exchange, r);
    case StateRequest::restore:
      return restore_state(exchange, r.name);
    case StateRequest::fork:
      return send_json(*exchange, states.fork(owner_of(*exchange), r.name, r.to));
    case StateRequest::remove:
      return send_json(*exchange, states.remove(owner_of(*exchange), r.name));
  }
}

void Server::save_state(const std::shared_ptr<Exchange>& exchange, const StateRequest& r) {
  TextRequest t{.prompt = tokens_to_save(r, prompts_), .options = {.max_tokens = 0}};
  t.adapters = adapters_of(r.prompt);
  t.owner = prefix_owner(*exchange);
  t.keep_state = true;
  t.on_end = [this, exchange, turn = states_->take_turn(), name = r.name, tokens = t.prompt,
              adapters = t.adapters](const TextEnd& end) {
    answer(exchange, [&] {
      if (end.error) std::rethrow_exception(end.error);
      states_->run([=, this, state = end.state] {
        answer(exchange, [&] {
          const auto written = [&] {
            const States::TurnEnd before_the_answer(*turn);
            return states_->write(owner_of(*exchange), name, tokens, adapters, std::move(*state));
          };
          send_json(*exchange, written());
        });
      });
    });
  };
  std::vector<TextRequest> one;
  one.push_back(std::move(t));
  submit(*exchange, std::move(one));
}

void Server::restore_state(const std::shared_ptr<Exchange>& exchange, const std::string& name) {
  states_->describe(owner_of(*exchange), name);  // is it there?
  states_->run([this, exchange, name, turn = states_->take_turn()] {
    answer(exchange, [&] {
      try {
        auto [text, description] = states_->read(owner_of(*exchange), name);
        text.owner = prefix_owner(*exchange);
        text.on_end = [this, exchange, turn, said = description](const TextEnd& end) {
          turn->end();
          answer(exchange, [&] {
            if (end.error) std::rethrow_exception(end.error);
            send_json(*exchange, said);
          });
        };
        std::vector<TextRequest> one;
        one.push_back(std::move(text));
        submit(*exchange, std::move(one));
      } catch (...) {
        turn->end();
        throw;
      }
    });
  });
}

}  // namespace toy::serve
