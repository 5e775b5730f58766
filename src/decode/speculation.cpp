#include "decode/speculation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/models/model.h"

namespace toy {
namespace {

// Rows that a call computes in the time in which it reads weights of one byte.
constexpr double kRowsPerByte = 3;
// A rate begins at the first one and returns to it while nothing is proposed. That is slow: n-grams that are always
// wrong cost a text of 300 tokens less than 2.5% of its time, a draft model less than 6%.
constexpr double kFirstRate = 0.7, kLearning = 0.15, kRecovery = 0.005;
constexpr const char* kWayOut = "use a draft with the vocabulary of the model";
constexpr size_t kShortestMatch = 2, kLongestMatch = 16;

// Tokens at the ends of a[0, i) and a that are equal, up to the longest that counts.
size_t match_at(std::span<const int32_t> a, size_t i) {
  size_t n = 0;
  while (n < std::min(i, kLongestMatch) && a[i - 1 - n] == a[a.size() - 1 - n]) ++n;
  return n;
}

// The time of one more token for each of `texts`, in the time that a call without takes.
double cost_of_token(const SpeculationOptions& o, size_t texts, bool by_draft) {
  return double(texts) / (o.rows_per_read + double(texts)) + (by_draft ? o.draft_cost : 0);
}

// The time of a call of one row, in bytes.
double time_of(const TokenWork& work) { return work.bytes + work.weights / kRowsPerByte; }

}  // namespace

void SpeculationOptions::estimate(const TokenWork& model, const TokenWork& drafts) {
  check(model.bytes > 0 && model.weights > 0, "draft: the model reads nothing");
  rows_per_read = kRowsPerByte * model.bytes / model.weights;
  if (drafts.weights <= 0) return;
  constexpr double kPrompts = 2;  // a row among many takes half as long
  draft_cost = time_of(drafts) / time_of(model);
  draft_read = drafts.weights / (kRowsPerByte * kPrompts) / time_of(model);
}

bool SpeculationOptions::draft_proposes() const { return kFirstRate > cost_of_token(*this, 1, true); }

bool SpeculationOptions::reading_pays(size_t unread, size_t written, size_t to_come) const {
  constexpr double kGain = 0.5;  // of the time of a token
  const double calls = double(unread) * draft_read;
  return calls <= double(written) && calls <= kGain * double(to_come);
}

void SpeculationOptions::validate() const {
  check(!ngrams || draft == nullptr, "draft: n-grams and a model cannot both propose; choose one");
  check(most >= 1, "draft: at most {} proposed tokens, expected at least 1", most);
  check(draft_cost > 0 && std::isfinite(draft_cost), "draft: a cost of {}, expected a number above 0", draft_cost);
  check(draft_read >= 0 && std::isfinite(draft_read), "draft: reading takes {}, expected a number, 0 or more",
        draft_read);
  check(rows_per_read > 0 && std::isfinite(rows_per_read),
        "draft: {} rows in the time of reading the weights, expected a number above 0", rows_per_read);
}

void require_as_many_tokens(const ModelSpec& model, const ModelSpec& draft) {
  constexpr int64_t kMostPadded = 128;
  check(std::abs(model.vocab - draft.vocab) <= kMostPadded, "draft: it has {} tokens and the model has {}; {}",
        draft.vocab, model.vocab, kWayOut);
}

void require_same_tokens(const Model& model, const Model& draft) {
  require_as_many_tokens(model.spec, draft.spec);
  check((model.tokenizer == nullptr) == (draft.tokenizer == nullptr),
        "draft: only one of both models has a tokenizer, so their tokens cannot be compared; {}", kWayOut);
  if (!model.tokenizer) return;
  const int32_t both = std::min(model.tokenizer->vocab_size(), draft.tokenizer->vocab_size());
  for (int32_t id = 0; id < both; ++id)
    check(model.tokenizer->written(id) == draft.tokenizer->written(id),
          "draft: token {} is '{}', but '{}' in the model; {}", id, one_line(draft.tokenizer->written(id)),
          one_line(model.tokenizer->written(id)), kWayOut);
}

void AcceptanceRate::learn(size_t proposed, size_t accepted) {
  if (proposed == 0) rate_ += kRecovery * (kFirstRate - rate_);
  for (size_t i = 0; i < accepted; ++i) rate_ += kLearning * (1 - rate_);
  if (accepted < proposed) rate_ -= kLearning * rate_;
}

size_t AcceptanceRate::worth(const SpeculationOptions& options, size_t texts) const {
  const double cost = cost_of_token(options, texts, options.draft != nullptr);
  size_t n = 0;
  for (double chance = rate_; n < size_t(options.most) && chance > cost; chance *= rate_) ++n;
  return n;
}

std::vector<int32_t> continue_by_ngrams(std::span<const int32_t> text, size_t most) {
  size_t best = kShortestMatch - 1, place = 0;
  for (size_t i = text.size(); i-- > kShortestMatch && best < kLongestMatch;)
    if (const size_t n = match_at(text, i); n > best) best = n, place = i;
  std::vector<int32_t> tokens;
  if (best < kShortestMatch) return tokens;
  for (size_t at = place; tokens.size() < most; ++at)
    tokens.push_back(at < text.size() ? text[at] : tokens[at - text.size()]);
  return tokens;
}

DraftModel::DraftModel(Decoder& decoder, size_t texts, int64_t vocab)
    : decoder_(decoder), sequences_(texts), padded_(size_t(vocab)) {
  check(size_t(decoder.state().sequences()) >= texts, "draft: a decoder of {} sequences is too small for {} texts",
        decoder.state().sequences(), texts);
}

size_t DraftModel::unread(size_t sequence, std::span<const int32_t> history) const {
  const std::vector<int32_t>& held = sequences_[sequence].held;
  return size_t(history.end() - std::ranges::mismatch(history, held).in1);
}

void DraftModel::forget(size_t sequence) {
  decoder_.state().reset(int(sequence));
  sequences_[sequence].held.clear();
  sequences_[sequence].before.length = 0;
}

// Of as many tokens as the model has that verifies.
std::span<const float> DraftModel::logits(size_t i) {
  const std::span<const float> own = decoder_.logits(i);
  if (own.size() >= padded_.size()) return own.first(padded_.size());
  std::ranges::fill(padded_, -std::numeric_limits<float>::infinity());
  std::ranges::copy(own, padded_.begin());
  return padded_;
}

// The sequence holds the beginning of this text, without its last token.
void DraftModel::go_back(size_t sequence, std::span<const int32_t> history) {
  Sequence& s = sequences_[sequence];
  DecodeState& state = decoder_.state();
  const auto end = std::mismatch(s.held.begin(), s.held.end(), history.begin(), history.end() - 1).first;
  size_t common = size_t(end - s.held.begin());
  if (common == s.held.size()) return;
  if (state.recurrent() && s.before.length > 0 && size_t(s.before.length) <= common) {
    common = size_t(s.before.length);
    state.rewind(int(sequence), s.before);
  } else if (int64_t(common) >= state.shortest(int(sequence))) {
    state.truncate(int(sequence), int64_t(common));
  } else {
    common = 0;
    forget(sequence);
  }
  s.held.resize(common);
}

bool DraftModel::has_room(const std::vector<int64_t>& more) const {
  const DecodeState& state = decoder_.state();
  const std::optional<size_t> pool = state.shared_pool();
  return !pool || state.pages_needed(more) <= state.free_pages(*pool);
}

void DraftModel::decode(const std::vector<DecodeRow>& rows) {
  try {
    decoder_.decode(rows);
  } catch (...) {
    for (const DecodeRow& r : rows) forget(size_t(r.sequence));
    throw;
  }
  for (const DecodeRow& r : rows) sequences_[size_t(r.sequence)].held.push_back(r.token);
}

// Reads what is new of the texts. Returns those that are read to their ends, in the order of their logits.
std::vector<Proposal*> DraftModel::read(std::span<Proposal> proposals) {
  std::vector<DecodeRow> rows;
  std::vector<Proposal*> ready;
  std::vector<int64_t> more(size_t(decoder_.state().sequences()));
  for (Proposal& p : proposals) {
    const auto unknown = [&](int32_t id) { return id >= decoder_.vocab(); };  // a larger vocabulary is padded
    if (int64_t(p.history.size() + p.most) > decoder_.context() || std::ranges::any_of(p.history, unknown)) continue;
    go_back(p.sequence, p.history);
    const size_t from = sequences_[p.sequence].held.size(), left = p.history.size() - from,
                 n = std::min(left, size_t(decoder_.max_rows()) - rows.size());
    more[p.sequence] = int64_t(n + p.most);
    if (n == 0 || !has_room(more)) {
      more[p.sequence] = 0;
      continue;
    }
    for (size_t i = from; i < from + n; ++i) rows.push_back({int(p.sequence), p.history[i], i + 1 == p.history.size()});
    if (n == left) ready.push_back(&p);
  }
  if (!rows.empty()) decode(rows);
  return ready;
}

void DraftModel::propose(std::span<Proposal> proposals) {
  std::vector<Proposal*> ready = read(proposals);
  std::vector<Sampler> samplers;
  std::vector<std::vector<int32_t>> texts;
  for (const Proposal* p : ready) {
    samplers.push_back(*p->sampler);
    texts.emplace_back(p->history.begin(), p->history.end());
    if (p->most > 1) decoder_.state().save(int(p->sequence), sequences_[p->sequence].before);
  }
  std::vector<size_t> going(ready.size());
  for (size_t i = 0; i < going.size(); ++i) going[i] = i;
  while (!going.empty()) {
    std::vector<DecodeRow> rows;
    std::vector<size_t> next;
    for (size_t k = 0; k < going.size(); ++k) {
      const size_t i = going[k];
      Proposal& p = *ready[i];
      int32_t id = 0;
      try {
        id = samplers[i].pick(logits(k), p.step + p.tokens.size(), texts[i]);
      } catch (const Error&) {  // the draft cannot say
        continue;
      }
      p.tokens.push_back(id);
      texts[i].push_back(id);
      if (p.tokens.size() == p.most || samplers[i].finished()) continue;
      rows.push_back({int(p.sequence), id, true});
      next.push_back(i);
    }
    if (!rows.empty()) decode(rows);
    going = next;
  }
}

}  // namespace toy
