#include "toy/data/tokenized.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "data/token_file.h"
#include "toy/base/atomic_file.h"
#include "toy/base/checksum.h"
#include "toy/base/folder_lock.h"
#include "toy/base/memory.h"
#include "toy/formats/mapped_file.h"

namespace toy {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kTokens = "tokens";
constexpr int32_t kNarrow = 65536;  // ids below fit into two bytes

// The first place of `mark` from `from` on that begins before `limit`.
std::optional<uint64_t> find_in(const TextFile& file, uint64_t from, uint64_t limit, const std::string& mark) {
  std::optional<uint64_t> found;
  std::string held;
  uint64_t behind = from;  // the end of what is held
  read_text(file, from, std::min(file.bytes, limit + mark.size() - 1), [&](std::string_view part) {
    held += part;
    behind += part.size();
    if (const size_t at = held.find(mark); at != std::string::npos) found = behind - held.size() + at;
    held.erase(0, held.size() - std::min(held.size(), mark.size() - 1));
    return !found;
  });
  return found;
}

ordered_json to_json(const TokenizedText::Part& p) {
  return {{"tokens", p.ids.size()},
          {"documents", p.documents},
          {"text_bytes", p.text_bytes},
          {"first_bytes", p.first_bytes}};
}

// What makes two tokenized texts the same thing: all but what is in the files.
uint64_t fingerprint_of(const std::vector<TextFile>& files, const Tokenizer& tokenizer, const TokenizeOptions& o) {
  std::string text =
      fmt::format("tokens 2\n{:016x}\n{}\n{}\n", tokenizer.fingerprint(), o.documents.str(), o.validation_fraction);
  for (const TextFile& f : files) {
    std::error_code none;  // a pipe's name under /proc leads nowhere
    const fs::path path = fs::weakly_canonical(f.path, none);
    text += fmt::format("{}\n", none ? f.path : path.string());
  }
  return xxh64(text);
}

// Where a character of UTF-8 begins, at `at` or up to three bytes behind it.
uint64_t character_at(const TextFile& file, uint64_t at) {
  uint64_t begin = at;
  read_text(file, at, std::min(at + 3, file.bytes), [&](std::string_view bytes) {
    const auto other = std::find_if(bytes.begin(), bytes.end(), [](char c) { return (uint8_t(c) & 0xc0) != 0x80; });
    begin += uint64_t(other - bytes.begin());
    return other == bytes.end();
  });
  return begin;
}

}  // namespace

// Bytes of the layout of data/token_file.h.
struct TokenizedText::Storage {
  MappedFile file;
  std::vector<std::byte> memory;
  std::vector<int32_t> ids;  // of documents that were tokens already
  std::vector<uint64_t> begins;
};

TokenizedText TokenizedText::of_documents(std::vector<int32_t> ids, std::vector<uint64_t> begins, size_t validation,
                                          std::vector<HashedFile> files) {
  check(validation <= begins.size(), "{} documents, {} of them for validation", begins.size(), validation);
  auto storage = std::make_shared<Storage>();
  storage->ids = std::move(ids);
  storage->begins = std::move(begins);
  const std::span<const uint64_t> all = storage->begins;
  const size_t split = all.size() - validation;
  const int64_t n = int64_t(storage->ids.size()), border = validation > 0 ? int64_t(all[split]) : n;
  TokenizedText out;
  out.ids_ = TokenView(storage->ids);
  out.training_ = {0, out.ids_.part(0, border), int64_t(split), all.first(split)};
  out.validation_ = {border, out.ids_.part(border, n - border), int64_t(validation), all.subspan(split)};
  out.files_ = std::move(files);
  out.storage_ = std::move(storage);
  return out;
}

void TokenizedText::release() const {
  if (storage_ && storage_->ids.empty()) storage_->file.release();
}

uint64_t validation_begin(const std::vector<TextFile>& files, double fraction, const DocumentRule& documents) {
  const uint64_t all = bytes_of(files), near = all / 20;
  if (fraction <= 0) return all;
  if (fraction >= 1) return 0;
  const uint64_t at = uint64_t(double(all) * (1 - fraction));
  if (documents.kind == DocumentRule::files && files.size() > 1) {
    uint64_t border = files[0].bytes;
    for (size_t i = 1; i + 1 < files.size() && border < at; ++i) border += files[i].bytes;
    return border;
  }
  uint64_t first = 0;
  size_t i = 0;
  while (i + 1 < files.size() && first + files[i].bytes <= at) first += files[i++].bytes;
  const TextFile& file = files[i];
  std::vector<std::string> marks{"\n\n", "\n"};
  if (documents.kind == DocumentRule::separator) marks.insert(marks.begin(), documents.text);
  for (const std::string& mark : marks)
    if (const auto found = find_in(file, at - first, at - first + near, mark); found && *found + first - at < near)
      return first + *found + mark.size();
  const uint64_t border = first + file.bytes;
  return i + 1 < files.size() && border - at < near ? border : first + character_at(file, at - first);
}

/// Makes one tokenized text, or finds it.
class TextTokenizer {
 public:
  TextTokenizer(const std::vector<TextFile>& files, const Tokenizer& tokenizer, const TokenizeOptions& options)
      : files_(files),
        tokenizer_(tokenizer),
        o_(options),
        all_(bytes_of(files)),
        fingerprint_(fingerprint_of(files, tokenizer, options)),
        keep_(!tokenizer.eos()) {
    if (o_.documents.kind != DocumentRule::none) {
      if (tokenizer.adds_bos()) bos_ = tokenizer.bos();
      eos_ = tokenizer.eos();
    }
  }

  TokenizedText run() {
    const bool once = std::any_of(files_.begin(), files_.end(), [](const TextFile& f) { return f.text != nullptr; });
    if (o_.cache.empty() || once) return in_memory();
    try {
      return cached();
    } catch (const DiskFull& e) {
      fail("{}, or give another --data-cache ('none' keeps the tokens in memory)", e.what());
    }
  }

 private:
  TokenizedText cached() {
    const fs::path folder = fs::path(o_.cache) / checksum_text(fingerprint_);
    const std::string path = (folder / kTokens).string();
    std::error_code error;
    fs::create_directories(folder, error);
    if (error == std::errc::no_space_on_device)
      fail_disk_full("cannot make the folder '{}': {}; free some space there", folder.string(), error.message());
    check(!error, "data-cache: cannot make the folder '{}': {}", folder.string(), error.message());
    // A cache that is whole can be read where nothing can be written.
    std::optional<FolderLock> lock;
    // Two runs that want the same cache do not both make it.
    if (access(folder.c_str(), W_OK | X_OK) == 0)
      lock.emplace(folder.string(), [&] {
        o_.tell(fmt::format("waiting for another run that makes the data cache {}", folder.string()));
      });
    TokenizedText text;
    if (fs::exists(path)) {
      const std::string wrong = open(path, text);
      if (wrong.empty()) {
        text.was_cached_ = true;
        return text;
      }
      o_.warn(fmt::format("data-cache: {} is made anew: {}", path, wrong));
      text = {};
    }
    check(lock.has_value(), "data-cache: the folder '{}' is not writable; give another --data-cache", folder.string());
    remove_leftovers(folder.string());
    AtomicFile file(path);
    write([&file](std::span<const std::byte> bytes) { file.write(bytes); });
    file.commit();
    const std::string wrong = open(path, text);
    if (!wrong.empty()) fail_internal("data-cache: {} was written and is wrong: {}", path, wrong);
    return text;
  }

  static TokenizedText::Part part_of(const TokenFileView& view, const ordered_json& about, int64_t token,
                                     int64_t document) {
    const int64_t documents = about.at("documents");
    return {token,
            view.ids.part(token, about.at("tokens")),
            documents,
            view.documents.subspan(size_t(document), size_t(documents)),
            about.at("text_bytes"),
            about.at("first_bytes")};
  }

  TokenizedText in_memory() {
    const std::string what = fmt::format("keeping the tokens of {} of text in memory", format_bytes(all_));
    require_memory(all_, what + " (--data-cache DIR keeps them on disk)");
    auto storage = std::make_shared<TokenizedText::Storage>();
    std::vector<std::byte>& memory = storage->memory;
    const size_t often = std::min(size_t(1) << 20, 4 * all_);
    // Growing would copy; what is not filled takes nothing.
    memory.reserve(all_ * size_t(width()) + about_bytes() + often);
    size_t checked = 0;
    write([&](std::span<const std::byte> bytes) {
      const size_t size = memory.size() + bytes.size(), index = index_bytes();
      if (o_.memory > 0 && size + 2 * index >= checked) {
        require_growth(memory, bytes.size(), often, what);
        checked = size + 2 * index + often;
      }
      if (size > memory.capacity()) memory.reserve(2 * size + index);
      memory.insert(memory.end(), bytes.begin(), bytes.end());
    });
    TokenizedText text;
    const std::string wrong = use(storage, text);
    if (!wrong.empty()) fail_internal("tokenized text: {}", wrong);
    return text;
  }

  // Refuses to add `bytes` where what may follow before the next check, after `often` bytes, would be beyond the limit.
  // At the end the index of documents comes behind the ids, while the writer still has it; before, it takes as much
  // while it grows. Where they do not fit into what was reserved, the ids move first.
  void require_growth(const std::vector<std::byte>& memory, size_t bytes, size_t often, const std::string& what) const {
    const size_t size = memory.size() + bytes, index = index_bytes();
    const size_t work = std::min(size_t(8) << 20, 16 * all_);  // to encode
    const auto moved = [&memory](size_t end, size_t held) { return end > memory.capacity() ? held : 0; };
    const size_t now = often + std::max(bytes + index, moved(size + index + often, memory.size()));
    if (anonymous_memory() + work + now <= o_.memory) return;
    // In proportion to the text, but no more ids than it has bytes, and two for each document.
    const double longer = std::max(1.0, double(all_) / double(std::max<uint64_t>(1, done_)));
    const auto documents = size_t(double(index) * longer);
    const size_t most = size_t(width()) * (all_ + 2 * documents / sizeof(uint64_t)),
                 ids = std::min(size_t(double(size) * longer), std::max(size, most));
    const size_t rest = ids - memory.size() + documents - index + std::max(documents, moved(ids + documents, ids));
    require_below(o_.memory, work + std::max(rest, now), what, "--data-cache DIR");
  }

  std::string open(const std::string& path, TokenizedText& text) const {
    auto storage = std::make_shared<TokenizedText::Storage>();
    if (fs::file_size(path) == 0) return "it is empty";
    storage->file = MappedFile::open(path);
    text.path_ = path;
    return use(storage, text);
  }

  // What is wrong with it, or "".
  std::string use(const std::shared_ptr<const TokenizedText::Storage>& storage, TokenizedText& text) const {
    TokenFileView view;
    const bool mapped = storage->memory.empty();
    const std::string wrong = open_token_file(mapped ? storage->file.bytes() : std::span(storage->memory), view,
                                              [&] { storage->file.release(); });
    if (!wrong.empty()) return wrong;
    if (view.fingerprint != fingerprint_) return "it is of another text";
    try {
      const ordered_json &training = view.about.at("training"), &validation = view.about.at("validation");
      text.training_ = part_of(view, training, 0, 0);
      text.validation_ = part_of(view, validation, training.at("tokens"), training.at("documents"));
      text.ids_ = view.ids;
      text.storage_ = storage;
      return take_files(view.about.at("files"), text.files_);
    } catch (const ordered_json::exception&) {
      return "its list of files is wrong";
    }
  }

  // Are they those that it was made from?
  std::string take_files(const ordered_json& list, std::vector<HashedFile>& out) const {
    if (list.size() != files_.size()) return "it is of other files";
    out.clear();
    for (size_t i = 0; i < files_.size(); ++i) {
      const ordered_json& j = list[i];
      HashedFile f{files_[i], j.at("xxh64")};
      const TextFile there{f.file.path, j.at("bytes"), j.at("modified"), j.at("changed")};
      if (!is_untouched(there, f.file) && (there.bytes != f.file.bytes || hash_of(f.file) != f.xxh64))
        return fmt::format("{} is not what it was", f.file.path);
      out.push_back(std::move(f));
    }
    return "";
  }

  void write(const TokenFileWriter::Write& to) {
    TokenFileWriter writer(width(), to);
    writer_ = &writer;
    stream_.emplace(tokenizer_, piece());
    const uint64_t split = validation_begin(files_, o_.validation_fraction, o_.documents);
    uint64_t first = 0;
    ordered_json list = ordered_json::array();
    TokenizedText::Part training;
    bool in_validation = false;
    const auto end_training = [&] {
      if (o_.documents.kind == DocumentRule::none) end_document();
      training = part_;
      training.ids = TokenView(nullptr, 4, writer.tokens());
      training.documents = writer.documents();
      part_ = {};
      in_validation = true;
    };
    if (split == 0) end_training();
    for (file_ = 0; file_ < files_.size(); ++file_) {
      const TextFile& f = files_[file_];
      DocumentCutter cutter(
          o_.documents, keep_, [this](std::string_view part, uint64_t at) { add_text(part, at + shift_); },
          [this] {
            if (o_.documents.kind != DocumentRule::none) end_document();
          });
      Xxh64 sum;
      uint64_t at = first;
      shift_ = 0;
      read_text(f, 0, f.bytes, [&](std::string_view part) {
        sum.update(std::as_bytes(std::span(part)));
        if (!in_validation && split < at + part.size()) {
          const size_t before = size_t(split - at);
          cutter.push(part.substr(0, before));
          cutter.finish();
          end_training();
          shift_ = split - first;
          part.remove_prefix(before);
          at += before;
        }
        cutter.push(part);
        at += part.size();
        done_ = at;
        tell();
        return true;
      });
      cutter.finish();
      require_untouched(f);
      first += f.bytes;
      list.push_back({{"path", f.path},
                      {"bytes", f.bytes},
                      {"modified", f.modified},
                      {"changed", f.changed},
                      {"xxh64", sum.digest()}});
    }
    if (!in_validation) end_training();
    if (o_.documents.kind == DocumentRule::none) end_document();
    TokenizedText::Part validation = part_;
    validation.ids = TokenView(nullptr, 4, writer.tokens() - training.ids.size());
    validation.documents = writer.documents() - training.documents;
    writer_ = nullptr;
    writer.finish(fingerprint_,
                  {{"training", to_json(training)}, {"validation", to_json(validation)}, {"files", std::move(list)}});
  }

  void require_untouched(const TextFile& f) const {
    if (f.text) return;
    const TextFile now = looked_at(f.path);
    check(is_untouched(f, now),
          "{}: the file has changed while it was tokenized ({} bytes before, {} now); begin again when nothing writes "
          "to it",
          f.path, f.bytes, now.bytes);
  }

  void tell() {
    constexpr uint64_t kEvery = uint64_t(64) << 20;
    if (done_ < told_ + kEvery) return;
    told_ = done_;
    o_.tell(fmt::format("tokenizing: {} of {}", format_bytes(size_t(done_)), format_bytes(all_)));
  }

  // Text of the current document, which lies at `at` of the current file.
  void add_text(std::string_view part, uint64_t at) {
    stretches_.push_back({document_bytes_, file_, at});
    document_bytes_ += part.size();
    part_.text_bytes += part.size();
    for (; !part.empty(); part.remove_prefix(std::min(part.size(), piece())))
      encode([&] { stream_->push(part.substr(0, piece()), ids_); });
  }

  // At most, of what is written next to ids and index: names and numbers of the files, mostly.
  size_t about_bytes() const {
    constexpr size_t kEach = 256, kEscaped = 6;  // bytes of a file's numbers, and of a character in JSON
    size_t bytes = size_t(4) << 10;
    for (const TextFile& f : files_) bytes += kEach + kEscaped * f.path.size();
    return bytes;
  }
  // Of the documents so far: what the writer has yet to write.
  size_t index_bytes() const { return writer_ ? size_t(writer_->documents()) * sizeof(uint64_t) : 0; }
  int width() const { return tokenizer_.vocab_size() <= kNarrow ? 2 : 4; }
  // Text that is encoded at once; the ids do not depend on it.
  size_t piece() const { return o_.memory > 0 ? size_t(64) << 10 : EncodeStream::kChunk; }

  void end_document() {
    encode([&] { stream_->finish(ids_); });
    if (open_ && eos_) writer_->add(std::array{*eos_});
    open_ = false;
    document_bytes_ = 0;
    stretches_.clear();
  }

  // A document begins with its first token: without one there is none.
  template <class F>
  void encode(const F& f) {
    try {
      f();
    } catch (const EncodeError& e) {
      throw Error(ErrorCode::bad_input, e.at(place_of(e.offset())));
    }
    if (ids_.empty()) return;
    if (!open_) {
      if (o_.documents.kind != DocumentRule::none) writer_->begin_document();
      if (bos_) writer_->add(std::array{*bos_});
      part_.first_bytes += tokenizer_.token_bytes(bos_.value_or(ids_[0])).size();
      open_ = true;
    }
    writer_->add(ids_);
    ids_.clear();
  }

  std::string place_of(uint64_t offset) const {
    auto it = std::upper_bound(stretches_.begin(), stretches_.end(), offset,
                               [](uint64_t o, const Stretch& s) { return o < s.begin; });
    --it;
    return fmt::format("byte {} of {}", it->at + (offset - it->begin), files_[it->file].path);
  }

  // Where a stretch of a document's text lies.
  struct Stretch {
    uint64_t begin;  // in the document
    size_t file;
    uint64_t at;  // in the file
  };

  const std::vector<TextFile>& files_;
  const Tokenizer& tokenizer_;
  const TokenizeOptions& o_;
  size_t all_;  // bytes of the files
  uint64_t fingerprint_;
  bool keep_;
  std::optional<int32_t> bos_, eos_;
  TokenFileWriter* writer_ = nullptr;
  std::optional<EncodeStream> stream_;
  std::vector<int32_t> ids_;
  TokenizedText::Part part_;
  size_t file_ = 0;
  uint64_t shift_ = 0, told_ = 0, document_bytes_ = 0, done_ = 0;
  bool open_ = false;  // does the current document have a token?
  std::vector<Stretch> stretches_;
};

TokenizedText tokenize_files(const std::vector<TextFile>& files, const Tokenizer& tokenizer,
                             const TokenizeOptions& options) {
  return TextTokenizer(files, tokenizer, options).run();
}

}  // namespace toy
