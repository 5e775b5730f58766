// Events and their log: what is written is read again, and what is broken is skipped or refused.
#include "toy/runs/log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "testing/errors.h"
#include "testing/files.h"
#include "toy/base/error.h"
#include "toy/runs/tensorboard.h"

namespace toy::runs::log_test {
namespace {

using namespace testing;

Event step_event(int64_t step, double loss, double t = 1) {
  Step s;
  s.loss = loss;
  s.lr = 1e-3;
  s.tokens = 32;
  return {t, step, "train", s};
}
Event start_event(const std::string& id = "r") {
  RunStart s;
  s.run_id = id;
  s.steps = 100;
  return {0, {}, "prepare", s};
}
Event resume_event(int64_t step) { return {9, step, "prepare", Resume{"", "ckpt"}}; }

std::string lines(std::initializer_list<Event> events) {
  std::string s;
  for (const Event& e : events) s += to_json_line(e) + "\n";
  return s;
}

std::vector<double> losses(const Log& log) {
  std::vector<double> l;
  for (const Event& e : log.events)
    if (const Step* s = e.as<Step>()) l.push_back(s->loss);
  return l;
}

TEST(Event, LineIsWhatItSays) {
  Event e = step_event(7, 0.1, 1.25);
  std::get<Step>(e.body).grad_norm = 3;
  EXPECT_EQ(to_json_line(e),
            R"({"kind":"step","t":1.25,"step":7,"phase":"train","loss":0.1,"lr":0.001,"grad_norm":3,"tokens":32,)"
            R"("wall_us":0,"tokens_per_second":null})");
}

// Every kind with every field, nested ones too, comes back as the same line.
TEST(Event, EveryKindComesBack) {
  RunStart start;
  start.run_id = "a \"quoted\" name\n";
  start.git = "0123";
  start.model = {R"({"layers":[1,2]})"};
  Tap tap;
  tap.name = "blk.0.out";
  tap.histogram = {-1, 1, {1, 2, 3}};
  Drift drift{"w", 0.5, 2, 3, std::vector<RowDrift>{{4, 0.25, 1.5}}};
  RunEnd end;
  end.model = "out/model.gguf";
  const std::vector<Body> bodies{start,
                                 Resume{"now", "there"},
                                 Step{},
                                 tap,
                                 Grad{},
                                 drift,
                                 OpTiming{"linear", "forward", 3, 1.5},
                                 Sample{"text"},
                                 Eval{1, 2, true},
                                 Compare{"loss", {"a", "b"}, {1, NAN}, "a"},
                                 RegionEnter{"save"},
                                 RegionExit{"save", 5},
                                 Note{"note"},
                                 Checkpoint{"checkpoints/step_000003"},
                                 end};
  EXPECT_EQ(bodies.size(), std::variant_size_v<Body>);
  for (size_t i = 0; i < bodies.size(); ++i) {
    const Event e{0.5, 3, "train", bodies[i]};
    const std::string line = to_json_line(e);
    const auto back = parse_event(line);
    ASSERT_TRUE(back) << line;
    EXPECT_EQ(back->body.index(), i);
    EXPECT_EQ(to_json_line(*back), line);
  }
}

TEST(Event, NumbersComeBackToTheBit) {
  for (const double v : {0.1, 1.0 / 3, 5e-324, 9.9e99, 1e22, 123456789.125, -0.0}) {
    const auto e = parse_event(to_json_line(step_event(1, v)));
    EXPECT_EQ(std::get<Step>(e->body).loss, v);
  }
  for (const double v : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    const std::string line = to_json_line(step_event(1, v));
    EXPECT_NE(line.find("\"loss\":null"), std::string::npos);
    EXPECT_TRUE(std::isnan(std::get<Step>(parse_event(line)->body).loss));
  }
}

// A step as to_json_line() writes it is read without the JSON library, and so that nothing tells.
TEST(Event, AStepIsReadAsAnyOtherEvent) {
  Event e = step_event(12, 0.25, 3.5);
  std::get<Step>(e.body).grad_norm = 1e-9;
  const std::string line = to_json_line(e);
  std::string spaced = line;
  spaced.insert(1, " ");
  for (const std::string& text : {line, spaced}) EXPECT_EQ(to_json_line(*parse_event(text)), line) << text;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string s = line;
    return s.replace(s.find(from), from.size(), to);
  };
  EXPECT_EQ(to_json_line(*parse_event(with("0.25", "null"))), with("0.25", "null"));
  EXPECT_EQ(parse_event(with("}", ",\"new\":1}"))->step, 12);
  for (const auto& bad : {with("0.25", "nan"), with("0.25", "-nan"), with("0.25", "-"), with("0.25", "1e300"),
                          with(":32", ":1e19"), with(":32", ":-"), with("}", "")})
    EXPECT_THROW(parse_event(bad), Error) << bad;
}

TEST(Event, TextThatIsNotUtf8IsReplaced) {
  const std::string line = to_json_line({0, 1, "eval", Sample{"a\xff\xc3(b"}});
  EXPECT_NE(line.find("a\xef\xbf\xbd"), std::string::npos);
  EXPECT_NO_THROW(parse_event(line));
}

TEST(Event, WhatIsNotKnownOrNotRight) {
  EXPECT_FALSE(parse_event(R"({"kind":"later","t":1})"));
  EXPECT_TRUE(parse_event(R"({"kind":"step","t":1,"phase":"train","new_field":[1]})"));
  for (const char* bad : {"", "{", "[]", "3", R"({"t":1})", R"({"kind":3})", R"({"kind":"step","loss":"low"})",
                          R"({"kind":"tap","histogram":{"counts":3}})"})
    EXPECT_THROW(parse_event(bad), Error) << bad;
}

// Sums and differences of what is read stay finite and defined.
TEST(Event, NumbersOutOfRangeAreRefused) {
  const auto refusal = [](const std::string& field) {
    return message_of([&] { parse_event(R"({"kind":"step","phase":"train","loss":1,)" + field + "}"); });
  };
  EXPECT_EQ(parse_event(R"({"kind":"step","phase":"train","step":9007199254740992})")->step, int64_t(1) << 53);
  for (const char* field : {R"("step":1e19)", R"("step":18446744073709551615)", R"("tokens":1e16)", R"("tokens":1.5)",
                            R"("loss":1e300)", R"("t":-1e101)", R"("wall_us":true)"}) {
    const std::string name = std::string(field).substr(1, std::string(field).find(':') - 2);
    EXPECT_EQ(refusal(field).rfind(name + " is ", 0), 0u) << refusal(field);
  }
  const std::string deep = std::string(100000, '[');
  expect_contains(refusal("\"x\":" + deep), "more than 64 levels");
  expect_contains(refusal("\"x\":" + deep + std::string(100000, ']')), "more than 64 levels");
}

TEST(Event, DocsNameEveryKindAndField) {
  const std::string docs = slurp(std::string(TOY_SOURCE_DIR) + "/docs/runs.md");
  const auto require = [&](const std::string& name) {
    EXPECT_NE(docs.find("`" + name + "`"), std::string::npos) << "docs/runs.md does not name " << name;
  };
  const auto schema = events_schema();
  for (const auto& kind : schema.at("oneOf")) {
    require(kind.at("properties").at("kind").at("const"));
    for (const auto& field : kind.at("properties").items()) require(field.key());
  }
}

class LogTest : public ::testing::Test, protected Folder {};

TEST_F(LogTest, WritesAndReads) {
  {
    EventWriter w(path("events.jsonl"), EventWriter::Mode::fresh);
    w.write(start_event());
    EXPECT_NE(slurp(path("events.jsonl")).find("run_start"), std::string::npos);  // at once
    w.write(step_event(1, 2.5));
  }
  const Log log = read_events(path("events.jsonl"));
  EXPECT_EQ(losses(log), (std::vector<double>{2.5}));
  EXPECT_TRUE(log.warnings.empty());
}

TEST_F(LogTest, SkipsATornLastLineAndUnknownKinds) {
  const std::string whole = lines({start_event(), step_event(1, 3), step_event(2, 2)});
  const size_t second = whole.find("\"step\":2");
  for (size_t cut = second - 10; cut < whole.size() - 2; ++cut) {
    const Log log = read_events(write("e.jsonl", whole.substr(0, cut)));
    EXPECT_EQ(losses(log), (std::vector<double>{3})) << cut;
    ASSERT_EQ(log.warnings.size(), 1u) << cut;
    EXPECT_NE(log.warnings[0].find("torn"), std::string::npos);
  }
  const Log log = read_events(write("e.jsonl", "{\"kind\":\"from_the_future\"}\n" + whole));
  EXPECT_EQ(losses(log), (std::vector<double>{3, 2}));
  EXPECT_TRUE(log.warnings.empty());
}

TEST_F(LogTest, AResumeTakesBackWhatCameLater) {
  const Log log = read_events(write("e.jsonl", lines({start_event(),
                                                      step_event(1, 5),
                                                      step_event(2, 4),
                                                      step_event(3, 99),
                                                      {3, 3, "end", RunEnd{}},
                                                      resume_event(2),
                                                      step_event(3, 3),
                                                      step_event(4, 2)})));
  EXPECT_EQ(losses(log), (std::vector<double>{5, 4, 3, 2}));
  for (const Event& e : log.events) EXPECT_EQ(e.as<RunEnd>(), nullptr);
}

TEST_F(LogTest, TheLastEventOfAStepCounts) {
  const Tap a{{}, "a"}, b{{}, "b"};
  const Log log = read_events(write("e.jsonl", lines({start_event(),
                                                      step_event(1, 5),
                                                      {1, 1, "train", a},
                                                      {1, 1, "train", b},
                                                      step_event(1, 4),
                                                      {2, 1, "train", a}})));
  EXPECT_EQ(losses(log), (std::vector<double>{4}));
  int taps = 0;
  for (const Event& e : log.events) taps += e.as<Tap>() != nullptr;
  EXPECT_EQ(taps, 2);  // two names
}

TEST_F(LogTest, OfTwoRunsInOneFileTheLastIsShown) {
  const Log log = read_events(
      write("e.jsonl", lines({start_event("one"), step_event(1, 5), start_event("two"), step_event(1, 4)})));
  EXPECT_EQ(losses(log), (std::vector<double>{4}));
  ASSERT_EQ(log.warnings.size(), 1u);
  EXPECT_EQ(log.warnings[0], "line 3: a second run begins in this file; only it is shown");
}

TEST_F(LogTest, RefusesWhatIsNoLog) {
  EXPECT_NE(error_of([&] { read_events(path("none")); }).find("none: cannot open"), std::string::npos);
  EXPECT_NE(error_of([&] { read_events(write("t", "hello\nworld\n")); }).find("is not the log of a run"),
            std::string::npos);
  EXPECT_NE(error_of([&] { read_events(write("t", "")); }).find("holds no event"), std::string::npos);
  EXPECT_NE(error_of([&] {
              read_events(write("t", "{\"kind\":\"run_start\",\"schema\":\"toy/v9\"}\n"));
            }).find("'toy/v9'; this version reads toy/v1"),
            std::string::npos);
}

TEST_F(LogTest, LinesThatCannotBeHeldAreSkipped) {
  const std::string deep = R"({"kind":"note","phase":"train","text":"","x":)" + std::string(200000, '[') + "\n";
  const Log log =
      read_events(write("t", lines({start_event(), step_event(1, 4)}) + deep +
                                 R"({"kind":"step","step":1e19,"phase":"train"})" + "\n" + lines({step_event(2, 3)})));
  EXPECT_EQ(losses(log), (std::vector<double>{4, 3}));
  ASSERT_EQ(log.warnings.size(), 2u);
  expect_contains(log.warnings[0], "line 3");
  expect_contains(log.warnings[1], "line 4");
}

TEST_F(LogTest, TwoWritersAreRefused) {
  const std::string file = path("events.jsonl");
  {
    EventWriter first(file, EventWriter::Mode::fresh);
    first.write(start_event());
    EXPECT_TRUE(is_being_written(file));
    EXPECT_NE(error_of([&] { EventWriter second(file, EventWriter::Mode::fresh); }).find("another run is writing here"),
              std::string::npos);
    first.write(step_event(1, 2));
  }
  EXPECT_FALSE(is_being_written(file));
  EXPECT_EQ(losses(read_events(file)), (std::vector<double>{2}));
}

TEST_F(LogTest, AnEarlierLogIsKeptAside) {
  const std::string file = path("events.jsonl");
  for (const double loss : {1.0, 2.0}) EventWriter(file, EventWriter::Mode::fresh).write(step_event(1, loss));
  EXPECT_EQ(losses(read_events(file)), (std::vector<double>{2}));
  EXPECT_EQ(losses(read_events(path("events.previous.jsonl"))), (std::vector<double>{1}));
}

TEST_F(LogTest, AResumedWriterTakesATornLineAway) {
  const std::string torn = "{\"kind\":\"st" + std::string(10000, 'x');  // longer than what is read at once
  const std::string file = write("events.jsonl", lines({start_event(), step_event(1, 3, 4.5)}) + torn);
  {
    EventWriter w(file, EventWriter::Mode::resume);
    EXPECT_EQ(w.last_t(), 4.5);
    w.write(resume_event(1));
    w.write(step_event(2, 2, 0.25));
  }
  const Log log = read_events(file);
  EXPECT_EQ(losses(log), (std::vector<double>{3, 2}));
  EXPECT_EQ(log.events.back().t, 4.75);  // the clock goes on
  EXPECT_TRUE(log.warnings.empty());
}

TEST_F(LogTest, AResumedWriterKeepsAWholeLineWithoutItsLineBreak) {
  std::string whole = lines({start_event(), step_event(1, 3)});
  whole.pop_back();
  const std::string file = write("events.jsonl", whole);
  EventWriter(file, EventWriter::Mode::resume).write(step_event(2, 2));
  EXPECT_EQ(losses(read_events(file)), (std::vector<double>{3, 2}));
}

TEST_F(LogTest, AFullDiskIsSaid) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const std::string link = path("events.jsonl");
  fs::create_symlink("/dev/full", link);
  EXPECT_NE(error_of([&] {
              EventWriter w(link, EventWriter::Mode::fresh);
              w.write(start_event());
            }).find("disk full: "),
            std::string::npos);
}

// RFC 3720, appendix B.4.
TEST(TensorBoard, Crc32cIsTheRfcs) {
  std::string zeros(32, '\0'), ones(32, '\xff'), up;
  for (int i = 0; i < 32; ++i) up += char(i);
  EXPECT_EQ(crc32c(zeros), 0x8a9136aau);
  EXPECT_EQ(crc32c(ones), 0x62a8ab43u);
  EXPECT_EQ(crc32c(up), 0x46dd794eu);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

// The first record of every file of TensorFlow begins so: length 24, and its masked CRC as TensorFlow writes it.
TEST(TensorBoard, FramesAsTensorFlow) {
  const std::string r = tfrecord(std::string(24, 'x'));
  EXPECT_EQ(r.size(), 8u + 4 + 24 + 4);
  EXPECT_EQ(r.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
}

TEST_F(LogTest, TensorBoardFileIsTheseBytes) {
  TensorBoardWriter w(path("tb"), 1000);
  w.write(start_event());  // no scalars, no record
  w.write({0.5, 300, "eval", Eval{1.5, 0.25, true}});
  const auto field = [](std::string_view s) { return std::string(1, char(s.size())) + std::string(s); };
  const std::string version = std::string("\x09\0\0\0\0\0\x40\x8f\x40", 9) + "\x1a" + field("brain.Event:2");
  const std::string one = "\x0a" + field("validation/loss") + std::string("\x15\0\0\xc0\x3f", 5);
  const std::string two = "\x0a" + field("validation/nats_per_byte") + std::string("\x15\0\0\x80\x3e", 5);
  const std::string summary = "\x0a" + field(one) + "\x0a" + field(two);
  // 1000.5 as a double; step 300 as a varint.
  const std::string event = std::string("\x09\0\0\0\0\0\x44\x8f\x40\x10\xac\x02\x2a", 13) + field(summary);
  EXPECT_EQ(slurp(w.path()), tfrecord(version) + tfrecord(event));
}

}  // namespace
}  // namespace toy::runs::log_test
