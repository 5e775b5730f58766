"""OpenAI's Python package against `toy serve`: completions, chats, streams, async, errors.

    openai_client.py TOY MODEL.gguf WORK
"""
import asyncio
import contextlib
import re
import subprocess
import sys

import numpy as np
import openai

TEMPLATE = ("{{ bos_token }}{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not this one') }}"
            "{% endif %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}[assistant] {% endif %}")


def with_template(source, target, template=TEMPLATE):
    subprocess.run([sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--force", "--chat-template", template,
                    source, target], check=True, capture_output=True)


def refused(call, kind, words):
    try:
        call()
    except kind as error:
        assert words in str(error), error
        return
    raise AssertionError(f"accepted, expected {kind.__name__} with {words!r}")


def check(toy, model, client, url):
    name = client.models.list().data[0].id
    assert client.models.retrieve(name).id == name

    # Completions: the text of `toy infer`.
    wanted = subprocess.run([toy, "infer", model, "--prompt", "Once upon a time", "-n", "30"], check=True,
                            capture_output=True, text=True).stdout
    done = client.completions.create(model=name, prompt="Once upon a time", max_tokens=30, temperature=0)
    assert done.choices[0].text + "\n" == wanted, (done, wanted)
    assert done.usage.completion_tokens == 30 and done.choices[0].finish_reason == "length"
    parts = client.completions.create(model=name, prompt="Once upon a time", max_tokens=30, temperature=0, stream=True)
    assert "".join(p.choices[0].text for p in parts) + "\n" == wanted

    scored = client.completions.create(model=name, prompt=["Once upon a time", "One day"], max_tokens=0, echo=True,
                                       logprobs=2)
    for choice, prompt in zip(scored.choices, ["Once upon a time", "One day"]):
        p = choice.logprobs
        assert choice.text == prompt and p.token_logprobs[0] is None
        assert all(l <= max(t.values()) + 1e-12 <= 1e-12 for l, t in zip(p.token_logprobs[1:], p.top_logprobs[1:]))
        assert [o for o in p.text_offset] == sorted(p.text_offset)
    end = wanted[9:12]
    stopped = client.completions.create(model=name, prompt="Once upon a time", max_tokens=60, temperature=0, stop=[end])
    assert stopped.choices[0].finish_reason == "stop" and stopped.choices[0].text == wanted[:wanted.index(end)]

    # Chats.
    ask = dict(model=name, messages=[{"role": "system", "content": "Tell"}, {"role": "user", "content": "a story"}],
               max_completion_tokens=24, seed=7, temperature=0.9)
    chat = client.chat.completions.create(**ask, n=2, logprobs=True, top_logprobs=3)
    again = client.chat.completions.create(**ask, n=2, logprobs=True, top_logprobs=3)
    assert [c.message.content for c in chat.choices] == [c.message.content for c in again.choices]
    assert chat.choices[0].message.content != chat.choices[1].message.content
    for choice in chat.choices:
        tokens = choice.logprobs.content
        text = b"".join(bytes(t.bytes) for t in tokens).decode(errors="replace")
        assert text == choice.message.content, (text, choice.message.content)
        assert all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in tokens)
    stream = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    text = "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
    assert text == chat.choices[0].message.content
    assert stream[0].choices[0].delta.role == "assistant"
    assert stream[-1].usage.completion_tokens == 24 and not stream[-1].choices
    assert stream[-2].choices[0].finish_reason == "length"
    random = {client.chat.completions.create(**{**ask, "seed": None}).choices[0].message.content for _ in range(4)}
    assert len(random) > 1, "requests without a seed give one text"

    # Embeddings: as base64, which the package asks for, and as numbers.
    texts = ["Once upon a time", "One day"]
    for pooling in ("mean", "last", "cls"):
        packed = client.embeddings.create(model=name, input=texts, extra_body={"pooling": pooling})
        plain = client.embeddings.create(model=name, input=texts, encoding_format="float", extra_body={"pooling": pooling})
        width = len(plain.data[0].embedding)
        for i, text in enumerate(texts):
            a, b = packed.data[i].embedding, plain.data[i].embedding
            assert len(a) == width and (np.float32(a) == np.float32(b)).all()
            assert abs(sum(x * x for x in a) - 1) < 2**-22
            alone = client.embeddings.create(model=name, input=text, dimensions=width, extra_body={"pooling": pooling})
            assert alone.data[0].embedding == a and alone.usage.total_tokens < packed.usage.total_tokens

    # Errors are the package's own kinds.
    refused(lambda: client.embeddings.create(model=name, input="a", dimensions=7), openai.BadRequestError, "dimensions")
    refused(lambda: client.completions.create(model="gpt-4", prompt="a"), openai.NotFoundError, "gpt-4")
    refused(lambda: client.completions.create(model=name, prompt="a", max_tokens=10000), openai.BadRequestError,
            "maximum context length is 512 tokens")
    refused(lambda: client.chat.completions.create(**{**ask, "messages": [{"role": "user", "content": "no"}]}),
            openai.BadRequestError, "not this one")
    refused(lambda: client.chat.completions.create(**ask, tools=[]), openai.BadRequestError, "tools")
    refused(lambda: openai.OpenAI(base_url=url, api_key="wrong", max_retries=0).models.list(),
            openai.AuthenticationError, "API key")

    # 16 at once have the text of one.
    async def many():
        async with openai.AsyncOpenAI(base_url=url, api_key="right", max_retries=0) as parallel:
            async def streamed(seed):
                parts = await parallel.chat.completions.create(**{**ask, "seed": seed}, stream=True)
                return "".join([p.choices[0].delta.content or "" async for p in parts])
            return await asyncio.gather(*(streamed(7 + i % 2) for i in range(16)))
    texts = asyncio.run(many())
    assert set(texts[::2]) == {chat.choices[0].message.content}
    assert set(texts[1::2]) == {chat.choices[1].message.content}


@contextlib.contextmanager
def serving(toy, source, work, template=TEMPLATE):
    """A server with the key "right": its address, and the file of its model."""
    model = f"{work}/chat.gguf"
    with_template(source, model, template)
    with open(f"{work}/keys", "w") as keys:
        keys.write("right\n")
    server = subprocess.Popen([toy, "serve", model, "--port", "0", "--parallel", "4", "--api-key-file", f"{work}/keys"],
                              stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            found = re.search(r"at (http://\S+);", line)
            if found:
                break
        else:
            raise AssertionError("the server did not start")
        yield found.group(1), model
    finally:
        server.terminate()
        code = server.wait()
    assert code == 0, code


def main(toy, source, work):
    with serving(toy, source, work) as (url, model):
        check(toy, model, openai.OpenAI(base_url=url + "/v1", api_key="right", max_retries=0), url + "/v1")
    print(f"openai {openai.__version__}: completions, chats, streams, 16 at once, embeddings, errors")


if __name__ == "__main__":
    main(*sys.argv[1:])
