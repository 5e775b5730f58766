// Caches of other programs, built in a temporary folder.
#include "find/catalog.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "testing/errors.h"
#include "testing/files.h"

namespace toy::catalog::catalog_test {
namespace {

namespace fs = std::filesystem;

std::string manifest(const std::string& digest) {
  return R"({"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:00"},)"
         R"({"mediaType":"application/vnd.ollama.image.model","digest":")" +
         digest + R"(","size":5}]})";
}

class Catalog : public ::testing::Test, protected testing::Folder {
 protected:
  const std::string sum_ = std::string(62, '0') + "ab";
  const Places places_{
      .hugging_face = path("hub"), .ollama = path("ollama"), .lm_studio = {path("lm")}, .data = path("data")};

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Entry& e : list(places_)) all.push_back(e.name);
    return all;
  }
  // A file of a commit: a link into blobs, as huggingface_hub makes it.
  void snapshot(const std::string& repo, const std::string& commit, const std::string& file, const std::string& blob) {
    write("hub/" + repo + "/blobs/" + blob, blob);
    const fs::path link = path("hub/" + repo + "/snapshots/" + commit + "/" + file);
    fs::create_directories(link.parent_path());
    fs::create_symlink(path("hub/" + repo + "/blobs/" + blob), link);
  }
};

TEST_F(Catalog, HuggingFaceTakesTheCommitOfMain) {
  snapshot("models--ggml-org--tiny", "aaa", "tiny.gguf", "old");
  snapshot("models--ggml-org--tiny", "aaa", "gone.gguf", "gone");
  snapshot("models--ggml-org--tiny", "bbb", "tiny.gguf", "newer");
  snapshot("models--ggml-org--tiny", "bbb", "sub/part.gguf", "part");
  snapshot("models--ggml-org--tiny", "bbb", "README.md", "text");
  write("hub/models--ggml-org--tiny/refs/main", "bbb");
  snapshot("models--gpt2", "ccc", "gpt2.gguf", "of no owner");
  snapshot("datasets--a--b", "ddd", "x.gguf", "no model");
  fs::create_symlink(path("nowhere"), path("hub/models--gpt2/snapshots/ccc/broken.gguf"));
  const std::vector<Entry> all = list(places_);
  EXPECT_EQ(names(), (std::vector<std::string>{"ggml-org/tiny/sub/part.gguf", "ggml-org/tiny/tiny.gguf",
                                               "ggml-org/tiny/gone.gguf", "gpt2/gpt2.gguf"}));
  EXPECT_EQ(testing::slurp(find("ggml-org/tiny/tiny.gguf", all)), "newer");
  EXPECT_EQ(testing::slurp(find("gpt2", all)), "of no owner");
  EXPECT_EQ(testing::slurp(find("part.gguf", all)), "part");
  EXPECT_EQ(all[1].bytes, 5u);
  EXPECT_EQ(all[1].source, "Hugging Face");
  testing::expect_contains(testing::error_of([&] { find("ggml-org/tiny", all); }),
                           "fits 3 models; use one of ggml-org/tiny/sub/part.gguf");
}

TEST_F(Catalog, OllamaNamesModelsAndTags) {
  const std::string blob = write("ollama/blobs/sha256-" + sum_, "model");
  for (const char* name : {"registry.ollama.ai/library/llama3.2/1b", "registry.ollama.ai/library/llama3.2/latest",
                           "registry.ollama.ai/jo/mine/latest", "hf.co/ggml-org/tiny/Q8_0"})
    write(std::string("ollama/manifests/") + name, manifest("sha256:" + sum_));
  write("ollama/manifests/registry.ollama.ai/library/lost/latest", manifest("sha256:" + std::string(64, '1')));
  write("ollama/manifests/registry.ollama.ai/library/evil/latest", manifest("sha256:../../" + std::string(58, '1')));
  write("ollama/manifests/registry.ollama.ai/library/text/latest", "no JSON");
  EXPECT_EQ(names(),
            (std::vector<std::string>{"hf.co/ggml-org/tiny:Q8_0", "jo/mine:latest", "llama3.2:1b", "llama3.2:latest"}));
  const std::vector<Entry> all = list(places_);
  for (const char* name : {"llama3.2:1b", "llama3.2", "jo/mine", "mine:latest"})
    EXPECT_EQ(find(name, all), blob) << name;
  EXPECT_EQ(find("llama3", all), "");
  EXPECT_EQ(find("", all), "");
}

TEST_F(Catalog, LmStudioAndDataAndNamesThatAreTaken) {
  write("lm/ggml-org/tiny/tiny.gguf", "lm");
  write("lm/ggml-org/tiny/tiny.txt", "text");
  snapshot("models--ggml-org--tiny", "aaa", "tiny.gguf", "hf");
  const std::string own = write("data/deep/a.gguf", "own");
  EXPECT_EQ(names(), (std::vector<std::string>{"ggml-org/tiny/tiny.gguf", path("lm/ggml-org/tiny/tiny.gguf"), own}));
  EXPECT_EQ(testing::slurp(find("ggml-org/tiny/tiny.gguf", list(places_))), "hf");
  EXPECT_EQ(list({}).size(), 0u);
}

// By their first bytes, or where these say nothing by their names.
TEST_F(Catalog, FilesThatGoWithModelsAreNone) {
  const auto gguf = [&](const std::string& name, const char* architecture, const char* type) {
    gguf::Writer w(architecture);
    if (*type) w.set("general.type", std::string(type));
    fs::create_directories(fs::path(path(name)).parent_path());
    w.finish(path(name));
  };
  gguf("data/model.gguf", "llama", "model"), gguf("data/vision.gguf", "clip", ""),
      gguf("data/m.gguf", "llama", "imatrix");
  gguf("data/mmproj-named.gguf", "llama", "model"), gguf("data/lora.gguf", "llama", "adapter");
  write("data/mmproj-f16.gguf", "cut off");
  EXPECT_EQ(names(), (std::vector<std::string>{path("data/mmproj-named.gguf"), path("data/model.gguf")}));
  snapshot("models--a--vision", "aaa", "vision-q8_0.gguf", "model");
  snapshot("models--a--vision", "aaa", "mmproj-vision-f16.gguf", "projector");
  snapshot("models--a--vision", "aaa", "vision.imatrix.gguf", "matrix");
  EXPECT_EQ(testing::slurp(find("a/vision", list(places_))), "model");
}

TEST_F(Catalog, ASplitModelIsOne) {
  for (const char* part : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"})
    snapshot("models--a--large", "aaa", part, part);
  const std::vector<Entry> all = list(places_);
  EXPECT_EQ(names(), std::vector<std::string>{"a/large/m-00001-of-00003.gguf"});
  EXPECT_EQ(all[0].bytes, 3 * std::string("m-00001-of-00003.gguf").size());
  EXPECT_EQ(testing::slurp(find("a/large", all)), "m-00001-of-00003.gguf");
}

TEST_F(Catalog, AnIncompleteSplitModelIsOneToo) {
  for (const char* part : {"m-00002-of-00004.gguf", "m-00004-of-00004.gguf"})
    snapshot("models--a--large", "aaa", part, part);
  const std::vector<Entry> all = list(places_);
  EXPECT_EQ(names(), std::vector<std::string>{"a/large/m-00002-of-00004.gguf"});
  EXPECT_EQ(all[0].missing, 2);
  EXPECT_EQ(all[0].bytes, 2 * std::string("m-00002-of-00004.gguf").size());
}

TEST_F(Catalog, PlacesFollowTheEnvironment) {
  const auto set = [](const char* name, const char* value) {
    if (value)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  };
  for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME"}) set(name, nullptr);
  set("HOME", "/h");
  EXPECT_EQ(default_places().hugging_face, "/h/.cache/huggingface/hub");
  EXPECT_EQ(default_places().ollama, "/h/.ollama/models");
  EXPECT_EQ(default_places().lm_studio,
            (std::vector<std::string>{"/h/.lmstudio/models", "/h/.cache/lm-studio/models"}));
  set("XDG_CACHE_HOME", "/x");
  EXPECT_EQ(default_places().hugging_face, "/x/huggingface/hub");
  set("HF_HOME", "/hf");
  EXPECT_EQ(default_places().hugging_face, "/hf/hub");
  set("HF_HUB_CACHE", "/cache");
  EXPECT_EQ(default_places().hugging_face, "/cache");
  set("OLLAMA_MODELS", "/o");
  EXPECT_EQ(default_places().ollama, "/o");
}

TEST_F(Catalog, Quantization) {
  const auto quantization = [&](std::optional<uint32_t> type) {
    gguf::Writer w("llama");
    if (type) w.set("general.file_type", *type);
    const std::vector<float> values(64);
    w.add("a", View(const_cast<float*>(values.data()), DType::f32, {16}), DType::f32);
    w.add("b", View(const_cast<float*>(values.data()), DType::f32, {2, 32}), DType::q8_0);
    w.finish(path("m.gguf"));
    return quantization_of(gguf::File::open(path("m.gguf")));
  };
  EXPECT_EQ(quantization(15), "Q4_K_M");
  EXPECT_EQ(quantization({}), "Q8_0");
  EXPECT_EQ(quantization(999), "Q8_0");
}

}  // namespace
}  // namespace toy::catalog::catalog_test
