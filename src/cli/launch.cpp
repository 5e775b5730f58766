#include "cli/launch.h"

#include <fmt/format.h>

#include <csignal>
#include <string_view>

#include "cli/console.h"
#include "cli/main.h"
#include "toy/base/error.h"
#include "toy/base/utf8.h"
#include "toy/train/worker.h"

namespace toy::cli {
namespace {

bool trains(std::span<char*> arguments) {
  const auto is = [&](size_t i, std::string_view word) { return i < arguments.size() && arguments[i] == word; };
  return is(1, "train") || (is(1, "bench") && is(2, "train"));
}

// Rank 0 says when to stop; launchers send signals to all.
int work_for(Communicator& ranks, std::span<const std::string> words) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_IGN);
  try {
    require_same_command(ranks, TOY_VERSION, words);
    return run_worker(ranks);
  } catch (const std::exception& e) {
    to_stderr(fmt::format("toy: rank {} (host {}): {}\n", ranks.rank(), ranks.host(ranks.rank()), e.what()));
    ranks.abort(1);
    return 1;
  }
}

}  // namespace

int run_in_ranks(std::span<char*> arguments, const std::function<int(Communicator*)>& work) {
  const Launch launch = launch_of_this_process();
  if (launch.size == 1) return work(nullptr);
  if (!trains(arguments)) {
    if (launch.rank > 0) return 0;
    if (arguments.size() > 1 && arguments[1][0] != '-')
      to_stderr(fmt::format("toy: toy {} uses one process of the {}; only toy train and toy bench train use several\n",
                            one_line(arguments[1]), launch.size));
    return work(nullptr);
  }
  std::unique_ptr<Communicator> ranks;
  const auto load = [&] { ranks = launched_communicator(launch); };
  if (launch.rank == 0) {
    if (const int code = exit_code_of(load); code != 0) return code;
  } else {
    try {
      load();
    } catch (const Error&) {  // rank 0 says so
      return 2;
    }
  }
  if (const std::string few = share_cores(*ranks); !few.empty()) to_stderr(fmt::format("toy: {}\n", few));
  share_gpus(*ranks);
  const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  if (ranks->rank() > 0) return work_for(*ranks, words);
  int code = exit_code_of([&] { require_same_command(*ranks, TOY_VERSION, words); });
  if (code == 0) code = work(ranks.get());
  try {
    dismiss_workers(*ranks, code);
  } catch (const Error&) {  // one is lost, as rank 0 has said
    ranks->abort(code);
  }
  return code;
}

}  // namespace toy::cli
