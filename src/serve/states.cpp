#include "serve/states.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>

#include "dialog/fields.h"
#include "dialog/normalized.h"
#include "serve/http/request_body.h"
#include "toy/base/atomic_file.h"
#include "toy/base/memory.h"
#include "toy/base/utf8.h"
#include "toy/formats/mapped_file.h"

namespace toy::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char *kExtension = ".state", *kOwner = "key-";  // of a file; of a folder

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
  int64_t created = 0;  // seconds since 1970
};

// Messages name the state, not the server's folder.
Opened open(const std::string& path, const std::string& name) {
  struct stat s = {};
  if (::stat(path.c_str(), &s) != 0) refuse_unknown(name);
  const auto unreadable = [&] {
    if (::stat(path.c_str(), &s) != 0) refuse_unknown(name);  // it was deleted meanwhile
    fail("the state '{}' is empty, or not a file that can be read; save it again", name);
  };
  if (!S_ISREG(s.st_mode) || s.st_size == 0 || ::access(path.c_str(), R_OK) != 0) unreadable();
  MappedFile mapping;
  try {
    mapping = MappedFile::open(path);
  } catch (const Error&) {
    unreadable();
  }
  gguf::File file = gguf::File::parse(mapping.bytes(), fmt::format("the state '{}'", name));
  return {std::move(mapping), std::move(file), s.st_mtime};
}

ordered_json description(const std::string& name, uint64_t bytes, int64_t created) {
  return {{"object", "state"}, {"name", name}, {"bytes", bytes}, {"created", created}};
}

// Of a file that an earlier version wrote, or that was copied here.
void take_from_others(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat s = {};
  if (fd >= 0 && ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && (s.st_mode & 077) != 0) [[maybe_unused]]
    const int changed = ::fchmod(fd, s.st_mode & 0700);
  if (fd >= 0) ::close(fd);
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
      r.prompt.messages = normalized_messages(f.needed("messages"), OtherFields::noted);
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
  if (const fs::path parent = fs::path(path).parent_path(); !parent.empty()) fs::create_directories(parent, error);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    fail("state: the folder {} cannot be made: {}", path, std::strerror(errno));
  check(fs::is_directory(path, error), "state: {} is no folder; choose another one", path);
  lock_ = std::make_unique<FolderLock>(path);
  std::vector<std::string> folders{path};
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (entry.is_directory(error) && entry.path().filename().string().starts_with(kOwner))
      folders.push_back(entry.path().string());
  for (const std::string& folder : folders) {
    remove_leftovers(folder);
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == kExtension) take_from_others(entry.path());
  }
}

StateOwner state_owner(const std::string& api_key) {
  const std::string text = "toy serve --state: " + api_key;
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum = {};
  unsigned bytes = 0;
  check(EVP_Digest(text.data(), text.size(), sum.data(), &bytes, EVP_sha256(), nullptr) == 1,
        "state: no SHA-256 of a key could be computed");
  std::string owner = kOwner;
  for (size_t i = 0; i < 12; ++i) owner += fmt::format("{:02x}", sum[i]);
  return owner;
}

States::States(const std::string& folder, std::vector<std::string> adapters, const Model& model, Decoder& decoder)
    : folder_(folder),
      adapters_(std::move(adapters)),
      checksums_(adapter_checksums(model)),
      made_with_(made_with(model, decoder)),
      state_(decoder.state()) {}

ordered_json States::describe(const StateOwner& owner, const std::string& name) const {
  struct stat s = {};
  if (::stat(path(owner, name).c_str(), &s) != 0) refuse_unknown(name);
  ordered_json j = description(name, uint64_t(s.st_size), s.st_mtime);
  try {
    j["tokens"] = read_state_card(open(path(owner, name), name).file).tokens;
  } catch (const Error& e) {
    j["error"] = e.what();
  }
  return j;
}

ordered_json States::list(const StateOwner& owner) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder(owner), error))
    if (entry.path().extension() == kExtension) names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  ordered_json data = ordered_json::array();
  for (const std::string& name : names) {
    try {
      data.push_back(describe(owner, name));
    } catch (const ApiError& e) {
      if (e.status != 404) throw;  // else it was deleted meanwhile
    }
  }
  return {{"object", "list"}, {"data", data}};
}

ordered_json States::fork(const StateOwner& owner, const std::string& name, const std::string& to) const {
  ordered_json j = describe(owner, name);  // before others can delete the new one
  if (::link(path(owner, name).c_str(), path(owner, to).c_str()) != 0) {
    if (errno == ENOENT) refuse_unknown(name);
    if (errno == EEXIST)
      throw ApiError(409, fmt::format("there is a state '{}' already; delete it, or choose another name", to), "to");
    throw ApiError(500, fmt::format("the state '{}' could not be linked to '{}': {}", name, to, std::strerror(errno)));
  }
  sync_folder(folder(owner), to);
  j["name"] = to;
  return j;
}

ordered_json States::remove(const StateOwner& owner, const std::string& name) const {
  if (::unlink(path(owner, name).c_str()) != 0) {
    if (errno == ENOENT) refuse_unknown(name);
    throw ApiError(500, fmt::format("the state '{}' could not be deleted: {}", name, std::strerror(errno)));
  }
  sync_folder(folder(owner), name);
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

ordered_json States::write(const StateOwner& owner, const std::string& name, std::vector<int32_t> tokens,
                           const std::vector<float>& adapters, StateSnapshot&& snapshot) const {
  SavedState saved{.card = {.made_with = made_with_, .adapters = {}, .tokens = int64_t(tokens.size())},
                   .tokens = std::move(tokens),
                   .snapshot = std::move(snapshot)};
  for (size_t i = 0; i < adapters.size(); ++i)
    if (adapters[i] != 0) saved.card.adapters.push_back({adapters_[i], checksums_[i], adapters[i]});
  uint64_t bytes = 0;
  try {
    if (!owner.empty()) ::mkdir(folder(owner).c_str(), 0700);
    bytes = write_state(saved, state_, path(owner, name));
  } catch (const DiskFull&) {
    throw ApiError(507, fmt::format("the state '{}' does not fit on the server's disk; delete others", name));
  } catch (const Error&) {  // the message has the server's path
    throw ApiError(500, fmt::format("the state '{}' could not be written; look at the folder of --state", name));
  }
  ordered_json j = description(name, bytes, std::time(nullptr));  // the file may be deleted already
  j["tokens"] = saved.card.tokens;
  return j;
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

std::pair<TextRequest, ordered_json> States::read(const StateOwner& owner, const std::string& name) const {
  const Opened opened = open(path(owner, name), name);
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
  ordered_json j = description(name, opened.mapping.bytes().size(), opened.created);
  j["tokens"] = card.tokens;
  return {std::move(t), std::move(j)};
}

}  // namespace toy::serve
