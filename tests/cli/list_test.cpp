// toy list, and models named as it shows them.
#include <algorithm>

#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliList : public Cli {
 protected:
  const fs::path before_ = fs::current_path();
  const std::string blob_ = std::string(64, 'a');

  void SetUp() override {
    for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME"}) ::unsetenv(name);
    ::setenv("HOME", path("home").c_str(), 1);
    ::setenv("OLLAMA_MODELS", path("ollama").c_str(), 1);
    fs::current_path(path());  // which has no runs
  }
  void TearDown() override { fs::current_path(before_); }
  void fill() const {
    copy(TOY_GOLDEN, "home/.cache/huggingface/hub/models--org--tiny/snapshots/abc/tiny.gguf");
    copy(TOY_GOLDEN, "ollama/blobs/sha256-" + blob_);
    write("ollama/manifests/registry.ollama.ai/library/tiny/latest",
          R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:)" + blob_ + R"("}]})");
    write("home/.lmstudio/models/someone/broken/broken.gguf", "no GGUF");
  }
  void copy(const std::string& from, const std::string& to) const { write(to, slurp(from)); }
};

TEST_F(CliList, ShowsWhatThereIs) {
  const Result none = toy("list");
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("no models found"), std::string::npos) << none.err;
  EXPECT_EQ(toy("list --json").out, "[]\n");
  fill();
  const Result r = toy("list");
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out.substr(0, 4), "name") << r.out;
  EXPECT_NE(r.out.find("org/tiny/tiny.gguf"), std::string::npos) << r.out;
  EXPECT_NE(r.err.find("broken.gguf: not a GGUF file"), std::string::npos) << r.err;
  const json j = json::parse(toy("list --json").out);
  ASSERT_EQ(j.size(), 3u);
  EXPECT_EQ(j[0].at("name"), "org/tiny/tiny.gguf");
  EXPECT_EQ(j[0].at("family"), "llama");
  EXPECT_EQ(j[0].at("type"), "F32");
  EXPECT_EQ(j[0].at("bytes"), fs::file_size(TOY_GOLDEN));
  EXPECT_FALSE(j[0].contains("error"));
  EXPECT_EQ(j[1].at("name"), "tiny:latest");
  EXPECT_EQ(j[1].at("source"), "Ollama");
  EXPECT_EQ(j[2].at("source"), "LM Studio");
  EXPECT_TRUE(j[2].contains("error"));
}

TEST_F(CliList, ShowsARepositoryInSafetensors) {
  ASSERT_EQ(toy("convert " + std::string(TOY_GOLDEN) + " " + path("hf")).code, 0);
  const std::string snapshot = "home/.cache/huggingface/hub/models--org--tensors/snapshots/abc/";
  for (const auto& file : fs::directory_iterator(path("hf")))
    copy(file.path().string(), snapshot + file.path().filename().string());
  const json j = json::parse(toy("list --json").out);
  ASSERT_EQ(j.size(), 1u);
  EXPECT_EQ(j[0].at("name"), "org/tensors");
  EXPECT_EQ(j[0].at("family"), "llama");
  EXPECT_EQ(j[0].at("type"), "safetensors");
  EXPECT_EQ(j[0].at("bytes"), fs::file_size(path("hf/model.safetensors")));
  // Every command takes it, and its folder; the first one converts it.
  const std::string expected = toy("infer " + std::string(TOY_GOLDEN) + " --prompt-ids 1 --n 3").out;
  const Result first = toy("infer org/tensors --prompt-ids 1 --n 3"),
               later = toy("infer " + path("hf") + " --prompt-ids 1 --n 3");
  EXPECT_EQ(first.out, expected) << first.err;
  EXPECT_NE(first.err.find("a folder from Hugging Face, converted once to "), std::string::npos) << first.err;
  EXPECT_EQ(later.out, expected) << later.err;
  EXPECT_EQ(toy("describe org/tensors").code, 0);
  EXPECT_EQ(toy("infer org/tensors --prompt-ids 1 --n 3").err.find("converted once"), std::string::npos);
  const auto files = [&] {
    const fs::directory_iterator all(path("home/.cache/toy/models"));
    return std::count_if(begin(all), end(all), [](const auto& file) { return file.path().extension() == ".gguf"; });
  };
  EXPECT_EQ(files(), 2);
  fs::last_write_time(path("hf/config.json"), fs::file_time_type::clock::now());  // it changes: made again
  EXPECT_EQ(toy("infer " + path("hf") + " --prompt-ids 1 --n 3").out, expected);
  EXPECT_EQ(files(), 2);
  EXPECT_EQ(toy("convert org/tensors " + path("back.gguf")).code, 0);
  EXPECT_EQ(toy("infer " + path("back.gguf") + " --prompt-ids 1 --n 3").out,
            toy("infer " + std::string(TOY_GOLDEN) + " --prompt-ids 1 --n 3").out);
  write(snapshot + "config.json", "[]");
  EXPECT_EQ(json::parse(toy("list --json").out)[0].at("family"), "");
  // With a GGUF in it, the repository is that of its files.
  copy(TOY_GOLDEN, snapshot + "tiny.gguf");
  EXPECT_EQ(json::parse(toy("list --json").out)[0].at("name"), "org/tensors/tiny.gguf");
}

// A split model of which parts are missing is shown as that, and so are all others.
TEST_F(CliList, ShowsWhatIsIncomplete) {
  copy(TOY_GOLDEN, "home/.lmstudio/models/a/b/cut-00002-of-00003.gguf");
  copy(TOY_GOLDEN, "home/.lmstudio/models/a/b/cut-00003-of-00003.gguf");  // the first part is missing
  copy(TOY_GOLDEN, "home/.lmstudio/models/a/c/whole.gguf");
  const Result r = toy("list");
  EXPECT_EQ(r.code, 0);
  EXPECT_NE(r.out.find("whole.gguf"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("incomplete"), std::string::npos) << r.out;
  EXPECT_NE(r.err.find("cut-00002-of-00003.gguf: 1 of the parts of this model is missing"), std::string::npos) << r.err;
  const json j = json::parse(toy("list --json").out);
  ASSERT_EQ(j.size(), 2u);
  EXPECT_EQ(j[0].at("name"), "a/b/cut-00002-of-00003.gguf");
  EXPECT_EQ(j[0].at("bytes"), 2 * fs::file_size(TOY_GOLDEN));
  EXPECT_TRUE(j[0].contains("error"));
  EXPECT_EQ(j[1].at("type"), "F32");
}

TEST_F(CliList, NamesAreModelsOfEveryCommand) {
  fill();
  const std::string golden = TOY_GOLDEN, ids = " --prompt-ids 1,2 --n 3";
  const std::string expected = toy("infer " + golden + ids).out;
  ASSERT_NE(expected, "");
  for (const std::string name : {"org/tiny/tiny.gguf", "org/tiny", "tiny", "tiny:latest"}) {
    const Result r = toy("infer " + name + ids);
    EXPECT_EQ(r.code, 0) << name << r.err;
    EXPECT_EQ(r.out, expected) << name;
    EXPECT_NE(r.err.find("toy: using "), std::string::npos) << r.err;
  }
  EXPECT_EQ(toy("describe tiny:latest").code, 0);
  EXPECT_EQ(toy("quantize tiny:latest " + path("q.gguf") + " --type f16").code, 0);
  EXPECT_EQ(toy("bench infer tiny:latest --prompt 2 --decode 2 --repeat 1").code, 0);
  refuses("infer nothing/like/it" + ids, {"nothing/like/it: no such file, no run below this folder, and no model of"});
  const std::string corpus = tiny_corpus();
  ASSERT_EQ(toy("train from-scratch --corpus " + corpus + kSmall + "--steps 1 --out " + path("run")).code, 0);
  copy(path("run/model.gguf"), "home/.lmstudio/models/mine/run/model.gguf");
  const json with_run = json::parse(toy("list --json").out);
  EXPECT_EQ(with_run.back().at("name"), "run");
  EXPECT_EQ(with_run.back().at("source"), "run");
  EXPECT_EQ(with_run.back().at("path"), "run/model.gguf");
  EXPECT_EQ(toy("eval mine/run --file " + corpus + " --ctx 16").code, 0);
  EXPECT_EQ(toy("tokenizer encode mine/run --text abc").out, "97 98 99\n");
  const std::string train = "train warm-start --init mine/run --corpus " + corpus +
                            " --batch 2 --tokens 16 --steps 2 --checkpoint-every 1 --out " + path("warm");
  EXPECT_EQ(toy(train).code, 0);
  EXPECT_EQ(toy("train --resume --out " + path("warm")).code, 0);
}

}  // namespace
