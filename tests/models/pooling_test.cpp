// What a file says of embeddings.
#include <gtest/gtest.h>

#include "testing/errors.h"
#include "testing/files.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/models/model.h"

namespace toy::pooling_test {
namespace {

class PoolingOfAFile : public ::testing::Test {
 protected:
  // The model's own file, with this key.
  std::string with(const std::string& key, const gguf::Value& value) const {
    const std::string path = folder_.path("model.gguf");
    Model m = random_model(
        testing::small_model(
            "tiny", {.vocab = 40, .d_model = 32, .context = 64, .heads = 2, .kv_heads = 1, .d_head = 16, .d_ff = 50}),
        *device_, 3);
    m.metadata = {{key, value}};
    save_model(m, path);
    return path;
  }
  const testing::Folder folder_;
  std::unique_ptr<Device> device_ = make_test_device(1);
};

TEST_F(PoolingOfAFile, IsReadAndKept) {
  constexpr const char* kNames[] = {"", "mean", "cls", "last", "rank"};
  for (uint32_t kind = 0; kind < 5; ++kind) {
    const Model m = load_model(with("llama.pooling_type", kind), *device_);
    EXPECT_EQ(m.warnings, std::vector<std::string>()) << kind;
    EXPECT_EQ(stated_pooling(m.metadata), kNames[kind]);
    save_model(m, folder_.path("again.gguf"));
    EXPECT_EQ(stated_pooling(gguf::File::open(folder_.path("again.gguf")).metadata()), kNames[kind]);
  }
  EXPECT_EQ(stated_pooling({}), "");
  testing::expect_contains(testing::message_of([&] { load_model(with("llama.pooling_type", uint32_t(5)), *device_); }),
                           "llama.pooling_type is 5, expected 0 to 4");
}

TEST_F(PoolingOfAFile, TokensThatSeeWhatFollowsAreRefused) {
  EXPECT_EQ(load_model(with("llama.attention.causal", true), *device_).warnings, std::vector<std::string>());
  testing::expect_contains(testing::message_of([&] { load_model(with("llama.attention.causal", false), *device_); }),
                           "llama.attention.causal is false: its tokens see those after them");
}

}  // namespace
}  // namespace toy::pooling_test
