// A classifier of pictures as a user meets it: trained, judged, asked, and given to commands of text.
#include <gtest/gtest.h>

#include "cli_fixture.h"

namespace {

class CliVit : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    ASSERT_EQ(toy("corpus shapes --images 100 --test 30 --image-size 16 --out " + shapes_).code, 0);
    const Result r = toy("train vit --data " + shapes_ +
                         " --size vit-micro --patch 4 --batch 4 --steps 3 --lr 1e-3 --out " + model_);
    ASSERT_EQ(r.code, 0) << r.err;
    trained_ = r.err;
  }
  const std::string shapes_ = path("shapes"), model_ = path("vit"), star_ = path("shapes/test/star/00007.ppm");
  std::string trained_;
};

TEST_F(Cli, ASheetOfAugmentedPictures) {
  ASSERT_EQ(toy("corpus shapes --images 20 --test 0 --image-size 16 --out " + path("shapes")).code, 0);
  const std::string call = "data show " + path("shapes") + " --augment " + path("sheet.png") + " --seed 3 --rows 4";
  const Result r = toy(call + " --mixup 0.5");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(std::ranges::count(r.out, '\n'), 4);
  EXPECT_NE(r.out.find(" | "), r.out.npos);  // shares
  const std::string png = slurp(path("sheet.png"));
  // 8 columns and 4 rows of 16 pixels, 4 times as large, with 2 pixels between: big-endian in the header.
  const auto side = [&](size_t at) { return size_t(uint8_t(png[at + 2])) * 256 + uint8_t(png[at + 3]); };
  EXPECT_EQ(side(16), 8u * 66 + 2);
  EXPECT_EQ(side(20), 4u * 66 + 2);
  ASSERT_EQ(toy(call).code, 0);
  const std::string plain = slurp(path("sheet.png"));
  EXPECT_NE(plain, png);
  ASSERT_EQ(toy(call).code, 0);
  EXPECT_EQ(slurp(path("sheet.png")), plain);  // the same seed
  refuses("data show " + path("shapes") + " --flip 1", {"need --augment"});
  refuses("data show " + path("shapes"), {"--model is required"});
  const std::string sheet = "data show " + path("shapes") + " --augment " + path("sheet.png");
  refuses(sheet + " --rows 101", {"--rows is 101", "at most 100"});
  refuses("data show " + path("nowhere") + " --augment " + path("x.png") + " --image-size 4096", {"too large"});
  refuses(call + " --train-on all", {"--train-on is about texts"});
  refuses("data show " + path("nowhere") + " --augment " + path("x.png"), {"nowhere"});
  refuses("data show " + path("shapes") + " --augment " + write("precious.txt", "words"), {"was not written by this"});
}

TEST_F(CliVit, NamesAPictureAndIsJudged) {
  EXPECT_NE(trained_.find("to try it: toy infer " + model_ + " --image FILE\n"), std::string::npos) << trained_;
  const auto seen = nlohmann::json::parse(toy("infer " + model_ + " --image " + star_ + " --top 3 --json").out);
  ASSERT_EQ(seen.at("classes").size(), 3u);
  EXPECT_EQ(seen.at("class"), seen.at("classes")[0].at("class"));
  EXPECT_GE(seen.at("classes")[0].at("probability"), seen.at("classes")[1].at("probability"));
  const auto judged = nlohmann::json::parse(toy("eval " + model_ + " --data " + shapes_ + " --json").out);
  EXPECT_EQ(judged.at("images"), 30);
  double right = 0;
  for (size_t k = 0; k < 10; ++k) right += judged.at("confusion")[k][k].get<double>();
  EXPECT_NEAR(judged.at("top1").get<double>(), right / 30, 1e-12);
  EXPECT_GE(judged.at("top5"), judged.at("top1"));
}

// What the last validation took for which is in the log and in the report.
TEST_F(CliVit, TheReportHasTheConfusion) {
  nlohmann::json last;
  std::istringstream lines(slurp(model_ + "/events.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (const auto j = nlohmann::json::parse(line); j.at("kind") == "eval") last = j;
  ASSERT_TRUE(last.contains("classes"));
  const auto& classes = last.at("classes");
  ASSERT_EQ(classes.at("names").size(), 10u);
  int64_t all = 0, right = 0;
  for (size_t k = 0; k < 10; ++k)
    for (size_t i = 0; i < 10; ++i) {
      const auto n = classes.at("confusion")[k][i].get<int64_t>();
      all += n, right += k == i ? n : 0;
    }
  EXPECT_NEAR(last.at("top1").get<double>(), double(right) / double(all), 1e-12);
  const auto& worst = classes.at("worst");
  ASSERT_GE(worst.size(), 2u);
  EXPECT_GE(worst[0].at("nats"), worst[1].at("nats"));
  ASSERT_EQ(toy("runs report " + model_ + " --out " + path("report.html")).code, 0);
  const std::string html = slurp(path("report.html"));
  EXPECT_NE(html.find("Classes of the last validation"), html.npos);
  for (const auto& w : worst)
    if (w.at("class") != w.at("chosen"))
      EXPECT_NE(html.find(w.at("name").get<std::string>() + ": " + w.at("class").get<std::string>()), html.npos);
}

TEST_F(CliVit, CommandsOfTextSayWhatItIs) {
  const std::string text = write("text.txt", std::string(400, 'a'));
  for (const std::string& command :
       {"infer " + model_ + " --prompt hi", "chat " + model_ + " hi", "look " + model_ + " --prompt hi",
        "eval " + model_ + " --file " + text, "bench infer " + model_ + " --prompt 4 --decode 4 --repeat 1",
        std::string("bench train --shape vit-micro"), "train lora --model " + model_ + " --corpus " + text,
        "train warm-start --init " + model_ + " --corpus " + text})
    refuses(command, {"it tells classes of pictures", "toy infer with --image"});
  for (const std::string& command : {"embed " + model_ + " hi", "serve " + model_ + " --port 0"})
    refuses(command, {"it reads pictures"});
  // However long the text.
  const Result r = toy("train from-scratch --size tiny --tokenizer " + model_ + " --corpus " + text);
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("the model tells classes of pictures and reads no text"), std::string::npos) << r.err;
  EXPECT_LT(r.err.size(), 400u) << r.err;
}

TEST_F(CliVit, OptionsOfTextAreRefused) {
  const std::string infer = "infer " + model_ + " --image " + star_;
  for (const char* option : {"--prompt hi", "--draft ngram", "--temperature 0.5", "--n 3"})
    refuses(infer + " " + option, {"is about texts, and --image about pictures"});
  refuses("eval " + model_ + " --data " + shapes_ + " --ctx 4", {"--ctx is about texts, and --data about pictures"});
  refuses("infer " + model_ + " --top 3 --prompt hi", {"--top is for classes"});
  const Result picture = toy("infer " + model_ + " " + star_);
  EXPECT_EQ(picture.code, 2);
  EXPECT_NE(picture.err.find("the model tells classes of pictures: toy infer"), std::string::npos) << picture.err;
  EXPECT_NE(picture.err.find("--image " + star_), std::string::npos) << picture.err;
}

TEST_F(CliVit, BadPictures) {
  const auto infer = [&](const std::string& file) { return "infer " + model_ + " --image " + file; };
  refuses(infer(write("deep.ppm", "P6\n16 16\n65535\n")), {"deep.ppm", "16-bit"});
  refuses(infer(write("cut.ppm", slurp(star_).substr(0, 200))),
          {"cut.ppm", "cannot hold as many; it is cut off, so copy it again"});
  refuses(infer(write("none.ppm", "P6\n0 16\n255\n")), {"none.ppm", "no pixels"});
  refuses(infer(write("notes.png", "hello")), {"notes.png", "not a picture"});
  refuses(infer(write("move.gif", "GIF89a")), {"move.gif", "a GIF file"});
  refuses(infer(path("missing.png")), {"missing.png"});
  fs::create_directories(path("other/moon"));
  write("other/moon/1.ppm", slurp(star_));
  refuses("eval " + model_ + " --data " + path("other"), {"1.ppm", "class 'moon'"});
  refuses("train vit --data " + path("nothing"), {"nothing", "no such folder"});
}

}  // namespace
