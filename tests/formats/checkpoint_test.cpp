#include "toy/formats/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "testing/files.h"
#include "toy/base/error.h"

namespace toy::checkpoint_test {
namespace {

namespace fs = std::filesystem;
using toy::testing::slurp;

void put(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

class CheckpointTest : public ::testing::Test, protected testing::Folder {
 protected:
  void make(int64_t step) const {
    CheckpointWriter w(root_, step);
    put(w.path("b.bin"), "the weights of step " + std::to_string(step));
    put(w.path("a.json"), "{}");
    EXPECT_EQ(w.commit(), checkpoint_path(root_, step));
  }

  const std::string root_ = path("checkpoints");
};

TEST_F(CheckpointTest, AppearsOnCommit) {
  EXPECT_TRUE(checkpoint_steps(root_).empty());
  {
    CheckpointWriter w(root_, 7);
    put(w.path("a"), "x");
    EXPECT_TRUE(checkpoint_steps(root_).empty());
  }
  EXPECT_EQ(entries("checkpoints"), 0u);  // not committed: nothing is left
  make(7), make(120), make(1234567);
  EXPECT_EQ(checkpoint_steps(root_), (std::vector<int64_t>{7, 120, 1234567}));
  EXPECT_EQ(checkpoint_path(root_, 120), root_ + "/step_000120");
  const std::string manifest = slurp(root_ + "/step_000007/manifest");
  EXPECT_EQ(manifest.substr(0, 26), "toy checkpoint 1\na.json 2 ");
  EXPECT_EQ(std::count(manifest.begin(), manifest.end(), '\n'), 4);
  for (const int64_t step : checkpoint_steps(root_)) EXPECT_EQ(checkpoint_damage(root_, step), "");
}

TEST_F(CheckpointTest, OtherNamesAreNotCheckpoints) {
  make(1);
  for (const char* name : {"step_2", "step_0000003", "step_00000x", "step_-00004", "step_", "damaged_step_000005"})
    fs::create_directory(root_ + "/" + name);
  EXPECT_EQ(checkpoint_steps(root_), std::vector<int64_t>{1});
}

// Any file cut off at any byte, with any bit flipped, longer by one byte, or gone.
TEST_F(CheckpointTest, EveryDamageIsFound) {
  make(3);
  const std::string folder = checkpoint_path(root_, 3);
  for (const char* name : {"a.json", "b.bin", "manifest"}) {
    const std::string path = folder + "/" + name, whole = slurp(path);
    for (size_t n = 0; n < whole.size(); ++n) {
      put(path, whole.substr(0, n));
      EXPECT_NE(checkpoint_damage(root_, 3), "") << name << " of " << n << " bytes";
    }
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string flipped = whole;
      flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
      put(path, flipped);
      EXPECT_NE(checkpoint_damage(root_, 3), "") << name << " bit " << bit;
    }
    put(path, whole + "\n");
    EXPECT_NE(checkpoint_damage(root_, 3), "") << name;
    fs::remove(path);
    EXPECT_NE(checkpoint_damage(root_, 3), "") << name;
    put(path, whole);
    EXPECT_EQ(checkpoint_damage(root_, 3), "");
  }
  put(folder + "/b.bin", "the weights of step 4");
  EXPECT_EQ(checkpoint_damage(root_, 3), "b.bin is damaged (checksum)");
  fs::remove(folder + "/b.bin");
  EXPECT_EQ(checkpoint_damage(root_, 3), "b.bin is missing or cannot be read: No such file or directory");
}

TEST_F(CheckpointTest, RemovedSetAsideAndCleaned) {
  make(1), make(2), make(3);
  remove_checkpoint(root_, 1);
  EXPECT_EQ(set_checkpoint_aside(root_, 3), root_ + "/damaged_step_000003");
  EXPECT_EQ(checkpoint_steps(root_), std::vector<int64_t>{2});
  make(2);  // one of this name is there: it is not lost
  EXPECT_TRUE(fs::exists(root_ + "/damaged_step_000002/manifest"));
  fs::create_directories(root_ + "/.step_000009.tmp/x");
  clean_checkpoints(root_);
  EXPECT_FALSE(fs::exists(root_ + "/.step_000009.tmp"));
  EXPECT_EQ(entries("checkpoints"), 3u);
}

TEST_F(CheckpointTest, Links) {
  make(1), make(2);
  for (const int64_t step : {1, 2}) {
    link_checkpoint(root_, "best", step);
    EXPECT_EQ(fs::read_symlink(root_ + "/best"), fs::path(checkpoint_path(root_, step)).filename());
  }
  EXPECT_EQ(entries("checkpoints"), 3u);
}

// A copy in place of the link is kept while it is one of that checkpoint, and then replaced; other folders are not.
TEST_F(CheckpointTest, LinksThatAreFolders) {
  make(1), make(2);
  fs::copy(checkpoint_path(root_, 2), root_ + "/best");
  link_checkpoint(root_, "best", 2);
  EXPECT_FALSE(fs::is_symlink(root_ + "/best"));
  link_checkpoint(root_, "best", 1);
  EXPECT_EQ(fs::read_symlink(root_ + "/best"), fs::path(checkpoint_path(root_, 1)).filename());
  EXPECT_EQ(entries("checkpoints"), 3u);
  fs::create_directory(root_ + "/mine");
  EXPECT_THROW(link_checkpoint(root_, "mine", 1), Error);
  put(root_ + "/mine/manifest", "of goods");
  EXPECT_THROW(link_checkpoint(root_, "mine", 1), Error);
  EXPECT_EQ(slurp(root_ + "/mine/manifest"), "of goods");
  put(root_ + "/file", "mine, too");
  EXPECT_THROW(link_checkpoint(root_, "file", 1), Error);
  EXPECT_EQ(slurp(root_ + "/file"), "mine, too");
}

TEST_F(CheckpointTest, FoldersThatCannotBeMade) {
  write("file", "x");
  EXPECT_THROW(CheckpointWriter(path("file"), 1), Error);
  EXPECT_THROW(CheckpointWriter(path("file/below"), 1), Error);
  EXPECT_THROW(CheckpointWriter("/proc/nothing", 1), Error);
}

}  // namespace
}  // namespace toy::checkpoint_test
