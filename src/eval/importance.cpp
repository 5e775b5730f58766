#include "toy/eval/importance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "toy/base/error.h"
#include "toy/base/memory.h"
#include "toy/graph/op_def.h"
#include "toy/models/transformer.h"

namespace toy {
namespace {

// What some matrices are multiplied with: squares summed over rows, and how many rows there were.
struct Tap {
  Value sums;                        // [I], of experts [E,I]
  Value counts;                      // [E]; absent: all rows
  std::vector<std::string> tensors;  // as files name them
};

Tap of_rows(Value x) { return {sum(x * x, 0), {}, {}}; }

// x:[N,1,I], or [N,U,I] where each expert has a row of its own; ids:[N,U].
Tap of_expert_rows(Value x, Value ids, int64_t experts) {
  const int64_t n = x.dim(0) * x.dim(1);
  const Value asked = one_hot(ids, experts), rows = reshape(x.dim(1) == 1 ? sum(asked, 1) : asked, {n, experts});
  return {matmul(rows, reshape(x * x, {n, x.dim(2)}), {true, false}), sum(rows, 0), {}};
}

// Maps that share their operand (q, k and v) share a tap.
std::vector<Tap> find_taps(Graph& g, const std::vector<TensorSpec>& tensors) {
  std::map<std::string, std::string> file_names;
  for (const TensorSpec& t : tensors) file_names[t.name] = t.file_name.empty() ? t.name : t.file_name;
  std::vector<const Node*> maps;
  for (const Node& n : g.nodes())
    if (n.kind == NodeKind::op && (n.op->name() == "linear" || n.op->name() == "expert_linear") &&
        g.node(n.inputs[1]).kind == NodeKind::param)
      maps.push_back(&n);
  std::vector<Tap> taps;
  std::map<Value, size_t> known;
  for (const Node* n : maps) {
    const Value x = n->inputs[0], w = n->inputs[1];
    const auto [at, fresh] = known.try_emplace(x, taps.size());
    if (fresh) taps.push_back(n->op->name() == "linear" ? of_rows(x) : of_expert_rows(x, n->inputs[2], w.dim(0)));
    taps[at->second].tensors.push_back(file_names.at(g.node(w).name));
  }
  return taps;
}

}  // namespace

gguf::Imatrix measure_importance(Device& device, const Model& model, std::span<const int32_t> tokens, int64_t chunk,
                                 const std::function<void(int64_t, int64_t)>& progress) {
  check(!tokens.empty(), "imatrix: the text has no tokens; give a longer one");
  check(chunk >= 1, "imatrix: chunks of {} tokens, expected at least 1", chunk);
  const int64_t n = std::min(chunk, int64_t(tokens.size())), chunks = int64_t(tokens.size()) / n;
  model.spec.require_positions(n, "ctx");
  Graph g;
  const TensorType ids{DType::i32, {n}, 0};
  const Value inputs = g.input("tokens", ids, model.spec.vocab);
  const nn::Context ctx{.batch = {.sequence = g.input("sequence", ids), .position = g.input("position", ids, n)}};
  const Weights weights = model.weights(g);
  const Transformer transformer(model.spec, weights, n);
  transformer.head.logits(transformer(inputs, ctx));
  const std::vector<Tap> taps = find_taps(g, weights.declared());
  std::vector<Value> outputs;
  for (const Tap& t : taps) {
    outputs.push_back(t.sums);
    if (t.counts) outputs.push_back(t.counts);
  }
  auto plan = std::make_shared<const Plan>(compile(g, outputs, {}, device));
  require_memory(device, plan->arena_bytes + plan->input_bytes(device), "reading chunks of this length");
  Session session(device, plan, {model.params.get()});
  std::vector<int32_t> positions(static_cast<size_t>(n));
  std::iota(positions.begin(), positions.end(), 0);
  session.set("sequence", std::vector<int32_t>(size_t(n), 0));
  session.set("position", positions);
  const bool bos = model.tokenizer && model.tokenizer->adds_bos() && model.tokenizer->bos();
  std::vector<std::vector<double>> sums(outputs.size());
  for (int64_t c = 0; c < chunks; ++c) {
    const auto begin = tokens.begin() + c * n;
    std::vector<int32_t> piece(begin, begin + n);
    if (bos) piece[0] = *model.tokenizer->bos();
    session.set("tokens", piece);
    session.run();
    for (size_t i = 0; i < sums.size(); ++i) {
      const std::vector<float> squares = session.values(i);
      sums[i].resize(squares.size());
      for (size_t k = 0; k < squares.size(); ++k) {
        if (!std::isfinite(squares[k])) fail_internal("imatrix: an activation is not finite; the weights are broken");
        sums[i][k] += double(squares[k]);
      }
    }
    if (progress) progress(c + 1, chunks);
  }
  gguf::Imatrix m;
  m.chunks = uint32_t(chunks), m.chunk_size = uint32_t(n);
  size_t at = 0;
  for (const Tap& t : taps) {
    std::vector<double> means = sums[at++];
    std::vector<float> counts{float(chunks * n)};
    if (t.counts) counts.assign(sums[at].begin(), sums[at].end()), ++at;
    const size_t width = means.size() / counts.size();
    // An expert that was never asked: its columns count evenly.
    for (size_t i = 0; i < means.size(); ++i) means[i] = counts[i / width] > 0 ? means[i] / counts[i / width] : 1;
    for (const std::string& name : t.tensors) {
      m.columns[name].assign(means.begin(), means.end());
      m.counts[name] = counts;
    }
  }
  return m;
}

}  // namespace toy
