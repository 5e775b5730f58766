// Generating for many prompts at once: a finished one makes room for the next.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "toy/decode/decoder.h"
#include "toy/decode/sampler.h"

namespace toy {

/// How one text is generated.
struct GenerateOptions {
  int64_t max_tokens = 128;
  SamplerOptions sampler;
  int top_logprobs = 0;     ///< the K best at each position
  bool ignore_eos = false;  ///< continue after a token that ends a text
};

/// One token of a generated text.
struct GeneratedToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> best;
};

/// Why a text ended.
enum class FinishReason {
  length,   ///< max_tokens, or the context is full
  eos,      ///< one of GenerateRequest::eos, which is the last of the result
  stopped,  ///< on_token said so
};

/// A finished text.
struct Generated {
  std::vector<GeneratedToken> tokens;
  FinishReason reason = FinishReason::length;
};

/// One prompt and what is wanted of it.
struct GenerateRequest {
  std::vector<int32_t> prompt;
  std::vector<int32_t> eos;  ///< tokens that end the text: Tokenizer::end_of_generation()
  GenerateOptions options;
  /// Factors of the model's adapters for this text, see Decoder::use_adapters(). None: all of them times 1.
  std::vector<float> adapters = {};
  /// Sees each token as it comes; returning false ends the text with that token.
  std::function<bool(const GeneratedToken&)> on_token;
  /// Sees the finished text. May add requests.
  std::function<void(const Generated&)> on_done;
};

/// Shares the sequences of a decoder among requests, in the order in which they were added. Every call of the decoder
/// carries one token of each text that is being written and pieces of prompts that wait to be read.
/// A prefix of 64 tokens or more that two prompts share is computed once: a request waits until the other has read it
/// and then shares its pages. Finished texts share theirs, too, until their sequence is reused. Where layers have a
/// window or a recurrent state, a prefix can be shared right after it was computed, by requests that wait for it, and
/// not later. A result has the same bits whatever other requests there are.
class Scheduler {
 public:
  /// Uses these sequences of the decoder. The first request of a sequence continues what it holds; it is cleared
  /// before the next one.
  Scheduler(Decoder& decoder, std::vector<int> sequences);
  /// Uses all sequences of the decoder.
  explicit Scheduler(Decoder& decoder);

  /// Throws Error{bad_input} for an empty prompt, one that does not fit into the context, an id outside the vocabulary,
  /// and impossible sampler options.
  void add(GenerateRequest request);
  /// One call of the decoder. False when there is nothing left to do. An exception of a callback is rethrown once every
  /// text has its token, the first of several. So is the error for logits that are NaN, whose text ends without
  /// on_done. An error of the decoder changes nothing.
  bool step();
  void run() {
    while (step()) {
    }
  }
  /// Tokens of prompts that were not computed because a sequence held them already.
  int64_t shared_tokens() const { return shared_tokens_; }

 private:
  struct Job {
    GenerateRequest request;
    int64_t number = 0;  // in the order in which they were added
    Sampler sampler;
    std::vector<int32_t> history;  // prompt and text
    size_t fed = 0;                // of the history
    Generated result;
    bool writing() const { return history.size() - fed == 1; }
  };
  struct Slot {
    int sequence = 0;
    bool used = false;
    std::unique_ptr<Job> job;
    bool begun = false;                // the job is told what it need not compute
    bool known = false;                // is it known which tokens the sequence holds?
    std::vector<int32_t> held = {};    // these,
    std::vector<float> adapters = {};  // computed with these
    size_t rows = 0;                   // of the call that is being made
    size_t pause = 0;                  // > 0: the call ends here in the history, where another text takes over
  };
  void fill_slots();
  bool begin(Slot& slot);
  void collect_rows();
  void accept(Slot& slot, std::span<const float> logits);

  Decoder& decoder_;
  std::vector<Slot> slots_;
  int64_t shared_tokens_ = 0, added_ = 0;
  std::deque<std::unique_ptr<Job>> waiting_;
  std::vector<DecodeRow> rows_;
  std::vector<Slot*> answered_;  // slots whose logits the call gives, in their order
};

}  // namespace toy
