#include "toy/base/folder_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>

#include "testing/files.h"
#include "toy/base/error.h"

namespace toy {
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

}  // namespace
}  // namespace toy
