// States of sequences in files: a long prompt is computed once, and continued after a restart with the same bits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "toy/decode/decoder.h"
#include "toy/formats/gguf.h"

namespace toy {

/// An adapter that a state was computed with.
struct StateAdapter {
  std::string name;  ///< for people
  std::string id;    ///< tells its weights from those of others: a checksum
  float factor = 1;  ///< not 0
};

/// What a file says about a state, without the state.
struct StateCard {
  /// What a decoder must have in common to continue it with the same bits: made_with().
  std::map<std::string, std::string> made_with;
  std::vector<StateAdapter> adapters;
  int64_t tokens = 0;  ///< that the sequence holds
};

/// What a sequence holds, and what it was made with.
struct SavedState {
  StateCard card;
  std::vector<int32_t> tokens;  ///< as many as the snapshot's length
  StateSnapshot snapshot;
};

/// What decides about the bits and the layout of a decoder's state: "model", a checksum of dimensions and weights
/// without adapters; "kv", "activations", "device", and where the model has them "windows", "take_back" and
/// "rope_factors". Reads all weights.
std::map<std::string, std::string> made_with(const Model& model, Decoder& decoder);
/// A checksum of each adapter of a model, whatever its name and number. Reads their weights.
std::vector<std::string> adapter_checksums(const Model& model);

/// Writes a GGUF file (architecture "toy-state"), atomically, which its owner alone can read, and returns its bytes.
/// `state`: that the snapshot was taken from. Throws Error{bad_input} for an unwritable folder or a full disk.
uint64_t write_state(const SavedState& saved, const DecodeState& state, const std::string& path);

/// What a file says. Throws Error{bad_input} naming the file for one of another kind or version.
StateCard read_state_card(const gguf::File& file);

/// The state in a file, of which every byte was compared with the checksum. `state` says how it has to look: a card
/// with other `made_with` than the decoder's is the better message, so compare it before. Throws Error{bad_input} for
/// another number of positions than `state` can hold, other slots, and a damaged file.
SavedState read_state(const gguf::File& file, const DecodeState& state);

}  // namespace toy
