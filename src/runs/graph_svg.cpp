// A graph as a drawing: a column each for forward, backward and update, a box a layer, a row an op; layers that repeat
// are drawn once.
#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>
#include <optional>

#include "toy/base/svg.h"
#include "toy/graph/op_def.h"
#include "toy/runs/drawings.h"

namespace toy {
namespace {

constexpr double kRow = 22, kGap = 26, kTitle = 24, kPad = 10, kLane = 9, kMargin = 20;
constexpr int kPort = -1;  // the value that enters a layer, as the source of an edge

struct Edge {
  int from, to;  // rows of one layer
  bool residual;
  auto operator<=>(const Edge&) const = default;
};

// One op, or several alike that do not depend on each other.
struct Row {
  std::string op, types, operands;
  int count = 1;
  Cost cost;  // of all of them
  bool same(const Row& o) const { return op == o.op && types == o.types && operands == o.operands && count == o.count; }
};

// A layer, or several alike in a row.
struct Layer {
  std::string name, last;  // of the first and of the last of them
  int count = 1;
  std::vector<Row> rows;
  std::vector<Edge> edges;
  bool same(const Layer& o) const {
    return edges == o.edges && rows.size() == o.rows.size() &&
           std::equal(rows.begin(), rows.end(), o.rows.begin(), [](const Row& a, const Row& b) { return a.same(b); });
  }
};

// What lies under a name without that name: "blk.3.ffn_up.weight" in blk.3 is "ffn_up.weight".
std::string inside(const std::string& name, const std::string& layer) {
  return !layer.empty() && name.starts_with(layer + ".") ? name.substr(layer.size() + 1) : name;
}

// Through ops that only look at memory differently.
Value maker(const Graph& graph, Value v) {
  while (graph.node(v).kind == NodeKind::op && graph.node(v).op->view) v = graph.node(v).inputs[0];
  return v;
}

// The weights whose gradients ops of backward compute, by node: what an update (or an accumulation) reads beside it.
// Its state has the weight's name with a suffix.
std::map<int, std::string> weights_of_gradients(const Graph& graph, const GraphCost& costs) {
  std::map<int, std::string> of;
  for (const Node& n : graph.nodes()) {
    if (n.phase != Phase::update) continue;
    const auto param = std::find_if(n.inputs.begin(), n.inputs.end(),
                                    [&](const Value& v) { return v && graph.node(v).kind == NodeKind::param; });
    if (param == n.inputs.end()) continue;
    std::string name = graph.node(*param).name;
    if (const std::string weight = name.substr(0, name.rfind('.')); graph.find(weight)) name = weight;
    for (const Value& v : n.inputs)
      if (v && graph.node(maker(graph, v)).phase == Phase::backward) of.emplace(maker(graph, v).node, name);
  }
  return of;
}

// The layers of one phase, in the order in which the graph was built.
class Column {
 public:
  Column(const Graph& graph, const GraphCost& costs, Phase phase, const std::map<int, std::string>& gradients)
      : graph_(graph), costs_(costs), phase_(phase), gradients_(gradients) {
    for (const Node& n : graph.nodes()) {
      const GraphCost::OfNode& c = costs.nodes[size_t(n.id)];
      if (n.kind == NodeKind::op && !n.op->view && c.used && n.phase == phase) add_op(n);
    }
    fold();
  }
  const std::vector<Layer>& layers() const { return layers_; }
  Phase phase() const { return phase_; }

 private:
  struct GridPlace {
    size_t layer;
    int row;
  };

  void add_op(const Node& n) {
    const std::string layer(n.layer.outer());
    if (layers_.empty() || layers_.back().name != layer) layers_.push_back({layer, layer, 1, {}, {}});
    Layer& l = layers_.back();
    Row row{n.op->name(), {}, {}, 1, costs_.nodes[size_t(n.id)].cost};
    for (const TensorType& t : n.outputs)
      if (t.shape.count() > 0) row.types += (row.types.empty() ? "" : " ") + t.str();  // others hold nothing here
    int params = 0;
    for (const Value& v : n.inputs) {
      if (!v) continue;
      const Node& leaf = graph_.node(v);
      if (leaf.kind != NodeKind::param) continue;
      if (++params == 1) row.operands = fmt::format("{} {}", inside(leaf.name, layer), graph_.type(v).shape.str());
    }
    if (const auto it = gradients_.find(n.id); it != gradients_.end() && params == 0)
      row.operands = "gradient of " + inside(it->second, layer);
    else if (params == 0 && n.layer.path.size() > layer.size())
      row.operands = inside(n.layer.path, layer);
    std::vector<Edge> edges = edges_to(n, int(l.rows.size()));
    // Many alike in a row, as the updates of all tensors, are one row.
    if (!l.rows.empty() && l.rows.back().op == row.op && params > 0 && n.phase == Phase::update) {
      Row& last = l.rows.back();
      ++last.count;
      last.cost += row.cost;
      last.types = "", last.operands = "";
      place_[n.id] = {layers_.size() - 1, int(l.rows.size()) - 1};
      return;
    }
    l.rows.push_back(std::move(row));
    l.edges.insert(l.edges.end(), edges.begin(), edges.end());
    place_[n.id] = {layers_.size() - 1, int(l.rows.size()) - 1};
  }

  std::vector<Edge> edges_to(const Node& n, int row) const {
    std::vector<Edge> edges;
    for (const Value& v : n.inputs) {
      if (!v) continue;
      const auto at = place_.find(maker(graph_, v).node);
      if (at == place_.end()) continue;
      const auto [layer, from] = at->second;
      const int source = layer + 1 == layers_.size() ? from : layer + 2 == layers_.size() ? kPort : kPort - 1;
      if (source < kPort) continue;  // of a layer further up: not drawn
      const Edge e{source, row, n.op->name() == "add" && row - source > 1};
      if (std::find(edges.begin(), edges.end(), e) == edges.end()) edges.push_back(e);
    }
    return edges;
  }

  void fold() {
    std::vector<Layer> folded;
    for (Layer& l : layers_) {
      if (!folded.empty() && !l.name.empty() && folded.back().same(l)) {
        ++folded.back().count;
        folded.back().last = l.name;
      } else {
        folded.push_back(std::move(l));
      }
    }
    layers_ = std::move(folded);
  }

  const Graph& graph_;
  const GraphCost& costs_;
  Phase phase_;
  const std::map<int, std::string>& gradients_;
  std::vector<Layer> layers_;
  std::map<int, GridPlace> place_;
};

// Where each edge that is not to the next row runs: lanes beside the rows, edges that overlap in different ones.
std::vector<int> lanes_of(const std::vector<Edge>& edges, int& lanes) {
  std::vector<int> of(edges.size(), -1);
  std::vector<std::vector<Edge>> taken;
  std::vector<size_t> order;
  for (size_t i = 0; i < edges.size(); ++i)
    if (edges[i].to - edges[i].from > 1) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return edges[a].to - edges[a].from < edges[b].to - edges[b].from;  // short ones near the rows
  });
  for (const size_t i : order) {
    const Edge& e = edges[i];
    size_t lane = 0;
    const auto free = [&](const std::vector<Edge>& list) {
      return std::all_of(list.begin(), list.end(),
                         [&](const Edge& t) { return t.to <= e.from || e.to <= t.from || t.from == e.from; });
    };
    while (lane < taken.size() && !free(taken[lane])) ++lane;
    if (lane == taken.size()) taken.emplace_back();
    taken[lane].push_back(e);
    of[i] = int(lane);
  }
  lanes = int(taken.size());
  return of;
}

std::string title_of(const Layer& l) {
  const std::string name = l.name.empty() ? l.rows.front().op : l.name;
  return l.count == 1 ? name : fmt::format("{} to {}: {} times", name, l.last, l.count);
}

std::string words_of(const Row& r) { return r.count == 1 ? r.types : fmt::format("{} tensors", r.count); }

// Cost of one of the layers.
std::string cost_of_layer(const Layer& l) {
  Cost c;
  for (const Row& r : l.rows) c += r.cost;
  return to_text(Cost{c.flops, c.bytes, 0}) + (l.count > 1 ? " each" : "");
}

struct Widths {
  double op = 0, types = 0, operands = 0, cost = 0, lanes = 0, least = 0;
  double rows() const { return op + types + operands + cost + 2 * kPad; }
  double all() const { return std::max(rows() + lanes + 2 * kPad, least); }
};

Widths widths_of(const std::vector<Layer>& layers) {
  Widths w;
  for (const Layer& l : layers) {
    int lanes = 0;
    lanes_of(l.edges, lanes);
    w.lanes = std::max(w.lanes, kLane * (lanes + 1));
    w.least = std::max(w.least, svg::kTitleCharacter * double(title_of(l).size()) +
                                    svg::kCharacter * double(cost_of_layer(l).size()) + 4 * kPad);
    for (const Row& r : l.rows) {
      w.op = std::max(w.op, svg::kCodeCharacter * double(r.op.size() + 2));
      w.types = std::max(w.types, svg::kCodeCharacter * double(words_of(r).size() + 2));
      w.operands = std::max(w.operands, svg::kCodeCharacter * double(r.operands.size() + 2));
      w.cost = std::max(w.cost, svg::kCodeCharacter * double(to_text(Cost{r.cost.flops, 0, 0}).size() + 1));
    }
  }
  return w;
}

void draw_edges(svg::Drawing& d, const Layer& l, double x, double right, double top) {
  const auto middle = [&](int row) { return top + kTitle + kRow * (row + 0.5); };
  int lanes = 0;
  const std::vector<int> lane = lanes_of(l.edges, lanes);
  for (size_t i = 0; i < l.edges.size(); ++i) {
    const Edge& e = l.edges[i];
    const char* css = e.residual ? "residual" : "flow";
    if (e.to - e.from == 1) {
      if (e.from != kPort)
        d.path(fmt::format("M{:.1f} {:.1f}V{:.1f}", x + kPad + 14, middle(e.from) + 8, middle(e.to) - 8), css, true);
      continue;
    }
    const double at = right + kLane * (lane[i] + 1);
    // What enters the layer does so between its title and its first row.
    const double from_x = e.from == kPort ? x + kPad + 14 : right,
                 from_y = e.from == kPort ? top + kTitle - 0.5 : middle(e.from) + 4;
    const std::string begin = fmt::format("M{:.1f} {:.1f}H{:.1f}", from_x, from_y, at);
    d.path(fmt::format("{}V{:.1f}H{:.1f}", begin, middle(e.to) - 4, right), css, true);
  }
}

// Returns where the column ends.
double draw_column(svg::Drawing& d, const std::vector<Layer>& layers, Phase phase, const Widths& w, double x,
                   double y) {
  for (const Layer& l : layers) {
    const double height = kTitle + kRow * double(l.rows.size()) + kPad / 2, right = x + kPad + w.rows();
    if (&l != &layers.front()) d.path(fmt::format("M{:.1f} {:.1f}V{:.1f}", x + kPad + 14, y - kGap, y), "flow", true);
    if (l.count > 1) d.rect(x + 4, y + 4, w.all(), height, "layer");  // a pile
    d.rect(x, y, w.all(), height, "layer");
    d.text(x + kPad, y + 16, title_of(l), "title");
    d.text(x + w.all() - kPad, y + 16, cost_of_layer(l), "soft right");
    for (size_t i = 0; i < l.rows.size(); ++i) {
      const Row& r = l.rows[i];
      const double top = y + kTitle + kRow * double(i), base = top + 14.5;
      d.rect(x + kPad, top + 2, w.rows(), kRow - 4, name_of(phase), 3);
      d.text(x + 2 * kPad, base, r.op, "code name");
      d.text(x + 2 * kPad + w.op, base, words_of(r), "code soft");
      d.text(x + 2 * kPad + w.op + w.types, base, r.operands, "code soft");
      d.text(right - kPad / 2, base, to_text(Cost{r.cost.flops, 0, 0}), "code soft right");
    }
    draw_edges(d, l, x, right, y);
    y += height + kGap;
  }
  return y;
}

// What shapes and lines mean, in rows from `y` on that are at most `width` wide; returns where they end.
double draw_legend(svg::Drawing& d, const std::vector<Column>& columns, double width, double y) {
  double x = kMargin;
  const auto put = [&](const std::string& text, const auto& draw) {
    constexpr double kSign = 26;
    const double w = kSign + svg::kCharacter * double(text.size()) + 2 * kPad;
    if (x > kMargin && x + w > width) x = kMargin, y += 16;
    draw();
    d.text(x + kSign, y + 3.5, text, "soft");
    x += w;
  };
  const auto has = [&](const auto& test) {
    return std::any_of(columns.begin(), columns.end(),
                       [&](const Column& c) { return std::any_of(c.layers().begin(), c.layers().end(), test); });
  };
  const auto has_edge = [&](bool residual) {
    return has([&](const Layer& l) {
      return std::any_of(l.edges.begin(), l.edges.end(), [&](const Edge& e) { return e.residual == residual; });
    });
  };
  put("op, type of its result, weight, FLOPs", [&] { d.rect(x, y - 5, 20, 10, name_of(columns.front().phase()), 2); });
  put("B sequences of T tokens: B x T rows", [] {});
  put("transcendentals: exp, log and the like", [] {});
  put("layer", [&] { d.rect(x, y - 6, 20, 12, "layer", 2); });
  if (has([](const Layer& l) { return l.count > 1; }))
    put("layers that are alike, drawn once", [&] {
      d.rect(x + 3, y - 3, 20, 10, "layer", 2);
      d.rect(x, y - 6, 20, 10, "layer", 2);
    });
  if (has_edge(false))
    put("input of a later op", [&] { d.path(fmt::format("M{:.1f} {:.1f}H{:.1f}", x, y, x + 20), "flow", true); });
  if (has_edge(true))
    put("residual connection", [&] { d.path(fmt::format("M{:.1f} {:.1f}H{:.1f}", x, y, x + 20), "residual", true); });
  return y;
}

}  // namespace

std::string to_svg(const Graph& graph, const GraphCost& costs, const std::string& title) {
  svg::Drawing d;
  d.text(kMargin, kMargin + 10, title, "title");
  d.text(kMargin, kMargin + 28, to_text(costs.total), "soft");
  const std::map<int, std::string> gradients = weights_of_gradients(graph, costs);
  std::vector<Column> columns;
  std::vector<double> widths;
  double width = kMargin + svg::kTitleCharacter * double(title.size()), x = kMargin;
  for (const Phase phase : kPhases) {
    Column column(graph, costs, phase, gradients);
    if (column.layers().empty()) continue;
    const double heading = svg::kCharacter * double(12 + to_text(costs.phases[size_t(phase)]).size());
    widths.push_back(std::max(widths_of(column.layers()).all(), heading));
    x += widths.back() + 2 * kMargin;
    columns.push_back(std::move(column));
  }
  width = std::max(width, x);
  if (columns.empty()) return d.file(width, kMargin + 40, title);
  const double top = draw_legend(d, columns, width, kMargin + 48) + 30;
  double bottom = 0;
  x = kMargin;
  for (size_t i = 0; i < columns.size(); ++i) {
    const Phase phase = columns[i].phase();
    d.text(x, top, fmt::format("{}: {}", name_of(phase), to_text(costs.phases[size_t(phase)])), "name");
    bottom = std::max(bottom, draw_column(d, columns[i].layers(), phase, widths_of(columns[i].layers()), x, top + 12));
    x += widths[i] + 2 * kMargin;
  }
  return d.file(width, bottom, title);
}

}  // namespace toy
