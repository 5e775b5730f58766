#include "toy/runtime/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "toy/backend/devices.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

std::string label(Value v) {
  const Node& n = v.graph->node(v);
  std::string s = n.layer.prefix();
  if (n.kind == NodeKind::constant) return s + (n.name.empty() ? "constant" : "constant '" + n.name + "'");
  if (n.kind != NodeKind::op) return s + (n.kind == NodeKind::input ? "input '" : "parameter '") + n.name + "'";
  s += n.op->name();
  if (n.outputs.size() > 1) s += "." + n.op->signature.outputs()[size_t(v.out)].name;
  return n.name.empty() ? s : s + " '" + n.name + "'";
}

size_t count_of(const Feeds::mapped_type& feed) {
  return std::visit([](const auto& values) { return values.size(); }, feed);
}

// Feeds parameters and inputs, and finds out how many rows there are.
class Evaluation {
 public:
  Evaluation(Value v, const EvaluateOptions& options, Device& device)
      : graph_(*v.graph), options_(options), device_(device), store_(device) {
    for (const auto& [name, feed] : options.feeds) {
      const auto value = graph_.find(name);
      const NodeKind kind = value ? graph_.node(*value).kind : NodeKind::op;
      check(kind == NodeKind::input || kind == NodeKind::param,
            "evaluate: the graph has no input or parameter '{}', which was fed", name);
    }
    plan_ = std::make_shared<const Plan>(compile(graph_, std::vector<Value>{v}, {}, device));
  }

  HostTensor run() {
    for (const PlanLeaf& p : plan_->params) add_param(p);
    session_ = std::make_unique<Session>(device_, plan_, std::initializer_list<const ParamStore*>{&store_});
    for (const PlanLeaf& p : plan_->inputs) feed_input(p);
    for (const auto& [name, rows] : rows_) session_->set_rows(name, rows.count);
    session_->run();
    return session_->output(0);
  }

 private:
  void add_param(const PlanLeaf& p) {
    store_.add(p.name, p.type);
    if (const auto it = options_.feeds.find(p.name); it != options_.feeds.end()) {
      const auto* values = std::get_if<std::vector<float>>(&it->second);
      check(values != nullptr, "evaluate: parameter '{}' is {}, it was fed i32 values", p.name, p.type.str());
      store_.write(p.name, *values);
      return;
    }
    for (const ParamStore* s : options_.stores) {
      check(s != nullptr, "evaluate: one of the stores is a null pointer");
      if (s->has(p.name)) {
        check(s->type(p.name) == p.type, "evaluate: tensor '{}' is {}, the graph needs {}", p.name,
              s->type(p.name).str(), p.type.str());
        return store_.write(p.name, s->host(p.name).view());
      }
    }
    fail("evaluate: parameter '{}' of type {} has no values; give a store that holds it, or feed it", p.name,
         p.type.str());
  }

  void feed_input(const PlanLeaf& p) {
    const auto it = options_.feeds.find(p.name);
    check(it != options_.feeds.end(), "evaluate: input '{}' of type {} is not fed", p.name, p.type.str());
    const int64_t given = int64_t(count_of(it->second));
    if (p.type.rows == 0) {
      check(given == p.type.count(), "evaluate: input '{}' of type {} was fed {} values", p.name, p.type.str(), given);
    } else {
      const int64_t row = p.type.count() / p.type.shape[0];
      check(given <= p.type.count() && given % std::max<int64_t>(row, 1) == 0,
            "evaluate: input '{}' of type {} was fed {} values", p.name, p.type.str(), given);
      agree(plan_->rows[size_t(p.type.rows)].name, p.name, row ? given / row : 0);
    }
    std::visit([&](const auto& values) { session_->set(p.name, values); }, it->second);
  }

  void agree(const std::string& rows, const std::string& input, int64_t n) {
    const auto [it, fresh] = rows_.try_emplace(rows, Rows{n, input});
    check(it->second.count == n, "evaluate: input '{}' was fed {} rows and '{}' {}; both are '{}'", input, n,
          it->second.input, it->second.count, rows);
  }

  struct Rows {
    int64_t count;
    std::string input;  // that said so
  };
  const Graph& graph_;
  const EvaluateOptions& options_;
  Device& device_;
  ParamStore store_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Session> session_;
  std::map<std::string, Rows> rows_;
};

// Nested brackets around elements of one width.
class Printer {
 public:
  Printer(const Evaluated& e, const PrintOptions& o) : e_(e), o_(o), cut_(e.type.count() > o.limit) {}

  std::string text() {
    visit_shown(0, 0, [&](int64_t i) { cell_ = std::max(cell_, element(i).size()); });
    block(0, 0);
    return out_;
  }

 private:
  std::string element(int64_t i) const {
    const double v = e_.values[size_t(i)];
    if (!is_float(e_.type.dtype)) return fmt::format("{}", int64_t(v));
    if (std::isnan(v)) return "nan";
    return fmt::format("{:.{}g}", v, o_.digits);
  }
  bool cuts(int64_t n) const { return cut_ && n > 2 * o_.edge; }
  // Calls f for the indices of one dimension that are shown, gap() where some are left out.
  template <class F, class Gap>
  void shown(int64_t n, const F& f, const Gap& gap) const {
    for (int64_t i = 0; i < n; ++i) {
      if (cuts(n) && i == o_.edge) {
        gap();
        i = n - o_.edge;
      }
      f(i);
    }
  }
  int64_t below(int dim) const {
    int64_t n = 1;
    for (int d = dim + 1; d < e_.type.shape.rank(); ++d) n *= e_.type.shape[d];
    return n;
  }
  template <class F>
  void visit_shown(int dim, int64_t at, const F& f) const {
    if (dim == e_.type.shape.rank()) return f(at);
    shown(
        e_.type.shape[dim], [&](int64_t i) { visit_shown(dim + 1, at + i * below(dim), f); }, [] {});
  }

  void block(int dim, int64_t at) {
    const int rank = e_.type.shape.rank();
    if (dim == rank) return put(element(at));
    out_ += "[";
    bool first = true;
    const auto separate = [&] {
      if (!first && dim + 1 < rank)
        out_ += std::string(size_t(rank - dim - 1), '\n') + std::string(size_t(dim) + 1, ' ');
      first = false;
    };
    column_ = dim + 1;
    begun_ = false;
    shown(
        e_.type.shape[dim],
        [&](int64_t i) {
          separate();
          block(dim + 1, at + i * below(dim));
        },
        [&] {
          separate();
          dim + 1 < rank ? void(out_ += "...") : put("...");
        });
    out_ += "]";
  }

  // One element of a row; a row that is too long goes on below itself.
  void put(const std::string& cell) {
    const int indent = e_.type.shape.rank();
    const size_t width = cell == "..." ? 3 : cell_;
    if (begun_ && column_ + 2 + int(width) > o_.width) {
      out_ += "\n" + std::string(size_t(indent), ' ');
      column_ = indent;
    } else if (begun_) {
      out_ += "  ";
      column_ += 2;
    }
    out_ += fmt::format("{:>{}}", cell, indent ? width : 0);
    column_ += int(width);
    begun_ = true;
  }

  const Evaluated& e_;
  const PrintOptions& o_;
  bool cut_;
  size_t cell_ = 0;
  std::string out_;
  int column_ = 0;
  bool begun_ = false;  // something stands in this row
};

}  // namespace

Evaluated evaluate(Value v, const EvaluateOptions& options) {
  check(bool(v), "evaluate: the value is empty");
  std::unique_ptr<Device> reference;
  if (!options.device) reference = make_reference_device();
  Evaluation evaluation(v, options, options.device ? *options.device : *reference);
  const HostTensor found = evaluation.run();
  const View& result = found.view();
  Evaluated e{label(v), {v.type().dtype, result.shape, 0}, std::vector<double>(size_t(result.count()))};
  for (size_t i = 0; i < e.values.size(); ++i) e.values[i] = element(result, int64_t(i));
  return e;
}

std::string to_text(const Evaluated& e, const PrintOptions& options) {
  check(options.digits >= 1 && options.digits <= 17 && options.edge >= 1 && options.width >= 1,
        "print: digits {} (expected 1 to 17), edge {} and width {} (expected at least 1)", options.digits, options.edge,
        options.width);
  return fmt::format("{} {}\n{}\n", e.what, e.type.str(), Printer(e, options).text());
}

void print(Value v, const EvaluateOptions& options) { fmt::print("{}", to_text(evaluate(v, options))); }

}  // namespace toy
