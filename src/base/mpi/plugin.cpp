// The plugin libtoy_mpi.so. It needs nothing of toy but its header, so that a site can build it with its own MPI:
//   mpicxx -O2 -shared -fPIC -I src src/base/mpi/plugin.cpp -o libtoy_mpi.so
#define OMPI_SKIP_MPICXX 1  // the C++ bindings that MPI dropped in 2012
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "base/mpi/plugin.h"

namespace {

constexpr size_t kPiece = size_t(1) << 30;  // counts of MPI are int
constexpr int kMessage = 1, kChunk = 2;     // tags

int rank, ranks;

int pieces(size_t bytes) { return int((bytes + kPiece - 1) / kPiece); }
size_t piece(size_t bytes, int i) { return std::min(kPiece, bytes - size_t(i) * kPiece); }

// Seconds after which ranks that do not answer count as lost: TOY_RANK_TIMEOUT, or ten minutes.
double rank_timeout() {
  constexpr double kUsual = 600;
  const char* text = std::getenv("TOY_RANK_TIMEOUT");
  const double seconds = text ? std::atof(text) : 0;
  return seconds > 0 ? seconds : kUsual;
}

// Ends the job; if the launcher cannot reach the others, at least this process.
[[noreturn]] void give_up() {
  std::fprintf(stderr,
               "toy: rank %d: the other ranks have not answered for %g s (TOY_RANK_TIMEOUT); a host or its network is "
               "lost. Resume with --resume\n",
               rank, rank_timeout());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::_Exit(1);
}

// MPI polls as fast as it can; a rank that waits for long must not take a core from one that computes. `ends`: the
// others are about to answer.
template <class Done>
void wait_for(const Done& done, bool ends) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  while (!done()) {
    const auto gone = Clock::now() - begin;
    if (ends && std::chrono::duration<double>(gone).count() > rank_timeout()) give_up();
    if (gone < std::chrono::milliseconds(2))
      sched_yield();
    else
      std::this_thread::sleep_for(gone < std::chrono::seconds(1) ? std::chrono::microseconds(50)
                                                                 : std::chrono::microseconds(500));
  }
}

void wait_all(std::vector<MPI_Request>& requests) {
  wait_for(
      [&] {
        int done = 0;
        MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
        return done != 0;
      },
      true);
}

void begin_send(std::vector<MPI_Request>& requests, int to, const void* bytes, size_t count, int tag) {
  for (int i = 0; i < pieces(count); ++i)
    MPI_Isend(static_cast<const char*>(bytes) + size_t(i) * kPiece, int(piece(count, i)), MPI_BYTE, to, tag,
              MPI_COMM_WORLD, &requests.emplace_back());
}

void begin_receive(std::vector<MPI_Request>& requests, int from, void* bytes, size_t count, int tag) {
  for (int i = 0; i < pieces(count); ++i)
    MPI_Irecv(static_cast<char*>(bytes) + size_t(i) * kPiece, int(piece(count, i)), MPI_BYTE, from, tag, MPI_COMM_WORLD,
              &requests.emplace_back());
}

void start(toy_mpi_place* place) {
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm here;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
  place->rank = rank, place->size = ranks;
  MPI_Comm_rank(here, &place->local_rank);
  MPI_Comm_size(here, &place->local_size);
  MPI_Comm_free(&here);
  char name[MPI_MAX_PROCESSOR_NAME + 1] = {};
  int length = 0;
  MPI_Get_processor_name(name, &length);
  std::strncpy(place->host, name, TOY_MPI_HOST_BYTES - 1);
  place->host[TOY_MPI_HOST_BYTES - 1] = 0;
}

// A message is its length, then its bytes.
void send(int to, const void* bytes, size_t count) {
  std::vector<MPI_Request> requests;
  const unsigned long long length = count;
  begin_send(requests, to, &length, sizeof length, kMessage);
  begin_send(requests, to, bytes, count, kMessage);
  wait_all(requests);
}

size_t next(int from) {
  const auto is_there = [from] {
    int there = 0;
    MPI_Iprobe(from, kMessage, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    return there != 0;
  };
  wait_for(is_there, rank == 0);  // what others want of rank 0 it has asked for; they wait as long as it has other work
  unsigned long long length = 0;
  MPI_Recv(&length, sizeof length, MPI_BYTE, from, kMessage, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return size_t(length);
}

void receive(int from, void* bytes, size_t count) {
  std::vector<MPI_Request> requests;
  begin_receive(requests, from, bytes, count, kMessage);
  wait_all(requests);
}

void broadcast(int root, void* bytes, size_t count) {
  std::vector<MPI_Request> requests;
  for (int i = 0; i < pieces(count); ++i)
    MPI_Ibcast(static_cast<char*>(bytes) + size_t(i) * kPiece, int(piece(count, i)), MPI_BYTE, root, MPI_COMM_WORLD,
               &requests.emplace_back());
  wait_all(requests);
}

void exchange(const void* mine, const size_t* bounds, void* const* parts) {
  std::vector<MPI_Request> requests;
  for (int step = 1; step < ranks; ++step) {  // not all to the same rank first
    const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    begin_receive(requests, from, parts[from], bounds[rank + 1] - bounds[rank], kChunk);
    begin_send(requests, to, static_cast<const char*>(mine) + bounds[to], bounds[to + 1] - bounds[to], kChunk);
  }
  wait_all(requests);
}

void all_gather(void* all, const size_t* bounds) {
  std::vector<MPI_Request> requests;
  const auto at = [&](int r) { return static_cast<char*>(all) + bounds[r]; };
  const auto size = [&](int r) { return bounds[r + 1] - bounds[r]; };
  for (int step = 1; step < ranks; ++step) {
    const int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
    begin_receive(requests, from, at(from), size(from), kChunk);
    begin_send(requests, to, at(rank), size(rank), kChunk);
  }
  wait_all(requests);
}

void abort_all(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

void finish() { MPI_Finalize(); }

constexpr toy_mpi kFunctions{TOY_MPI_VERSION, start,    send,       next,      receive,
                             broadcast,       exchange, all_gather, abort_all, finish};

}  // namespace

const toy_mpi* toy_mpi_functions() { return &kFunctions; }
