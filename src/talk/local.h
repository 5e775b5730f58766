// Answers of a model on this machine.
#pragma once

#include <memory>

#include "talk/replier.h"
#include "toy/chat/chat_template.h"
#include "toy/models/model.h"

namespace toy::talk {

/// Computes on a thread of its own, so that a long prompt can be interrupted, too. What a turn has in common with the
/// one before is not computed again.
class LocalModel : public Replier {
 public:
  /// The decoder has one sequence. Decoder and model must outlive it, and nothing else may use the decoder.
  LocalModel(Decoder& decoder, const Model& model, ChatTemplate chat);
  ~LocalModel() override;
  void require_tools(const nlohmann::ordered_json& tools) const override;
  Reply reply(const nlohmann::ordered_json& messages, const ReplySettings& settings, uint64_t again,
              const std::function<void(const ReplyPart&)>& on_part, const std::function<bool()>& stop) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace toy::talk
