// The forward pass of a graph as a few boxes a layer: norms, mixers, ffns, residual connections.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "toy/base/svg.h"
#include "toy/graph/op_def.h"
#include "toy/runs/drawings.h"

namespace toy {
namespace {

constexpr double kBlockHeight = 30, kBlockGap = 18, kEdge = 20, kInset = 12, kHeading = 24, kBlockWidth = 380,
                 kBypass = 26;

// One box: ops that belong together, and their products with matrices, side by side where they read the same value.
struct Block {
  std::string name;
  std::vector<std::vector<std::string>> rows;  // "q [64,64]"
  Cost cost;
  bool residual = false;
};

struct Stage {
  std::string name, last;
  int count = 1;
  std::vector<Block> blocks;
  bool same(const Stage& o) const {
    return blocks.size() == o.blocks.size() &&
           std::equal(blocks.begin(), blocks.end(), o.blocks.begin(), [](const Block& a, const Block& b) {
             return a.name == b.name && a.rows == b.rows && a.residual == b.residual;
           });
  }
};

// The weight of an op, "" if it has none.
std::string weight_of(const Graph& graph, const Node& n) {
  for (const Value& v : n.inputs)
    if (v && graph.node(v).kind == NodeKind::param) return graph.node(v).name;
  return {};
}

// "blk.3.attn_q.weight" is "attn_q".
std::string short_name(std::string weight) {
  constexpr std::string_view kEnding = ".weight";
  if (weight.ends_with(kEnding)) weight.resize(weight.size() - kEnding.size());
  return weight.substr(weight.rfind('.') + 1);
}

// What a box is called whose weights begin so.
std::string name_of_part(const std::string& part) {
  if (part == "attn") return "attention";
  if (part == "ssm") return "state space";
  if (part == "shortconv") return "convolution";
  if (part == "token") return "embedding";
  return part;
}

bool is_norm_op(const Node& n) {
  const std::string_view op = n.op->name();
  return op == "rms_norm" || op == "layer_norm";
}

class Blocks {
 public:
  Blocks(const Graph& graph, const GraphCost& costs) : graph_(graph) {
    for (const Node& n : graph.nodes())
      if (n.kind == NodeKind::op && n.phase == Phase::forward && costs.nodes[size_t(n.id)].used)
        add(n, costs.nodes[size_t(n.id)].cost);
    for (Stage& l : layers_) {
      if (!folded_.empty() && !l.name.empty() && folded_.back().same(l))
        ++folded_.back().count, folded_.back().last = l.name;
      else
        folded_.push_back(std::move(l));
    }
  }
  const std::vector<Stage>& layers() const { return folded_; }

 private:
  void add(const Node& n, const Cost& cost) {
    const std::string layer(n.layer.outer());
    if (n.op->view && (layers_.empty() || layers_.back().name != layer)) return;
    if (layers_.empty() || layers_.back().name != layer) layers_.push_back({layer, layer, 1, {}}), open_ = false;
    std::vector<Block>& blocks = layers_.back().blocks;
    const std::string weight = short_name(weight_of(graph_, n));
    // The norm of a layer stands alone; those of queries, keys or heads are within their part.
    const bool alone = is_norm_op(n) && (weight.ends_with("attn_norm") || weight.ends_with("ffn_norm") ||
                                         weight.ends_with("output_norm") || weight.ends_with("attention_norm"));
    const bool residual = n.op->name() == "add" && !layer.empty() && weight.empty() && ends_part(n);
    if (alone || residual) {
      blocks.push_back({residual ? "add" : "norm", {}, cost, residual});
      open_ = false;
      return;
    }
    if (!open_ && n.op->view) return;
    if (!open_) blocks.push_back({std::string(n.op->name()), {}, {}}), open_ = true;
    Block& block = blocks.back();
    block.cost += cost;
    if (n.op->name() == std::string_view("gated_delta_rule")) block.name = "gated delta rule";
    if (n.op->name() == std::string_view("ssm_scan")) block.name = "state space";
    if (!weight.empty() && !is_norm_op(n)) add_matrix(n, weight, block);
  }

  void add_matrix(const Node& n, const std::string& weight, Block& block) {
    constexpr size_t kMost = 3;  // in a row
    const auto param = std::find_if(n.inputs.begin(), n.inputs.end(),
                                    [&](const Value& v) { return v && graph_.node(v).kind == NodeKind::param; });
    if (graph_.type(*param).shape.rank() < 2) return;
    const std::string part = weight.substr(0, weight.find('_'));
    if (block.rows.empty())
      block.name = n.op->name() == std::string_view("linear_xent") ? "logits and loss" : name_of_part(part);
    const bool short_part = part == "attn" || part == "ffn" || part == "ssm" || part == "shortconv";
    const int reads = n.inputs[0].node;
    if (block.rows.empty() || reads != reads_ || block.rows.back().size() == kMost) block.rows.emplace_back();
    reads_ = reads;
    block.rows.back().push_back(fmt::format("{} {}",
                                            short_part && weight != part ? weight.substr(part.size() + 1) : weight,
                                            graph_.type(*param).shape.str()));
  }

  // Does an addition take a value from before the last norm of its layer? Then what lies between is a branch.
  bool ends_part(const Node& n) const {
    int norm = -1;
    for (const Node& other : graph_.nodes())
      if (other.id < n.id && other.kind == NodeKind::op && other.phase == n.phase && is_norm_op(other) &&
          other.layer.outer() == n.layer.outer() && !short_name(weight_of(graph_, other)).empty())
        norm = std::max(norm, other.id);
    return norm >= 0 &&
           std::any_of(n.inputs.begin(), n.inputs.end(), [&](const Value& v) { return v && v.node < norm; });
  }

  const Graph& graph_;
  std::vector<Stage> layers_, folded_;
  bool open_ = false;  // does the last block take more ops?
  int reads_ = -1;     // what the last matrix is multiplied with
};

bool is_one(const Block& b) { return b.rows.size() == 1 && b.rows[0].size() == 1; }
double height_of(const Block& b) { return kBlockHeight + (is_one(b) ? 0 : kBlockHeight * double(b.rows.size())); }

// From top to bottom; where a branch begins, a line runs past it to the addition.
double draw_stage(svg::Drawing& d, const Stage& l, double y) {
  double height = kHeading + kInset;
  for (const Block& b : l.blocks) height += height_of(b) + kBlockGap;
  const double x = kEdge, left = x + kInset, right = left + kBlockWidth, line = right + kBypass;
  const double all = kBlockWidth + kBypass + 3 * kInset;
  if (l.count > 1) d.rect(x + 4, y + 4, all, height, "layer");
  d.rect(x, y, all, height, "layer");
  const std::string name = l.name.empty() ? "" : l.name;
  d.text(left, y + 16, l.count == 1 ? name : fmt::format("{} to {}: {} times", name, l.last, l.count), "title");
  double at = y + kHeading + kBlockGap / 2, begin = at - kBlockGap / 2;
  for (const Block& b : l.blocks) {
    const double h = height_of(b);
    d.path(fmt::format("M{:.1f} {:.1f}V{:.1f}", left + kBlockWidth / 2, at - kBlockGap / 2, at), "flow", true);
    d.rect(left, at, kBlockWidth, h, name_of(Phase::forward), 4);
    d.text(left + kInset, at + 19,
           b.residual  ? "+ what entered the branch"
           : is_one(b) ? b.name + "  " + b.rows[0][0]
                       : b.name,
           "code name");
    if (b.cost.flops > 0) d.text(right - kInset, at + 19, to_text(Cost{b.cost.flops, 0, 0}), "code soft right");
    for (size_t r = 0; !is_one(b) && r < b.rows.size(); ++r) {
      const double part = (kBlockWidth - 2 * kInset) / double(b.rows[r].size()),
                   top = at + kBlockHeight * double(r + 1);
      for (size_t i = 0; i < b.rows[r].size(); ++i) {
        d.rect(left + kInset + part * double(i) + 2, top - 4, part - 4, kBlockHeight - 6, "layer", 3);
        d.text(left + kInset + part * (double(i) + 0.5), top + 12, b.rows[r][i], "soft middle");
      }
    }
    if (b.residual) {
      d.path(fmt::format("M{:.1f} {:.1f}H{:.1f}V{:.1f}H{:.1f}", left + kBlockWidth / 2, begin, line, at + h / 2, right),
             "residual", true);
      begin = at + h + kBlockGap / 2;
    }
    at += h + kBlockGap;
  }
  return y + height;
}

}  // namespace

std::string to_block_svg(const Graph& graph, const GraphCost& costs, const std::string& title) {
  svg::Drawing d;
  const Blocks blocks(graph, costs);
  d.text(kEdge, kEdge + 10, title, "title");
  d.text(kEdge, kEdge + 28, "B sequences of T tokens are B x T rows; numbers are weights and FLOPs", "soft");
  double y = kEdge + 44;
  for (const Stage& l : blocks.layers()) {
    if (&l != &blocks.layers().front())
      d.path(fmt::format("M{:.1f} {:.1f}V{:.1f}", kEdge + kInset + kBlockWidth / 2, y - kBlockGap, y), "flow", true);
    y = draw_stage(d, l, y) + kBlockGap;
  }
  return d.file(kBlockWidth + kBypass + 3 * kInset + 2 * kEdge, y, title);
}

}  // namespace toy
