#include "toy/base/folder_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

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

}  // namespace
}  // namespace toy
