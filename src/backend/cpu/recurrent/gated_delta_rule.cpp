// The gated delta rule over the rows of each sequence, and its form that updates states in place.
//   in  q,k:[N,K,P] v:[N,H,V] g:[N,H] or [N,H,P] beta:[N,H] s0?:[S,H,P,V] seq,pos:[N]   out o:[N,H,V] s?:[S,H,P,V]
//
// A work item is a panel of columns of one head, over the runs of one sequence: columns do not depend on each other.
// gated_delta-inl.h states the order of operations. A row's bits depend on the rows before it in its sequence, and not
// on how they were cut into calls.
//
// Error, with u = 2^-24: e and o are chains of P fma, within (P + 4) u of the sum of their terms' magnitudes. A token
// adds (2 + 8 |expm1(g)| / exp(g)) u of an element of the state to its error, so 2 u where it hardly decays; 4 u where
// it decays by more than a half.
#define TOY_TARGET_FILE "backend/cpu/recurrent/gated_delta_rule.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/kernels.h"
#include "backend/cpu/recurrent/gated_delta-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// Columns [at, at + width) of head h over one run.
void do_run(const DeltaCall& x, const DeltaRun& run, int64_t h, int64_t at, int64_t width, const SweepScratch& ws) {
  const int64_t state = x.S >= 0 && run.known ? x.state_at(run.begin, h) + at : 0;
  const float* before = run.loads ? x.s0 + state : nullptr;
  float* after = x.s && run.stores() ? x.s + state : nullptr;
  const PanelRows panel{ws.panel, kPanel};
  PanelRows from = panel, to = panel;
  const bool whole = width % kLanes == 0;
  if (whole && before)
    from = {const_cast<float*>(before), x.V};
  else
    load_panel(before, x.V, x.P, width, ws.panel);
  if (whole && after) to = {after, x.V};
  DeltaHead head(x, run.begin, h);
  head.v += at;
  walk_panel(x.vector_gate, x.delta, head, x.P, run.count, width, from, to, ws,
             {x.o + (int64_t(run.begin) * x.H + h) * x.V + at, head.value_ld});
  if (after && !whole) store_panel(ws.panel, x.P, width, after, x.V);
}

void forward(const ExecContext& ctx, const KernelArgs& args, const DeltaCall& x) {
  DeltaRuns runs(args.workspace, x.N, x.S);
  if (ctx.thread == 0) runs.find(x, ctx);
  ctx.barrier();
  float* memory = reinterpret_cast<float*>(args.workspace + DeltaRuns::bytes(x.N, x.S));
  const SweepScratch ws(memory + ctx.thread * sweep_floats(x), x.P);
  const int64_t panels = div_up(x.V, kPanel);
  for_each_claimed(ctx, runs.chains() * x.H * panels, [&](int64_t item) HWY_ATTR {
    const int64_t at = item % panels * kPanel, h = item / panels % x.H;
    for (int64_t r = runs.chain(item / panels / x.H); r >= 0; r = runs[r].next)
      do_run(x, runs[r], h, at, HWY_MIN(kPanel, x.V - at), ws);
  });
  if (!x.s || x.s == x.s0) return;
  const Range idle = ctx.share(x.S);
  for (int64_t i = idle.begin; i < idle.end; ++i)
    if (runs.idle(i)) std::memcpy(x.s + i * x.H * x.state(), x.s0 + i * x.H * x.state(), size_t(x.H * x.state()) * 4);
}

void gated_delta_rule(const ExecContext& ctx, const KernelArgs& args) {
  const DeltaCall x(args, 0, 6, args.in[5], args.out[1].as<float>(), args.out[0].as<float>());
  forward(ctx, args, x);
}

void gated_delta_rule_update(const ExecContext& ctx, const KernelArgs& args) {
  const DeltaCall x(args, 1, 6, args.out[0], args.out[0].as<float>(), args.out[1].as<float>());
  forward(ctx, args, x);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(gated_delta_rule);
HWY_EXPORT(gated_delta_rule_update);

size_t workspace_of(const KernelQuery& q, const DeltaSizes& x) {
  return DeltaRuns::bytes(x.N, x.S) + size_t(q.threads * sweep_floats(x)) * sizeof(float);
}
size_t workspace(const KernelQuery& q) noexcept {
  return workspace_of(q, {q.in[1].shape, q.in[2].shape, q.in[3].shape, q.in[5].present ? q.in[5].shape[0] : -1});
}
size_t update_workspace(const KernelQuery& q) noexcept {
  return workspace_of(q, {q.in[2].shape, q.in[3].shape, q.in[4].shape, q.in[0].shape[0]});
}

}  // namespace

KernelRecord gated_delta_rule_kernel() {
  return {.op = "gated_delta_rule",
          .in_place = {{1, 5}},
          .workspace = workspace,
          .code = best_of<HWY_DISPATCH_TABLE(gated_delta_rule)>};
}
KernelRecord gated_delta_rule_update_kernel() {
  return {.op = "gated_delta_rule_update",
          .in_place = {{0, 0}},
          .workspace = update_workspace,
          .code = best_of<HWY_DISPATCH_TABLE(gated_delta_rule_update)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
