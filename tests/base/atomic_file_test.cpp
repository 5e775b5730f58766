#include "toy/base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <set>

#include "testing/files.h"
#include "toy/base/error.h"

namespace toy::atomic_file_test {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public ::testing::Test, protected testing::Folder {};

using testing::slurp;

void write_all(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// Whatever the umask and an earlier file are. A link is not followed.
TEST_F(AtomicFileTest, OnlyTheOwnerReadsIt) {
  const mode_t before = ::umask(0);
  const auto mode = [](const std::string& name) {
    struct stat s = {};
    EXPECT_EQ(::lstat(name.c_str(), &s), 0);
    return s.st_mode;
  };
  write("other", "other");
  for (const char* earlier : {"nothing", "file", "link", "loop"}) {
    const std::string name = path(earlier);
    if (earlier == std::string("file")) write("file", "earlier");
    if (earlier == std::string("link")) fs::create_symlink(path("other"), name);
    if (earlier == std::string("loop")) fs::create_symlink(name, name);
    AtomicFile file(name, FileAccess::owner);
    file.write("secret");
    file.commit();
    EXPECT_EQ(mode(name), mode_t(S_IFREG | 0600)) << earlier;
    EXPECT_EQ(slurp(name), "secret");
  }
  EXPECT_EQ(slurp(path("other")), "other");
  ::umask(before);
}

// Names in files may be long, and hold anything.
TEST(ErrorText, IsShortAndWhole) {
  const auto text = [](const std::string& name) {
    try {
      fail("before {} after", name);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(text(std::string("a\0b", 3)), "before a\\0b after");
  const std::string longest = text(std::string(10'000'000, 'x'));
  EXPECT_LT(longest.size(), 4200u);
  EXPECT_TRUE(longest.starts_with("before xxx") && longest.ends_with("xxx after"));
  EXPECT_EQ(text(std::string(3000, 'x')).size(), 3013u);
}

template <class F>
std::optional<Error> error_in(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

void expect_error(const std::optional<Error>& error, ErrorCode code, std::string_view part) {
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), code) << error->what();
  EXPECT_NE(std::string_view(error->what()).find(part), std::string::npos) << error->what() << "\nlacks\n" << part;
}

TEST_F(AtomicFileTest, AppearsOnCommit) {
  AtomicFile file(path("a"));
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(fs::exists(path("a")));
  EXPECT_EQ(file.bytes_written(), 7u);
  file.commit();
  EXPECT_EQ(slurp(path("a")), "one two");
  EXPECT_EQ(entries(), 1u);
  expect_error(error_in([&] { file.write("x"); }), ErrorCode::failure, "write after commit");
  expect_error(error_in([&] { file.commit(); }), ErrorCode::failure, "committed twice");
}

TEST_F(AtomicFileTest, LeftoversAreWhatAtomicFilesMake) {
  for (const char* name : {"a.12-0.tmp", "a.b.1-23.tmp", "..1-1.tmp"}) write(name, "x");
  const std::set<std::string> others{"a",        ".tmp",     ".1-2.tmp",   "a.1-.tmp",   "a.-2.tmp",
                                     "a.12.tmp", "a1-2.tmp", "a.1-2.tmpx", "a.1-b2.tmp", "1-2.tmp"};
  for (const std::string& name : others) write(name, "x");
  fs::create_directory(path("folder.1-2.tmp"));
  remove_leftovers(path());
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(path())) left.insert(entry.path().filename().string());
  EXPECT_EQ(left.erase("folder.1-2.tmp"), 1u);
  EXPECT_EQ(left, others);
}

TEST_F(AtomicFileTest, WithoutCommitNothingChanges) {
  write_all(path("a"), "old");
  { AtomicFile(path("a")).write("new"); }
  EXPECT_EQ(slurp(path("a")), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, TwoAtOnce) {
  AtomicFile first(path("a")), second(path("a"));
  first.write("first");
  second.write("second");
  first.commit();
  second.commit();
  EXPECT_EQ(slurp(path("a")), "second");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, KeepsModeAndFollowsLinks) {
  write_all(path("a"), "old");
  ASSERT_EQ(::chmod(path("a").c_str(), 0600), 0);
  fs::create_symlink("a", path("link"));
  write_all(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(slurp(path("a")), "new");
  struct stat st = {};
  ASSERT_EQ(::stat(path("a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
}

TEST_F(AtomicFileTest, NewFileObeysUmask) {
  const mode_t before = ::umask(027);
  write_all(path("a"), "x");
  ::umask(before);
  struct stat st = {};
  ASSERT_EQ(::stat(path("a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0640u);
}

TEST_F(AtomicFileTest, RefusesBadTargets) {
  const auto open = [](const std::string& p) { return error_in([&] { AtomicFile file(p); }); };
  write_all(path("file"), "x");
  expect_error(open(""), ErrorCode::bad_input, "the name of the file to write is empty");
  expect_error(open(path()), ErrorCode::bad_input, "is a folder; give the name of a file");
  expect_error(open("/dev/null"), ErrorCode::bad_input, "/dev/null: is a device");
  expect_error(open(path("none/a")), ErrorCode::bad_input, "none does not exist; create it first (mkdir -p ");
  expect_error(open(path("file/a")), ErrorCode::bad_input, "is not a folder; choose another path");
  expect_error(open(path(std::string(250, 'x'))), ErrorCode::bad_input, "choose a shorter name");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, UnwritableFolder) {
  // Root may write into any folder of a disk, but not into /proc.
  if (::geteuid() != 0) fs::permissions(path(), fs::perms::owner_read | fs::perms::owner_exec);
  const std::string target = ::geteuid() == 0 ? "/proc/toy.gguf" : path("a");
  const auto error = error_in([&] { AtomicFile file(target); });
  fs::permissions(path(), fs::perms::owner_all);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::bad_input) << error->what();
  EXPECT_NE(std::string_view(error->what()).find(target), std::string::npos) << error->what();
}

// A real full disk, where the test may mount one: a tmpfs of 64 KiB.
TEST_F(AtomicFileTest, FullDisk) {
  const std::string disk = path("disk");
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "cannot mount a tmpfs here";
  const std::string target = disk + "/a";
  std::optional<Error> error;
  std::string after;
  ptrdiff_t left = 0;
  try {
    write_all(target, "old");
    error = error_in([&] { write_all(target, std::string(100'000, 'x')); });
    after = slurp(target);
    left = std::distance(fs::directory_iterator(disk), {});
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
  ::umount(disk.c_str());
  expect_error(error, ErrorCode::bad_input, "disk full: " + target + ": No space left on device after ");
  expect_error(error, ErrorCode::bad_input, "an earlier file of this name is unharmed");
  EXPECT_EQ(after, "old");
  EXPECT_EQ(left, 1);
}

}  // namespace
}  // namespace toy::atomic_file_test
