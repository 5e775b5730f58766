// What a checkpoint goes through: kill -9 in front of every call that changes a file, a disk that is full from any of
// them on, the order of fsyncs, and kills at random moments.
#include <sys/mount.h>

#include <chrono>
#include <random>
#include <regex>
#include <thread>

#include "cli/checkpoint_fixture.h"

namespace {

class Disk : public Checkpoints {
 protected:
  void SetUp() override {
    Checkpoints::SetUp();
    options_ = "--checkpoint-every 2 --keep 1 --eval-every 2";
    const Result r = toy(command("whole"));
    ASSERT_EQ(r.code, 0) << r.err;
    whole_ = files("whole");
    // What a run of 6 steps has behind step 4: it is killed when it begins to write the next checkpoint.
    ASSERT_EQ(toy_with(shim("start", "TOY_SHIM_LOG=" + path("log")), command("start")).code, 0);
    fs::remove_all(path("start"));
    const size_t writes = calls_until("mkdir", ".step_000006.tmp");
    ASSERT_GT(writes, 0u);
    ASSERT_EQ(toy_with(shim("start", "TOY_SHIM_KILL_AT=" + std::to_string(writes)), command("start")).code, 137);
    ASSERT_TRUE(fs::exists(path("start/checkpoints/step_000004/manifest")));
    ASSERT_FALSE(fs::exists(path("start/checkpoints/step_000006")));
  }
  std::string command(const std::string& out) const { return train(out, options_ + " --steps 6 --resume"); }
  std::string shim(const std::string& out, const std::string& more) const {
    return std::string("LD_PRELOAD=") + TOY_DISK_SHIM + " TOY_SHIM_ROOT=" + path(out) + " " + more;
  }
  std::vector<std::string> log() const {
    std::istringstream in(slurp(path("log")));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  // The number of the first call of this kind on a file whose name ends so, from 1; 0: there is none.
  size_t calls_until(const std::string& what, const std::string& end) const {
    const auto lines = log();
    for (size_t i = 0; i < lines.size(); ++i)
      if (lines[i].starts_with(what + " ") && lines[i].ends_with(end)) return i + 1;
    return 0;
  }
  void restart() const {
    fs::remove_all(path("run"));
    fs::copy(path("start"), path("run"), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }
  // Resumed without a shim it comes to the same end, whatever happened.
  void expect_same_end(const std::string& how) const {
    const Result r = toy(command("run"));
    EXPECT_EQ(r.code, 0) << how << "\n" << r.err;
    expect_same_files("run", whole_, how);
  }

  std::string options_;
  std::map<std::string, std::string> whole_;
};

TEST_F(Disk, KilledAtEveryCall) {
  restart();
  fs::remove(path("log"));
  ASSERT_EQ(toy_with(shim("run", "TOY_SHIM_LOG=" + path("log")), command("run")).code, 0);
  const auto calls = log();
  ASSERT_GT(calls.size(), 50u);
  expect_same_files("run", whole_, "with the shim");
  for (size_t k = 1; k <= calls.size(); ++k) {
    restart();
    const std::string how = "killed before " + calls[k - 1];
    ASSERT_EQ(toy_with(shim("run", "TOY_SHIM_KILL_AT=" + std::to_string(k)), command("run")).code, 137) << how;
    expect_same_end(how);
  }
}

TEST_F(Disk, FullFromEveryCallOn) {
  restart();
  fs::remove(path("log"));
  ASSERT_EQ(toy_with(shim("run", "TOY_SHIM_LOG=" + path("log")), command("run")).code, 0);
  const auto calls = log();
  size_t failures = 0;
  for (size_t k = 1; k <= calls.size(); ++k) {
    restart();
    const std::string how = "full from " + calls[k - 1] + " on";
    const Result r = toy_with(shim("run", "TOY_SHIM_FULL_AT=" + std::to_string(k)), command("run"));
    if (r.code != 0) {  // the last calls may be of the kind that no full disk stops
      ++failures;
      EXPECT_EQ(r.code, 2) << how << r.err;
      EXPECT_NE(r.err.find("No space left on device"), std::string::npos) << how << r.err;
      EXPECT_NE(r.err.find("free some space"), std::string::npos) << how << r.err;
    }
    const bool there = fs::exists(path("run/checkpoints/step_000004/manifest")) ||
                       fs::exists(path("run/checkpoints/step_000006/manifest"));
    EXPECT_TRUE(there) << how;
    expect_same_end(how);
  }
  EXPECT_GT(failures, 50u);
}

// Before a name appears everything behind it is on disk, and then the name is. `lines`: "write FILE", "fsync FILE" and
// "rename FROM TO", as they were called while step 6 took the place of step 4 below `root`.
void expect_order_of_fsyncs(const std::vector<std::string>& lines, const std::string& root) {
  const std::string temporary = root + "/.step_000006.tmp";
  const auto first = [&](const std::string& line) {
    return size_t(std::find(lines.begin(), lines.end(), line) - lines.begin());
  };
  const auto last = [&](const std::string& beginning) {
    size_t at = lines.size();
    for (size_t i = 0; i < lines.size(); ++i)
      if (lines[i].starts_with(beginning)) at = i;
    return at;
  };
  const size_t rename = first("rename " + temporary + " " + root + "/step_000006");
  ASSERT_LT(rename, lines.size());
  size_t files = 0;
  for (size_t i = 0; i < lines.size(); ++i) {  // each file: written, fsynced, named
    std::istringstream words(lines[i]);
    std::string what, from, to;
    words >> what >> from >> to;
    if (what != "rename" || !from.starts_with(temporary + "/")) continue;
    ++files;
    const size_t write = last("write " + from), sync = first("fsync " + from);
    ASSERT_LT(write, lines.size()) << from;
    EXPECT_LT(write, sync) << from;
    EXPECT_LT(sync, i) << from;
    EXPECT_LT(i, last("fsync " + temporary)) << from;
  }
  EXPECT_EQ(files, 5u);
  // `last` takes files of the folder too, whose lines begin alike: the folder's own line is what counts.
  size_t folder = 0;
  for (size_t i = 0; i < rename; ++i)
    if (lines[i] == "fsync " + temporary) folder = i;
  for (size_t i = folder + 1; i < rename; ++i) EXPECT_EQ(lines[i].find(temporary), std::string::npos) << lines[i];
  ASSERT_LT(rename + 1, lines.size());
  EXPECT_EQ(lines[rename + 1], "fsync " + root);
  for (size_t i = rename + 1; i < lines.size(); ++i)  // and nobody writes to it any more
    EXPECT_FALSE(lines[i].starts_with("write " + root + "/step_000006")) << lines[i];
  // The checkpoint that it replaces goes only then.
  EXPECT_GT(first("rename " + root + "/step_000004 " + root + "/.step_000004.tmp"), rename);
}

TEST_F(Disk, OrderOfFsyncs) {
  restart();
  fs::remove(path("log"));
  ASSERT_EQ(toy_with(shim("run", "TOY_SHIM_LOG=" + path("log")), command("run")).code, 0);
  expect_order_of_fsyncs(log(), path("run/checkpoints"));
}

// The same as the kernel is asked for it, whatever library asks.
TEST_F(Disk, OrderOfFsyncsByStrace) {
  const std::string strace =
      "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" "  // which looks at processes itself
      "strace -f -y -s 0 -e "                           // ?: not every machine has all of them
      "'trace=?write,?writev,?pwrite64,?pwritev,?fsync,?fdatasync,?rename,?renameat,?renameat2' -o " +
      path("log") + " ";
  if (std::system((strace + "true 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "strace is not installed, or may not look at processes here";
  restart();
  ASSERT_EQ(std::system((strace + TOY_BINARY " " + command("run") + " >/dev/null 2>&1").c_str()), 0);
  std::vector<std::string> lines;
  const std::regex on_file(R"re(^\d+ +(write|writev|pwrite64|pwritev|fsync|fdatasync)\(\d+<([^>]*)>.*)re"),
      of_name(R"re(^\d+ +rename\w*\((?:AT_FDCWD[^,]*, )?"([^"]*)", (?:AT_FDCWD[^,]*, )?"([^"]*)".*)re");
  for (const std::string& line : log()) {
    std::smatch m;
    if (std::regex_match(line, m, on_file))
      lines.push_back((m[1].str().find("sync") != std::string::npos ? "fsync " : "write ") + m[2].str());
    else if (std::regex_match(line, m, of_name))
      lines.push_back("rename " + m[1].str() + " " + m[2].str());
  }
  expect_order_of_fsyncs(lines, path("run/checkpoints"));
}

// Killed again and again at random moments until it is through.
class RandomKills : public Checkpoints {
 protected:
  void kill_at_random(int kills, unsigned seed) {
    const std::string options = "--steps 60 --checkpoint-every 3 --eval-every 12 --dropout 0.1 --accumulate 2 --resume";
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(toy(train("whole", options)).code, 0);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    const auto whole = files("whole");
    std::mt19937 random(seed);
    for (int i = 0; i < kills; ++i) {
      std::uniform_real_distribution<double> moment(0, 1.2 * time.count());
      Running run(*this, "killed", train("run", options));
      std::this_thread::sleep_for(std::chrono::duration<double>(moment(random)));
      run.send(SIGKILL);
      const Result r = run.wait();
      ASSERT_TRUE(r.code == 137 || r.code == 0) << r.code << r.err;
      if (i % 4 != 3) continue;  // mostly a run is killed several times on its way
      const Result end = toy(train("run", options));
      ASSERT_EQ(end.code, 0) << end.err;
      expect_same_files("run", whole, "killed at random");
      fs::remove_all(path("run"));
    }
    const Result end = toy(train("run", options));
    ASSERT_EQ(end.code, 0) << end.err;
    expect_same_files("run", whole, "killed at random");
  }
};

TEST_F(RandomKills, AFew) { kill_at_random(3, 1); }
TEST_F(RandomKills, SlowFifty) { kill_at_random(50, 2); }

// The same of adapters, trained on text, examples and preferences: half of the kills come at random moments, half in
// front of a random call that changes a file.
class AdapterKills : public Disk {
 protected:
  void SetUp() override {
    Checkpoints::SetUp();
    ASSERT_EQ(toy(train("base")).code, 0);
    std::string pairs, examples;
    for (int i = 0; i < 60; ++i) {
      const std::string prompt = R"({"prompt": "say )" + std::to_string(i % 7) + "\"";
      pairs += prompt + R"(, "chosen": "yes", "rejected": "no"})" + "\n";
      examples += prompt + R"(, "completion": "yes"})" + "\n";
    }
    commands_ = {"train lora --corpus " + corpus_, "train lora --data " + write("examples.jsonl", examples),
                 "train dpo --data " + write("pairs.jsonl", pairs),
                 "train dpo --loss kto --data " + write("pairs.jsonl", pairs)};
  }
  std::string command(const std::string& recipe, const std::string& out) const {
    return recipe + " --model " + path("base/model.gguf") + " --out " + path(out) +
           " --rank 2 --batch 2 --tokens 32 --steps 24 --checkpoint-every 3 --eval-every 6 --lora-dropout 0.1 "
           "--accumulate 2 --ema 0.9 --resume --threads 1";
  }
  void kill_at_random(const std::string& recipe, int kills, unsigned seed) {
    const std::string line = command(recipe, "run");
    fs::remove_all(path("whole")), fs::remove_all(path("run")), fs::remove(path("log"));
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(toy_with(shim("whole", "TOY_SHIM_LOG=" + path("log")), command(recipe, "whole")).code, 0);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    const auto whole = files("whole");
    ASSERT_TRUE(whole.contains("adapter.gguf") && whole.contains("peft/adapter_model.safetensors"));
    const size_t calls = log().size();
    ASSERT_GT(calls, 50u);
    std::mt19937 random(seed);
    int killed = 0;
    for (int i = 0; i < kills; ++i) {
      int code = 0;
      if (i % 2 == 1) {
        Running run(*this, "killed", line);
        std::this_thread::sleep_for(
            std::chrono::duration<double>(std::uniform_real_distribution<double>(0, 0.8 * time.count())(random)));
        run.send(SIGKILL);
        code = run.wait().code;
      } else {
        const auto call = std::uniform_int_distribution<size_t>(1, calls / 2)(random);
        code = toy_with(shim("run", "TOY_SHIM_KILL_AT=" + std::to_string(call)), line).code;
      }
      ASSERT_TRUE(code == 137 || code == 0) << code << slurp(path("stderr"));
      killed += code == 137;
      if (i % 4 != 3 && i + 1 < kills) continue;
      const Result end = toy(line);
      ASSERT_EQ(end.code, 0) << end.err;
      expect_same_files("run", whole, recipe);
      fs::remove_all(path("run"));
    }
    EXPECT_GE(killed, kills / 4);
  }

  std::vector<std::string> commands_;
};

TEST_F(AdapterKills, AFew) {
  for (const std::string& recipe : commands_) kill_at_random(recipe, 4, 1);
}
TEST_F(AdapterKills, SlowAHundredOfLora) { kill_at_random(commands_[0], 100, 2); }
TEST_F(AdapterKills, SlowAHundredOfExamples) { kill_at_random(commands_[1], 100, 3); }
TEST_F(AdapterKills, SlowAHundredOfDpo) { kill_at_random(commands_[2], 100, 4); }
TEST_F(AdapterKills, SlowAHundredOfKto) { kill_at_random(commands_[3], 100, 5); }

// Where the file system has no links the run's second names are copies, and it ends as any other.
TEST_F(Disk, AFileSystemWithoutLinks) {
  const std::string without = shim("run", "TOY_SHIM_NO_LINKS=1");
  const Result r = toy_with(without, command("run"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(slurp(path("run/weights/latest.gguf")) == slurp(path("run/model.gguf")));
  EXPECT_FALSE(fs::equivalent(path("run/weights/latest.gguf"), path("run/model.gguf")));
  EXPECT_FALSE(fs::is_symlink(path("run/weights/latest.gguf")));
  const auto expect_best = [&] {
    const std::string best = fs::read_symlink(path("whole/checkpoints/best")).string();
    for (const char* file : {"manifest", "weights.gguf", "state.json"})
      EXPECT_TRUE(slurp(path("run/checkpoints/best/") + file) == slurp(path("whole/checkpoints/" + best + "/" + file)));
  };
  EXPECT_TRUE(fs::is_directory(path("run/checkpoints/best")) && !fs::is_symlink(path("run/checkpoints/best")));
  expect_best();
  for (const auto& e : fs::directory_iterator(path("run/checkpoints")))
    EXPECT_FALSE(e.path().filename().string().starts_with(".")) << e.path();
  // Interrupted and resumed there, too; and a link takes the place of an outdated copy where there are links again.
  for (const std::string& how : {without, std::string()}) {
    restart();
    fs::remove(path("run/checkpoints/best"));
    fs::copy(path("start/checkpoints/step_000004"), path("run/checkpoints/best"));
    write("run/checkpoints/best/manifest", "toy checkpoint 1\nof another step\n");
    const Result resumed = toy_with(how, command("run"));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(fs::is_symlink(path("run/checkpoints/best")), how.empty());
    expect_best();
  }
}

// `cp -rL` makes a folder of the link to the best checkpoint.
TEST_F(Disk, AFolderThatWasCopiedWithItsLinksFollowed) {
  ASSERT_EQ(std::system(("cp -rL " + path("start") + " " + path("run")).c_str()), 0);
  ASSERT_FALSE(fs::is_symlink(path("run/checkpoints/best")));
  expect_same_end("copied with cp -rL");
  // What is no checkpoint is somebody's: it stays, and that is said before anything is lost.
  restart();
  fs::remove(path("run/checkpoints/best"));
  fs::create_directory(path("run/checkpoints/best"));
  write("run/checkpoints/best/notes.txt", "mine");
  const Result r = toy(command("run"));
  EXPECT_EQ(r.code, 2) << r.err;
  EXPECT_NE(r.err.find(path("run/checkpoints/best")), std::string::npos) << r.err;
  EXPECT_EQ(slurp(path("run/checkpoints/best/notes.txt")), "mine");
}

// The checkpoint is written, and only the link to the best one is not.
TEST_F(Disk, OnlyTheLinkToTheBestFails) {
  restart();
  fs::remove(path("log"));
  ASSERT_EQ(toy_with(shim("run", "TOY_SHIM_LOG=" + path("log")), command("run")).code, 0);
  const size_t link = calls_until("symlink", ".step_best.tmp step_000006");
  ASSERT_GT(link, 0u);
  restart();
  const Result r = toy_with(shim("run", "TOY_SHIM_FULL_AT=" + std::to_string(link)), command("run"));
  EXPECT_EQ(r.code, 2) << r.err;
  EXPECT_EQ(r.err.find("could not be written"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(path("run/checkpoints/step_000006") + " is complete"), std::string::npos) << r.err;
  expect_same_end("without the link");
}

// A real full disk, where the test may mount one.
TEST_F(Checkpoints, SlowATmpfsThatFills) {
  const std::string disk = path("disk");
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=2m") != 0) GTEST_SKIP() << "cannot mount a tmpfs here";
  const std::string options = "--steps 3000 --checkpoint-every 10 --eval-every 0 --keep 2";
  const Result whole = toy(train("whole", options));
  Result full{}, early{}, end{};
  {
    Running run(*this, "full", train("disk/run", options));
    EXPECT_TRUE(run.wait_for("step 40:"));
    // Whatever is left is taken by somebody else.
    const int fd = ::open((disk + "/other").c_str(), O_WRONLY | O_CREAT, 0666);
    const std::string block(4096, 'x');
    for (int failed = 0; failed < 200;)
      if (::write(fd, block.data(), block.size()) < 0) ++failed, usleep(1000);
    ::close(fd);
    full = run.wait();
  }
  early = toy(train("disk/run", options + " --resume"));  // still full: said before the first step
  fs::remove(disk + "/other");
  end = toy(train("disk/run", options + " --resume"));
  const std::string got = slurp(disk + "/run/model.gguf");
  ::umount(disk.c_str());
  EXPECT_EQ(full.code, 2) << full.err;
  EXPECT_NE(full.err.find("disk full"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("--resume continues from it"), std::string::npos) << full.err;
  EXPECT_EQ(early.code, 2) << early.err;
  EXPECT_NE(early.err.find("disk"), std::string::npos) << early.err;
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(got == slurp(path("whole/model.gguf")));
}

}  // namespace
