// Decoding: many sequences, any number of their tokens, in one call.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "toy/base/options.h"
#include "toy/decode/sampler.h"
#include "toy/decode/state.h"
#include "toy/models/model.h"

namespace toy {

/// How much a decoder holds and computes at once.
struct DecoderOptions {
  int sequences = 1;          ///< sequences held at once
  int64_t context = 0;        ///< positions per sequence; 0: what the model was made for
  int64_t max_rows = 256;     ///< rows computed together; longer prompts are split, with the same bits
  bool check_finite = false;  ///< Session::check_finite in every call
  /// Keys and values are kept in this type, f32, f16 or q8_0 (heads of a multiple of 32), to which they are rounded
  /// before any row sees them. None: default_kv().
  std::optional<DType> kv = {};
  /// Products with quantized weights do not round their other operand to 8 bits: slower, and as exact as with the same
  /// weights in f32.
  bool exact = false;
  /// Sequences may differ in what adapters they use (Decoder::use_adapters()).
  bool adapters_by_sequence = false;
  /// Products with quantized weights read repacked copies, which decoding made: faster, with the same bits, for
  /// decoder_bytes() more memory. Not with `exact`.
  bool repack = false;
  /// Bytes of the state: windows and recurrent states of all sequences, snapshots of them, and the pages that sequences
  /// share in layers without a window. 0: room for each to be full, and no snapshots. A Scheduler makes its requests
  /// wait for room; without one, decode() throws where there is none.
  size_t cache = 0;
  int64_t take_back = 1;  ///< DecodeShape::take_back
  /// Calls can give the hidden states of rows; see DecodeRow::hidden. The plan has an output more for them.
  bool hidden = false;

  /// See toy/base/options.h.
  static void fields(auto& o, auto&& f) {
    constexpr auto k = "Machine";
    constexpr double kMost = 1 << 24;  // as ModelSpec::validate
    f({"context", "Positions of prompt and text; 0 takes the model's own", from_to(0, kMost), k, "", "", "--ctx"},
      o.context);
    f(text_option(
          "cache",
          "Memory of all texts and snapshots of them, such as 2G (default: room for all, or half of what is free)", k,
          "SIZE"),
      o.cache);
    f(text_option("kv", "Type of keys and values (default: f32 for F32 models, else f16)", k, "f32|f16|q8_0"), o.kv);
    f({"exact", "Multiply quantized weights with activations that are not rounded (slower)", {}, k}, o.exact);
    f({"check_finite", "Stop at the first op with a result that is not finite, and name it (slower)", {}, "Debugging"},
      o.check_finite);
  }
};

/// One row of a call: the next token of a sequence.
struct DecodeRow {
  int sequence = 0;
  int32_t token = 0;
  bool logits = false;  ///< are the logits after this token wanted?
  bool hidden = false;  ///< is the output of the last norm wanted? Needs DecoderOptions::hidden
};

/// Runs a model token by token. A row's logits have the same bits whatever other sequences there are and however
/// a prompt was cut.
class Decoder {
 public:
  /// Compiles the plan and allocates the state. `device` and `model` must outlive the decoder. Throws when
  /// the memory will not suffice.
  Decoder(Device& device, const Model& model, const DecoderOptions& options);

  /// Appends each row's token to its sequence (rows of one sequence are consecutive, in order) and computes the logits
  /// and hidden states asked for. Throws Error{bad_input} for a token outside the vocabulary, a context overrun or a
  /// full cache; nothing has changed then. After an error of the computation that check_finite finds, every sequence is
  /// as before. After any other (a device fails), a sequence whose rows cannot be taken back, because a layer is
  /// recurrent or a window has moved on, is empty.
  void decode(std::span<const DecodeRow> rows);
  /// Logits [V] of the i-th row of the last call that asked for them. Where the device has memory of its own, they are
  /// read from it now. Threads may ask at the same time.
  std::span<const float> logits(size_t i) const;
  size_t logits_count() const { return logits_count_; }
  /// The id of the largest of these logits, the first of equal ones, where the device tells it without their being
  /// read. Never where one is NaN, or the largest is infinite.
  std::optional<int32_t> largest(size_t i) const;
  /// The largest of these logits in their order, equal ones by id: kLikeliest, or all there are.
  struct Likeliest {
    std::span<const int32_t> ids;
    std::span<const float> logits;
  };
  /// Where largest() tells something. Until the next call of decode().
  std::optional<Likeliest> likeliest(size_t i) const;
  /// Hidden states [D] of the i-th row of the last call that asked for them: what the output projection multiplies.
  std::span<const float> hidden(size_t i) const;
  size_t hidden_count() const { return hidden_.size() / size_t(width_); }
  /// Can rows ask for hidden states?
  bool gives_hidden() const { return gives_hidden_; }

  /// From now on rows of this sequence use the model's adapters times these factors; 0: not at all, with the bits of a
  /// model without it. None: all of them times 1, as at first. What the sequence holds already stays as it was
  /// computed. Throws Error{bad_input} without DecoderOptions::adapters_by_sequence, for another number of factors, for
  /// one that is not finite, and for one that is neither 0 nor 1 where the adapter has magnitudes (DoRA).
  void use_adapters(int sequence, std::span<const float> factors);
  /// Throws as use_adapters() does for such factors.
  void check_adapters(std::span<const float> factors) const;

  DecodeState& state() { return *state_; }
  int64_t vocab() const { return vocab_; }
  int64_t context() const { return state_->context(); }
  int64_t max_rows() const { return max_rows_; }
  /// Are products with quantized weights rounded, as rounds_activations() says?
  bool rounds() const { return rounds_; }
  /// The type of the keys and values that it keeps.
  DType kv() const { return state_->shape().kv; }
  /// Bytes of the weights' repacked copies.
  size_t repacked_bytes() const { return session_->plan().repacked_bytes(); }
  const Plan& plan() const { return session_->plan(); }
  Session& session() { return *session_; }

 private:
  void run_piece(std::span<const DecodeRow> rows);
  /// Outputs of the plan: the first one, or counted from the end.
  enum class Output : size_t { logits = 0, maximum = 1, likeliest_logits = 2, likeliest = 3 };
  size_t width_of(Output output) const;
  template <class T>
  std::span<const T> read(Output output, std::vector<T>& all) const;
  void read_all() const;
  bool tells_likeliest(size_t i) const;
  void forget_results();
  int64_t vocab_, width_, max_rows_;
  bool rounds_, gives_hidden_, tells_likeliest_;
  bool check_finite_ = false;
  std::vector<std::vector<float>> factors_;  // of each adapter, by sequence; empty unless sequences may differ
  std::vector<bool> magnitudes_;             // has the adapter some?
  std::unique_ptr<DecodeState> state_;
  std::unique_ptr<Session> session_;
  mutable std::mutex reading_;  // of what follows: all of logits_count_ rows, or the last piece is still on the device
  mutable std::vector<float> logits_, most_, likeliest_logits_;
  mutable std::vector<int32_t> likeliest_;
  std::vector<float> hidden_;
  size_t logits_count_ = 0;
  int64_t calls_ = 0;
  std::vector<int32_t> tokens_, sequences_, positions_, wanted_, wanted_hidden_;
};

/// The shape of a decoder's state. Throws as its constructor does for options that the model cannot have.
DecodeShape decode_shape(const Model& model, const DecoderOptions& options);

/// Do products round activations to 8 bits? Those with quantized weights do on a device that has such products, unless
/// DecoderOptions::exact.
bool rounds_activations(const Device& device, const Model& model, const DecoderOptions& options);

/// Bytes that a decoder holds in addition to the weights: state, arena, inputs, repacked copies. Allocates nothing.
size_t decoder_bytes(Device& device, const Model& model, const DecoderOptions& options);
/// The same before the model is there.
size_t decoder_bytes(Device& device, const ModelSpec& spec, const Weights::DTypeOf& dtype_of,
                     const DecoderOptions& options);
/// Throws Error{bad_input} where a device with memory of its own has no room for the weights of a GGUF and for decoding
/// with them, naming what would fit: before load_model() uploads anything.
void require_room_to_decode(Device& device, const std::string& path, const DecoderOptions& options);

/// What a decoder compiles, for `describe`.
struct DecodeGraph {
  std::unique_ptr<Graph> graph;
  std::vector<Value> outputs, updates;
};
/// One call of a decoder for up to `max_rows` rows. The outputs are the logits and, if wanted, the hidden states.
/// `adapters_by_sequence`: as for DecoderOptions. `likeliest`: then come the ids of the largest logits, these logits,
/// and, for NaN to be seen, the maxima. `values_of`: as for Weights; without them the graph has the same sizes.
DecodeGraph build_decode_graph(const ModelSpec& spec, const Weights::DTypeOf& dtype_of, DecodeShape shape,
                               int64_t max_rows, bool hidden = false, bool adapters_by_sequence = false,
                               bool likeliest = false, const Weights::ValuesOf& values_of = {});

}  // namespace toy
