// The plugin libtoy_mpi.so. It needs nothing of toy but its header, so that a site can build it with its own MPI:
//   mpicxx -O2 -shared -fPIC -I src src/base/mpi/plugin.cpp -o libtoy_mpi.so
#define OMPI_SKIP_MPICXX 1  // the C++ bindings that MPI dropped in 2012
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/mpi/plugin.h"

namespace {

constexpr size_t kPiece = size_t(1) << 30;                                              // counts of MPI are int
constexpr int kMessage = 1, kChunk = 2, kAlive = 3, kReady = 4, kAsk = 5, kMissed = 6;  // tags
using Clock = std::chrono::steady_clock;

int rank, ranks;
bool threads;      // may several threads call MPI, one at a time?
std::mutex calls;  // of MPI

// What give_up_after() says.
double timeout = 0;
toy_mpi_lost lost_function;
void* lost_context;

int pieces(size_t bytes) { return int((bytes + kPiece - 1) / kPiece); }
size_t piece(size_t bytes, int i) { return std::min(kPiece, bytes - size_t(i) * kPiece); }

// While rank 0 lives, each of the others has a word from it now and then: they may have to wait for it for long, and
// must not wait for ever where its host or network is lost.
class Alive {
 public:
  // After each change of `timeout`.
  void begin() {
    if (!thread_.joinable()) thread_ = std::thread([this] { tell(); });
    const std::lock_guard lock(mutex_);
    at_once_ = true;
    changed_.notify_all();
  }
  // Of the thread, but for a last word to all, which ends what they expect.
  void end(bool last_word) {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (!last_word) return;
    for (int to = 1; to < ranks; ++to) {
      MPI_Wait(&sent_[size_t(to)], MPI_STATUS_IGNORE);
      MPI_Send("", 1, MPI_BYTE, to, kAlive, MPI_COMM_WORLD);
    }
  }
  // Rank above 0: has rank 0 said so? Throws such words away.
  bool heard() {
    int there = 0, any = 0;
    for (;;) {
      MPI_Status status;
      MPI_Iprobe(0, kAlive, MPI_COMM_WORLD, &there, &status);
      if (!there) return any != 0;
      take();
      any = 1;
    }
  }
  void hear_last() {
    while (!last_) take();
  }

 private:
  void tell() {
    std::unique_lock lock(mutex_);
    sent_.assign(size_t(ranks), MPI_REQUEST_NULL);
    while (!ended_) {
      at_once_ = false;
      lock.unlock();
      double seconds = 0;
      {
        const std::lock_guard one(calls);
        constexpr double kOften = 0.05, kSeldom = 20;
        seconds = std::clamp(timeout / 8, kOften, kSeldom);
        for (int to = 1; to < ranks; ++to) {
          int done = 0;
          MPI_Test(&sent_[size_t(to)], &done, MPI_STATUS_IGNORE);
          if (done) MPI_Isend("", 0, MPI_BYTE, to, kAlive, MPI_COMM_WORLD, &sent_[size_t(to)]);
        }
      }
      lock.lock();
      changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return ended_ || at_once_; });
    }
  }
  void take() {
    char last = 0;
    MPI_Status status;
    MPI_Recv(&last, 1, MPI_BYTE, 0, kAlive, MPI_COMM_WORLD, &status);
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    last_ = bytes > 0;
  }
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false, at_once_ = false, last_ = false;
  std::vector<MPI_Request> sent_;
} alive;

// What others want of rank 0 it has asked for, and it takes part in every exchange: they wait as long as it lives.
// Where only one thread may call MPI, it cannot say so, and is taken to live.
bool rank_0_lives() { return rank != 0 && (!threads || alive.heard()); }

// Rank 0 asks those it has waited for in vain whom they wait for: one that answers does not hang.
bool is_asked() {
  const std::lock_guard one(calls);
  int there = 0;
  MPI_Iprobe(0, kAsk, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
  if (there) MPI_Recv(nullptr, 0, MPI_BYTE, 0, kAsk, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return there != 0;
}
void answer(const std::vector<int>& missing) {
  constexpr size_t kMost = 64;  // goes at once, without a receiver that waits for it
  const std::lock_guard one(calls);
  MPI_Send(missing.data(), int(std::min(missing.size(), kMost)), MPI_INT, 0, kMissed, MPI_COMM_WORLD);
}

// Rank 0: who keeps `silent` waiting; none: all. Empty: it cannot be known.
std::vector<int> who_hangs(const std::vector<int>& silent) {
  std::vector<bool> asked(size_t(ranks), false), waits(size_t(ranks), false);
  const auto ask = [&](int r) {
    if (r == rank || asked[size_t(r)]) return;
    asked[size_t(r)] = true;
    MPI_Request sent;
    MPI_Isend(nullptr, 0, MPI_BYTE, r, kAsk, MPI_COMM_WORLD, &sent);
    MPI_Request_free(&sent);
  };
  const auto ask_all = [&] {
    for (int r = 0; r < ranks; ++r) ask(r);
  };
  const auto answered = [&] {
    int there = 0, count = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kMissed, MPI_COMM_WORLD, &there, &status);
    if (!there) return false;
    MPI_Get_count(&status, MPI_INT, &count);
    std::vector<int> missing(static_cast<size_t>(count));
    MPI_Recv(missing.data(), count, MPI_INT, status.MPI_SOURCE, kMissed, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    waits[size_t(status.MPI_SOURCE)] = true;
    for (const int r : missing) ask(r);
    if (missing.empty()) ask_all();  // it cannot know
    return true;
  };
  const auto end = Clock::now() + std::chrono::duration<double>(timeout / 5);  // others give up after 1.25 of it
  {
    const std::lock_guard one(calls);
    for (const int r : silent) ask(r);
    if (silent.empty()) ask_all();
  }
  while (Clock::now() < end) {
    {
      const std::lock_guard one(calls);
      while (answered()) {
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::vector<int> names;
  for (int r = 0; r < ranks; ++r)
    if (asked[size_t(r)] && !waits[size_t(r)]) names.push_back(r);
  return names.empty() ? silent : names;
}

// For whom: bytes that are on their way want to be moved; a rank that computes may need its time and its core.
enum class Wait { for_bytes, for_rank };

// MPI polls as fast as it can; a rank that waits for long must not take a core from one that computes. `missing`: the
// ranks that are still waited for. `heard`: says whether they are there, if they need more time.
template <class Done, class Missing, class Heard>
void wait_for(Wait what, const Done& done, const Missing& missing, const Heard& heard) {
  const auto begin = Clock::now();
  auto answered = begin;
  constexpr double kLonger = 1.25;  // rank 0 is the one to say it, if it can
  for (;;) {
    {
      const std::lock_guard one(calls);
      if (done()) return;
      if (heard()) answered = Clock::now();
    }
    const auto now = Clock::now();
    if (std::chrono::duration<double>(now - answered).count() > timeout * (rank == 0 ? 1 : kLonger)) {
      // Above rank 0 only rank 0 is missed, where it could say that it lives.
      const std::vector<int> names = rank == 0 ? who_hangs(missing()) : threads ? std::vector{0} : missing();
      lost_function(lost_context, names.data(), int(names.size()), timeout);
    }
    using std::chrono::microseconds;
    const auto waited = std::chrono::duration_cast<microseconds>(now - begin);
    if (rank != 0 && waited > std::chrono::milliseconds(50) && is_asked()) answer(missing());
    if (waited < (what == Wait::for_bytes ? microseconds(2000) : microseconds(100)))
      sched_yield();
    else if (what == Wait::for_bytes)
      std::this_thread::sleep_for(waited < microseconds(1000000) ? microseconds(50) : microseconds(500));
    else
      std::this_thread::sleep_for(std::clamp(waited / 20, microseconds(20), microseconds(500)));
  }
}

// Messages on their way, and with whom.
struct Requests {
  std::vector<MPI_Request> all;
  std::vector<int> peers;

  void send(int to, const void* bytes, size_t count, int tag) {
    const std::lock_guard one(calls);
    for (int i = 0; i < pieces(count); ++i)
      MPI_Isend(static_cast<const char*>(bytes) + size_t(i) * kPiece, int(piece(count, i)), MPI_BYTE, to, tag,
                MPI_COMM_WORLD, add(to));
  }
  void receive(int from, void* bytes, size_t count, int tag) {
    const std::lock_guard one(calls);
    for (int i = 0; i < pieces(count); ++i)
      MPI_Irecv(static_cast<char*>(bytes) + size_t(i) * kPiece, int(piece(count, i)), MPI_BYTE, from, tag,
                MPI_COMM_WORLD, add(from));
  }
  MPI_Request* add(int peer) {
    peers.push_back(peer);
    return &all.emplace_back();
  }
  void wait(Wait what = Wait::for_bytes) {
    const auto done = [this] {
      int all_done = 0;
      MPI_Testall(int(all.size()), all.data(), &all_done, MPI_STATUSES_IGNORE);
      return all_done != 0;
    };
    // An exchange ends in its time where rank 0 cannot say that it lives.
    wait_for(
        what, done, [this] { return missing(); }, [] { return threads && rank_0_lives(); });
  }

 private:
  std::vector<int> missing() {
    const std::lock_guard one(calls);
    std::vector<int> list;
    for (size_t i = 0; i < all.size(); ++i) {
      int done = 0;
      MPI_Test(&all[i], &done, MPI_STATUS_IGNORE);
      if (!done && peers[i] != rank) list.push_back(peers[i]);
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }
};

// A launcher that is killed cannot end its ranks, and MPI notices it at most times only.
void end_with_launcher() {
  const pid_t launcher = getppid();
  if (launcher <= 1) return;
  std::thread([launcher] {
    while (getppid() == launcher) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    std::this_thread::sleep_for(std::chrono::seconds(5));
    std::fprintf(stderr, "toy: rank %d: the launcher has ended without its ranks; use --resume to continue\n", rank);
    std::_Exit(1);
  }).detach();
}

void start(toy_mpi_place* place) {
  end_with_launcher();
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  threads = provided >= MPI_THREAD_SERIALIZED;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm here;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
  place->rank = rank, place->size = ranks, place->threads = threads;
  MPI_Comm_rank(here, &place->local_rank);
  MPI_Comm_size(here, &place->local_size);
  MPI_Comm_free(&here);
  char name[MPI_MAX_PROCESSOR_NAME + 1] = {};
  int length = 0;
  MPI_Get_processor_name(name, &length);
  std::strncpy(place->host, name, TOY_MPI_HOST_BYTES - 1);
  place->host[TOY_MPI_HOST_BYTES - 1] = 0;
}

void give_up_after(double seconds, toy_mpi_lost lost, void* context) {
  {
    const std::lock_guard one(calls);
    timeout = seconds, lost_function = lost, lost_context = context;
  }
  if (rank == 0 && ranks > 1 && threads) alive.begin();
}

// A message is its length, then its bytes.
void send(int to, const void* bytes, size_t count) {
  Requests requests;
  const unsigned long long length = count;
  requests.send(to, &length, sizeof length, kMessage);
  requests.send(to, bytes, count, kMessage);
  requests.wait();
}

size_t next(int from) {
  const auto is_there = [from] {
    int there = 0;
    MPI_Iprobe(from, kMessage, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    return there != 0;
  };
  wait_for(
      Wait::for_rank, is_there, [from] { return std::vector{from}; }, rank_0_lives);
  const std::lock_guard one(calls);
  unsigned long long length = 0;
  MPI_Recv(&length, sizeof length, MPI_BYTE, from, kMessage, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return size_t(length);
}

void receive(int from, void* bytes, size_t count) {
  Requests requests;
  requests.receive(from, bytes, count, kMessage);
  requests.wait();
}

void broadcast(int root, void* bytes, size_t count) {
  Requests requests;
  {
    const std::lock_guard one(calls);
    for (int i = 0; i < pieces(count); ++i)
      MPI_Ibcast(static_cast<char*>(bytes) + size_t(i) * kPiece, int(piece(count, i)), MPI_BYTE, root, MPI_COMM_WORLD,
                 requests.add(root));
  }
  requests.wait();
}

// A rank may come much later than another: before that, there is nothing to move.
void wait_for_all() {
  static char ready = 1;
  std::vector<char> heard(size_t(ranks), 0);
  Requests requests;
  for (int r = 0; r < ranks; ++r)
    if (r != rank) requests.receive(r, &heard[size_t(r)], 1, kReady), requests.send(r, &ready, 1, kReady);
  requests.wait(Wait::for_rank);
}

void exchange(const void* mine, const size_t* bounds, void* const* parts) {
  wait_for_all();
  Requests requests;
  for (int step = 1; step < ranks; ++step) {  // not all to the same rank first
    const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    requests.receive(from, parts[from], bounds[rank + 1] - bounds[rank], kChunk);
    requests.send(to, static_cast<const char*>(mine) + bounds[to], bounds[to + 1] - bounds[to], kChunk);
  }
  requests.wait();
}

void all_gather(void* all, const size_t* bounds) {
  Requests requests;
  const auto at = [&](int r) { return static_cast<char*>(all) + bounds[r]; };
  const auto size = [&](int r) { return bounds[r + 1] - bounds[r]; };
  for (int step = 1; step < ranks; ++step) {
    const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    requests.receive(from, at(from), size(from), kChunk);
    requests.send(to, at(rank), size(rank), kChunk);
  }
  requests.wait();
}

void abort_all(int code) {
  alive.end(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // MPICH's launcher drops what it has not read by then
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);  // where the launcher cannot be reached
}

void finish() {
  if (rank == 0)
    alive.end(true);
  else if (threads)
    alive.hear_last();
  MPI_Finalize();
}

constexpr toy_mpi kFunctions{TOY_MPI_VERSION, start,    give_up_after, send,      next,  receive,
                             broadcast,       exchange, all_gather,    abort_all, finish};

}  // namespace

const toy_mpi* toy_mpi_functions() { return &kFunctions; }
