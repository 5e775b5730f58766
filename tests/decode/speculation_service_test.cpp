// Speculative decoding through the service.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "testing/decoding.h"
#include "testing/errors.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/decode/generate.h"
#include "toy/decode/service.h"
#include "toy/decode/speculation.h"

namespace toy::speculation_service_test {
namespace {

// Stop strings, and a request that goes away, through the service.
TEST(SpeculationOfServices, StopStringsEndTextsAlike) {
  const auto device = make_test_device(2);
  const Model model = random_model(testing::small_model("tiny", {.vocab = 256,
                                                                 .d_model = 40,
                                                                 .context = 300,
                                                                 .tied = false,
                                                                 .heads = 4,
                                                                 .kv_heads = 2,
                                                                 .d_head = 10,
                                                                 .d_ff = 52}),
                                   *device, 3, 2.0);
  const auto tokenizer = make_byte_tokenizer();
  struct Seen {
    std::string text;
    FinishReason reason = FinishReason::length;
  };
  const auto run = [&](const SpeculationOptions& o, const std::vector<std::string>& stops, ServiceCounts* counts) {
    Decoder d(*device, model, {.sequences = 3});
    GenerationService service(d, tokenizer.get(), SIZE_MAX, o);
    std::vector<Seen> seen(6);
    for (size_t i = 0; i < seen.size(); ++i) {
      TextRequest r{.prompt = {int32_t(40 + i), 50, 60}, .options = {.max_tokens = 90, .ignore_eos = true}};
      if (i % 2) r.options.sampler = {.temperature = 0.5, .seed = i};
      r.stops = stops;
      r.on_text = [&seen, i](const GeneratedToken&, const std::string& text) {
        seen[i].text += text;
        return true;
      };
      r.on_end = [&seen, i](const TextEnd& end) {
        seen[i].text += end.text;
        seen[i].reason = end.generated.reason;
      };
      service.submit(std::move(r));
    }
    service.run();
    if (counts) *counts = service.counts();
    return seen;
  };
  const std::vector<Seen> whole = run({}, {}, nullptr);
  std::vector<std::string> stops;
  for (const Seen& s : whole) stops.push_back(s.text.substr(s.text.size() / 2, 3));
  const std::vector<Seen> expected = run({}, stops, nullptr);
  Decoder same(*device, model, {.sequences = 3});
  for (const SpeculationOptions& o : {SpeculationOptions{.ngrams = true}, SpeculationOptions{.draft = &same}}) {
    ServiceCounts counts;
    const std::vector<Seen> got = run(o, stops, &counts);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].text, expected[i].text) << i;
      EXPECT_EQ(got[i].reason, FinishReason::stopped) << i;
    }
    EXPECT_GT(counts.accepted, 0);
    EXPECT_GE(counts.proposed, counts.accepted);
  }
}

}  // namespace
}  // namespace toy::speculation_service_test
