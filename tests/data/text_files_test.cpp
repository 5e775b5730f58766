#include "toy/data/text_files.h"
#include "toy/data/left_out.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/base/checksum.h"

namespace toy::text_files_test {
namespace {

using namespace testing;

std::vector<std::string> paths_of(const TextFiles& files, size_t skip) {
  std::vector<std::string> names;
  for (const TextFile& f : files.files) names.push_back(f.path.substr(skip));
  return names;
}

TEST(ReadTextFile, ReadsEveryByte) {
  const Folder folder;
  std::string text(3000001, 'x');
  text[0] = '\0', text[1] = '\xff', text.back() = '\n';
  EXPECT_EQ(read_text_file(folder.write("text.txt", text)), text);
}

TEST(ReadTextFile, SaysWhyNot) {
  const Folder folder;
  const std::string file = folder.path("text.txt");
  EXPECT_EQ(message_of([&] { read_text_file(file); }), file + ": no such file; check the path");
  EXPECT_EQ(message_of([&] { read_text_file(folder.path()); }), folder.path() + ": is a folder; a text file is needed");
  folder.write("text.txt", "");
  EXPECT_EQ(message_of([&] { read_text_file(file); }), file + ": the file is empty; give one with a text or with rows");
  EXPECT_NE(message_of([&] { read_text_file(file + "/below"); }).find("cannot be read: Not a directory"),
            std::string::npos);
}

TEST(ReadTextFile, SaysThatPermissionIsMissing) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const Folder folder;
  const std::string file = folder.write("text.txt", "text");
  chmod(file.c_str(), 0);
  EXPECT_EQ(message_of([&] { read_text_file(file); }), file + ": no permission to read it");
}

TEST(TextFiles, AFolderIsItsTextsInOrder) {
  const Folder folder;
  for (const char* name : {"in/b.txt", "in/a/z.md", "in/a.txt", "in/B", "in/.git/config", "in/.hidden", "in/out/log"})
    folder.write(name, std::string(name) + "\n");
  folder.write("in/empty", "");
  folder.write("in/picture", std::string("\x89PNG\0\1", 6));
  fs::create_symlink(folder.path("in"), folder.path("in/loop"));
  fs::create_symlink("b.txt", folder.path("in/link"));
  fs::create_symlink("nowhere", folder.path("in/dead"));
  mkfifo(folder.path("in/pipe").c_str(), 0600);
  const std::vector<std::string> paths{folder.path("in"), folder.path("in/empty.txt")};
  folder.write("in/empty.txt", "not empty");
  const std::vector<std::string> except{folder.path("in/out")};
  const TextFiles files = list_text_files(paths, except);
  EXPECT_EQ(paths_of(files, folder.path("in/").size() - 1),
            (std::vector<std::string>{"/B", "/a.txt", "/a/z.md", "/b.txt", "/empty.txt", "/link", "/empty.txt"}));
  std::vector<std::string> left;
  for (const auto& l : files.left_out) left.push_back(fs::path(l.path).filename().string() + ": " + l.reason);
  EXPECT_EQ(left, (std::vector<std::string>{".git: hidden", ".hidden: hidden", "dead: a link that leads nowhere",
                                            "empty: empty", "loop: a link to a folder", "log: written by toy itself",
                                            "picture: a picture", "pipe: no regular file"}));
  EXPECT_EQ(left_out_note("in", files).substr(0, 40),
            "in: 7 files are taken; left out: " + folder.path("in/.git").substr(0, 7));
  EXPECT_TRUE(left_out_note("in", files).ends_with(", and 3 more"));
  EXPECT_EQ(files.bytes(), 5u + 9 + 10 + 9 + 9 + 9 + 9);
}

// A corpus may lie beside runs, or be where they write.
TEST(TextFiles, WhatARunWritesIsNoText) {
  const Folder folder;
  for (const char* name : {"a.txt", "config.json", "run/events.jsonl", "run/events.previous.jsonl", "run/flow.json",
                           "run/config.json", "run/checkpoints/step_000001/state.json", "run/weights/notes",
                           "run/finished.json", "run/b.txt", "other/events.jsonl"})
    folder.write(name, "text");
  const auto texts = [&](const std::string& below, const std::vector<std::string>& except) {
    return paths_of(list_text_files(std::vector<std::string>{folder.path(below)}, except), folder.path().size());
  };
  EXPECT_EQ(texts("", {}), (std::vector<std::string>{"/a.txt", "/config.json", "/other/events.jsonl", "/run/b.txt"}));
  EXPECT_EQ(texts("run", {folder.path("run")}), (std::vector<std::string>{"/run/b.txt"}));
}

TEST(TextFiles, Refusals) {
  const Folder folder;
  const auto message = [](const std::string& path) {
    return message_of([&] { list_text_files(std::vector<std::string>{path}); });
  };
  EXPECT_EQ(message(folder.path("none")), folder.path("none") + ": no such file; check the path");
  EXPECT_EQ(message(folder.write("empty.txt", "")),
            folder.path("empty.txt") + ": the file is empty; give one with a text or with rows");
  EXPECT_EQ(message(folder.path()), folder.path() + ": there is no text in this folder; 1 file was left out, as " +
                                        folder.path("empty.txt") + " (empty)");
  EXPECT_EQ(message(folder.write("u16.txt", std::string("\xff\xfe"
                                                        "a\0b\0",
                                                        6))),
            folder.path("u16.txt") + ": it is UTF-16; convert it first: iconv -f utf-16 -t utf-8 OLD > NEW");
  EXPECT_NE(message("https://example.com/book.txt").find("it is an address; download it first"), std::string::npos);
  EXPECT_NE(message("~/book.txt").find("the shell replaces ~ only"), std::string::npos);
  EXPECT_NE(message("tatsu-lab/alpaca").find("have to be downloaded first"), std::string::npos);
  folder.write("story.txt", "text");
  EXPECT_NE(message(folder.path("story")).find("did you mean '" + folder.path("story.txt") + "'?"), std::string::npos);
  fs::create_directory(folder.path("bare"));
  EXPECT_EQ(message(folder.path("bare")), folder.path("bare") + ": the folder is empty; a text is needed");
}

TEST(TextFiles, ReadsPartsAndHashes) {
  const Folder folder;
  std::string text(2'500'000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = char('a' + i % 23);
  const TextFile file = looked_at(folder.write("f", text));
  for (const auto& [begin, end] : {std::pair<uint64_t, uint64_t>{0, text.size()}, {5, 5}, {1'048'570, 2'100'000}}) {
    std::string read;
    read_text(file, begin, end, [&](std::string_view part) {
      read += part;
      return true;
    });
    EXPECT_EQ(read, text.substr(begin, end - begin));
  }
  EXPECT_EQ(hash_of(file), xxh64(text));
  TextFile longer = file;
  longer.bytes += 5;
  EXPECT_EQ(message_of([&] { hash_of(longer); }),
            file.path + ": the file has become shorter while it was read: 2500000 bytes instead of 2500005");
}

TEST(TextFiles, ASampleIsWholeLinesFromAllOver) {
  const Folder folder;
  std::vector<TextFile> files;
  std::string all;
  for (int f = 0; f < 3; ++f) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += std::to_string(f) + " line " + std::to_string(i) + "\n";
    all += text;
    files.push_back(looked_at(folder.write(std::to_string(f), text)));
  }
  EXPECT_EQ(sample_text(files, all.size(), all.size()), all);
  EXPECT_EQ(sample_text(files, 1000, 2000), all.substr(0, 1000));
  const std::string sample = sample_text(files, all.size(), 3000, 100);
  EXPECT_LE(sample.size(), 3000u);
  EXPECT_GT(sample.size(), 2000u);
  size_t from = 0;
  for (size_t at = 0; at < sample.size();) {  // lines of the text, in its order
    const size_t end = sample.find('\n', at) + 1;
    from = all.find(sample.substr(at, end - at), from);
    ASSERT_NE(from, std::string::npos) << at;
    at = end;
  }
  for (const char* file : {"0 line", "1 line", "2 line"}) EXPECT_NE(sample.find(file), std::string::npos) << file;
}

}  // namespace
}  // namespace toy::text_files_test
