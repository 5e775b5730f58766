// toy embed: what it prints and writes, and what is refused. (Which vectors: tests/hf/encoder_test.cpp.)
#include "cli/cli_fixture.h"

namespace {

using nlohmann::json;

class CliEmbed : public Cli {
 protected:
  const std::string model_ = path("bert.gguf"), texts_ = path("texts");

  void SetUp() override {
    ASSERT_EQ(toy("convert " + std::string(TOY_SOURCE_DIR) + "/tests/golden/bert_tiny " + model_).code, 0);
    std::ofstream(texts_) << "the badger\n{\"text\": \"otters swimming!\"}\n{\"ids\": [2, 5, 3]}\n";
  }
  std::vector<json> rows(const std::string& arguments) const {
    const Result r = toy("embed " + model_ + " " + arguments + " --json");
    EXPECT_EQ(r.code, 0) << r.err;
    std::istringstream lines(r.out);
    std::vector<json> rows;
    for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
    return rows;
  }
};

TEST_F(CliEmbed, AVectorForEachText) {
  const std::vector<json> all = rows("--file " + texts_);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].at("tokens"), 4);
  EXPECT_EQ(all[0], rows("'the badger'").at(0));  // the same by itself
  double length = 0;
  for (const double x : all[1].at("embedding")) length += x * x;
  EXPECT_NEAR(length, 1, 24 * 0x1p-23);
  EXPECT_EQ(rows("'the badger' --dimensions 5").at(0).at("embedding").size(), 5u);
  EXPECT_EQ(rows("'the badger' --pooling none").at(0).at("embeddings").size(), 4u);
  EXPECT_EQ(rows("badger --prefix 'the '").at(0), all[0]);
  EXPECT_NE(rows("'the badger' --raw").at(0), all[0]);
  std::string words;
  for (int i = 0; i < 70; ++i) words += "the ";
  EXPECT_EQ(rows("'" + words + "'").at(0).at("tokens"), 64);
  EXPECT_EQ(rows("'" + words + "'").at(0).at("cut"), true);
}

TEST_F(CliEmbed, AFileOfNumPy) {
  const std::string out = path("v.npy");
  for (const char* again : {"", " --overwrite"})
    ASSERT_EQ(toy("embed " + model_ + " --file " + texts_ + " --out " + out + again).code, 0);
  refuses("embed " + model_ + " --file " + texts_ + " --out " + out,
          {"v.npy", "is there and would be lost", "--overwrite it"});
  const std::string bytes = slurp(out);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const size_t header = 10 + size_t(uint8_t(bytes[8])) + 256 * size_t(uint8_t(bytes[9]));
  EXPECT_EQ(header % 64, 0u);
  EXPECT_EQ(bytes.size(), header + 3 * 24 * 4);
  EXPECT_NE(bytes.find("'shape': (3, 24)"), bytes.npos);
  float first = 0;
  std::memcpy(&first, bytes.data() + header, sizeof first);
  EXPECT_EQ(first, rows("'the badger'").at(0).at("embedding")[0].get<float>());
}

TEST_F(CliEmbed, Refuses) {
  refuses("embed " + model_, {"there is no text"});
  refuses("embed " + model_ + " a --dimensions 25", {"--dimensions is 25", "24"});
  refuses("embed " + model_ + " a --pooling none", {"add --json"});
  refuses("embed " + model_ + " a --out " + texts_, {"texts", "ends with .npy"});
  refuses("embed " + model_ + " a --out " + write("notes.npy", "mine"),
          {"notes.npy", "was not written by this command"});
  refuses("embed " + std::string(TOY_GOLDEN) + " --file " + texts_, {"does not say", "--pooling"});
  for (const char* command : {"infer", "chat", "eval"})
    refuses(command + (" " + model_) + (std::string(command) == "eval" ? " --file " + texts_ : ""),
            {"it is an encoder", "toy embed"});
  std::ofstream(texts_) << "{\"words\": 1}\n";
  refuses("embed " + model_ + " --file " + texts_, {"texts:1", "no 'text'"});
}

}  // namespace
