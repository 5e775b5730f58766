// toy completion: the shells run their scripts, which ask the program.
#include "cli/cli_fixture.h"

namespace {

class Completion : public Cli {
 protected:
  // What a shell's command prints in the folder of the test, line by line, sorted.
  std::vector<std::string> lines_of(const std::string& command) const {
    const std::string out = path("out");
    EXPECT_EQ(std::system(("cd " + path() + " && " + command + " >" + out + " 2>&1 </dev/null").c_str()), 0)
        << slurp(out);
    std::istringstream text(slurp(out));
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line.substr(0, line.find('\t')));
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  bool has(const std::string& shell) const { return std::system(("command -v " + shell + " >/dev/null").c_str()) == 0; }
};

using Words = std::vector<std::string>;

TEST_F(Completion, Bash) {
  const Result script = toy("completion bash");
  ASSERT_EQ(script.code, 0) << script.err;
  write("toy.bash", script.out);
  write("model.gguf", "");
  const auto complete = [&](const std::string& words) {  // the last of them is being written
    return lines_of("bash -c 'source toy.bash; COMP_WORDS=(toy " + words +
                    "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _toy; "
                    "if ((${#COMPREPLY[@]})); then printf \"%s\\n\" \"${COMPREPLY[@]}\"; fi'");
  };
  EXPECT_EQ(complete("tr"), Words{"train"});
  EXPECT_EQ(complete("train \"\""), (Words{"classify", "contrastive", "dpo", "from-scratch", "full-finetune", "grpo",
                                           "lora", "vit", "warm-start"}));
  EXPECT_EQ(complete("help tr"), Words{"train"});
  EXPECT_EQ(complete("help train f"), (Words{"from-scratch", "full-finetune"}));
  EXPECT_EQ(complete("train from-scratch --optim"), Words{"--optimizer"});
  EXPECT_EQ(complete("train warm-start --tokenizer"), Words{});  // an option of the other recipe
  EXPECT_EQ(complete("train from-scratch --optimizer ad"), (Words{"adafactor", "adamw", "adamw8"}));
  EXPECT_EQ(complete("train from-scratch --dtype = b"), Words{"bf16"});  // bash cuts words at =
  EXPECT_EQ(complete("infer model.gguf --device \"\""), (Words{"cpu", "cuda", "emulated", "opencl", "reference"}));
  EXPECT_EQ(complete("infer mo"), Words{"model.gguf"});
  EXPECT_EQ(complete("infer x --prompt-file mo"), Words{"model.gguf"});
  EXPECT_EQ(complete("infer x --n \"\""), Words{});
  EXPECT_EQ(complete("completion \"\""), (Words{"bash", "fish", "zsh"}));
  fs::create_directory(path("runs"));
  for (const char* command : {"show", "compare", "compare x", "tail", "report"})
    EXPECT_EQ(complete("runs " + std::string(command) + " ru"), Words{"runs"}) << command;
  EXPECT_EQ(complete("train --re"), Words{"--resume"});
  EXPECT_EQ(complete("train --resume --out ru"), Words{"runs"});
  for (const char* command : {"--hel", "runs --hel", "train from-scratch --hel"})
    EXPECT_EQ(complete(command), (Words{"--help", "--help-all"})) << command;
  refuses("completion tcsh", {"tcsh", "bash"});
}

TEST_F(Completion, Zsh) {
  if (!has("zsh")) GTEST_SKIP() << "no zsh here";
  write("_toy", toy("completion zsh").out);
  EXPECT_EQ(lines_of("zsh -n _toy"), Words{});
  EXPECT_EQ(lines_of("zsh -f -c 'autoload -U compinit; compinit -D; source ./_toy; print $_comps[toy]'"),
            Words{"_toy"});
}

TEST_F(Completion, Fish) {
  if (!has("fish")) GTEST_SKIP() << "no fish here";
  write("toy.fish", toy("completion fish").out);
  const auto complete = [&](const std::string& line) {
    return lines_of("HOME=" + path() + " fish -c 'source toy.fish; complete -C \"" + line + "\"'");
  };
  EXPECT_EQ(complete("toy tr"), Words{"train"});
  EXPECT_EQ(complete("toy train "), (Words{"classify", "contrastive", "dpo", "from-scratch", "full-finetune", "grpo",
                                           "lora", "vit", "warm-start"}));
  EXPECT_EQ(complete("toy train from-scratch --optimizer ad"), (Words{"adafactor", "adamw", "adamw8"}));
  EXPECT_EQ(complete("toy train from-scratch --optim"), Words{"--optimizer"});
  EXPECT_EQ(complete("toy train from-scratch --dtype=b"), Words{"--dtype=bf16"});
  EXPECT_EQ(complete("toy infer x --devi"), Words{"--device"});
  write("model.gguf", "");
  EXPECT_EQ(complete("toy infer mo"), Words{"model.gguf"});
  EXPECT_EQ(complete("toy infer x --prompt-file=mo"), Words{"--prompt-file=model.gguf"});
}

// A value in a word of its own is no command.
TEST_F(Completion, ManualPages) {
  for (const char* given : {"--man-pages ", "--man-pages="}) {
    const std::string folder = path(given[11] == '=' ? "joined" : "apart");
    const Result r = toy(given + folder);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    EXPECT_NE(slurp(folder + "/toy-train-lora.1").find("rank"), std::string::npos);
  }
  refuses("--version trin", {"did you mean 'train'"});
}

}  // namespace
