// What people see of long work: the bar on terminals of any width, lines elsewhere.
#include "cli/progress.h"

#include <sys/ioctl.h>

#include <chrono>

#include "cli/cli_fixture.h"
#include "cli/terminal.h"
#include "toy/base/utf8.h"

namespace {

using toy::cli::progress_line;
using toy::cli::ProgressState;

bool is_ascii(const std::string& s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return c > 0 && c < 127; });
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const ProgressState kStep{.label = "step",
                          .brief = "",
                          .done = 120,
                          .total = 2000,
                          .loss = 3.41234,
                          .tokens_per_second = 5120.4,
                          .seconds_left = 65.2};

TEST(ProgressLine, ShowsWhatThereIsRoomFor) {
  const std::string wide = progress_line(kStep, {.columns = 80});
  for (const char* part : {"step", "120/2000", "[#", ".]", "3.4123", "5120 tokens/s", "1:05"})
    EXPECT_TRUE(has(wide, part)) << part << ": " << wide;
  const std::string forty = progress_line(kStep, {.columns = 40});
  for (const char* part : {"120/2000", "[", "]", "3.41", "1:05"})
    EXPECT_TRUE(has(forty, part)) << part << ": " << forty;
  for (const int columns : {39, 20}) EXPECT_EQ(progress_line(kStep, {.columns = columns}), "120/2000 3.41 1:05");
  EXPECT_EQ(progress_line(kStep, {.columns = 15}), "120/2000 1:05");
  EXPECT_EQ(progress_line(kStep, {.columns = 10}), "120/2000");
  EXPECT_EQ(progress_line(kStep, {.columns = 8}), "6%");
  const std::string unlimited = progress_line(kStep, {.columns = 0});  // a log
  EXPECT_TRUE(has(unlimited, "step 120/2000") && has(unlimited, "tokens/s") && !has(unlimited, "[")) << unlimited;
}

TEST(ProgressLine, IsNarrowerThanTheTerminal) {
  ProgressState large = kStep, empty{.label = "validation", .brief = "val"}, broken = kStep;
  large.done = 123456789, large.total = 987654321, large.loss = 1e30, large.seconds_left = 1e12;
  broken.loss = NAN, broken.seconds_left = NAN, broken.done = 3000;
  for (const ProgressState& s : {kStep, large, empty, broken})
    for (int columns = 1; columns <= 200; ++columns)
      for (const bool unicode : {false, true}) {
        const std::string line = progress_line(s, {.columns = columns, .unicode = unicode});
        EXPECT_LE(toy::terminal_columns(line), size_t(std::max(1, columns - 1))) << line;
        EXPECT_TRUE(unicode || is_ascii(line)) << line;
      }
}

TEST(ProgressLine, TheBarGrowsInEighths) {
  ProgressState s{.label = "step", .brief = "", .done = 0, .total = 1000};
  std::string before;
  int changes = 0;
  for (; s.done <= s.total; ++s.done) {
    const std::string line = progress_line(s, {.columns = 40, .unicode = true});
    const std::string bar = line.substr(line.find("▕"));
    changes += bar != before;
    EXPECT_EQ(toy::terminal_columns(bar), toy::terminal_columns(before.empty() ? bar : before));
    before = bar;
  }
  const int inside = int(toy::terminal_columns(before.substr(before.find("█")))) - 2;  // "▏" and a space follow
  EXPECT_EQ(changes, 8 * inside + 1) << before;
  EXPECT_EQ(progress_line(kStep, {.columns = 80, .color = true}).find("\x1b[32m#"),
            std::string("step  120/2000 [").size());
}

class CliProgress : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    if (!Terminal::is_available()) GTEST_SKIP() << "this system has no pseudo terminals (/dev/pts)";
  }
  // A shell's line that trains; `environment`: of the program.
  std::string line(const std::string& environment, const std::string& options) const {
    return "env -u LC_ALL -u LC_CTYPE -u NO_COLOR LANG=C TERM=xterm " + environment + " " TOY_BINARY +
           " train from-scratch --corpus " + tiny_corpus() + kSmall + "--sample 4 --overwrite --out " + path("run") +
           " " + options;
  }
  struct Shown {
    int code;
    std::string output;
  };
  Shown show(const std::string& environment, unsigned short columns,
             const std::string& options = "--steps 6 --eval-every 3") const {
    Terminal terminal(line(environment, options), columns);
    const std::string output = terminal.rest();
    return {terminal.code, output};
  }
};

TEST_F(CliProgress, ATerminalShowsTheBarAndValidations) {
  const Shown s = show("NO_COLOR=1", 80);
  EXPECT_EQ(s.code, 0) << s.output;
  for (const char* part : {"step 1/6", "step 6/6", "[#", "step 3: validation loss", "step 6: validation loss",
                           "sample: ", "validation ", "run/model.gguf"})
    EXPECT_TRUE(has(s.output, part)) << part << "\n" << s.output;
  EXPECT_FALSE(has(s.output, "loss=")) << s.output;
  // With lines, all that the terminal keeps of the bar is its last state.
  EXPECT_TRUE(has(show("", 80, "--steps 6 --log-every 1").output, "step 4: loss="));
}

TEST_F(CliProgress, NoLineIsWiderThanTheTerminal) {
  for (const unsigned short columns : {20, 39, 40, 80})
    for (const char* locale : {"LANG=C", "LANG=C.UTF-8"}) {
      const Shown s = show(locale, columns);
      EXPECT_EQ(s.code, 0) << s.output;
      int drawn = 0;
      for (const std::string& strip : strips(s.output)) {
        if (!has(strip, "/6 ") && !has(strip, "/6\t")) continue;  // notes may be wider, as paths are
        ++drawn;
        EXPECT_LT(toy::terminal_columns(strip), columns) << strip;
        EXPECT_EQ(has(strip, "["), columns >= 40 && std::string(locale) == "LANG=C") << strip;
        EXPECT_EQ(has(strip, "▕"), columns >= 40 && std::string(locale) != "LANG=C") << strip;
      }
      EXPECT_GE(drawn, 2) << s.output;
    }
}

TEST_F(CliProgress, ColorsAreForTerminalsThatHaveThem) {
  EXPECT_TRUE(has(show("", 80).output, "\x1b[32m#"));
  EXPECT_FALSE(has(show("NO_COLOR=1", 80).output, "m#"));
  EXPECT_TRUE(has(show("NO_COLOR=", 80).output, "\x1b[32m#"));
  const std::string dumb = show("TERM=dumb", 80).output;
  EXPECT_FALSE(has(dumb, "\x1b")) << dumb;
  EXPECT_TRUE(has(dumb, "[###")) << dumb;
}

TEST_F(CliProgress, AfterAResizeNothingIsLeft) {
  Terminal terminal(line("", "--steps 100000"), 80);
  EXPECT_TRUE(has(terminal.until("tokens/s"), "step "));
  terminal.resize(30);
  EXPECT_TRUE(has(terminal.until("\x1b[2A\r\x1b[J"), "\x1b[2A")) << "a line of 60 columns and more fills three rows";
  terminal.type("\x03");
  const std::string output = terminal.rest();
  EXPECT_EQ(terminal.code, 128 + SIGINT) << output;
  EXPECT_TRUE(has(output, "stopped after step ")) << output;
  EXPECT_TRUE(has(output, "--resume --out ")) << output;
}

TEST_F(CliProgress, LinesForPipesAndFiles) {
  const auto steps = [this](const std::string& options, const std::string& to) {
    Terminal terminal(line("", options) + to, 80);  // the bar is seen, the lines are not
    terminal.rest();
    std::vector<std::string> list;
    std::istringstream in(slurp(path("lines")));
    for (std::string s; std::getline(in, s);)
      if (s.rfind("step ", 0) == 0) list.push_back(s.substr(5, s.find(':') - 5));
    return list;
  };
  using List = std::vector<std::string>;
  const std::string file = " >" + path("lines"), pipe = " | cat >" + path("lines");
  EXPECT_EQ(steps("--steps 4", file), (List{"1", "2", "3", "4"}));
  EXPECT_EQ(steps("--steps 10 --log-every 4", pipe), (List{"1", "4", "8", "10"}));
  EXPECT_EQ(steps("--steps 10 --log-every 4 --eval-every 1 --patience 1 --min-delta 9", pipe), (List{"1", "2"}));
  EXPECT_EQ(steps("--steps 10 --log-every 0", file), List{});
  EXPECT_EQ(steps("--steps 4", " 2>/dev/null >" + path("lines")), (List{"1", "2", "3", "4"}));
  // Where nobody sees the bar the terminal has the lines.
  EXPECT_TRUE(has(Terminal(line("", "--steps 4") + " 2>/dev/null", 80).rest(), "step 2: loss="));
  const Result events_only = toy("train from-scratch --corpus " + tiny_corpus() + kSmall +
                                 "--steps 4 --log-every 4 --json --out " + path("json"));
  int events = 0;
  for (size_t at = 0; (at = events_only.out.find("\"kind\":\"step\"", at)) != std::string::npos; ++at) ++events;
  EXPECT_EQ(events, 4) << events_only.out;
  refuses("train from-scratch --corpus " + tiny_corpus() + kSmall + "--log-every -1 --out " + path("x"),
          {"log-every is -1", "0"});
}

TEST_F(CliProgress, EvalHasTheBar) {
  ASSERT_EQ(toy("train from-scratch --corpus " + tiny_corpus() + kSmall + "--steps 2 --out " + path("run")).code, 0);
  const std::string eval = "eval " + path("run/model.gguf") + " --file " + tiny_corpus();
  const auto begin = std::chrono::steady_clock::now();
  const Result piped = toy(eval);
  const bool is_short = std::chrono::steady_clock::now() - begin < std::chrono::seconds(5);
  Terminal terminal("env -u LC_ALL LANG=C.UTF-8 TERM=dumb " TOY_BINARY " " + eval, 60);
  const std::string output = terminal.rest();
  EXPECT_EQ(terminal.code, 0);
  EXPECT_TRUE(has(output, "▕")) << output;
  EXPECT_TRUE(has(output, "perplexity ")) << output;
  EXPECT_TRUE(!is_short || !has(piped.err, "/")) << piped.err;  // the first line comes after five seconds
  const size_t total = fs::file_size(tiny_corpus()) - 1;
  EXPECT_TRUE(has(output, "/" + std::to_string(total) + " ")) << output;
}

}  // namespace
