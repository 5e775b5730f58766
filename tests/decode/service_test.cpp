// Texts that other threads ask for: the bits of a text by itself, whatever comes, goes or is missing.
#include "toy/decode/service.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "testing/errors.h"
#include "testing/models.h"
#include "testing/test_device.h"
#include "toy/base/philox.h"
#include "toy/decode/generate.h"
#include "toy/text/tokenizer.h"

namespace toy::service_test {
namespace {

class ServiceTest : public ::testing::Test {
 protected:
  static ModelSpec spec() {
    return testing::small_model("tiny", {.vocab = 256,
                                         .d_model = 40,
                                         .context = 400,
                                         .tied = false,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .d_head = 10,
                                         .d_ff = 52});
  }
  static std::vector<int32_t> prompt(uint64_t which, size_t length) {
    const Philox random(which, "prompt");
    std::vector<int32_t> ids;
    for (uint64_t i = 0; i < length; ++i) ids.push_back(int32_t(random.below(i, 256)));
    return ids;
  }
  static std::vector<TextRequest> requests(size_t count) {
    std::vector<TextRequest> list;
    for (size_t i = 0; i < count; ++i) {
      TextRequest r{.prompt = prompt(i % 5 == 4 ? 3 : i, 20 + (i * 37) % 150)};
      r.options = {.max_tokens = int64_t(20 + i * 13 % 90), .top_logprobs = 2};
      if (i % 2) r.options.sampler = {.temperature = 1.1, .top_k = 50, .repeat_penalty = 1.1, .seed = i};
      r.score_prompt = i % 6 == 5;
      list.push_back(std::move(r));
    }
    return list;
  }
  struct Seen {
    std::string text;
    TextEnd end;
    bool ended = false;
  };
  // Submits, and keeps what the callbacks see.
  static int64_t submit(GenerationService& service, TextRequest r, Seen& seen) {
    r.on_text = [&seen](const GeneratedToken&, const std::string& text) {
      seen.text += text;
      return true;
    };
    r.on_end = [&seen](const TextEnd& end) {
      EXPECT_FALSE(seen.ended);
      seen.end = end, seen.text += end.text, seen.ended = true;
    };
    return service.submit(std::move(r));
  }
  Seen alone(const TextRequest& r) {
    Decoder d(*device_, model_, {});
    GenerationService service(d, tokenizer_.get());
    Seen seen;
    submit(service, r, seen);
    service.run();
    return seen;
  }
  static void expect_same(const Seen& a, const Seen& b, size_t which) {
    ASSERT_TRUE(a.ended && b.ended) << which;
    EXPECT_EQ(a.text, b.text) << which;
    EXPECT_EQ(a.end.generated.reason, b.end.generated.reason) << which;
    const auto same = [&](const std::vector<GeneratedToken>& x, const std::vector<GeneratedToken>& y) {
      ASSERT_EQ(x.size(), y.size()) << which;
      for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(x[i].chosen.id, y[i].chosen.id) << which << " at " << i;
        EXPECT_EQ(x[i].chosen.logprob, y[i].chosen.logprob) << which << " at " << i;  // to the bit
        for (size_t k = 0; k < x[i].best.size(); ++k) EXPECT_EQ(x[i].best[k].logprob, y[i].best[k].logprob);
      }
    };
    same(a.end.generated.tokens, b.end.generated.tokens);
    same(a.end.generated.prompt, b.end.generated.prompt);
  }

  std::unique_ptr<Device> device_ = make_test_device(2);
  Model model_ = random_model(spec(), *device_, 3, 2.0);
  std::shared_ptr<const Tokenizer> tokenizer_ = make_byte_tokenizer();
};

// 24 requests from four threads: in a large cache, and in small ones that preempt.
TEST_F(ServiceTest, TheSameBitsAloneTogetherAndPreempted) {
  const std::vector<TextRequest> list = requests(24);
  std::vector<Seen> expected;
  for (const TextRequest& r : list) expected.push_back(alone(r));
  const DecodeShape shape = decode_shape(model_, {});
  const size_t page = shared_page_bytes(model_.spec, shape);
  for (const int64_t pages : {0, 5, 9}) {
    Decoder d(*device_, model_, {.sequences = 6, .max_rows = 32, .cache = size_t(pages) * page});
    GenerationService service(d, tokenizer_.get());
    std::vector<Seen> seen(list.size());
    std::thread computing([&] { service.serve(); });
    std::vector<std::thread> users;
    for (size_t t = 0; t < 4; ++t)
      users.emplace_back([&, t] {
        for (size_t i = t; i < list.size(); i += 4) submit(service, list[i], seen[i]);
      });
    for (std::thread& u : users) u.join();
    service.close(true);
    computing.join();
    for (size_t i = 0; i < list.size(); ++i) expect_same(seen[i], expected[i], i);
    EXPECT_EQ(service.counts().preemptions > 0, pages > 0) << pages;
    EXPECT_EQ(service.counts().running, 0);
    EXPECT_EQ(service.counts().waiting, 0);
  }
}

// The score of a prompt's token is its log probability as a continuation of those before.
TEST_F(ServiceTest, ScoresOfAPrompt) {
  TextRequest r{.prompt = prompt(1, 90)};
  r.options.max_tokens = 0, r.options.top_logprobs = 3;
  r.score_prompt = true;
  const Seen seen = alone(r);
  EXPECT_TRUE(seen.end.generated.tokens.empty());
  ASSERT_EQ(seen.end.generated.prompt.size(), 89u);
  Decoder d(*device_, model_, {});
  std::vector<DecodeRow> rows;
  for (const int32_t id : r.prompt) rows.push_back({0, id, true});
  d.decode(rows);
  for (size_t i = 0; i < 89; ++i) {
    EXPECT_EQ(seen.end.generated.prompt[i].chosen.id, r.prompt[i + 1]);
    EXPECT_EQ(seen.end.generated.prompt[i].chosen.logprob, log_softmax_at(d.logits(i), r.prompt[i + 1]));
    EXPECT_EQ(seen.end.generated.prompt[i].best[0].id, top_logprobs(d.logits(i), 1)[0].id);
  }
}

// A cancelled request is silent, and the others do not notice; its sequence is free for the next.
TEST_F(ServiceTest, CancelledWhileWaitingReadingAndWriting) {
  const std::vector<TextRequest> list = requests(8);
  Decoder d(*device_, model_, {.sequences = 2, .max_rows = 16});
  GenerationService service(d, tokenizer_.get());
  std::vector<Seen> seen(list.size());
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < list.size(); ++i) numbers.push_back(submit(service, list[i], seen[i]));
  service.cancel(numbers[0]);  // reading
  service.cancel(numbers[5]);  // waiting
  TextRequest canceller{.prompt = {1, 2}};
  Seen writing;
  canceller.options.max_tokens = 30;
  TextRequest long_one = list[2];
  long_one.options.max_tokens = 250;  // it outlasts those before it, so the canceller has a sequence
  const int64_t last = submit(service, long_one, writing);
  canceller.on_text = [&](const GeneratedToken&, const std::string&) {
    service.cancel(last);
    return true;
  };
  service.submit(canceller);
  service.run();
  for (size_t i = 0; i < list.size(); ++i)
    if (i == 0 || i == 5) {
      EXPECT_FALSE(seen[i].ended || !seen[i].text.empty()) << i;
    } else {
      expect_same(seen[i], alone(list[i]), i);
    }
  EXPECT_FALSE(writing.ended);
  service.cancel(12345);  // there is none
  service.run();
}

TEST_F(ServiceTest, AStopStringEndsTheText) {
  TextRequest r{.prompt = prompt(2, 9)};
  r.options.max_tokens = 60;
  const Seen whole = alone(r);
  ASSERT_GT(whole.text.size(), 12u);
  std::string ids;
  for (const GeneratedToken& t : whole.end.generated.tokens) ids += char(t.chosen.id);
  r.stops = {ids.substr(7, 2)};
  const Seen cut = alone(r);
  EXPECT_EQ(cut.text, whole.text.substr(0, ids.find(r.stops[0])));
  EXPECT_EQ(cut.end.generated.reason, FinishReason::stopped);
}

// The second turn of a conversation computes only what is new, although other texts have used its sequence since.
TEST_F(ServiceTest, PrefixesAreFoundAgain) {
  const size_t page = shared_page_bytes(model_.spec, decode_shape(model_, {}));
  TextRequest first{.prompt = prompt(7, 150)};
  first.options.max_tokens = 20;
  TextRequest second = first;
  const Seen expected = alone(first);
  for (const GeneratedToken& t : expected.end.generated.tokens) second.prompt.push_back(t.chosen.id);
  for (const int32_t id : prompt(8, 30)) second.prompt.push_back(id);  // 200 tokens, of which 169 were computed
  const Seen fresh = alone(second);
  const auto shared = [&](int64_t pages) {
    Decoder d(*device_, model_, {.sequences = 2, .cache = size_t(pages) * page});
    int64_t tokens = 0;
    {
      GenerationService service(d, tokenizer_.get());
      Seen one, two;
      submit(service, first, one);
      service.run();
      std::vector<Seen> others(2);
      for (size_t i = 0; i < others.size(); ++i) {
        TextRequest other{.prompt = prompt(20 + i, 140)};
        other.options.max_tokens = 10;
        submit(service, other, others[i]);
      }
      service.run();
      submit(service, second, two);
      service.run();
      expect_same(one, expected, 0);
      expect_same(two, fresh, 1);
      tokens = service.counts().shared_tokens;
    }
    for (int s = 0; s < 2; ++s) d.state().reset(s);
    EXPECT_EQ(d.state().free_pages(), d.state().pools()[0].pages) << "pages are lost";
    return tokens;
  };
  EXPECT_EQ(shared(12), 169);
  EXPECT_EQ(shared(6), 0);  // evicted by the others
}

TEST_F(ServiceTest, WhatIsRefused) {
  const size_t page = shared_page_bytes(model_.spec, decode_shape(model_, {}));
  Decoder d(*device_, model_, {.sequences = 2, .cache = 3 * page});
  GenerationService service(d, tokenizer_.get(), 2);
  const auto refuses = [&](TextRequest r, const std::string& words) {
    const std::string message = testing::error_of([&] { service.submit(std::move(r)); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  refuses({.prompt = {}}, "nothing to continue");
  refuses({.prompt = {256}}, "outside the vocabulary");
  refuses({.prompt = prompt(1, 401)}, "401 tokens");
  refuses({.prompt = {1}, .stops = {""}}, "stop");
  refuses({.prompt = prompt(1, 190), .options = {.max_tokens = 4}}, "192 positions");
  EXPECT_NO_THROW(service.submit({.prompt = prompt(1, 190), .options = {.max_tokens = 3}}));
  EXPECT_NO_THROW(service.submit({.prompt = {1}}));
  try {
    service.submit({.prompt = {1}});
    ADD_FAILURE() << "a full queue takes another";
  } catch (const ServiceBusy& busy) {
    EXPECT_FALSE(busy.closed());
  }
  service.run();
  EXPECT_NO_THROW(service.submit({.prompt = {1}}));
  service.close(true);
  try {
    service.submit({.prompt = {1}});
    ADD_FAILURE() << "a closed service takes another";
  } catch (const ServiceBusy& busy) {
    EXPECT_TRUE(busy.closed());
  }
}

// Many choices of a long prompt are few bytes of a request.
TEST_F(ServiceTest, TokensOfPromptsHaveALimit) {
  Decoder d(*device_, model_, {.sequences = 1});
  GenerationService service(d, tokenizer_.get(), 100, {}, 300);
  const auto ask = [&](int tokens) {
    return service.submit({.prompt = prompt(1, tokens), .options = {.max_tokens = 1}});
  };
  EXPECT_NO_THROW(ask(350));  // alone
  EXPECT_THROW(ask(1), ServiceBusy);
  service.run();
  const int64_t gone = ask(200);
  EXPECT_NO_THROW(ask(100));
  EXPECT_THROW(ask(1), ServiceBusy);
  service.cancel(gone);
  service.run();
  EXPECT_NO_THROW(ask(300));
  service.run();
}

// What is not to be finished is told: texts in progress, and those that wait.
TEST_F(ServiceTest, ClosingEndsAll) {
  Decoder d(*device_, model_, {.sequences = 1});
  GenerationService service(d, tokenizer_.get());
  int ended = 0;
  const auto submit = [&](std::function<bool(const GeneratedToken&, const std::string&)> on_text) {
    service.submit({.prompt = {1},
                    .options = {.max_tokens = 300, .ignore_eos = true},
                    .on_text = std::move(on_text),
                    .on_end = [&](const TextEnd& end) {
                      ++ended;
                      try {
                        if (end.error) std::rethrow_exception(end.error);
                        ADD_FAILURE() << "a text is complete";
                      } catch (const ServiceBusy& busy) {
                        EXPECT_TRUE(busy.closed());
                      }
                    }});
  };
  submit([&](const GeneratedToken&, const std::string&) {
    EXPECT_EQ(ended, 0);
    service.close(false);
    return true;
  });
  for (int i = 0; i < 2; ++i) submit({});
  service.serve();
  EXPECT_EQ(ended, 3);
}

// Logits that are NaN are the error of the text that has them, and the others go on.
TEST_F(ServiceTest, AnErrorReachesItsRequest) {
  std::vector<float> table = model_.params->read("token_embd.weight");
  std::fill_n(table.begin() + 200 * 40, 40, NAN);
  model_.params->write("token_embd.weight", table);
  Decoder d(*device_, model_, {.sequences = 2});
  GenerationService service(d, tokenizer_.get());
  for (int round = 0; round < 2; ++round) {
    std::vector<Seen> seen(3);
    for (size_t i = 0; i < 3; ++i)
      submit(service, {.prompt = {i == 1 ? 200 : int32_t(i)}, .options = {.max_tokens = 1}}, seen[i]);
    service.run();
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(seen[i].ended);
      EXPECT_EQ(seen[i].end.error != nullptr, i == 1);
    }
  }
}

}  // namespace
}  // namespace toy::service_test
