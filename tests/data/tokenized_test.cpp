// Tokenized texts: the ids of the whole text, in memory and from the cache; damaged, outdated and full caches.
#include "toy/data/tokenized.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "data/token_file.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "testing/sanitizers.h"
#include "text/spm/spm.h"
#include "toy/base/memory.h"
#include "toy/data/corpus.h"
#include "toy/synth/stories.h"

namespace toy::tokenized_test {
namespace {

using namespace testing;
using Ids = std::vector<int32_t>;

Ids all(TokenView view) {
  Ids ids;
  view.copy(0, view.size(), ids);
  return ids;
}

std::vector<TextFile> files_of(const std::vector<std::string>& paths) { return list_text_files(paths).files; }

// Three tokenizers, one of which has an end-of-sequence token and puts another in front.
std::vector<std::shared_ptr<const Tokenizer>> tokenizers() {
  const std::string text = write_stories({.bytes = 30000});
  std::vector<std::shared_ptr<const Tokenizer>> list;
  list.push_back(make_byte_tokenizer());
  list.push_back(train_spm(text, {.vocab_size = 400, .add_bos = true}));
  list.push_back(train_unigram(text, {.vocab_size = 400}));
  return list;
}

void expect_same(const TokenizedText& a, const TokenizedText& b) {
  EXPECT_EQ(all(a.ids()), all(b.ids()));
  for (const auto& [x, y] : {std::pair(&a.training(), &b.training()), {&a.validation(), &b.validation()}}) {
    EXPECT_EQ(x->begin, y->begin);
    EXPECT_EQ(all(x->ids), all(y->ids));
    EXPECT_TRUE(std::equal(x->begins.begin(), x->begins.end(), y->begins.begin(), y->begins.end()));
    EXPECT_EQ(x->text_bytes, y->text_bytes);
    EXPECT_EQ(x->first_bytes, y->first_bytes);
  }
}

// The ids of a text that is read in chunks are those of the whole; two files without documents are one text.
TEST(Tokenized, OneRunningText) {
  const Folder folder;
  const std::string text = write_stories({.bytes = 2'500'000});
  const size_t middle = 1'234'567;
  const auto one = files_of({folder.write("one", text)});
  const auto two = files_of({folder.write("a", text.substr(0, middle)), folder.write("b", text.substr(middle))});
  for (const auto& t : tokenizers()) {
    size_t at = size_t(double(text.size()) * (1 - 0.1));
    at = text.find("\n\n", at) + 2;
    const TokenizedText whole = tokenize_files(one, *t, {.validation_fraction = 0.1, .cache = folder.path("cache")});
    EXPECT_EQ(all(whole.training().ids), t->encode(text.substr(0, at))) << t->kind();
    EXPECT_EQ(all(whole.validation().ids), t->encode(text.substr(at))) << t->kind();
    EXPECT_EQ(whole.validation().begin, whole.training().ids.size());
    EXPECT_EQ(whole.training().text_bytes, at);
    EXPECT_EQ(whole.training().documents, 0);
    expect_same(whole, tokenize_files(two, *t, {.validation_fraction = 0.1}));
  }
}

TEST(Tokenized, Documents) {
  const Folder folder;
  std::vector<std::string> parts;
  std::string text;
  for (int i = 0; i < 200; ++i) {
    parts.push_back(write_stories({.seed = uint64_t(i), .bytes = 200}));
    std::erase_if(parts.back(), [](char c) { return c == '\n'; });
    text += parts.back() + "\n \n\n";
  }
  const auto files = files_of({folder.write("one", text)});
  for (const auto& t : tokenizers()) {
    const TokenizeOptions options{.documents = parse_documents("blank-lines"), .cache = folder.path("cache")};
    const TokenizedText got = tokenize_files(files, *t, options);
    ASSERT_EQ(got.training().documents, 200) << t->kind();
    uint64_t first_bytes = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      Ids expected = t->encode(t->eos() ? parts[i] : parts[i] + "\n \n\n");
      if (t->adds_bos()) expected.insert(expected.begin(), *t->bos());
      if (t->eos()) expected.push_back(*t->eos());
      first_bytes += t->token_bytes(expected[0]).size();
      const auto begins = got.training().begins;
      const uint64_t end = i + 1 < parts.size() ? begins[i + 1] : uint64_t(got.ids().size());
      ASSERT_EQ(all(got.ids().part(int64_t(begins[i]), int64_t(end - begins[i]))), expected) << t->kind() << i;
    }
    EXPECT_EQ(got.training().first_bytes, first_bytes);
    expect_same(got, tokenize_files(files, *t, {.documents = parse_documents("blank-lines")}));
  }
}

TEST(Tokenized, WhereValidationBegins) {
  const Folder folder;
  const auto begin = [&](const std::vector<std::string>& texts, double fraction, const char* rule) {
    std::vector<std::string> paths;
    for (const std::string& t : texts) paths.push_back(folder.write(std::to_string(paths.size()), t));
    return validation_begin(files_of(paths), fraction, parse_documents(rule));
  };
  const std::string lines(200, 'x');
  EXPECT_EQ(begin({lines}, 0, "none"), 200u);
  EXPECT_EQ(begin({lines}, 1, "none"), 0u);
  EXPECT_EQ(begin({lines}, 0.25, "none"), 150u);
  EXPECT_EQ(begin({std::string(152, 'x') + "\n" + std::string(3, 'x') + "\n\n" + std::string(42, 'x')}, 0.25, "none"),
            158u);  // a blank line goes before a line
  EXPECT_EQ(begin({std::string(152, 'x') + "\n" + std::string(47, 'x')}, 0.25, "none"), 153u);
  std::string wide;  // no character is cut in two
  for (int i = 0; i < 67; ++i) wide += "\u20ac";
  EXPECT_EQ(begin({wide}, 0.5, "none"), 102u);  // 100 is inside the 34th
  EXPECT_EQ(begin({"x" + wide}, 0.5, "none"), 103u);
  EXPECT_EQ(begin({std::string(155, 'x'), std::string(45, 'x')}, 0.25, "none"), 155u);  // the border of two files
  EXPECT_EQ(begin({std::string(100, 'x'), std::string(55, 'x'), std::string(45, 'x')}, 0.25, "files"), 155u);
  EXPECT_EQ(begin({std::string(10, 'x'), std::string(190, 'x')}, 0.25, "files"), 10u);
  EXPECT_EQ(begin({std::string(150, 'x') + "ab\n\nc##" + std::string(43, 'x')}, 0.25, "separator:##"), 157u);
}

TEST(Tokenized, TheNextRunFindsTheCache) {
  const Folder folder;
  const auto t = make_byte_tokenizer();
  const std::string path = folder.write("text", "some text\n\nand more of it\n");
  const TokenizeOptions options{.documents = parse_documents("blank-lines"), .cache = folder.path("cache")};
  const TokenizedText first = tokenize_files(files_of({path}), *t, options);
  EXPECT_FALSE(first.was_cached());
  const TokenizedText second = tokenize_files(files_of({path}), *t, options);
  EXPECT_TRUE(second.was_cached());
  EXPECT_EQ(second.path(), first.path());
  expect_same(first, second);
  fs::last_write_time(path, fs::file_time_type::clock::now());  // other times, the same text
  EXPECT_TRUE(tokenize_files(files_of({path}), *t, options).was_cached());
  TokenizeOptions other = options;
  other.documents = parse_documents("files");
  EXPECT_FALSE(tokenize_files(files_of({path}), *t, other).was_cached());
  EXPECT_TRUE(tokenize_files(files_of({path}), *t, options).was_cached());

  for (const std::string text : {"some text\n\nand more of iT\n", "longer: some text\n\nand more of it\n"}) {
    folder.write("text", text);
    std::string warned;
    other = options;
    other.warn = [&](const std::string& w) { warned += w; };
    const TokenizedText changed = tokenize_files(files_of({path}), *t, other);
    EXPECT_FALSE(changed.was_cached());
    EXPECT_EQ(warned, "data-cache: " + first.path() + " is made anew: " + path + " is not what it was");
    EXPECT_EQ(changed.path(), first.path());
    EXPECT_EQ(changed.files()[0].xxh64, hash_of(looked_at(path)));
  }
}

// Each byte of a cache file flipped, and each length: found, said, made anew.
TEST(Tokenized, DamagedCachesAreMadeAnew) {
  const Folder folder;
  const auto t = make_byte_tokenizer();
  const auto files = files_of({folder.write("text", "one\n\ntwo\n")});
  std::vector<std::string> warned;
  const TokenizeOptions options{.documents = parse_documents("blank-lines"),
                                .validation_fraction = 0.3,
                                .cache = folder.path("cache"),
                                .warn = [&](const std::string& w) { warned.push_back(w); }};
  const TokenizedText good = tokenize_files(files, *t, options);
  const std::string path = good.path(), bytes = slurp(path);
  std::vector<std::string> damaged;
  for (size_t i = 0; i < bytes.size(); ++i) {
    damaged.push_back(bytes);
    damaged.back()[i] = char(damaged.back()[i] ^ (1 << i % 8));
    if (i % 5 == 0) damaged.push_back(bytes.substr(0, i));
  }
  damaged.push_back(bytes + "x");
  for (const std::string& d : damaged) {
    warned.clear();
    std::ofstream(path, std::ios::binary) << d;
    const TokenizedText again = tokenize_files(files, *t, options);
    ASSERT_FALSE(again.was_cached());
    ASSERT_EQ(warned.size(), 1u);
    ASSERT_EQ(warned[0].find("data-cache: " + path + " is made anew: it"), 0u) << warned[0];
    ASSERT_EQ(slurp(path), bytes);
  }
  expect_same(good, tokenize_files(files, *t, options));
}

// What has a good checksum and is no cache all the same.
TEST(Tokenized, ForgedFootersAreRefused) {
  const Folder folder;
  std::string image;
  TokenFileWriter writer(
      2, [&](std::span<const std::byte> b) { image.append(reinterpret_cast<const char*>(b.data()), b.size()); });
  writer.add(Ids{1, 2, 3});
  writer.finish(7, {{"files", nlohmann::ordered_json::array()}});
  const auto wrong = [](std::string text, size_t field, uint64_t value) {
    const size_t footer = text.size() - 48;
    std::memcpy(text.data() + footer + 8 * field, &value, 8);
    const uint64_t sum = xxh64(std::string_view(text).substr(0, text.size() - 8));
    std::memcpy(text.data() + text.size() - 8, &sum, 8);
    std::vector<uint64_t> aligned((text.size() + 7) / 8);
    std::memcpy(aligned.data(), text.data(), text.size());
    TokenFileView view;
    return open_token_file(std::as_bytes(std::span(aligned)).first(text.size()), view);
  };
  EXPECT_EQ(wrong(image, 0, 7), "");
  for (const uint64_t value : {uint64_t(5), uint64_t(1) << 40, ~uint64_t(0), uint64_t(1) << 63})
    for (const size_t field : {1, 2, 3, 4}) EXPECT_NE(wrong(image, field, value), "") << field << " " << value;
}

TEST(Tokenized, NamesFileAndOffsetOfWhatATokenizerCannotTake) {
  const Folder folder;
  SpmVocabulary v;
  v.source = "vocab.gguf";
  v.tokens = {"a", "\n"}, v.scores = {0, -1}, v.types = {1, 1};
  v.add_bos = v.add_space_prefix = false;
  const SpmTokenizer t(v);
  const auto files = files_of({folder.write("1", "aa\naa\n\naaa"), folder.write("2", "\n\na\n\n\naa?a")});
  for (const char* rule : {"none", "files", "blank-lines", "separator:\\n\\n"})
    EXPECT_EQ(message_of([&] { tokenize_files(files, t, {.documents = parse_documents(rule)}); }),
              "vocab.gguf: the vocabulary has no token for the character at byte 8 of " + folder.path("2") +
                  ", and neither byte tokens nor an unknown token")
        << rule;
}

TEST(Tokenized, ATextThatChangesWhileItIsRead) {
  const Folder folder;
  const auto files = files_of({folder.write("text", "some text")});
  folder.write("text", "some texts and more");
  EXPECT_NE(message_of([&] {
              tokenize_files(files, *make_byte_tokenizer(), {});
            }).find("/text: the file has changed while it was tokenized (9 bytes before, 19 now)"),
            std::string::npos);
}

TEST(Tokenized, AFolderThatCannotBeUsed) {
  const Folder folder;
  const auto files = files_of({folder.write("text", "some text")});
  const auto message = [&](const std::string& cache) {
    return message_of([&] { tokenize_files(files, *make_byte_tokenizer(), {.cache = cache}); });
  };
  EXPECT_NE(message(folder.path("text")).find("data-cache: cannot make the folder"), std::string::npos);
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::create_directory(folder.path("locked"));
  ::chmod(folder.path("locked").c_str(), 0555);
  EXPECT_NE(message(folder.path("locked")).find("data-cache"), std::string::npos);
}

// Two at once: one makes it, the other waits and finds it.
TEST(Tokenized, TwoAtOnce) {
  const Folder folder;
  const auto files = files_of({folder.write("text", write_stories({.bytes = 3'000'000}))});
  const auto t = train_spm(write_stories({.bytes = 30000}), {.vocab_size = 400});
  int cached = 0;
  std::vector<std::thread> threads;
  std::vector<TokenizedText> texts(3);
  for (TokenizedText& text : texts)
    threads.emplace_back([&] { text = tokenize_files(files, *t, {.cache = folder.path("cache")}); });
  for (std::thread& thread : threads) thread.join();
  for (const TokenizedText& text : texts) cached += text.was_cached();
  EXPECT_EQ(cached, 2);
  expect_same(texts[0], texts[2]);
}

// The most anonymous memory while it lives. Pages of mapped files do not count: the kernel takes them back at will, and
// how many it maps around one that is read is its own affair.
class PeakMemory {
 public:
  size_t stop() {
    done_ = true;
    watcher_.join();
    return most_ - before_;
  }

 private:
  void watch() {
    while (!done_) {
      most_ = std::max(most_, anonymous_memory());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  const size_t before_ = anonymous_memory();
  size_t most_ = before_;
  std::atomic<bool> done_ = false;
  std::thread watcher_{[this] { watch(); }};
};

// A corpus of 48 MiB, whose ids take 96 MiB, within 40 MiB: chunks of 1 MiB while it is tokenized.
TEST(Tokenized, MemoryDoesNotGrowWithTheText) {
  if (kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer keeps what is freed, so its own memory would be measured";
  const Folder folder;
  {
    std::ofstream out(folder.path("text"), std::ios::binary);
    const std::string text = write_stories({.bytes = 1 << 20});
    for (int i = 0; i < 48; ++i) out << text;
  }
  PeakMemory peak;
  const auto files = files_of({folder.path("text")});
  const TokenizedText text = tokenize_files(files, *make_byte_tokenizer(), {.cache = folder.path("cache")});
  EXPECT_GE(fs::file_size(text.path()), size_t(96) << 20);
  const WindowSampler windows(text.training().ids, 1, 1024, 1);
  int64_t sum = 0;
  for (int64_t row = 0; row < 2000; ++row) {
    sum += windows.windows(row, 1).inputs[5];
    if (row % 100 == 99) text.release();
  }
  EXPECT_GT(sum, 0);
  EXPECT_LT(peak.stop(), size_t(40) << 20);
}

}  // namespace
}  // namespace toy::tokenized_test
