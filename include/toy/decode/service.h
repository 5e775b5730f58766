// Texts for many users at once: requests come from any thread, one thread computes them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "toy/decode/pooling.h"
#include "toy/decode/scheduler.h"
#include "toy/decode/text_stream.h"

namespace toy {

/// How a text ended.
struct TextEnd {
  std::string text;                   ///< what on_text has not seen: characters that were held back
  Generated generated;                ///< all tokens; FinishReason::stopped: a stop string, or on_text said so
  std::exception_ptr error;           ///< why there is no text: of this request (its logits are NaN), or of the decoder
  std::string stop = {};              ///< the stop string that has ended it
  std::vector<float> embedding = {};  ///< TextRequest::embed
  std::shared_ptr<StateSnapshot> state = {};  ///< TextRequest::keep_state
};

/// A text that is wanted. The callbacks run on the service's thread, and may submit and cancel.
struct TextRequest {
  std::vector<int32_t> prompt;
  GenerateOptions options;
  std::vector<float> adapters = {};     ///< as GenerateRequest's
  int64_t owner = 0;                    ///< as GenerateRequest's
  std::vector<std::string> stops = {};  ///< the text ends before any of them; needs a tokenizer
  std::vector<int32_t> named = {};      ///< control tokens whose names are in the text
  bool score_prompt = false;            ///< as GenerateRequest's
  /// Instead of a text (max_tokens is 0), the embedding [D] of the prompt. Needs DecoderOptions::hidden.
  std::optional<EmbedOptions> embed = {};
  int priority = 0;                                                    ///< as GenerateRequest's
  std::optional<std::chrono::steady_clock::time_point> deadline = {};  ///< as GenerateRequest's
  bool keep_state = false;                                             ///< as GenerateRequest::on_state
  std::shared_ptr<const StateSnapshot> state = {};                     ///< as GenerateRequest's
  /// Sees each token, and the text that is ready to be shown after it. Returning false ends the text.
  std::function<bool(const GeneratedToken& token, const std::string& text)> on_text = {};
  /// Sees the end, once, unless the request is cancelled.
  std::function<void(const TextEnd&)> on_end = {};
};

/// Thrown by submit() where the service takes no more requests now.
class ServiceBusy : public Error {
 public:
  /// `text` is for the client.
  ServiceBusy(const std::string& text, bool closed) : Error(ErrorCode::failure, text), closed_(closed) {}
  /// It is being closed, and waiting does not help.
  bool closed() const { return closed_; }

 private:
  bool closed_;
};

/// What a service has done and has to do.
struct ServiceCounts {
  int64_t running = 0, waiting = 0;                          ///< requests
  int64_t steps = 0, preemptions = 0;                        ///< calls of the decoder; texts preempted
  int64_t prompt_tokens = 0, shared_tokens = 0, tokens = 0;  ///< submitted; not computed again; generated
  int64_t proposed = 0, accepted = 0;                        ///< tokens, by SpeculationOptions
  int64_t pages = 0, pages_used = 0;                         ///< of layers without a window
  int64_t snapshots = 0, snapshots_used = 0;                 ///< room for at least so many; kept
};

/// Generates texts with a Scheduler. Requests may be submitted and cancelled by any thread; the thread that calls run()
/// or serve() computes them. Only that thread may use the decoder meanwhile. A text has the same bits whatever other
/// requests there are.
class GenerationService {
 public:
  /// `tokenizer` may be nullptr: texts are then empty, and only their tokens count. `most_waiting` bounds the requests
  /// that have no sequence yet, `most_tokens` those of the prompts of all requests that have not ended, but that a
  /// single call of submit_all() may have more. Decoder, tokenizer and the draft of `speculation` must outlive the
  /// service.
  GenerationService(Decoder& decoder, const Tokenizer* tokenizer, size_t most_waiting = SIZE_MAX,
                    const SpeculationOptions& speculation = {}, size_t most_tokens = SIZE_MAX);

  /// As Scheduler::limit_pause(). Before run() and serve().
  void limit_pause(double seconds) { scheduler_.limit_pause(seconds); }
  /// As Scheduler::share_from(). Before run() and serve().
  void share_from(size_t tokens) { scheduler_.share_from(tokens); }
  /// As Scheduler::draw_with(). Before run() and serve().
  void draw_with(ThreadPool& team) { scheduler_.draw_with(team); }
  /// Returns a number for cancel(). Throws Error{bad_input} for a request that can never be done, as
  /// Scheduler::require_possible() and StopFilter do, and ServiceBusy.
  int64_t submit(TextRequest request);
  /// The same for several, of which all are taken or none.
  std::vector<int64_t> submit_all(std::vector<TextRequest> requests);
  /// Before the next call of the decoder the request is dropped, whose callbacks are not called any more.
  void cancel(int64_t number);
  /// Calls `part` between calls of the decoder, on the thread that computes, until it returns false: for what the model
  /// computes besides texts, in parts that keep these waiting for milliseconds. It must not throw. Any thread may ask.
  /// Throws ServiceBusy. close(false) drops it.
  void between(std::function<bool()> part);
  /// Computes until nothing is left to do. What a callback throws ends all requests with this error, and run().
  void run();
  /// Computes and waits for requests, until close(). Callbacks must not throw.
  void serve();
  /// Takes no more requests; serve() returns once the others are done. If they are not to be finished, they end with
  /// ServiceBusy after the current call of the decoder.
  void close(bool finish);
  /// What was so after the latest call of the decoder. Any thread may ask.
  ServiceCounts counts() const;

 private:
  struct Running {
    TextRequest request;
    size_t prompt = 0;      // tokens
    int64_t scheduled = 0;  // the scheduler's number
    std::unique_ptr<TextStream> stream;
    std::vector<double> hidden = {};  // the sum of hidden states
    int64_t hidden_rows = 0;          // how many
    std::shared_ptr<StateSnapshot> state = {};
  };
  GenerateRequest generate_request(const TextRequest& request) const;
  void take_over();
  void start(int64_t number, TextRequest request);
  bool step();
  bool step_parts();
  bool submitted() const;
  void fail_all(const std::exception_ptr& error);
  void end(int64_t number, const Generated& generated, const std::exception_ptr& error);
  void count(bool stepped);
  Running extract(std::map<int64_t, Running>::iterator it);

  Decoder& decoder_;
  const Tokenizer* tokenizer_;
  const size_t most_waiting_, most_tokens_;
  Scheduler scheduler_;
  std::map<int64_t, Running> running_;  // of the computing thread

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<std::pair<int64_t, TextRequest>> submitted_;
  std::vector<int64_t> cancelled_;
  std::vector<std::function<bool()>> parts_;  // of between(), but while they are called
  int64_t numbers_ = 0;
  size_t tokens_ = 0;  // of the prompts of all that have not ended
  bool closed_ = false, finish_ = true;
  ServiceCounts counts_;
};

}  // namespace toy
