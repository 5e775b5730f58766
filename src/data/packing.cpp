#include "toy/data/packing.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "data/permute.h"
#include "toy/base/error.h"

namespace toy {

PackedRows::PackedRows(TokenView ids, std::span<const uint64_t> begins, uint64_t end, int64_t tokens, uint64_t seed,
                       std::span<const uint8_t> trained)
    : ids_(ids), trained_(trained), tokens_(tokens), seed_(seed) {
  check(tokens >= 1, "packed rows of {} tokens; give 1 or more", tokens);
  std::vector<Piece> pieces;
  for (size_t i = 0; i < begins.size(); ++i) {
    const uint64_t stop = i + 1 < begins.size() ? begins[i + 1] : end;
    if (stop - begins[i] > uint64_t(tokens) + 1) ++cut_;
    if (!trained.empty()) {
      const uint64_t length = std::min(stop - begins[i], uint64_t(tokens) + 1);
      const std::span<const uint8_t> targets = trained.subspan(begins[i] + 1, length - 1);
      const int64_t count = std::count(targets.begin(), targets.end(), 1);
      counted_ += count;
      passed_over_ += count == 0;
      if (count > 0) pieces.push_back({begins[i], int32_t(length - 1)});
      continue;
    }
    if (stop - begins[i] < 2) ++passed_over_;
    for (uint64_t at = begins[i]; at + 1 < stop; at += uint64_t(tokens))
      pieces.push_back({at, int32_t(std::min<uint64_t>(uint64_t(tokens), stop - 1 - at))});
  }
  check(!pieces.empty() || trained.empty(),
        "data: of {} examples none has a target that counts within {} tokens; use a larger --tokens", begins.size(),
        tokens);
  check(!pieces.empty(), "pack: of {} documents none has two tokens, so there is nothing to learn", begins.size());
  for (const Piece& p : pieces) targets_ += p.inputs;
  if (trained.empty()) counted_ = targets_;

  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return pieces[a].inputs > pieces[b].inputs; });
  std::vector<std::vector<int64_t>> rows_with(static_cast<size_t>(tokens));  // by the number of free places
  std::set<int64_t> free;                                                    // the numbers that have rows
  std::vector<int64_t> row_of(pieces.size());
  int64_t rows = 0;
  for (const size_t i : order) {
    const int64_t need = pieces[i].inputs;
    int64_t row = rows, left = tokens - need;
    if (const auto best = free.lower_bound(need); best != free.end()) {
      std::vector<int64_t>& list = rows_with[size_t(*best)];
      row = list.back();
      left = *best - need;
      list.pop_back();
      if (list.empty()) free.erase(best);
    } else {
      ++rows;
    }
    row_of[i] = row;
    if (left > 0) {
      if (rows_with[size_t(left)].empty()) free.insert(left);
      rows_with[size_t(left)].push_back(row);
    }
  }
  row_begins_.assign(size_t(rows) + 1, 0);
  for (const int64_t row : row_of) ++row_begins_[size_t(row) + 1];
  std::partial_sum(row_begins_.begin(), row_begins_.end(), row_begins_.begin());
  pieces_.resize(pieces.size());
  std::vector<int64_t> next(row_begins_.begin(), row_begins_.end() - 1);
  for (size_t i = 0; i < pieces.size(); ++i) pieces_[size_t(next[size_t(row_of[i])]++)] = pieces[i];
}

void PackedRows::add_row(int64_t row, int64_t sequence, Windows& out) const {
  const size_t end = out.inputs.size() + size_t(tokens_);
  for (int64_t p = row_begins_[size_t(row)]; p < row_begins_[size_t(row) + 1]; ++p, ++sequence) {
    const Piece& piece = pieces_[size_t(p)];
    ids_.copy(int64_t(piece.begin), piece.inputs, out.inputs);
    ids_.copy(int64_t(piece.begin) + 1, piece.inputs, out.targets);
    if (!trained_.empty()) {
      const auto first = trained_.begin() + int64_t(piece.begin) + 1;
      out.trained.insert(out.trained.end(), first, first + piece.inputs);
    }
    for (int32_t t = 0; t < piece.inputs; ++t) {
      out.sequence.push_back(int32_t(sequence));
      out.position.push_back(t);
    }
  }
  // Padding: a sequence of its own in every row.
  for (int32_t t = 0; out.inputs.size() < end; ++t) {
    out.inputs.push_back(0);
    out.targets.push_back(0);
    out.sequence.push_back(int32_t(-1 - sequence));
    out.position.push_back(t);
  }
  if (!trained_.empty()) out.trained.resize(end, 0);
}

Windows PackedRows::rows(int64_t first, int64_t count) const {
  Windows out;
  for (int64_t i = 0; i < count; ++i) add_row(first + i, i * tokens_, out);
  return out;
}

Windows PackedRows::windows(int64_t first, int64_t count) const {
  check(first >= 0, "packed rows: row {}; rows are counted from 0", first);
  const uint64_t key = hash_name("packed order") ^ seed_, n = uint64_t(rows());
  Windows out;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t row = uint64_t(first + i);
    add_row(int64_t(permute(row % n, n, key, row / n)), i * tokens_, out);
  }
  return out;
}

}  // namespace toy
