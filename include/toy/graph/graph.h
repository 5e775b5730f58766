// A graph of values. Building it allocates no tensors and computes nothing; it is differentiated (autodiff.h), checked
// (verify.h), printed (print.h), and compiled into a plan that a device runs (toy/runtime).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "toy/graph/signature.h"

namespace toy {

class Graph;
struct Node;
struct OpDef;

/// One output of one node. Cheap to copy; an empty Value is an absent optional operand.
struct Value {
  Graph* graph = nullptr;
  int node = -1;
  int out = 0;

  explicit operator bool() const { return graph != nullptr; }
  /// Throws Error{bad_input} for an empty Value.
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  /// Size of dimension i.
  int64_t dim(int i) const { return shape()[i]; }
  friend bool operator==(const Value& a, const Value& b) = default;
  friend auto operator<=>(const Value& a, const Value& b) {
    return std::pair(a.node, a.out) <=> std::pair(b.node, b.out);
  }
};

/// What a node is for. `update`: not made by autodiff, but it needs something that was.
enum class Phase { forward, backward, update };
/// "forward", "backward", ...
std::string_view name_of(Phase phase);

/// The scope that a node was built in.
struct Layer {
  std::string path;         ///< names from the outermost scope inwards: "blk.3.attn"; empty outside of scopes
  size_t outer_length = 0;  ///< of the outermost scope's name
  int block = -1;           ///< number of the block (Graph::block), -1 outside of blocks

  /// The outermost scope: "blk.3".
  std::string_view outer() const { return std::string_view(path).substr(0, outer_length); }
  /// How messages begin: "blk.3.attn: ", or "" outside of scopes.
  std::string prefix() const { return path.empty() ? "" : path + ": "; }
};

/// What a node is.
enum class NodeKind {
  op,
  input,     ///< fed by the host before each run
  param,     ///< lives in a store between runs: weights, optimizer moments, caches
  constant,  ///< known when the graph is built
};

/// One node: a leaf, or a call of an op.
struct Node {
  int id = 0;
  NodeKind kind = NodeKind::op;
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<Value> inputs;
  std::vector<TensorType> outputs;
  Layer layer;
  std::string name;                                     ///< of inputs, params and named values
  std::shared_ptr<const std::vector<double>> constant;  ///< of constants
  int64_t index_bound = 0;  ///< of i32 inputs: the host checks 0 <= value < bound when it feeds them (0: unchecked)
  Phase phase = Phase::forward;
};

/// Owns the nodes; a Value points into it.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Declares a run-time row count with a maximum; use the result in TensorType::rows. Throws if the name is taken.
  int declare_rows(std::string name, int64_t max);
  /// Type of rows of a declared count: [max, inner...].
  TensorType rows_type(int rows, DType dtype, std::initializer_list<int64_t> inner = {}) const;
  /// A row count that is known only at run time.
  struct Rows {
    std::string name;
    int64_t max = 0;
  };
  /// Declared row counts; index 0 is the unused "fixed".
  const std::vector<Rows>& rows() const { return rows_; }

  /// A leaf that the host feeds before each run. Throws if the name is taken; for i32, see Node::index_bound.
  Value input(std::string name, const TensorType& type, int64_t index_bound = 0);
  /// The parameter of this name; asking again for the same name gives the same value (the types must agree).
  Value param(const std::string& name, const TensorType& type);
  /// A leaf whose values (row-major) are known now.
  Value constant(const TensorType& type, std::vector<double> data, std::string name = {});
  /// A constant of shape [].
  Value scalar(double v, DType dtype = DType::f32) { return constant({dtype, {}, 0}, {v}); }

  /// Appends a node. Checks operands by the op's signature and rule, and that no shape is negative or too large to be
  /// counted; an error names the layer. Returns the node's id.
  int apply(const OpDef& op, std::vector<Value> inputs, Attrs attrs = {});
  /// Appends a copy of another graph's node with these inputs (for passes that rewrite graphs). Returns its id.
  int append_copy(const Node& node, std::vector<Value> inputs);
  /// Gives a value a name by which it can be tapped and printed. Throws if the name is taken, if the graph has no such
  /// value, and for inputs and parameters, which already have names.
  void set_name(Value v, std::string name);
  /// The value, input or parameter of this name.
  std::optional<Value> find(std::string_view name) const;

  const std::deque<Node>& nodes() const { return nodes_; }
  /// The node of this id, or the one that made a value. Throws Error{bad_input} if there is none.
  const Node& node(int id) const;
  /// @copydoc node(int) const
  const Node& node(Value v) const { return node(v.node); }
  /// Shape and dtype of a value. Throws Error{bad_input} if the graph has no such value.
  const TensorType& type(Value v) const;

  /// While it lives, new nodes belong to a layer and a phase. Made by scope(), block() and in().
  class Scope {
   public:
    ~Scope() { graph_.layer_ = std::move(layer_), graph_.phase_ = phase_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class Graph;
    Scope(Graph& g, Layer layer, Phase phase)
        : graph_(g), layer_(std::exchange(g.layer_, std::move(layer))), phase_(std::exchange(g.phase_, phase)) {}
    Graph& graph_;
    Layer layer_;  // of the nodes before
    Phase phase_;
  };
  /// Enters the scope `name` within the present one.
  [[nodiscard]] Scope scope(const std::string& name);
  /// The same for what autodiff did not make, but follows from gradients: norm, clipping, optimizer.
  [[nodiscard]] Scope update_scope(const std::string& name);
  /// Enters block `index` of a model: the scope "blk.<index>".
  [[nodiscard]] Scope block(int index);
  /// Enters exactly this layer and phase: for passes that add to a node's layer.
  [[nodiscard]] Scope in(const Layer& layer, Phase phase) { return Scope(*this, layer, phase); }
  /// The layer that new nodes belong to.
  const Layer& layer() const { return layer_; }

 private:
  Value add_leaf(Node node);
  Layer inner(const std::string& name) const;
  void check_type(const TensorType& type, std::string_view maker) const;
  std::deque<Node> nodes_;  // a deque: references stay valid while the graph grows
  std::vector<Rows> rows_{{"fixed", 0}};
  std::map<std::string, Value, std::less<>> names_;
  Layer layer_;
  Phase phase_ = Phase::forward;
};

/// Appends a node to the graph of its operands and returns its first output: what the functions of ops.h do. Throws
/// Error{bad_input} as Graph::apply() does, and if no operand is there.
Value apply(const OpDef& op, std::vector<Value> inputs, Attrs attrs = {});

}  // namespace toy
