#include "toy/runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "runtime/finite.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

// Denormals cost a hundred cycles each and carry nothing here: they are flushed while a plan runs, on every thread.
class FlushDenormals {
 public:
#if defined(__SSE__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  FlushDenormals() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
    __asm__ volatile("msr fpcr, %0" : : "r"(before_ | (uint64_t(1) << 24)));
  }
  ~FlushDenormals() { __asm__ volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  uint64_t before_;
#endif
};

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Session::Session(Device& device, std::shared_ptr<const Plan> plan, std::initializer_list<const ParamStore*> stores,
                 std::shared_ptr<const Buffer> arena)
    : device_(device), plan_(std::move(plan)), arena_(std::move(arena)) {
  check(plan_ != nullptr, "session: there is no plan");
  for (const ParamStore* s : stores) check(s != nullptr, "session: one of the stores is a null pointer");
  if (!arena_) arena_ = std::make_shared<const Buffer>(plan_->arena_bytes);
  check(arena_->bytes() >= plan_->arena_bytes, "session: an arena of {} bytes, the plan needs {}", arena_->bytes(),
        plan_->arena_bytes);
  for (const PlanLeaf& p : plan_->params) {
    const auto store = std::find_if(stores.begin(), stores.end(), [&](const ParamStore* s) { return s->has(p.name); });
    check(store != stores.end(), "session: the model has no tensor '{}', which its graph needs", p.name);
    check((*store)->type(p.name) == p.type, "session: tensor '{}' is {}, the graph needs {}", p.name,
          (*store)->type(p.name).str(), p.type.str());
    const DType held = (*store)->get(p.name).dtype, needed = device.storage(p.type.dtype);
    check(held == needed,
          "session: tensor '{}' was made for the device '{}', which holds {} as {}; '{}' needs {}. Load or make the "
          "model on the device that runs it",
          p.name, (*store)->device().name(), name_of(p.type.dtype), name_of(held), device.name(), name_of(needed));
    check(!p.updated || !(*store)->frozen(p.name),
          "session: tensor '{}' is mapped from a file and cannot be updated; load the "
          "model for training instead",
          p.name);
    params_.push_back((*store)->get(p.name));
  }
  for (const PlanLeaf& p : plan_->inputs)
    inputs_.emplace_back(size_t(p.type.count()) * size_of(device.storage(p.type.dtype)));
  for (const PlanLeaf& p : plan_->constants) {
    Buffer b(size_t(p.type.count()) * size_of(device.storage(p.type.dtype)));
    convert(View(const_cast<double*>(p.constant->data()), DType::f64, p.type.shape),
            View(b.data(), device.storage(p.type.dtype), p.type.shape));
    constants_.push_back(std::move(b));
  }
  for (const Graph::Rows& r : plan_->rows) rows_.push_back(r.max);
  times_.resize(plan_->steps.size());
}

Session::~Session() = default;

void Session::check_finite(bool on) {
  finite_ = on ? std::make_unique<FiniteWatch>(*plan_, device_.pool().size()) : nullptr;
}

void Session::set_rows(std::string_view name, int64_t n) {
  for (size_t i = 1; i < rows_.size(); ++i)
    if (plan_->rows[i].name == name) {
      check(n >= 0 && n <= plan_->rows[i].max, "session: {} {}, the plan was made for at most {}", n, name,
            plan_->rows[i].max);
      stale_ = stale_ || rows_[i] != n;
      rows_[i] = n;
      return;
    }
  fail("session: the plan has no row count '{}'", name);
}

// nullptr: no step needs this input.
const PlanLeaf* Session::input_of(std::string_view name, DType dtype, size_t values) const {
  const auto found =
      std::find_if(plan_->inputs.begin(), plan_->inputs.end(), [&](const PlanLeaf& p) { return p.name == name; });
  if (found == plan_->inputs.end()) {
    const auto& unused = plan_->unused_inputs;
    check(std::find(unused.begin(), unused.end(), name) != unused.end(), "session: the graph has no input '{}'", name);
    return nullptr;
  }
  const TensorType& t = found->type;
  check(t.dtype == dtype, "session: input '{}' is {}, got {} values", name, name_of(t.dtype), name_of(dtype));
  const int64_t n = int64_t(values);
  check(t.rows ? n <= t.count() : n == t.count(), "session: {} values for input '{}' of type {}", n, name, t.str());
  return &*found;
}

void Session::set(std::string_view input, std::span<const int32_t> values) {
  const PlanLeaf* p = input_of(input, DType::i32, values.size());
  if (!p) return;
  if (p->index_bound)
    for (size_t k = 0; k < values.size(); ++k)
      check(values[k] >= 0 && values[k] < p->index_bound, "{}: value {} at index {} is outside 0 to {}", input,
            values[k], k, p->index_bound - 1);
  std::copy(values.begin(), values.end(), reinterpret_cast<int32_t*>(data_of(*p)));
}

void Session::set(std::string_view input, std::span<const float> values) {
  const PlanLeaf* p = input_of(input, DType::f32, values.size());
  if (!p) return;
  const Shape shape{int64_t(values.size())};
  convert(View(const_cast<float*>(values.data()), DType::f32, shape),
          View(data_of(*p), device_.storage(DType::f32), shape));
}

View Session::resolve(const Operand& o) const {
  View v = o.view;
  std::byte* base = nullptr;
  switch (o.base) {
    case Operand::absent:
      v.data = nullptr;
      return v;
    case Operand::arena:
      base = arena_->data();
      break;
    case Operand::param:
      base = static_cast<std::byte*>(params_[size_t(o.index)].data);
      break;
    case Operand::input:
      base = inputs_[size_t(o.index)].data();
      break;
    case Operand::constant:
      base = constants_[size_t(o.index)].data();
      break;
  }
  v.data = base + o.offset;
  if (o.rows) v.shape[0] = rows_[size_t(o.rows)];
  return v;
}

void Session::bind_views() {
  calls_.clear();
  for (const PlanStep& s : plan_->steps) {
    Call c;
    for (const Operand& o : s.in) c.in.push_back(resolve(o));
    for (const Operand& o : s.out) c.out.push_back(resolve(o));
    calls_.push_back(std::move(c));
  }
  stale_ = false;
}

void Session::execute(int thread, KernelError& error) {
  const FlushDenormals flush;
  const ExecContext ctx{thread, device_.pool().size(), &device_.pool(), &error};
  const bool timed = profile_ && thread == 0;
  double before = timed ? seconds() : 0;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const PlanStep& s = plan_->steps[i];
    if (finite_) {
      finite_->before(thread, i, calls_[i].in);
      ctx.barrier();  // the kernel may overwrite its operands
    }
    s.kernel->run(ctx, {calls_[i].in, calls_[i].out, s.attrs, arena_->data() + s.workspace_offset});
    ctx.barrier();
    if (finite_ && !is_finite(ctx, i)) return;
    if (timed) {
      const double now = seconds();
      times_[i].seconds += now - before;
      times_[i].runs++;
      before = now;
    }
  }
}

// The same answer on every thread.
bool Session::is_finite(const ExecContext& ctx, size_t step) {
  finite_->after(ctx.thread, step, calls_[step].out);
  ctx.barrier();
  if (!finite_->wrong(ctx.thread, step)) return true;
  if (ctx.thread == 0) stopped_ = step;
  return false;
}

void Session::run() {
  if (stale_) bind_views();
  stopped_ = calls_.size();
  KernelError error;
  device_.pool().run([&](int thread) { execute(thread, error); });
  if (const char* what = error.what.load()) {
    const std::string text = fmt::format(fmt::runtime(what), error.index.load(), error.value.load());
    throw Error(error.input ? ErrorCode::bad_input : ErrorCode::failure, text);
  }
  if (stopped_ < calls_.size()) fail_internal("{}", finite_->text(*plan_, calls_[stopped_].out));
}

View Session::output(size_t i) const {
  check(i < plan_->outputs.size(), "session: output {} of {}", i, plan_->outputs.size());
  return resolve(plan_->outputs[i]);
}

float Session::scalar(size_t i) const {
  const View v = output(i);
  check(v.count() == 1, "session: output {} of shape {} is not a scalar", i, v.shape.str());
  return float(element(v, 0));
}

std::vector<float> Session::values(size_t i) const {
  const View v = output(i);
  std::vector<float> out(size_t(v.count()));
  convert(v, View(out.data(), DType::f32, v.shape));
  return out;
}

}  // namespace toy
