#!/usr/bin/env python3
"""Make tokenizers.golden.json: how Hugging Face's `tokenizers` cuts and encodes texts.

  PY=$(scripts/peers.sh) && $PY tests/golden/make_tokenizer_golden.py        # a minute; writes beside this script

The file has
  texts       short texts with every class of character that a pre-tokenizer looks at
  fragments, ranges   what random texts are made of (see `random_text`, which tests/text/split_test.cpp repeats)
  assigned    first and last of the runs of characters that Unicode 14 assigns below U+10000
  words       pre-tokenizer -> for each text the lengths of its words in bytes; for each thousand of 10,000 random texts a hash
              of those lengths; one for texts with each of the assigned characters
  bpe         a small vocabulary, trained here, and for pre-tokenizers with and without `ignore_merges` the ids of the
              texts and the hashes of the random texts' ids
  wordpiece   the same of a BERT tokenizer, in the names that GGUF has: "_" (U+2581) before what begins a word

Every pre-tokenizer is the one in a tokenizer.json on the Hugging Face Hub (Sequence, Digits, Split), with the exact
regular expressions; those of `default` are llama.cpp's, which has it for files that name none.  Random texts have only
characters that Unicode 14 assigns, so that it does not matter which later version somebody's tables are.
"""
import collections
import json
import pathlib
import unicodedata

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
MASK = 2**64 - 1
RANDOM_TEXTS, BLOCK = 10_000, 1_000

ANY_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (ANY_CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = (ANY_CONTRACTION +
          r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(contraction, numbers):
    word = r"[^\r\n\p{L}\p{N}]?"
    return (word + UPPER + "*" + LOWER + "+" + contraction + "|" + word + UPPER + "+" + LOWER + "*" + contraction + "|" +
            numbers + r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
             r"\s*[\r\n]+|\s+(?!\S)|\s+")
SPARK = DEEPSEEK3.replace(r"[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+", r"[\p{P}\p{S}]+|[\r\n]")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
CJK_KANA, CJK_DEEPSEEK = "[一-龥぀-ゟ゠-ヿ]+", "[一-龥ࠀ-一가-퟿]+"
DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def digits(each):
    return pre_tokenizers.Digits(individual_digits=each)


# Name in tokenizer.ggml.pre -> the steps.
PRE_TOKENIZERS = {
    "gpt-2": [split(GPT2)],
    "llama-bpe": [split(LLAMA3)],
    "qwen2": [split(QWEN2)],
    "qwen35": [split(QWEN35)],
    "smollm": [digits(True), split(GPT2)],
    # Punctuation("contiguous") in the model, as llama.cpp writes it: tokenizers has Unicode 8's punctuation there.
    "falcon": [split(r"[\p{P}\$\+<=>\^~\|`]+"), split(GPT2), split("[0-9][0-9][0-9]")],
    "gpt-4o": [split(cased(ANY_CONTRACTION + "?", r"\p{N}{1,3}"))],
    "tekken": [split(cased("", r"\p{N}"))],
    "deepseek-llm": [split(r"[\r\n]"), split(r"\s?[" + DEEPSEEK_LETTERS + "]+"),
                     split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"), split(CJK_DEEPSEEK), split(r"\p{N}+")],
    "deepseek-coder": [split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(CJK_DEEPSEEK), digits(True)],
    "deepseek-v3": [split(r"\p{N}{1,3}"), split(CJK_KANA), split(DEEPSEEK3)],
    "spark2_5": [split(r"\p{N}{1,3}"), split(CJK_KANA), split(SPARK), split(r"\p{N}")],
    "bloom": [split(BLOOM)],
    "viking": [split(BLOOM), digits(True)],
    "seed-coder": [split(QWEN2.replace(r"[^\s\p{L}\p{N}]+[\r\n]*", r"[^\s\p{L}\p{N}\r\n]+"))],
    "ufakzeka": [split(QWEN2[len(ANY_CONTRACTION) + 1:])],
    "minicpm5": [split(r"\p{N}{1,3}"), split(QWEN2.replace(r"\p{N}|", r"\p{N}+|"))],
    "laguna": [split(r"[^\n]+|[\n]+"), split(QWEN2)],
    # Kimi K2's is a tiktoken file with this expression.
    "kimi-k2": [split(r"[\p{Han}]+|" + cased(ANY_CONTRACTION + "?", r"\p{N}{1,3}").replace("\\p{M}]", r"\p{M}&&[^\p{Han}]]")
                      .replace(r"[\r\n/]*", r"[\r\n]*"))],
    "superbpe": [split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))")],
    "youtu": [split("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"),
              split(cased(ANY_CONTRACTION + "?", r"\p{N}"))],
    # llama.cpp writes no expression for the numbers: they are cut in threes from the right.
    "afmoe": [split(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"),
              split("[一-鿿㐀-䶿\uf900-\ufaff\u3040-ゟ゠-ヿ･-ﾟ⼀-\u2fdfเ-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff"
                    "가-\ud7afᄀ-ᇿ]+"), split(DEEPSEEK3)],
    "exaone-moe": [split(ANY_CONTRACTION + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|"
                         r" ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+")],
    "tiny_aya": [split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(cased(ANY_CONTRACTION + "?", r"\p{N}{1,3}"))],
    "jais-2": [split(LLAMA3.replace(r"\s+(?!\S)|\s+", "".join(r"\s{%d}(?!\S)|" % 2**n for n in range(9, 1, -1)) +
                                    r"\s{1,2}(?!\S)|\s{1}"))],
    "k2-horizon": [split(LLAMA3.replace(r"\p{L}+|", r"(?:\p{L}|\p{M}|\u200C|\u200D)+|", 1))],
    "default": [split(r"[\p{P}\$\+<=>\^~\|]+"), split(GPT2), split(r"\p{N}+"), split("[0-9][0-9][0-9]")],
}

TEXTS = [
    "", " ", "  ", "\n", "\t\n", "a", "Hello world", " Hello  World!", "   indented\n        more", "x \n y\r\n\r\nz\r \n ",
    "tail   ", "tail \n  ", "\u00a0a\u00a0\u00a0b\u00a0", "a\u2009\u3000b\u2028c\u2029\u0085d\u1680\u200be\u180ef",
    "I'm you're they'll we'd he's it'll don't I've", "I'M YOU'RE THEY'LL WE'D HE'S IT'LL DON'T I'VE 'Ve'sX",
    "'s 'S 't're'VE'LLama 'lx 'r 'vexed ''s'' a'\u017fb", "rock'n'roll O'Reilly's \u2019s", "1 12 123 1234 12345 1234567890",
    "3.14159e-10, 0x1F, 10%, 1,000,000.00", "\u00b2\u00bd\u2167\u0661\u0662\u0663\u0664\u096a\u096b\u3007\U0001d7d8", "a1b22c333d4444",
    "camelCaseWord HTTPServer XMLHttpRequest iPhone USA's McDONALD'S ABCdEF", "\u01c5 \u01c5a A\u01c5 \u1f88\u03b1 \u02b0a A\u02b0B \u02b0",
    "\u65e5\u672c\u8a9eABC\u4e2d\u6587a \u6c49\u5b57\u3001\u3072\u3089\u304c\u306a\u3002\u30ab\u30bf\u30ab\u30ca\uff01\uff1f \uff21\uff22\uff43", "\ud55c\uad6d\uc5b4 \uc548\ub155\ud558\uc138\uc694", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e04\u0e23\u0e31\u0e1a \u0e17\u0e35\u0e48",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0967\u0968\u0969\u0964", "\u0645\u0631\u062d\u0628\u0627\u064b \u0628\u0643\u0645\u060c \u0633\u0644\u0627\u0645\u06d4 \u05e9\u05dc\u05d5\u05dd",
    "e\u0301 E\u0301A \u0301 \u0301\u0301a A\u0301\u0301 \u0301B 1\u0301", "\u0301AB \u0301A\u65e5B !\u0301\u0301CD", "\u041f\u0440\u0438\u0432\u0435\u0442, \u041c\u0418\u0420! \u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0 \u1c92",
    "\U0001f600 \U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f44d\U0001f3fd\u2764\ufe0f\U0001f1e9\U0001f1ea", "$100 \u20ac5 <tag a=\"b\"/> a+b=c ~x^2|y` `code` {z}",
    "http://example.com/a/b?c=d&e=f#g //x /\n/ ..../\n/\n", "if (a == b) {\n\treturn a->b[i++];\n}\n\n\n// \u00a9 2024\n", "...!!!???\n\n \n", ".word $word _word -word\n-1 (a)",
    "\u2018single\u2019 \u201cdouble\u201d \u2014 \u2026 \u00ab\u00bb \u3010\u3011\uff5e \u3000\u3001\u3002", "\ue000\ue001 \U000f0000 \ufffd\ufffe\u0378 \x00\x01\x7f\u00ad\ufeff", "ied 4 \u00bd months",
    "(a|b.c) ,d! \u0964e\u06d4f\u060cg", "\u00b5\u00aa\u00ba\u02c7\u0294\u01bb \u0561\u0587 \u2183\u2c7c\ua66e", "end's", "end'", "end 'l", "12\n345\r6", "   \u4e2d  \u4e2d",
]
FRAGMENTS = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", " \n", "'s", "'S", "'ll", "'LL", "'Ve", "'re", "'d", "'T", "'m", "'\u017f", "'x", "'", "the",
             " The", "AND", "ing", " of", "1", "12", "2024", "0", ".", ",", "...", "!", "/", "//", "-", "_", "$", "`", "|", "(", ")", "=",
             "\u0301", "\u200d", "\ufe0f", "\U0001f600", "\u4e2d", "\u65e5\u672c", "\u3002", "\u2026", "\u0e01\u0e34", "\u0928\u0940", "\u01c5", "\u02b0", "\u00bd", "\u2167", "\u00e9", "\u00c9",
             "\u0416\u0443\u043a", "\ud55c", "\u3042", "\u30a2", "\ufffd", "\x00", "\u2028", "\u3000", "\u0964", "\u060c"]
RANGES = [(0x00, 0x7F), (0x20, 0x7E), (0x41, 0x7A), (0x80, 0xFF), (0x100, 0x24F), (0x250, 0x36F), (0x391, 0x3A1),
          (0x3A3, 0x3FF), (0x400, 0x52F), (0x531, 0x556), (0x561, 0x587), (0x5D0, 0x5EA), (0x621, 0x669), (0x6D4, 0x6FC),
          (0x901, 0x94D), (0x958, 0x96F), (0xE01, 0xE3A), (0xE40, 0xE5B), (0x10D0, 0x10FA), (0x1100, 0x11FF), (0x13A0, 0x13F5),
          (0x1C90, 0x1CBA), (0x1D00, 0x1DBF), (0x1E00, 0x1F15), (0x1F80, 0x1FB4), (0x2000, 0x2064), (0x2074, 0x208E),
          (0x20A0, 0x20BF), (0x2100, 0x218B), (0x2190, 0x23FF), (0x2460, 0x27BF), (0x2C00, 0x2CF3), (0x3000, 0x303F),
          (0x3041, 0x3096), (0x309B, 0x30FF), (0x3220, 0x3247), (0x3400, 0x4DBF), (0x4E00, 0x9FFC), (0xA640, 0xA66F),
          (0xA722, 0xA7BF), (0xAB70, 0xABBF), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0xFB00, 0xFB06), (0xFE00, 0xFE19),
          (0xFF01, 0xFF9F), (0x10330, 0x1034A), (0x10400, 0x1049D), (0x104B0, 0x104D3), (0x118A0, 0x118DF), (0x1D400, 0x1D454),
          (0x1D7CE, 0x1D7FF), (0x1E900, 0x1E943), (0x1F300, 0x1F64F), (0x20000, 0x2A6DD), (0xE0020, 0xE007F)]


# What the small vocabularies are trained on: texts above, more often than the English of this script.
CORPUS = __doc__.split("\n") + TEXTS * 3


class SplitMix64:
    """Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014)."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
        return (z ^ (z >> 31)) % n


def random_text(seed):
    random = SplitMix64(seed)
    text = ""
    for _ in range(1 + random.below(24)):
        kind = random.below(4)
        if kind == 0:
            first, last = RANGES[random.below(len(RANGES))]
            for _ in range(1 + random.below(3)):
                text += chr(first + random.below(last - first + 1))
        else:
            fragment = FRAGMENTS[random.below(len(FRAGMENTS))]
            text += fragment * (1 + random.below(3) if kind == 1 else 1)
    return text


def fold(sum, number):  # FNV-1a with numbers in place of bytes
    return (sum ^ number) * 1099511628211 & MASK


def hashes(texts, numbers_of, block=BLOCK):
    """Of each block of texts: all numbers, and a 0 after each text (which no length is; ids count from 1)."""
    out = []
    for at in range(0, len(texts), block):
        sum = 14695981039346656037
        for text in texts[at:at + block]:
            for number in numbers_of(text):
                sum = fold(sum, number)
            sum = fold(sum, 0)
        out.append(f"{sum:016x}")
    return out


def runs(numbers):
    """[2, 3, 4, 7] -> [2, 4, 7, 7]"""
    out = []
    for n in numbers:
        if out and out[-1] == n - 1:
            out[-1] = n
        else:
            out += [n, n]
    return out


def trained_vocabulary():
    """256 bytes and 244 merges, in the bytes' GPT-2 names."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return tokens, merges


def bpe(tokens, merges, steps, ignore_merges):
    vocab = {token: id for id, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in merges], ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def wordpiece():
    """A tokenizer as BERT's, and its tokens as GGUF has them: characters below U+3000 and frequent parts of words."""
    normalizer, pre = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words = [w for text in CORPUS for w, _ in pre.pre_tokenize_str(normalizer.normalize_str(text))]
    counts = collections.Counter()
    for word in words:
        for begin in range(len(word)):
            for end in range(begin + 1, min(len(word), begin + 6) + 1):
                counts[("##" if begin else "") + word[begin:end]] += 1
    letters = sorted(piece for piece in counts if len(piece.removeprefix("##")) == 1 and piece[-1] < "\u3000")
    longer = sorted((p for p in counts if len(p.removeprefix("##")) > 1), key=lambda p: (-counts[p], p))[:200]
    pieces = ["[UNK]", "[CLS]", "[SEP]"] + letters + longer
    tokenizer = Tokenizer(models.WordPiece({p: id for id, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre
    rename = lambda p: p if p.startswith("[") and len(p) == 5 else p[2:] if p.startswith("##") else "\u2581" + p
    return tokenizer, [rename(p) for p in pieces]


def expected(tokenizer, randoms):
    """The ids of the texts, and the hashes of the random texts' ids, counted from 1."""
    ids = lambda text: [id + 1 for id in tokenizer.encode(text).ids]
    return {"texts": [" ".join(str(i - 1) for i in ids(t)) for t in TEXTS], "hashes": hashes(randoms, ids)}


def main():
    for first, last in RANGES:
        bad = [hex(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) in ("Cn", "Cs")]
        assert not bad, bad
    randoms = [random_text(seed) for seed in range(RANDOM_TEXTS)]
    assigned = [c for c in range(0x10000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    each = ["a" + chr(c) + chr(c) + " " + chr(c) + "1" for c in assigned]
    words = {}
    for name, steps in PRE_TOKENIZERS.items():
        pre = pre_tokenizers.Sequence(steps)
        lengths = lambda text: [len(w.encode()) for w, _ in pre.pre_tokenize_str(text)]
        words[name] = {"texts": [" ".join(map(str, lengths(t))) for t in TEXTS], "hashes": hashes(randoms, lengths),
                       "each": hashes(each, lengths, len(each))[0]}
    tokens, merges = trained_vocabulary()
    extra = ["Ġindented", "camelCaseWord"]  # no merge makes them: only ignore_merges finds them
    assert not set(extra) & set(tokens)
    tokens += extra
    ids = {name: expected(bpe(tokens, merges, PRE_TOKENIZERS[name], name == "llama-bpe"), randoms)
           for name in ("gpt-2", "llama-bpe", "deepseek-llm")}
    bert, bert_tokens = wordpiece()
    golden = {"texts": TEXTS, "fragments": FRAGMENTS, "ranges": RANGES, "assigned": runs(assigned), "words": words,
              "bpe": {"tokens": tokens, "merges": merges, "ids": ids},
              "wordpiece": {"tokens": bert_tokens, "ids": expected(bert, randoms)}}
    text = json.dumps(golden, ensure_ascii=True, indent=0, separators=(",", ":"))
    (HERE / "tokenizers.golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
