"""The texts of the test of embeddings: 1,000 of 1 to 256 tokens and more, from a list of words and hostile pieces."""
import random

WORDS = ("the a badger otter runs swims under old river stone quickly of and to Finding NEMO don't e-mail 1,234.5 café naïve "
         "Ångström résumé Zürich straße ﬁsh ½ x² 東京 こんにちは 한국어 привет мир नमस्ते مرحبا שלום 🙂 👍🏽 — “quoted” (paren) "
         "semi;colon under_score #hash @at $5 50% C++ a/b http://example.org/path?q=1 tokenization unbelievableness "
         "antidisestablishmentarianism electroencephalography İstanbul ΟΔΟΣ Æon œuvre").split()
PIECES = ["[SEP]", "[MASK]", "\t", "\n\n", "\u00a0", "\u200b", "\u0000", "\ufffd", "a" * 101, "e\u0301", "\u00ad", "\u0085",
          "\u2028", "x" * 100, "...", "!!!", "''", "\U00020000", "\u3000", "ạ̈"]


def texts():
    draw = random.Random(20240601)
    out = []
    for i in range(1000):
        n = 1 + i * 200 // 1000 if i % 2 else draw.randint(1, 60)
        words = [draw.choice(PIECES) if draw.random() < 0.04 else draw.choice(WORDS) for _ in range(n)]
        out.append(" ".join(words))
    return out


def sampled(i, width):
    """The elements of text i's vector that the golden file has."""
    draw = random.Random(i)
    return sorted(draw.sample(range(width), 8))
