#include "backend/gpu/cuda/nccl.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "backend/gpu/cuda/nccl_functions.h"
#include "backend/gpu/library.h"
#include "backend/gpu/over_ranks.h"
#include "toy/base/clock.h"
#include "toy/base/error.h"

namespace toy::gpu {
namespace nccl {

const Functions& functions() {
  static const Functions loaded = [] {
    Functions f;
    Library library("libnccl.so.2");
#define F(result, name, ...) library.find(f.name, #name);
    TOY_NCCL_FUNCTIONS(F)
#undef F
    f.missing = library.missing();
    return f;
  }();
  return loaded;
}

namespace {

// What a rank has found wrong, for all ranks.
struct Finding {
  enum Kind : int32_t { nothing, late, wrong } kind = nothing;  // late: what it waited for may be wrong elsewhere
  ErrorCode code = ErrorCode::failure;
  char text[500] = "";
  void say(Kind k, ErrorCode c, std::string_view what) {
    kind = k, code = c;
    text[what.copy(text, sizeof text - 1)] = 0;
  }
};
struct Late : Error {
  using Error::Error;
};

class NcclCommunicator final : public OverRanks {
 public:
  NcclCommunicator(Communicator& ranks, Queue queue, double seconds)
      : OverRanks(ranks), queue_(std::move(queue)), f_(functions()), timeout_(seconds) {
    together([this] { require_library(); });
    UniqueId id = {};
    together([&] {
      queue_.enter();
      if (rank() == 0) call("ncclGetUniqueId", f_.ncclGetUniqueId(&id));
    });
    ranks_.broadcast(0, std::as_writable_bytes(std::span(&id, 1)));
    Config config;
    together([&] { start("ncclCommInitRankConfig", f_.ncclCommInitRankConfig(&comm_, size(), id, rank(), &config)); });
    together([this] { finish(); });
  }
  ~NcclCommunicator() override { end(""); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  void give_up_after(double seconds) override {
    timeout_ = seconds;
    ranks_.give_up_after(seconds);
  }

  void broadcast(int root, std::span<std::byte> bytes) override {
    move([&] {
      start("ncclBroadcast",
            f_.ncclBroadcast(bytes.data(), bytes.data(), bytes.size(), kInt8, root, comm_, queue_.stream));
    });
  }
  void exchange(std::span<const std::byte> mine, std::span<const size_t> bounds,
                std::span<std::byte* const> parts) override {
    const size_t here = size_of(bounds, rank());
    move([&] {
      for_others([&](int to, int from) {
        send_to(to, mine.subspan(bounds[size_t(to)], size_of(bounds, to)));
        receive_from(from, {parts[size_t(from)], here});
      });
    });
  }
  void all_gather(std::span<std::byte> all, std::span<const size_t> bounds) override {
    const auto part = [&](int r) { return all.subspan(bounds[size_t(r)], size_of(bounds, r)); };
    move([&] {
      for_others([&](int to, int from) {
        send_to(to, part(rank()));
        receive_from(from, part(from));
      });
    });
  }

 private:
  static size_t size_of(std::span<const size_t> bounds, int r) { return bounds[size_t(r) + 1] - bounds[size_t(r)]; }
  void for_others(const auto& f) {  // not all to the same rank first
    for (int step = 1; step < size(); ++step) f((rank() + step) % size(), (rank() + size() - step) % size());
  }
  void send_to(int to, std::span<const std::byte> bytes) {
    if (!bytes.empty()) start("ncclSend", f_.ncclSend(bytes.data(), bytes.size(), kInt8, to, comm_, queue_.stream));
  }
  void receive_from(int from, std::span<std::byte> bytes) {
    if (!bytes.empty()) start("ncclRecv", f_.ncclRecv(bytes.data(), bytes.size(), kInt8, from, comm_, queue_.stream));
  }

  void require_library() const {
    constexpr const char* kElse = "or set TOY_NCCL=off, so that gradients go through the host's memory, slowly";
    check(f_.missing.empty(), "GPUs of several ranks need NVIDIA's NCCL: {}; install it (libnccl2), {}", f_.missing,
          kElse);
    int version = 0;
    call("ncclGetVersion", f_.ncclGetVersion(&version));
    check(version >= kOldest, "NVIDIA's NCCL is too old: version {}.{}, and toy needs 2.14; install a newer one, {}",
          version < 10000 ? version / 1000 : version / 10000, version % (version < 10000 ? 1000 : 10000) / 100, kElse);
  }

  // What all ranks do is queued; then they know of each other that it is, or who is missing; then it is waited for.
  void move(const std::function<void()>& queue_all) {
    if (size() == 1) return;
    together([&] {
      if (!comm_) fail_internal("{}", ended_);
      queue_.enter();
      call("ncclGroupStart", f_.ncclGroupStart());
      try {
        queue_all();
      } catch (const Error&) {
        f_.ncclGroupEnd();
        throw;
      }
      start("ncclGroupEnd", f_.ncclGroupEnd());
    });
    together([this] { finish(); });
  }

  // A step of all ranks: what one of them found wrong is thrown by all.
  void together(const std::function<void()>& step) {
    std::vector<Finding> all(static_cast<size_t>(size()));
    Finding& mine = all[size_t(rank())];
    try {
      step();
    } catch (const Late& e) {
      mine.say(Finding::late, e.code(), e.what());
    } catch (const Error& e) {
      mine.say(Finding::wrong, e.code(), e.what());
    }
    std::vector<size_t> bounds;
    for (size_t r = 0; r <= all.size(); ++r) bounds.push_back(r * sizeof(Finding));
    try {
      ranks_.all_gather(std::as_writable_bytes(std::span(all)), bounds);
    } catch (const Error& e) {  // a rank is lost, and the GPU waits for it
      end(e.what());
      throw;
    }
    const auto worst = std::ranges::max_element(all, {}, &Finding::kind);  // the first of these
    if (worst->kind == Finding::nothing) return;
    const auto r = int(worst - all.begin());
    end(fmt::format("rank {} (host {}): {}", r, host(r), worst->text));
    throw Error(worst->code, ended_);
  }

  void call(const char* what, Result result) const {
    if (result == kOk) return;
    const char* const last = f_.ncclGetLastError(comm_);
    fail_internal("{}: {} (NCCL, error {}){}{}", what, f_.ncclGetErrorString(result), result, last && *last ? ": " : "",
                  last ? last : "");
  }
  // Of calls that go on by themselves.
  void start(const char* what, Result result) const {
    if (result != kInProgress) call(what, result);
  }
  // Waits until NCCL has done what was started, and the GPU what NCCL has queued. All ranks have started, so this is no
  // longer than bytes need.
  void finish() {
    const double begin = steady_seconds();
    for (;;) {
      queue_.enter();
      Result state = kOk;
      call("ncclCommGetAsyncError", f_.ncclCommGetAsyncError(comm_, &state));
      start("what NCCL had to do", state);
      if (state == kOk && queue_.idle()) return;
      const double waited = steady_seconds() - begin;
      // Less than others wait for this rank to say so.
      if (waited > timeout_ / 2)
        throw Late(ErrorCode::failure,
                   fmt::format("NCCL has moved nothing for {:g} s, half of --rank-timeout: a GPU or its network hangs; "
                               "use --resume to continue from the last checkpoint",
                               timeout_ / 2));
      constexpr double kBusy = 2e-3;
      if (waited < kBusy)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  // At once: what is on its way is given up.
  void end(const std::string& why) noexcept {
    ended_ = why;
    if (!comm_) return;
    try {
      queue_.enter();
    } catch (const Error&) {  // the GPU is lost, and NCCL with it
    }
    f_.ncclCommAbort(comm_);
    comm_ = nullptr;
  }

  Queue queue_;
  const Functions& f_;
  Comm comm_ = nullptr;
  std::string ended_;
  double timeout_;
};

}  // namespace
}  // namespace nccl

bool nccl_is_wanted() {
  const char* const said = std::getenv("TOY_NCCL");
  return !said || std::string_view(said) != "off";
}

std::unique_ptr<Communicator> make_nccl_communicator(Communicator& ranks, Queue queue, double seconds) {
  return std::make_unique<nccl::NcclCommunicator>(ranks, std::move(queue), seconds);
}

}  // namespace toy::gpu
