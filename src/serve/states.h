// /v1/state: what was computed of a conversation, kept in files by name.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/api/api.h"
#include "serve/prompts.h"
#include "toy/base/folder_lock.h"
#include "toy/decode/saved_state.h"
#include "toy/decode/service.h"

namespace toy::serve {

/// A prefix is found again from this many tokens on, and no shorter one is worth a file.
inline constexpr int64_t kLeastStateTokens = kPagePositions;

/// {"action": "save", "name": NAME, "prompt" or "messages": ...}, and likewise restore, fork and delete.
struct StateRequest {
  enum Action { save, restore, fork, remove } action = save;
  std::string name;
  std::string to;            ///< fork: the other name
  CompletionRequest prompt;  ///< save: of what; model and adapters
  /// save: the last message is the assistant's, and no answer begins after it.
  bool answered = false;
};
/// From the body of a request. Throws ApiError as parse_completion().
StateRequest parse_state(const std::string& body);

/// All tokens of what is to be saved but the last, whose logits those who continue need. Throws ApiError for fewer than
/// kLeastStateTokens, and as Prompts does.
std::vector<int32_t> tokens_to_save(const StateRequest& r, const Prompts& prompts);

/// A folder of states, which no other server uses. States hold the tokens of conversations: only the owner of the
/// files can read them.
class StateFolder {
 public:
  /// Makes it where there is none. Throws Error{bad_input} where it cannot be made or written, or is in use.
  explicit StateFolder(const std::string& path);

 private:
  std::unique_ptr<FolderLock> lock_;
};

/// Whose states: a folder in that of all states; "": that one itself.
using StateOwner = std::string;
/// Of an API key, whatever its number. It does not tell the key.
StateOwner state_owner(const std::string& api_key);

/// The files of a folder, NAME.state each, in one of its own for each owner. Errors are ApiErrors: 404 for a name that
/// is not there, 409 for a state that this server cannot continue, 400 for a damaged file.
class States {
 public:
  /// `folder`: a StateFolder. `adapters`: names of the model's. Model and decoder must outlive it.
  States(const std::string& folder, std::vector<std::string> adapters, const Model& model, Decoder& decoder);

  /// {"object": "list", "data": [...]}: each with name, tokens, bytes and created, or error instead of tokens.
  nlohmann::ordered_json list(const StateOwner& owner) const;
  /// The same file under another name, which is new; none changes when the other is saved again or deleted.
  nlohmann::ordered_json fork(const StateOwner& owner, const std::string& name, const std::string& to) const;
  nlohmann::ordered_json remove(const StateOwner& owner, const std::string& name) const;

  /// One state at a time is written or read: that bounds memory. Ends when it is told to, or destroyed.
  class Turn {
   public:
    explicit Turn(std::atomic<bool>& busy) : busy_(&busy) {}
    ~Turn() { end(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void end() {
      if (std::atomic<bool>* busy = busy_.exchange(nullptr)) *busy = false;
    }

   private:
    std::atomic<std::atomic<bool>*> busy_;
  };
  /// Ends a turn at the end of its scope.
  struct TurnEnd {
    explicit TurnEnd(Turn& t) : turn(t) {}
    ~TurnEnd() { turn.end(); }
    TurnEnd(const TurnEnd&) = delete;
    TurnEnd& operator=(const TurnEnd&) = delete;
    Turn& turn;
  };
  /// Throws ApiError with status 429 while another has it.
  std::shared_ptr<Turn> take_turn();
  /// Runs this on a thread of its own; for who has the turn.
  void run(std::function<void()> work);

  /// Writes what was computed with these factors of the adapters, and returns what list() says of it. Takes as long as
  /// the disk needs.
  nlohmann::ordered_json write(const StateOwner& owner, const std::string& name, std::vector<int32_t> tokens,
                               const std::vector<float>& adapters, StateSnapshot&& snapshot) const;
  /// The request that restores a state, and what list() says of it. Takes as long as the disk needs.
  std::pair<TextRequest, nlohmann::ordered_json> read(const StateOwner& owner, const std::string& name) const;
  /// What list() says of one.
  nlohmann::ordered_json describe(const StateOwner& owner, const std::string& name) const;

 private:
  std::string folder(const StateOwner& owner) const { return owner.empty() ? folder_ : folder_ + "/" + owner; }
  std::string path(const StateOwner& owner, const std::string& name) const {
    return folder(owner) + "/" + name + ".state";
  }
  std::vector<float> factors_of(const std::string& name, const StateCard& card) const;

  const std::string folder_;
  const std::vector<std::string> adapters_, checksums_;  // of adapters
  const std::map<std::string, std::string> made_with_;
  const DecodeState& state_;
  std::atomic<bool> busy_ = false;
  std::mutex mutex_;  // of the thread
  std::jthread worker_;
};

}  // namespace toy::serve
