#include "toy/decode/service.h"

#include <fmt/format.h>

#include "toy/base/error.h"

namespace toy {

GenerationService::GenerationService(Decoder& decoder, const Tokenizer* tokenizer, size_t most_waiting,
                                     const SpeculationOptions& speculation, size_t most_tokens)
    : decoder_(decoder),
      tokenizer_(tokenizer),
      most_waiting_(most_waiting),
      most_tokens_(most_tokens),
      scheduler_(decoder) {
  scheduler_.speculate(speculation);
  count(false);
}

int64_t GenerationService::submit(TextRequest request) {
  std::vector<TextRequest> one;
  one.push_back(std::move(request));
  return submit_all(std::move(one)).front();
}

std::vector<int64_t> GenerationService::submit_all(std::vector<TextRequest> requests) {
  size_t tokens = 0;
  for (const TextRequest& r : requests) {
    tokens += r.prompt.size();
    check(r.stops.empty() || tokenizer_ != nullptr, "stop: the model has no tokenizer; remove the stop strings");
    const StopFilter stops_are_sound(r.stops);
    scheduler_.require_possible(generate_request(r));
  }
  check(requests.size() <= most_waiting_, "{} texts are asked for at once, and the queue holds {}; ask for fewer",
        requests.size(), most_waiting_);
  const std::scoped_lock lock(mutex_);
  if (closed_) throw ServiceBusy("the server is shutting down", true);
  const size_t waiting = size_t(counts_.waiting) + submitted_.size();
  if (waiting >= most_waiting_ || requests.size() > most_waiting_ - waiting)
    throw ServiceBusy(fmt::format("{} requests wait already; try again later", waiting), false);
  if (tokens_ > 0 && (tokens_ >= most_tokens_ || tokens > most_tokens_ - tokens_))
    throw ServiceBusy(fmt::format("prompts of {} tokens wait already; try again later", tokens_), false);
  std::vector<int64_t> numbers;
  for (TextRequest& r : requests) {
    const size_t prompt = r.prompt.size();
    if (!r.state) counts_.prompt_tokens += int64_t(prompt);
    submitted_.emplace_back(numbers_, std::move(r));
    tokens_ += prompt;
    numbers.push_back(numbers_++);
  }
  changed_.notify_one();
  return numbers;
}

void GenerationService::cancel(int64_t number) {
  const std::scoped_lock lock(mutex_);
  cancelled_.push_back(number);
  changed_.notify_one();
}

void GenerationService::between(std::function<bool()> part) {
  const std::scoped_lock lock(mutex_);
  if (closed_) throw ServiceBusy("the server is shutting down", true);
  parts_.push_back(std::move(part));
  changed_.notify_one();
}

void GenerationService::close(bool finish) {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  finish_ = finish;
  changed_.notify_one();
}

ServiceCounts GenerationService::counts() const {
  const std::scoped_lock lock(mutex_);
  ServiceCounts c = counts_;
  c.waiting += int64_t(submitted_.size());
  return c;
}

void GenerationService::run() {
  bool more = true;
  while (more) {
    take_over();
    const bool parts = step_parts(), texts = step();
    more = parts || texts || submitted();
  }
}

bool GenerationService::submitted() const {
  const std::scoped_lock lock(mutex_);
  return !submitted_.empty();
}

void GenerationService::serve() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto is_empty = [&] { return running_.empty() && submitted_.empty() && parts_.empty(); };
      changed_.wait(lock, [&] { return closed_ || !is_empty() || !cancelled_.empty(); });
      if (closed_ && (!finish_ || is_empty())) break;
    }
    take_over();
    step_parts();
    step();
  }
  take_over();
  fail_all(std::make_exception_ptr(ServiceBusy("the server is shutting down", true)));
  std::vector<std::function<bool()>> dropped;
  const std::scoped_lock lock(mutex_);
  parts_.swap(dropped);
}

// Requests and cancellations of other threads become the scheduler's.
void GenerationService::take_over() {
  std::vector<std::pair<int64_t, TextRequest>> submitted;
  std::vector<int64_t> cancelled;
  {
    const std::scoped_lock lock(mutex_);
    submitted.swap(submitted_);
    cancelled.swap(cancelled_);
    counts_.waiting += int64_t(submitted.size());
  }
  for (auto& [number, request] : submitted) {
    try {
      start(number, std::move(request));
    } catch (...) {  // there is no memory for it
      end(number, {}, std::current_exception());
    }
  }
  for (const int64_t number : cancelled)
    if (const auto it = running_.find(number); it != running_.end()) {
      scheduler_.cancel(it->second.scheduled);
      extract(it);
    }
}

// What is asked of the scheduler, without the calls that answer.
GenerateRequest GenerationService::generate_request(const TextRequest& request) const {
  GenerateRequest g{.prompt = request.prompt, .eos = {}, .options = request.options, .on_token = {}, .on_done = {}};
  if (tokenizer_) g.eos = tokenizer_->end_of_generation();
  g.adapters = request.adapters;
  g.owner = request.owner;
  g.score_prompt = request.score_prompt;
  g.priority = request.priority;
  g.deadline = request.deadline;
  g.state = request.state;
  if (request.keep_state) g.on_state = [](const StateSnapshot&) {};
  if (!request.embed) return g;
  // Later tokens change nothing of the first one's state.
  if (request.embed->pooling == Pooling::first && !g.prompt.empty()) g.prompt.resize(1);
  if (request.embed->pooling == Pooling::last && !g.prompt.empty()) g.hidden_from = g.prompt.size() - 1;
  g.on_hidden = [](std::span<const float>) {};
  return g;
}

void GenerationService::start(int64_t number, TextRequest request) {
  Running& r = running_[number];
  r.prompt = request.prompt.size();
  r.request = std::move(request);
  if (tokenizer_)
    r.stream = std::make_unique<TextStream>(*tokenizer_, r.request.prompt, r.request.stops, r.request.named);
  GenerateRequest g = generate_request(r.request);
  if (g.on_hidden)
    g.on_hidden = [this, number](std::span<const float> hidden) {
      std::vector<double>& sum = running_.at(number).hidden;
      sum.resize(hidden.size());
      ++running_.at(number).hidden_rows;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += double(hidden[i]);
    };
  if (g.on_state)
    g.on_state = [this, number](StateSnapshot state) {
      running_.at(number).state = std::make_shared<StateSnapshot>(std::move(state));
    };
  g.on_token = [this, number](const GeneratedToken& token) {
    Running& text = running_.at(number);
    const std::string ready = text.stream ? text.stream->push(token.chosen.id) : "";
    const bool go_on = !text.request.on_text || text.request.on_text(token, ready);
    return go_on && !(text.stream && text.stream->stopped());
  };
  g.on_done = [this, number](const Generated& generated) { end(number, generated, nullptr); };
  g.on_error = [this, number](const std::exception_ptr& error) { end(number, {}, error); };
  // They may be large, and the scheduler has them now.
  r.request.prompt = std::vector<int32_t>(), r.request.options = {}, r.request.stops = std::vector<std::string>();
  r.scheduled = scheduler_.add(std::move(g));
}

GenerationService::Running GenerationService::extract(std::map<int64_t, Running>::iterator it) {
  const std::scoped_lock lock(mutex_);
  tokens_ -= it->second.prompt;
  return std::move(running_.extract(it).mapped());
}

void GenerationService::end(int64_t number, const Generated& generated, const std::exception_ptr& error) {
  const auto it = running_.find(number);
  if (it == running_.end()) return;
  const Running ended = extract(it);  // on_end may submit, and throw
  {
    const std::scoped_lock lock(mutex_);
    counts_.tokens += int64_t(generated.tokens.size());
  }
  count(false);  // who has the answer sees that the text has gone
  if (!ended.request.on_end) return;
  TextEnd result{!error && ended.stream ? ended.stream->finish() : "", generated, error};
  if (ended.stream) result.stop = ended.stream->stop();
  result.state = ended.state;
  try {
    if (!error && ended.request.embed && generated.reason != FinishReason::deadline)
      result.embedding = embedding_of(ended.hidden, ended.hidden_rows, *ended.request.embed);
  } catch (const Error&) {
    result.error = std::current_exception();
  }
  ended.request.on_end(result);
}

// One of each. False: none is left.
bool GenerationService::step_parts() {
  std::vector<std::function<bool()>> parts;
  {
    const std::scoped_lock lock(mutex_);
    parts.swap(parts_);
  }
  std::erase_if(parts, [](const std::function<bool()>& part) { return !part(); });
  const std::scoped_lock lock(mutex_);
  parts_.insert(parts_.begin(), parts.begin(), parts.end());
  return !parts_.empty();
}

// False where there was nothing to do.
bool GenerationService::step() {
  bool any = true;
  try {
    any = scheduler_.step();
  } catch (...) {
    if (running_.empty()) throw;
    fail_all(std::current_exception());
  }
  count(any);
  return any;
}

// Neither texts in progress nor those that wait are computed any more.
void GenerationService::fail_all(const std::exception_ptr& error) {
  for (const auto& [number, text] : running_) scheduler_.cancel(text.scheduled);
  while (!running_.empty()) end(running_.begin()->first, {}, error);
}

void GenerationService::count(bool stepped) {
  const std::optional<size_t> pool = decoder_.state().shared_pool();
  const std::scoped_lock lock(mutex_);
  counts_.running = int64_t(scheduler_.running());
  counts_.waiting = int64_t(scheduler_.waiting());
  counts_.shared_tokens = scheduler_.shared_tokens();
  counts_.preemptions = scheduler_.preemptions();
  counts_.proposed = scheduler_.speculation().proposed;
  counts_.accepted = scheduler_.speculation().accepted;
  counts_.steps += stepped;
  counts_.snapshots = decoder_.state().shape().snapshots;
  counts_.snapshots_used = scheduler_.snapshots();
  if (!pool) return;
  counts_.pages = decoder_.state().pools()[*pool].pages;
  counts_.pages_used = counts_.pages - decoder_.state().free_pages(*pool);
}

}  // namespace toy
