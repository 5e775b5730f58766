#include "serve/states.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "dialog/fields.h"
#include "serve/request_body.h"
#include "toy/base/atomic_file.h"
#include "toy/base/memory.h"
#include "toy/base/utf8.h"
#include "toy/formats/mapped_file.h"

namespace toy::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kExtension = ".state";

// Names are names of files.
std::string name_in(Fields& f, const std::string& field) {
  constexpr size_t kMost = 64;
  const std::string name = f.text(field);
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (name.empty()) refuse(fmt::format("'{}' is missing; name the state", field), field, "missing_required_parameter");
  if (name.size() > kMost || name.front() == '.' || !std::ranges::all_of(name, fits))
    refuse(fmt::format("'{}' is '{}'; use up to {} letters, digits, '-', '_' and '.', not beginning with '.'", field,
                       one_line(name), kMost),
           field);
  return name;
}

StateRequest::Action action_of(const std::string& name) {
  if (name == "save") return StateRequest::save;
  if (name == "restore") return StateRequest::restore;
  if (name == "fork") return StateRequest::fork;
  if (name == "delete") return StateRequest::remove;
  refuse(fmt::format("'action' is '{}', expected save, restore, fork or delete", one_line(name)), "action");
}

[[noreturn]] void refuse_unknown(const std::string& name) {
  throw ApiError(404, fmt::format("there is no state '{}'; GET /v1/state lists them", name), "name", "state_not_found");
}

struct Opened {
  MappedFile mapping;
  gguf::File file;
};

// Messages name the state, not the server's folder.
Opened open(const std::string& path, const std::string& name) {
  struct stat s = {};
  if (::stat(path.c_str(), &s) != 0) refuse_unknown(name);
  if (!S_ISREG(s.st_mode) || s.st_size == 0 || ::access(path.c_str(), R_OK) != 0)
    fail("the state '{}' is empty, or not a file that can be read; save it again", name);
  MappedFile mapping = MappedFile::open(path);
  gguf::File file = gguf::File::parse(mapping.bytes(), fmt::format("the state '{}'", name));
  return {std::move(mapping), std::move(file)};
}

}  // namespace

StateRequest parse_state(const std::string& body) {
  const ordered_json j = parse_body(body);
  Fields f(j);
  StateRequest r;
  r.action = action_of(f.text("action"));
  r.name = name_in(f, "name");
  if (r.action == StateRequest::fork) r.to = name_in(f, "to");
  if (r.action == StateRequest::save) {
    r.prompt.model = f.text("model");
    r.prompt.lora = lora_of(f.take("lora"));
    r.prompt.chat = f.has("messages");
    if (r.prompt.chat) {
      r.prompt.messages = messages_of(f.take("messages"));
      r.prompt.tools = tools_of(f.take("tools"));
      r.answered = r.prompt.messages.back()["role"] == "assistant";
      if (f.has("prompt")) refuse("'prompt' and 'messages' both say what to save; give one of them", "prompt");
    } else {
      r.prompt.prompts = sources_of(f.take("prompt"), "prompt");
      if (r.prompt.prompts.size() != 1)
        refuse(fmt::format("'prompt' has {} texts; save one at a time", r.prompt.prompts.size()), "prompt");
    }
  }
  f.finish();
  return r;
}

std::vector<int32_t> tokens_to_save(const StateRequest& r, const Prompts& prompts) {
  const char* field = r.prompt.chat ? "messages" : "prompt";
  std::vector<int32_t> tokens = r.prompt.chat
                                    ? prompts.chat(r.prompt.messages, r.prompt.tools, {.answered = r.answered}).ids
                                    : prompts.of(r.prompt).front();
  prompts.require_fits(int64_t(tokens.size()), field);
  if (int64_t(tokens.size()) <= kLeastStateTokens)
    refuse(fmt::format("'{}' has {} tokens; a state is worth saving from {} on", field, tokens.size(),
                       kLeastStateTokens + 1),
           field);
  tokens.pop_back();
  return tokens;
}

StateFolder::StateFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  check(!error, "state: the folder {} cannot be made: {}", path, error.message());
  lock_ = std::make_unique<FolderLock>(path);
  remove_leftovers(path);
}

States::States(const std::string& folder, std::vector<std::string> adapters, const Model& model, Decoder& decoder)
    : folder_(folder),
      adapters_(std::move(adapters)),
      checksums_(adapter_checksums(model)),
      made_with_(made_with(model, decoder)),
      state_(decoder.state()) {}

ordered_json States::describe(const std::string& name) const {
  struct stat s = {};
  if (::stat(path(name).c_str(), &s) != 0) refuse_unknown(name);
  ordered_json j{{"object", "state"}, {"name", name}, {"bytes", s.st_size}, {"created", s.st_mtime}};
  try {
    j["tokens"] = read_state_card(open(path(name), name).file).tokens;
  } catch (const Error& e) {
    j["error"] = e.what();
  }
  return j;
}

ordered_json States::list() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error))
    if (entry.path().extension() == kExtension) names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  ordered_json data = ordered_json::array();
  for (const std::string& name : names) {
    try {
      data.push_back(describe(name));
    } catch (const ApiError& e) {
      if (e.status != 404) throw;  // else it was deleted meanwhile
    }
  }
  return {{"object", "list"}, {"data", data}};
}

ordered_json States::fork(const std::string& name, const std::string& to) const {
  if (::link(path(name).c_str(), path(to).c_str()) != 0) {
    if (errno == ENOENT) refuse_unknown(name);
    if (errno == EEXIST)
      throw ApiError(409, fmt::format("there is a state '{}' already; delete it, or choose another name", to), "to");
    throw ApiError(500, fmt::format("the state '{}' could not be linked to '{}': {}", name, to, std::strerror(errno)));
  }
  sync_folder(folder_, to);
  return describe(to);
}

ordered_json States::remove(const std::string& name) const {
  if (::unlink(path(name).c_str()) != 0) {
    if (errno == ENOENT) refuse_unknown(name);
    throw ApiError(500, fmt::format("the state '{}' could not be deleted: {}", name, std::strerror(errno)));
  }
  sync_folder(folder_, name);
  return {{"object", "state"}, {"name", name}, {"deleted", true}};
}

std::shared_ptr<States::Turn> States::take_turn() {
  if (busy_.exchange(true))
    throw ApiError(429, "another state is being saved or restored; try again", "", "overloaded");
  return std::make_shared<Turn>(busy_);
}

void States::run(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  worker_ = std::jthread(std::move(work));  // the one before has nothing to do any more
}

ordered_json States::write(const std::string& name, std::vector<int32_t> tokens, const std::vector<float>& adapters,
                           StateSnapshot&& snapshot) const {
  SavedState saved{.card = {.made_with = made_with_, .adapters = {}, .tokens = int64_t(tokens.size())},
                   .tokens = std::move(tokens),
                   .snapshot = std::move(snapshot)};
  for (size_t i = 0; i < adapters.size(); ++i)
    if (adapters[i] != 0) saved.card.adapters.push_back({adapters_[i], checksums_[i], adapters[i]});
  try {
    write_state(saved, state_, path(name));
  } catch (const DiskFull&) {
    throw ApiError(507, fmt::format("the state '{}' does not fit on the server's disk; delete others", name));
  } catch (const Error&) {  // the message has the server's path
    throw ApiError(500, fmt::format("the state '{}' could not be written; look at the folder of --state", name));
  }
  return describe(name);
}

std::vector<float> States::factors_of(const std::string& name, const StateCard& card) const {
  for (const auto& [what, value] : card.made_with) {
    const auto mine = made_with_.find(what);
    const std::string here = mine == made_with_.end() ? "none" : mine->second;
    if (here != value)
      throw ApiError(409,
                     fmt::format("the state '{}' was saved with {} {}; this server has {}", name, one_line(what),
                                 one_line(value), here),
                     "name", "state_mismatch");
  }
  for (const auto& [what, here] : made_with_)
    if (!card.made_with.contains(what))
      throw ApiError(409, fmt::format("the state '{}' was saved with {} none; this server has {}", name, what, here),
                     "name", "state_mismatch");
  std::vector<float> factors(adapters_.size());
  for (const StateAdapter& a : card.adapters) {
    // Of several with the same weights each once, those of the same name first.
    std::optional<size_t> found;
    for (size_t i = 0; i < checksums_.size(); ++i)
      if (checksums_[i] == a.id && factors[i] == 0 && (!found || adapters_[i] == a.name)) found = i;
    if (!found)
      throw ApiError(409,
                     fmt::format("the state '{}' was saved with the adapter '{}' ({}), which is not loaded here; use "
                                 "--lora",
                                 name, one_line(a.name), one_line(a.id)),
                     "name", "state_mismatch");
    factors[*found] = a.factor;
  }
  return factors;
}

TextRequest States::read(const std::string& name) const {
  const Opened opened = open(path(name), name);
  TextRequest t{.prompt = {}, .options = {.max_tokens = 0}};
  const StateCard card = read_state_card(opened.file);
  t.adapters = factors_of(name, card);
  if (!state_.only_pages() && state_.shape().snapshots == 0)
    throw ApiError(409, "the cache has no room for a snapshot; use a larger --cache");
  if (const int64_t pages = (card.tokens + kPagePositions - 1) / kPagePositions, room = state_.shape().shared_pages;
      state_.shared_pool() && room > 0 && pages > room)
    throw ApiError(409, fmt::format("the state '{}' has {} pages of {} positions, and the cache has {}; use a larger "
                                    "--cache",
                                    name, pages, kPagePositions, room));
  try {
    require_memory(opened.file.file_bytes(), fmt::format("the state '{}'", name));
  } catch (const Error& e) {
    throw ApiError(503, e.what());
  }
  SavedState saved = read_state(opened.file, state_);
  t.prompt = std::move(saved.tokens);
  t.state = std::make_shared<const StateSnapshot>(std::move(saved.snapshot));
  return t;
}

}  // namespace toy::serve
