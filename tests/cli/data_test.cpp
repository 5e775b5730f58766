// Corpora of several files and folders, mixtures, documents and the data cache, as a user meets them.
#include <gtest/gtest.h>

#include "cli_fixture.h"

namespace {

class Data : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    fs::create_directories(path("books/more"));
    std::string text;
    for (int i = 0; i < 300; ++i) {
      text += "the cat sat on mat number " + std::to_string(i * i % 97) + " and was glad.\n";
      if (i % 5 == 4) text += "\n";
    }
    write("books/b.txt", text.substr(0, 4000));
    write("books/more/a.txt", text.substr(4000, 4000));
    write("letters.txt", text.substr(8000));
  }
  std::string train(const std::string& more, const std::string& out = "run") const {
    return "train from-scratch" + with(kSmall, more) + " --steps 3 " + more + " --out " + path(out);
  }
  std::string mix(const std::string& weights) const {
    std::string words;
    std::istringstream in(weights);
    for (const char* corpus : {"books", "letters.txt"}) {
      std::string weight;
      in >> weight;
      words += " --corpus " + path(corpus) + " --corpus-weight=" + weight;
    }
    return words;
  }
};

TEST_F(Data, AFolderSaysWhatItTakes) {
  write("books/picture.png", std::string("\x89PNG\0\1", 6));
  const Result r = toy(train("--corpus " + path("books") + " --corpus " + path("letters.txt")));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("3 files are taken; left out: " + path("books/picture.png") + " (a picture)"), std::string::npos)
      << r.err;
  const std::string log = slurp(path("run/events.jsonl"));
  EXPECT_NE(log.find("picture.png"), std::string::npos);
}

TEST_F(Data, WhatIsProbablyNotMeantIsSaid) {
  const auto warning = [&](const std::string& options) {
    const Result r = toy(train(options + " --overwrite"));
    EXPECT_EQ(r.code, 0) << r.err;
    return r.err;
  };
  const std::string text = slurp(path("letters.txt"));
  const std::string letters = "--corpus " + path("letters.txt");
  EXPECT_NE(warning(letters + " --val " + path("books/../letters.txt")).find("is trained on and validated on"),
            std::string::npos);
  EXPECT_EQ(warning(letters + " --val " + path("books")).find("validated on"), std::string::npos);
  write("latin1.txt", "caf\xe9 " + text);
  EXPECT_NE(warning("--corpus " + path("latin1.txt")).find("latin1.txt: byte 3 is not UTF-8"), std::string::npos);
  write("accents.txt", "caf\u00e9 " + text);
  EXPECT_EQ(warning("--corpus " + path("accents.txt")).find("UTF-8"), std::string::npos);
  write("rows.jsonl", R"({"text": "a"})"
                      "\n"
                      R"({"text": "b"})"
                      "\n" +
                          text);
  EXPECT_NE(warning("--corpus " + path("rows.jsonl")).find("these are JSON Lines"), std::string::npos);
  EXPECT_NE(warning(letters + " --val " + path("rows.jsonl")).find("the validation loss is that of writing JSON"),
            std::string::npos);
  write("list.json", "[\n {\"text\": \"a\"}]" + text);
  EXPECT_NE(warning("--corpus " + path("list.json")).find("this is a list of JSON objects"), std::string::npos);
  write("tab.csv", "a,b\n1,2\n" + text);
  EXPECT_NE(warning("--corpus " + path("tab.csv")).find("this is a table"), std::string::npos);
  write("page.html", "<!DOCTYPE html>\n<p>" + text);
  EXPECT_NE(warning("--corpus " + path("page.html")).find("this is HTML"), std::string::npos);
  write("windows.txt", "a\r\nb\r\n" + text);
  EXPECT_NE(warning("--corpus " + path("windows.txt")).find("its lines end as in Windows"), std::string::npos);
  write("code.json", "{\n  \"a\": 1\n}\n" + text);
  EXPECT_EQ(warning("--corpus " + path("code.json")).find("JSON Lines"), std::string::npos);
  EXPECT_NE(warning(letters + " --lr 1e3 --clip 0.1").find("--lr 1000 is so large that a model is ruined with adamw"),
            std::string::npos);
}

TEST_F(Data, MixedAndPackedFromTheCommandLineAndAConfig) {
  const std::string words = mix("3 1") + " --documents blank-lines --pack --data-cache " + path("cache");
  const Result r = toy(train(words));
  EXPECT_EQ(r.code, 0) << r.err;
  for (const std::string& part :
       {path("books") + ": 75.0% of the rows, 2 files, ", path("letters.txt") + ": 25.0% of the rows, 1 file, ",
        std::string("packed rows, "), path("letters.txt") + ": 25.0% of 6 rows, ",
        std::string("step 3: validation loss "), path("books") + ": tokens kept in " + path("cache")})
    EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
  const nlohmann::json config{{"corpus", {path("books"), path("letters.txt")}},
                              {"corpus-weight", {3, 1}},
                              {"documents", "blank-lines"},
                              {"pack", true},
                              {"data-cache", path("cache")}};
  const Result again = toy(train("--config " + write("c.json", config.dump()), "again"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find(path("books") + ": tokens from " + path("cache")), std::string::npos) << again.err;
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("again/model.gguf")));
}

// As in a container whose user is not that of the home folder.
TEST_F(Data, ACacheThatCannotBeReadIsNotNeeded) {
  fs::create_directories(path("home"));
  fs::create_symlink(".cache", path("home/.cache"));  // refused to root, too
  const std::string command =
      "env -u XDG_CACHE_HOME HOME=" + path("home") + " " + TOY_BINARY + " " + train("--corpus " + path("letters.txt"));
  EXPECT_EQ(std::system((command + " >/dev/null 2>" + path("err")).c_str()), 0) << slurp(path("err"));
}

TEST_F(Data, AMixtureSaysWhatValidationLeavesOut) {
  const std::string note = write("note.txt", "a note of no more than thirty.");
  const Result r = toy(train("--corpus " + path("books") + " --corpus-weight 3 --corpus " + note +
                             " --corpus-weight 1 --tokens 8 --val-fraction 0.02"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("note.txt: its validation part has fewer than 2 tokens"), std::string::npos) << r.err;
}

TEST_F(Data, BadInput) {
  const std::string books = "--corpus " + path("books");
  refuses(train("--corpus " + path("none")), {path("none"), "no such file"});
  refuses(train("--corpus " + write("empty.txt", "")), {"empty.txt", "the file is empty"});
  fs::create_directory(path("bare"));
  refuses(train("--corpus " + path("bare")), {"bare: the folder is empty"});
  refuses(train(books + " --val " + path("bare")), {"bare: the folder is empty"});
  refuses(train(mix("3 x")), {"--corpus-weight is 'x'", "finite number"});
  refuses(train(mix("3 nan")), {"--corpus-weight is 'nan'"});
  refuses(train(mix("3 -1")), {"--corpus-weight is -1", "0 or more"});
  refuses(train(mix("0 0")), {"corpus-weight: all weights are 0"});
  refuses(train(books + " --corpus " + path("letters.txt") + " --corpus-weight 1"),
          {"corpus-weight: 1 weights for 2 of --corpus"});
  refuses(train(books + " --documents chapters"), {"documents is 'chapters', expected one of none, files"});
  refuses(train(books + " --pack"), {"pack: rows are filled with whole documents; say what a document is"});
  refuses(train(books + " --tokenizer-bytes 0"), {"--tokenizer-bytes is 0", "1 or more"});
  refuses(train(books + " --data-cache " + path("letters.txt")), {"data-cache", "letters.txt"});
  refuses(train("--corpus " + write("short.txt", "hello")), {"too short"});
  refuses(train(mix("1 1") + " --tokens 6000"), {"letters.txt: the text is too short"});
  refuses(train("--config " + write("c.json", R"({"corpus": [["x"]]})")), {"c.json: 'corpus' is [\"x\"]"});
}

TEST_F(Data, ALongDocumentIsCutAndThatIsSaid) {
  const Result r = toy(train("--corpus " + path("books") + " --documents files --pack"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("1 are longer than a row of 16 tokens and are cut"), std::string::npos) << r.err;
}

TEST_F(Data, ADamagedCacheIsMadeAnew) {
  const std::string words = "--corpus " + path("letters.txt") + " --data-cache " + path("cache");
  ASSERT_EQ(toy(train(words)).code, 0);
  fs::path file;
  for (const auto& entry : fs::recursive_directory_iterator(path("cache")))
    if (entry.path().filename() == "tokens") file = entry.path();
  std::string bytes = slurp(file);
  bytes[bytes.size() / 2] = char(bytes[bytes.size() / 2] ^ 4);
  std::ofstream(file, std::ios::binary) << bytes;
  const Result r = toy(train(words, "again"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("data-cache: " + file.string() + " is made anew: its checksum is wrong"), std::string::npos)
      << r.err;
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("again/model.gguf")));
}

TEST_F(Data, AFullDiskWhileTheCacheIsWritten) {
  fs::create_directory(path("cache"));
  const std::string words = train("--overwrite --corpus " + path("letters.txt") + " --data-cache " + path("cache"));
  const std::string shim = std::string("LD_PRELOAD=") + TOY_DISK_SHIM + " TOY_SHIM_ROOT=" + path("cache") + " ";
  const auto run = [&](const std::string& variable) {
    const int status = std::system((shim + variable + " " + TOY_BINARY + " " + words + " >" + path("stdout") + " 2>" +
                                    path("stderr") + " </dev/null")
                                       .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  ASSERT_EQ(run("TOY_SHIM_LOG=" + path("log")), 0);
  const std::string log = slurp(path("log")), model = slurp(path("run/model.gguf"));
  const long calls = std::count(log.begin(), log.end(), '\n');
  ASSERT_GT(calls, 5);
  int failures = 0;
  for (long k = 1; k <= calls; ++k) {
    fs::remove_all(path("cache"));
    fs::create_directory(path("cache"));
    const int code = run("TOY_SHIM_FULL_AT=" + std::to_string(k));
    const std::string err = slurp(path("stderr"));
    if (code != 0) {
      ++failures;
      EXPECT_EQ(code, 2) << k << err;
      EXPECT_NE(err.find("No space left on device"), std::string::npos) << k << err;
      EXPECT_NE(err.find("--data-cache"), std::string::npos) << k << err;
    }
    const Result r = toy(words);  // what is left does no harm
    EXPECT_EQ(r.code, 0) << k << r.err;
    EXPECT_EQ(slurp(path("run/model.gguf")), model) << k;
  }
  EXPECT_GT(failures, 3);
}

TEST_F(Data, WithoutAHomeTokensStayInMemory) {
  // 64 MiB of text and a little more; few steps, a small validation text.
  std::ofstream out(path("large.txt"), std::ios::binary);
  const std::string line(1 << 20, 'x');
  for (int i = 0; i < 64; ++i) out << line.substr(1) << "\n";
  out << "more\n";
  out.close();
  const std::string words = "--corpus " + path("large.txt") + " --val " + path("letters.txt");
  const std::string unset = "env -u XDG_CACHE_HOME HOME=" + path("letters.txt") + " ";
  const auto run = [&](const std::string& environment, const std::string& name) {
    return std::system((environment + TOY_BINARY + " " + train(words, name) + " >" + path("stdout") + " 2>" +
                        path("stderr") + " </dev/null")
                           .c_str());
  };
  ASSERT_EQ(run(unset, "run"), 0) << slurp(path("stderr"));
  EXPECT_NE(slurp(path("stderr")).find("is not writable, so the tokens stay in memory"), std::string::npos);
  ASSERT_EQ(run("XDG_CACHE_HOME=" + path("xdg") + " ", "again"), 0) << slurp(path("stderr"));
  EXPECT_TRUE(fs::exists(path("xdg/toy")));
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("again/model.gguf")));
  // Ids take twice the text: with the cache memory is smaller than either.
  const auto peak = [&](const std::string& name) {
    const std::string log = slurp(path(name + "/events.jsonl"));
    return nlohmann::json::parse(log.substr(log.rfind("{\"", log.rfind("run_end")))).at("peak_rss_bytes").get<size_t>();
  };
  EXPECT_GT(peak("run"), size_t(128) << 20);
  EXPECT_LT(peak("again"), size_t(64) << 20);
}

TEST_F(Data, AFileThatIsNoTextIsRefusedUnlessTold) {
  const std::string binary = write("program.bin", slurp(path("letters.txt")) + std::string(1, '\0') + "\1\2"),
                    late = write("late.txt", std::string(9000, 'a') + std::string(1, '\0'));
  write("head.bin", std::string(1, '\0') + slurp(path("letters.txt")));
  refuses(train("--corpus " + path("head.bin")), {"head.bin", "NUL", "--binary"});
  refuses(train("--corpus " + path("letters.txt") + " --val " + path("head.bin")), {"head.bin", "NUL", "--binary"});
  refuses("tokenizer train --tokenizer spm:300 --out " + path("v.gguf") + " --corpus " + path("head.bin"),
          {"head.bin", "NUL"});
  EXPECT_FALSE(fs::exists(path("run")));
  EXPECT_EQ(toy(train("--corpus " + path("head.bin") + " --binary")).code, 0);
  EXPECT_EQ(toy(train("--corpus " + late, "late")).code, 0);  // as in a folder: the beginning decides
  write("folder/head.bin", slurp(path("head.bin")));
  refuses(train("--corpus " + path("folder"), "folder-run"), {"no text"});
  EXPECT_EQ(toy(train("--corpus " + path("folder") + " --binary", "folder-run")).code, 0);
}

TEST_F(Data, StandardInputIsACorpus) {
  const std::string words = "--corpus - --checkpoint-every 3", text = path("letters.txt");
  ASSERT_EQ(toy(train("--corpus " + text, "file")).code, 0);
  const Result r = toy(train(words), text);
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(slurp(path("run/model.gguf")), slurp(path("file/model.gguf")));
  const std::string more = "train from-scratch" + with(kSmall, words) + " --steps 4 --resume --allow-changes " + words +
                           " --out " + path("run");
  EXPECT_EQ(toy(more, text).code, 0);  // a run needs its text again
  const std::string other = train(words + " --resume");
  const Result changed = toy(other, path("books/b.txt"));
  EXPECT_EQ(changed.code, 2);
  EXPECT_NE(changed.err.find("texts.corpus"), std::string::npos) << changed.err;
  refuses(train("--corpus -", "empty"), {"standard input", "empty"});
  refuses(train("--corpus - --corpus -", "twice"), {"'-'", "2 times"});
  refuses(train("--corpus - --val -", "twice"), {"'-'", "2 times"});
}

TEST_F(Data, ResumeRefusesOtherData) {
  const std::string words = mix("3 1") + " --documents files --checkpoint-every 3";
  ASSERT_EQ(toy(train(words)).code, 0);
  refuses(train(mix("1 1") + " --documents files --checkpoint-every 3 --resume"),
          {"texts.corpus.0.weight is 3.0 there and 1.0 here"});
  refuses(train(mix("3 1") + " --documents files --pack --checkpoint-every 3 --resume"),
          {"texts.pack is absent there and true here"});
  refuses(train(mix("3 1") + " --checkpoint-every 3 --resume"), {"texts.documents is \"files\" there and absent here"});
  EXPECT_EQ(toy(train(words + " --data-cache " + path("cache") + " --resume")).code, 0);
}

}  // namespace
