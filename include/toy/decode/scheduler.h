// Generating for many prompts at once: a finished one makes room for the next.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "toy/decode/decoder.h"
#include "toy/decode/sampler.h"
#include "toy/decode/speculation.h"

namespace toy {

struct Drawn;
class FirstError;
struct Job;
struct RowResult;
struct RowLogits;
struct Slot;
class RowPlan;
class SharedPrefixes;
class Speculator;
class ThreadPool;

/// How one text is generated.
struct GenerateOptions {
  int64_t max_tokens = 128;
  SamplerOptions sampler;
  int top_logprobs = 0;       ///< the K best at each position
  bool logprobs = true;       ///< of the text's tokens; without, they are NaN, and no token need read all logits
  bool entropy = false;       ///< of the distribution of each token, before sampler steps
  bool ignore_eos = false;    ///< continue after a token that ends a text
  bool row_checksum = false;  ///< tell of each token what its logits were computed from; see GeneratedToken
};

/// One token of a generated text.
struct GeneratedToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> best;
  double entropy = 0;  ///< in nats, with GenerateOptions::entropy
  /// With GenerateOptions::row_checksum: the Xxh64 of the hidden states [D] whose product with the output projection
  /// are the logits. Equal rows have equal logits.
  uint64_t row_checksum = 0;
};

/// Why a text ended.
enum class FinishReason {
  length,    ///< max_tokens, or the context is full
  eos,       ///< one of GenerateRequest::eos, which is the last of the result
  stopped,   ///< on_token said so
  complete,  ///< nothing may follow, as SamplerOptions::constraint says
  deadline,  ///< GenerateRequest::deadline has passed
};

/// A finished text.
struct Generated {
  std::vector<GeneratedToken> tokens;
  std::vector<GeneratedToken> prompt;  ///< GenerateRequest::score_prompt: its tokens after the first
  FinishReason reason = FinishReason::length;
  SpeculationCounts speculation;  ///< of its tokens
  int64_t shared = 0;  ///< tokens of the prompt that were not computed, because a sequence or the cache held them
};

/// One prompt and what is wanted of it.
struct GenerateRequest {
  std::vector<int32_t> prompt;
  std::vector<int32_t> eos;  ///< tokens that end the text: Tokenizer::end_of_generation()
  GenerateOptions options;
  /// Factors of the model's adapters for this text, see Decoder::use_adapters(). None: all of them times 1.
  std::vector<float> adapters = {};
  /// Whose text it is: it takes over nothing that was computed for another one.
  int64_t owner = 0;
  /// Sees each token as it comes; returning false ends the text with that token.
  std::function<bool(const GeneratedToken&)> on_token;
  /// Sees the finished text. May add requests.
  std::function<void(const Generated&)> on_done;
  /// Sees why the text ended without on_done (its logits are NaN). Without it step() throws the error.
  std::function<void(std::exception_ptr)> on_error = {};
  /// Also compute log probabilities of the prompt's tokens. They are needed from each position, so nothing of the
  /// prompt is taken over from other texts.
  bool score_prompt = false;
  /// Instead of a text (max_tokens is 0): sees the hidden states [D] after each token of the prompt from `hidden_from`
  /// on, once and in order. Needs DecoderOptions::hidden. Nothing from there on is taken over from other texts.
  std::function<void(std::span<const float>)> on_hidden = {};
  size_t hidden_from = 0;
  /// Requests with a lower value are handled earlier, of equal ones those that were added earlier. A lower value also
  /// gets the room of calls first, and is preempted last.
  int priority = 0;
  /// When it ends with what it has, before the next call of the decoder.
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
  /// Instead of a text (max_tokens is 0): sees what the sequence holds after the prompt, once.
  std::function<void(StateSnapshot)> on_state = {};
  /// Instead of a text (max_tokens is 0): the prompt is not computed but was held by this snapshot, of its length.
  /// Texts find it from then on, as if it had been computed. It waits until texts leave room for it.
  std::shared_ptr<const StateSnapshot> state = {};
};

/// Shares the sequences of a decoder among requests, in order of their priority and then of their arrival. Every call
/// of the decoder carries one token of each text that is being written and pieces of prompts that wait to be read. The
/// first prompt in that order gets half of the room, and those of the same priority with the fewest tokens left the
/// other half: so none starves, and a short one does not wait for a long one.
/// A prefix of 64 tokens or more that two prompts share is computed once: a request waits until the other has read it
/// and then shares its pages. Finished texts share theirs, too, until their sequence is reused; where the decoder has a
/// cache (DecoderOptions::cache), they are found again until it is full. Where layers have a window or a recurrent
/// state, what is found is a snapshot. Snapshots are taken of a text when its sequence is reused, and of a prompt after
/// tokens that end a message (GenerateRequest::eos), before its last token, where it leaves an earlier prompt, and at
/// intervals. Without a cache such a prefix can only be shared right after it was computed, by requests that wait for
/// it.
///
/// Where the decoder's cache is smaller than its sequences could fill (DecoderOptions::cache), prefixes that no text
/// uses are forgotten, the least recently used first. Then the last text in the order is preempted: it keeps its
/// tokens and is computed again once there is room. The first text always continues.
///
/// With SpeculationOptions a call also carries tokens that are proposed for the texts that are being written. A text
/// gains those that its sampler draws as well, with the logits of the same call; the others are taken back. Where
/// layers are recurrent, the sequence returns to the states before the call, and the next one reads what was right
/// again.
///
/// A result has the same bits whatever other requests there are and whatever is proposed.
class Scheduler {
 public:
  /// Uses these sequences of the decoder. The first request of a sequence continues what it holds; it is cleared
  /// before the next one.
  Scheduler(Decoder& decoder, std::vector<int> sequences);
  /// Uses all sequences of the decoder.
  explicit Scheduler(Decoder& decoder);
  /// The decoder must still be there.
  ~Scheduler();

  /// From the next call on, tokens are proposed. Throws Error{bad_input} as SpeculationOptions::validate(), and where
  /// the draft has too few sequences. It must outlive the scheduler.
  void speculate(const SpeculationOptions& options);
  /// From the next call on, while texts are being written, a call has as many rows of prompts as to take about this
  /// long, measured by the calls before; at least 8, and as many as there are texts. Bits do not depend on it. Throws
  /// Error{bad_input} unless above 0.
  void limit_pause(double seconds);
  /// From the next call on, prefixes of so many tokens or more are shared, where a sequence holds them; by default 64.
  /// A smaller number makes short prompts that many requests have wait for the first of them.
  void share_from(size_t tokens);
  /// From the next call on, tokens of several texts are drawn at the same time by this team, with the same bits. Texts
  /// with a constraint are not. It must outlive the scheduler, and nobody else may use it during step().
  void draw_with(ThreadPool& team) { team_ = &team; }
  /// Returns a number for cancel(). Throws as require_possible().
  int64_t add(GenerateRequest request);
  /// Throws Error{bad_input} for an empty prompt, one that does not fit into the context, a text that does not fit into
  /// the cache, an id outside the vocabulary, and impossible sampler options. Any thread may call it.
  void require_possible(const GenerateRequest& request) const;
  /// Drops a request, whose callbacks are not called any more. False where it has ended. Not from callbacks.
  bool cancel(int64_t number);
  /// One call of the decoder. False when there is nothing left to do. An exception of a callback is rethrown once every
  /// text has its token, the first of several. So is the error for logits that are NaN, whose text ends without
  /// on_done. An error of the decoder changes nothing.
  bool step();
  void run() {
    while (step()) {
    }
  }
  /// Tokens of prompts that were not computed because a sequence held them already.
  int64_t shared_tokens() const;
  /// How often a text was preempted because the cache was full.
  int64_t preemptions() const;
  /// Tokens that were proposed, and those of them that the texts have.
  const SpeculationCounts& speculation() const;
  /// Snapshots that are kept, from which later texts can continue.
  int64_t snapshots() const;
  /// Requests that have not ended: those that have a sequence, and those that wait for one.
  size_t running() const;
  size_t waiting() const { return waiting_.size(); }

 private:
  void end_late(FirstError& error);
  void fill_slots();
  Slot* idle_slot();
  Slot* last_not_begun();
  bool collect_rows();
  bool end_states();
  void take_back(Slot& slot);
  std::vector<Drawn> draw_together() const;
  void accept(const RowResult& row, const RowLogits& logits, Drawn& drawn);

  Decoder& decoder_;
  ThreadPool* team_ = nullptr;
  std::vector<Slot> slots_;
  int64_t added_ = 0, steps_ = 0;
  std::map<std::pair<int, int64_t>, std::unique_ptr<Job>> waiting_;  // by Job::order()
  bool deadlines_ = false;                                           // has any request had one?
  std::vector<DecodeRow> rows_;
  std::vector<RowResult> answers_, shown_;  // of the rows that give logits or hidden states, in their order
  std::unique_ptr<SharedPrefixes> prefixes_;
  std::unique_ptr<RowPlan> plan_;
  std::unique_ptr<Speculator> speculator_;
};

}  // namespace toy
