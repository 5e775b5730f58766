#include "toy/base/folder_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "testing/files.h"
#include "toy/base/error.h"

namespace toy::folder_lock_test {
namespace {

TEST(FolderLock, OneHolderAtATime) {
  const testing::Folder in;
  const std::string folder = in.path("run");
  std::filesystem::create_directory(folder);
  std::optional<FolderLock> first(std::in_place, folder);
  try {
    FolderLock second(folder);  // another open file, as another process would have
    ADD_FAILURE() << "two at once";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_EQ(std::string(e.what()), folder + ": another run (process " + std::to_string(::getpid()) +
                                         ") is writing to this folder; wait for it to end, or choose another folder");
  }
  first.reset();
  { FolderLock again(folder); }
  std::filesystem::remove_all(folder);
  EXPECT_THROW(FolderLock gone(folder), Error);
}

TEST(FolderLock, WhoHoldsIt) {
  const testing::Folder folder;
  EXPECT_EQ(lock_holder(folder.path("nothing")), std::nullopt);
  {
    const FolderLock lock(folder.path());
    EXPECT_EQ(lock_holder(folder.path()), ::getpid());
    std::ofstream(folder.path(".lock")) << "1\n";  // a number that means another process here
    EXPECT_THROW(lock_holder(folder.path()), Error);
  }
  EXPECT_EQ(lock_holder(folder.path()), std::nullopt);
}

TEST(FolderLock, WaitsAndSaysSoOnce) {
  const testing::Folder folder;
  int told = 0;
  {
    FolderLock free(folder.path(), [&] { ++told; });
  }
  EXPECT_EQ(told, 0);
  std::optional<FolderLock> first(std::in_place, folder.path());
  std::promise<void> waiting;
  std::atomic<bool> has_it = false;
  std::thread second([&] {
    FolderLock lock(folder.path(), [&] {
      ++told;
      waiting.set_value();
    });
    has_it = true;
  });
  waiting.get_future().wait();
  EXPECT_FALSE(has_it);
  first.reset();
  second.join();
  EXPECT_TRUE(has_it);
  EXPECT_EQ(told, 1);
}

TEST(FolderLock, AFolderThatNobodyUsesIsTakenAway) {
  const testing::Folder in;
  const auto folder = [&](const char* name) {
    std::filesystem::create_directory(in.path(name));
    return in.path(name);
  };
  const auto is_removed = [](const std::string& path) {
    remove_unused_folder(path);
    return !std::filesystem::exists(path);
  };
  EXPECT_TRUE(is_removed(folder("empty")));
  { FolderLock used(folder("locked before")); }
  EXPECT_TRUE(is_removed(in.path("locked before")));
  EXPECT_TRUE(is_removed(in.path("never there")));
  const FolderLock used(folder("locked"));
  EXPECT_FALSE(is_removed(in.path("locked")));
  folder("full");
  in.write("full/file", "text");
  EXPECT_FALSE(is_removed(in.path("full")));
}

// Who waits for a lock whose file is taken away does not hold a file without a name.
TEST(FolderLock, HoldsTheFileOfItsName) {
  const testing::Folder folder;
  std::optional<FolderLock> first(std::in_place, folder.path());
  std::promise<void> waiting, has_it;
  std::optional<FolderLock> second;
  std::thread other([&] {
    second.emplace(folder.path(), [&] { waiting.set_value(); });
    has_it.set_value();
  });
  waiting.get_future().wait();
  std::filesystem::remove(folder.path(".lock"));
  first.reset();
  has_it.get_future().wait();
  EXPECT_THROW(FolderLock third(folder.path()), Error);
  other.join();
}

}  // namespace
}  // namespace toy::folder_lock_test
