// The chat template of an adapter in a folder of PEFT.
#include <gtest/gtest.h>

#include <filesystem>

#include "testing/files.h"
#include "testing/models.h"
#include "toy/backend/devices.h"
#include "toy/hf/peft.h"

namespace toy::peft_template_test {
namespace {

TEST(PeftTemplate, IsAFileOfTheFolder) {
  const testing::Folder folder;
  const auto device = make_cpu_device(1);
  const auto model = [&] {
    return random_model(
        testing::small_model(
            "tiny", {.vocab = 40, .d_model = 32, .context = 64, .heads = 2, .kv_heads = 1, .d_head = 16, .d_ff = 50}),
        *device, 3);
  };
  Model trained = model();
  trained.spec.adapters.push_back(lora_adapter(trained.spec, {.rank = 2}));
  add_adapter_weights(trained, 5);
  const std::string peft = folder.path("peft"), file = peft + "/chat_template.jinja";
  for (const std::string source : {"{{ 'hi' }}\n", ""}) {
    trained.spec.adapters[0].chat_template = source;
    hf::save_peft(trained, 0, peft);
    EXPECT_EQ(std::filesystem::exists(file), !source.empty());  // that of an earlier adapter is gone
    Model other = model();
    hf::load_peft(other, peft);
    EXPECT_EQ(other.spec.adapters[0].chat_template, source);
  }
}

}  // namespace
}  // namespace toy::peft_template_test
