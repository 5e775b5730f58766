// What a client sends costs bounded memory, and what fails ends its own request alone.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <list>
#include <new>

#include "loopback.h"
#include "plain_server.h"
#include "serve/http/memory_reserve.h"
#include "serve/text_job.h"
#include "testing/sanitizers.h"
#include "toy/base/memory.h"

namespace toy::serve::limits_test {
namespace {

constexpr size_t kMegabyte = size_t(1) << 20;
const std::string kChunked = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";

// Sends `begin`, and then `again` until the server has answered or taken 64 MB. What it answers.
Answer flood(uint16_t port, const std::string& begin, const std::string& again) {
  Client c(port);
  c.send(begin);
  std::string block;
  while (block.size() < 65536) block += again;
  for (int i = 0; i < 1000; ++i) {
    pollfd p{c.socket(), POLLIN, 0};
    if (!c.send(block) || ::poll(&p, 1, 0) > 0) break;
  }
  return Loopback::parse(c.receive());
}

// None of it is part of the body, whose size is bounded, too.
TEST(Limits, FramingIsBounded) {
  const PlainServer server;
  const size_t before = anonymous_memory();
  EXPECT_EQ(flood(server.port(), kChunked + "5;", "a").status, 400);                               // an extension
  EXPECT_EQ(flood(server.port(), kChunked + "5;a=\"", "b").status, 400);                           // in quotes
  EXPECT_EQ(flood(server.port(), kChunked, "0").status, 400);                                      // a size
  EXPECT_EQ(flood(server.port(), kChunked + "2\r\n{}\r\n0\r\nX: ", "a").status, 400);              // a trailer
  EXPECT_EQ(flood(server.port(), kChunked + "2\r\n{}\r\n0\r\n", "Xy: ab\r\n").status, 400);        // its lines
  EXPECT_EQ(flood(server.port(), kChunked + "2\r\n{}\r\n0;", "a").status, 400);                    // of the last chunk
  EXPECT_EQ(flood(server.port(), kChunked, "1;abcdefghijklmnopqrstuvwxyz\r\na\r\n").status, 400);  // together
  EXPECT_EQ(flood(server.port(), "GET /", "a").status, 431);
  EXPECT_EQ(flood(server.port(), "", "G").status / 100, 4);
  EXPECT_EQ(flood(server.port(), "GET / HTTP/1.1\r\n", "X: a\r\n").status, 431);
  EXPECT_EQ(flood(server.port(), "GET / HTTP/1.1\r\nX: ", "a").status, 431);
  if (!testing::kAddressSanitizer && !testing::kThreadSanitizer) {
    EXPECT_LT(anonymous_memory(), before + 8 * kMegabyte);
  }
}

// The parser takes each line when it is complete, and holds the fields.
TEST(Limits, LinesOfAHeaderThatComeOneByOne) {
  const PlainServer server({.header = 4096, .fields = 50});
  for (const std::string line : {"X: a\r\n",
                                 "X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"}) {
    Client c(server.port());
    const int off = 1;
    ::setsockopt(c.socket(), IPPROTO_TCP, 1 /* TCP_NODELAY */, &off, sizeof off);
    c.send("GET / HTTP/1.1\r\n");
    bool answered = false;
    for (int i = 0; i < 2000 && !answered; ++i) {
      pollfd p{c.socket(), POLLIN, 0};
      answered = ::poll(&p, 1, 1) > 0 || !c.send(line);
    }
    EXPECT_TRUE(answered);
    EXPECT_EQ(Loopback::parse(c.receive()).status, 431);
  }
}

TEST(Limits, TransferCodings) {
  const PlainServer server;
  const auto status = [&](const std::string& headers) {
    Client c(server.port());
    c.send("POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n0\r\n\r\n");
    return Loopback::parse(c.receive()).status;
  };
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\n"), 200);
  EXPECT_EQ(status("Transfer-Encoding: Chunked\r\n"), 200);
  for (const char* others : {"gzip, chunked", "gzip", "identity", "chunked;a=b", "chunked, gzip"})
    EXPECT_EQ(status("Transfer-Encoding: " + std::string(others) + "\r\n"), 501) << others;
  EXPECT_EQ(status("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), 501);
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(status("Host: a\r\n"), 400);  // a second one
  Client old(server.port());
  old.send("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(Loopback::parse(old.receive()).status, 400);
}

// What a trailer says comes too late to be asked for.
TEST(Limits, ATrailerHasNoKey) {
  const PlainServer server;
  Client c(server.port());
  c.send(
      "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2;x=y\r\n{}\r\n0\r\nAuthorization: Bearer key\r\n\r\n");
  EXPECT_EQ(Loopback::parse(c.receive()).body, "[{}]");
}

// The body does not come, and is not waited for.
TEST(Limits, KeysAreCheckedBeforeTheBody) {
  const Loopback server({.sequences = 1}, {.api_keys = {"secret"}});
  for (const std::string header : {"Content-Length: 8000000\r\n", "Transfer-Encoding: chunked\r\n",
                                   "Content-Length: 8000000\r\nExpect: 100-continue\r\n"}) {
    Client c(server.port());
    c.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n");
    const std::string all = c.receive("invalid_api_key");
    EXPECT_EQ(Loopback::parse(all).status, 401) << all;
    EXPECT_EQ(all.find("100 Continue"), all.npos);
  }
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.post("/v1/messages", "{}").json()["type"], "error");  // in the form of that API
}

// Whatever a handler throws: its client learns that there is no answer, others go on.
TEST(Limits, AHandlerThatThrows) {
  const PlainServer server({}, [](const std::shared_ptr<Exchange>& e) {
    if (e->request.body == "memory") throw std::bad_alloc();
    PlainServer::echo(e);
  });
  for (int i = 0; i < 20; ++i) {
    Client c(server.port());
    c.send(post("/", i % 2 ? "memory" : "{}"));
    const Answer a = Loopback::parse(c.receive());
    EXPECT_EQ(a.status, i % 2 ? 0 : 200);
  }
  Client get(server.port());  // on the thread of the connections
  get.send("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\n\r\nmemory");
  EXPECT_EQ(Loopback::parse(get.receive()).status, 0);
  Client last(server.port());
  last.send(post("/", "{}"));
  EXPECT_EQ(Loopback::parse(last.receive()).status, 200);
}

TEST(Limits, NoMemoryIsStatus503) {
  const ApiError e = api_error(std::make_exception_ptr(std::bad_alloc()));
  EXPECT_EQ(e.status, 503);
  EXPECT_NE(std::string(e.what()).find("memory"), std::string::npos);
}

// Has no memory for the third token.
class Fails : public ReplyFormat {
 public:
  std::string body(const Reply&) override { throw std::bad_alloc(); }
  std::string begin(const Reply&) override { return "data: begin\n\n"; }
  std::string piece(const Choice&, const Piece&) override {
    if (++pieces_ == 3) throw std::bad_alloc();
    return "data: piece\n\n";
  }
  std::string choice_end(const Choice&, const Piece&) override { return ""; }
  std::string end(const Reply&) override { return "data: end\n\n"; }

 private:
  int pieces_ = 0;
};

class Heard : public Exchange {
 public:
  Heard() : Exchange({}) {}
  void send(HttpReply reply) override { status = reply.status; }
  void begin(const std::string&) override {}
  void write(std::string part) override { text += part; }
  void end(std::string last) override {
    if (!last.empty()) write(std::move(last));
    ended = true;
  }
  void on_gone(std::function<void()>) override {}
  int status = 0;
  std::string text;
  bool ended = false;
};

// Calls what operator new calls where there is no memory. Does it try again?
bool tries_again() {
  try {
    std::get_new_handler()();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

struct AllocatesAtItsEnd {
  std::vector<bool>& results;
  ~AllocatesAtItsEnd() {
    for (int i = 0; i < 2; ++i) results.push_back(tries_again());
  }
};

// Trees of JSON allocate where they are destroyed: there has to be something left for that.
TEST(Limits, MemoryForTheWayBack) {
  EXPECT_THROW(MemoryReserve(size_t(1) << 62), std::bad_alloc);
  std::vector<bool> results;
  {
    const MemoryReserve reserve(kSmallReserve);
    EXPECT_TRUE(tries_again());
    EXPECT_FALSE(tries_again());
    try {
      const AllocatesAtItsEnd last{results};
      throw std::bad_alloc();
    } catch (const std::bad_alloc&) {
    }
  }
  EXPECT_EQ(results, (std::vector<bool>{true, false}));
  EXPECT_FALSE(tries_again());
  EXPECT_GE(bytes_to_destroy(R"([[],[],[]])"), kSmallReserve + 6 * 16);
}

TEST(Limits, AReplyWithoutMemoryEndsAlone) {
  Timings timings;
  for (const bool stream : {true, false}) {
    const auto heard = std::make_shared<Heard>();
    const auto job = std::make_shared<TextJob>(heard, std::make_unique<Fails>(), stream, timings);
    const TextRequest t = job->add_choice({.prompt = {1}, .options = {}}, "");
    EXPECT_TRUE(t.on_text({}, "a"));
    EXPECT_TRUE(t.on_text({}, "b"));
    EXPECT_EQ(t.on_text({}, "c"), !stream);
    t.on_end({});
    if (stream)
      EXPECT_TRUE(heard->ended && heard->text.find("memory") != std::string::npos) << heard->text;
    else
      EXPECT_EQ(heard->status, 503);
  }
}

// Handlers that do not end keep neither the clients waiting nor the server.
TEST(Limits, TheEndDoesNotWaitForHandlers) {
  std::latch release(1);
  std::atomic<int> busy = 0;
  std::atomic<bool> stuck = false;
  {
    HttpCalls calls;
    calls.ending = [] {};
    calls.stuck = [&] { stuck = true, release.count_down(); };
    PlainServer server(
        {.grace_seconds = 0, .last_seconds = 0},
        [&](const std::shared_ptr<Exchange>& e) {
          ++busy;
          release.wait();
          PlainServer::echo(e);
        },
        calls);
    Client c(server.port());
    c.send(post("/", "{}"));
    wait_until([&] { return busy == 1; });
    server.http().stop();
    EXPECT_EQ(Loopback::parse(c.receive()).status, 503);
  }
  EXPECT_TRUE(stuck);
}

TEST(Limits, SmallRequestsDoNotWaitForLargeOnes) {
  std::latch release(1);
  std::atomic<int> busy = 0;
  const PlainServer server({}, [&](const std::shared_ptr<Exchange>& e) {
    if (e->request.body.size() > HttpServer::kLargeBody) ++busy, release.wait();
    PlainServer::echo(e);
  });
  const std::string large(HttpServer::kLargeBody + 1, 'x');
  std::list<Client> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back(server.port()).send(post("/", large));
  wait_until([&] { return busy == 1; });
  for (int i = 0; i < 3; ++i) {
    Client small(server.port());
    small.send(post("/", "{}"));
    EXPECT_EQ(Loopback::parse(small.receive()).status, 200);
  }
  EXPECT_EQ(busy, 1);
  release.count_down();
  for (Client& c : clients) EXPECT_EQ(Loopback::parse(c.receive()).body, "[" + large + "]");
}

// Although its requests have an hour to end, and one never does.
[[noreturn]] void stop_twice() {
  std::atomic<bool> busy = false, stopping = false;
  HttpCalls calls;
  calls.stopping = [&](size_t) { stopping = true; };
  const PlainServer server(
      {.grace_seconds = 3600},
      [&](const std::shared_ptr<Exchange>&) {
        busy = true;
        while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
      },
      calls);
  Client c(server.port());
  c.send(post("/", "{}"));
  wait_until([&] { return busy.load(); });
  ::kill(::getpid(), SIGTERM);
  wait_until([&] { return stopping.load(); });
  ::kill(::getpid(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(30));
  std::_Exit(1);
}

TEST(LimitsDeathTest, ASecondSignalEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(stop_twice(), ::testing::KilledBySignal(SIGTERM), "");
}

// A client that has sent a part of its next request and leaves.
TEST(Limits, WhoHasSentMoreAndLeavesIsNoticed) {
  std::latch release(1);
  std::atomic<int> busy = 0, gone = 0;
  HttpCalls calls;
  calls.answered = [&](const Answered& a) { gone += a.status == 499; };
  const PlainServer server(
      {},
      [&](const std::shared_ptr<Exchange>& e) {
        ++busy;
        e->on_gone([] {});
        release.wait();
        PlainServer::echo(e);
      },
      calls);
  const std::string more[] = {"", "P", "POST / HTTP/1.1\r\n"};
  for (const std::string& next : more) {
    const int before = gone;
    Client c(server.port());
    c.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}" + next);
    c.hang_up();
    wait_until([&] { return gone > before; });
  }
  release.count_down();
}

// Requests that came too early are answered all the same, one after the other.
TEST(Limits, RequestsThatComeEarly) {
  const PlainServer server;
  Client c(server.port());
  std::string all;
  for (int i = 0; i < 100; ++i)
    all += fmt::format("POST / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\nContent-Length: 3\r\n\r\n{:03}",
                       std::string(1000, 'x'), i);
  c.send(all);
  const std::string answers = c.receive("[099]");
  for (int i = 0; i < 100; ++i) EXPECT_NE(answers.find(fmt::format("[{:03}]", i)), answers.npos) << i;
}

}  // namespace
}  // namespace toy::serve::limits_test
