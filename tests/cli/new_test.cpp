// toy new: what it makes works as it says, and nothing is overwritten.
#include "cli/cli_fixture.h"

namespace {

class New : public Cli {
 protected:
  // Runs a shell command in the folder of the test.
  Result shell(const std::string& command) const {
    const int status = std::system(
        ("cd " + path() + " && { " + command + "; } >" + path("stdout") + " 2>" + path("stderr") + " </dev/null")
            .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(path("stdout")), slurp(path("stderr"))};
  }
};

TEST_F(New, TheProjectTrainsAndGenerates) {
  const Result made = toy("new " + path("mine"));
  ASSERT_EQ(made.code, 0) << made.err;
  std::istringstream lines(made.out);
  int files = 0;
  for (std::string line; std::getline(lines, line); ++files) EXPECT_TRUE(fs::is_regular_file(line)) << line;
  EXPECT_EQ(files, std::distance(fs::directory_iterator(path("mine")), fs::directory_iterator()));

  // From another folder, with the program that made it: no toy is on this PATH.
  const Result trained =
      shell("env -u TOY PATH=/usr/bin:/bin mine/train.sh --steps 3 --batch 2 --tokens 16 --eval-every 0 --threads 2");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("\nstep 3: loss="), std::string::npos) << trained.out;
  EXPECT_TRUE(fs::exists(path("mine/out/latest/model.gguf")));
  const Result written = shell(std::string("TOY=") + TOY_BINARY + " mine/generate.sh 'One day'");
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(written.out.rfind("One day", 0), 0u) << written.out;
  EXPECT_GT(written.out.size(), 8u);  // and a continuation with its line end
  EXPECT_EQ(toy("describe " + path("mine/model.json")).code, 0);
  // $TOY goes before all others.
  EXPECT_NE(shell("TOY=/bin/false mine/train.sh --steps 1").code, 0);
}

TEST_F(New, TheSameNameTheSameFiles) {
  ASSERT_EQ(toy("new " + path("mine")).code, 0);
  fs::create_directory(path("other"));
  ASSERT_EQ(toy("new " + path("other/mine/")).code, 0);
  for (const auto& file : fs::directory_iterator(path("mine")))
    EXPECT_EQ(slurp(file.path()), slurp(path("other/mine") / file.path().filename())) << file.path();
}

// tests/consumer/build_and_run.sh builds and runs it against an installed library.
TEST_F(New, TheLibraryProjectNamesItsTarget) {
  const Result made = toy("new --lib " + path("my-program"));
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string cmake = slurp(path("my-program/CMakeLists.txt"));
  EXPECT_NE(cmake.find("find_package(toy 0."), std::string::npos);
  EXPECT_NE(cmake.find("add_executable(my-program main.cpp)"), std::string::npos);
  for (const auto& file : fs::directory_iterator(path("my-program")))
    EXPECT_EQ(slurp(file.path()).find('@'), std::string::npos) << file.path() << ": something was not filled in";
}

TEST_F(New, NothingIsOverwritten) {
  fs::create_directory(path("folder"));
  write("folder/train.sh", "mine");
  write("file", "mine");
  fs::create_symlink("/nowhere", path("link"));
  for (const std::string name : {"folder", "file", "link"})
    for (const char* kind : {"", " --lib"})
      refuses("new " + path(name) + kind, {"'" + path(name) + "' exists", "another name"});
  EXPECT_EQ(slurp(path("folder/train.sh")), "mine");
  EXPECT_EQ(slurp(path("file")), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(path("folder")), fs::directory_iterator()), 1);
}

// The last part of the path is the project's name.
TEST_F(New, TakesAPath) {
  const Result here = shell(std::string(TOY_BINARY) + " new here");
  ASSERT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(nlohmann::json::parse(slurp(path("here/train.json"))).at("name"), "here");
  ASSERT_EQ(toy("new " + path("here/../there/")).code, 0);
  EXPECT_EQ(nlohmann::json::parse(slurp(path("there/train.json"))).at("name"), "there");
}

TEST_F(New, BadNamesAndFolders) {
  for (const std::string name : {"'a b'", "'a\"b'", ".hidden", "1st", "_a", "'ä'", "'a$b'"})
    refuses("new " + path() + "/" + name, {"name is '", "use a letter"});
  refuses("new ''", {"path is empty", "folder"});
  for (const std::string name : {"..", "/"}) refuses("new " + name, {"name is '", "use a letter"});
  refuses("new " + path(std::string(65, 'a')), {"name is '", "63"});
  EXPECT_EQ(toy("new " + path(std::string(64, 'a'))).code, 0);
  for (const std::string name : {"test", "all", "toy"})
    refuses("new --lib " + path(name), {"name is '" + name + "'", "CMake"});
  EXPECT_EQ(toy("new " + path("test")).code, 0);
  refuses("new " + path("nowhere/mine"), {"no folder", path("nowhere")});
  refuses("new " + write("file", "") + "/mine", {"no folder", path("file")});
  refuses("new", {"PATH"});
  refuses("new /proc/mine", {"cannot make the folder '/proc/mine'"});
}

}  // namespace
