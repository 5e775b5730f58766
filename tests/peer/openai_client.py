"""OpenAI's Python package against `toy serve`: completions, chats, streams, schemas, tools, async, errors.

    openai_client.py TOY MODEL.gguf WORK
"""
import asyncio
import contextlib
import json
import re
import subprocess
import sys
from typing import Annotated, Literal

import numpy as np
import openai
import pydantic
import pydantic_core

# Calls are written as Hermes does.
TEMPLATE = ("{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{# <tool_call> #}"
            "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not this one') }}"
            "{% endif %}[{{ m.role }}] {{ m.content }}"
            "{% for c in m.tool_calls or [] %}{{ c.function.name }}: {{ c.function.arguments.city }}{% endfor %}"
            "\n{% endfor %}"
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


class Badger(pydantic.BaseModel):
    name: Annotated[str, pydantic.StringConstraints(max_length=8)]
    age: Annotated[int, pydantic.Field(ge=0, le=30)]
    mood: Literal["happy", "tired"]
    friends: Annotated[list[Annotated[str, pydantic.StringConstraints(max_length=4)]], pydantic.Field(max_length=2)]


def check_schemas(client, name):
    ask = dict(model=name, messages=[{"role": "user", "content": "a badger"}], temperature=0.7, max_tokens=450)
    for seed in range(8):
        done = client.chat.completions.parse(**ask, seed=seed, response_format=Badger)
        badger = done.choices[0].message.parsed
        assert isinstance(badger, Badger) and 0 <= badger.age <= 30, done
        assert done.choices[0].finish_reason == "stop"
    # An object of any kind, whose strings may be as long as the model wants: the limit may cut it.
    whole = client.chat.completions.create(**ask, seed=1, response_format={"type": "json_object"}).choices[0]
    assert whole.finish_reason in ("stop", "length"), whole
    cut = "trailing-strings" if whole.finish_reason == "length" else False
    assert isinstance(pydantic_core.from_json(whole.message.content, allow_partial=cut), dict), whole
    spelled = client.chat.completions.create(**ask, extra_body={"grammar": 'root ::= "yes" | "no"'})
    assert spelled.choices[0].message.content in ("yes", "no")
    refused(lambda: client.chat.completions.create(**ask, response_format={"type": "json_schema", "json_schema": {
        "name": "list", "schema": {"type": "array", "uniqueItems": True}}}), openai.BadRequestError, "uniqueItems")


def weather(strict=True, **more):
    properties = {"city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 1, "maximum": 9},
                  **more}
    return {"type": "function", "function": {"name": "weather", "description": "What it will be like.", "strict": strict,
            "parameters": {"type": "object", "properties": properties, "required": list(properties),
                           "additionalProperties": False}}}


def check_tools(client, name):
    now = {"type": "function", "function": {"name": "now"}}
    messages = [{"role": "user", "content": "the weather"}]
    ask = dict(model=name, messages=messages, tools=[weather(), now], temperature=0.7, max_tokens=450)
    named = {"type": "function", "function": {"name": "weather"}}
    for seed in range(6):
        choice = client.chat.completions.create(**ask, tool_choice=named, seed=seed).choices[0]
        call = choice.message.tool_calls[0]
        arguments = json.loads(call.function.arguments)
        assert choice.finish_reason == "tool_calls" and choice.message.content is None, choice
        assert len(choice.message.tool_calls) == 1 and call.function.name == "weather" and call.type == "function", choice
        assert sorted(arguments) == ["city", "days"] and 1 <= arguments["days"] <= 9, arguments
        # The package puts a stream together.
        with client.chat.completions.stream(**ask, tool_choice=named, seed=seed) as stream:
            kinds = {event.type for event in stream}
            whole = stream.get_final_completion().choices[0]
        assert "tool_calls.function.arguments.delta" in kinds, kinds
        assert whole.finish_reason == "tool_calls"
        assert whole.message.tool_calls[0].function.arguments == call.function.arguments
        assert whole.message.tool_calls[0].id == call.id
    several = client.chat.completions.create(**ask, tool_choice="required", seed=3).choices[0].message.tool_calls
    assert several and all(c.function.name in ("weather", "now") for c in several)
    assert len({c.id for c in several}) == len(several)
    one = client.chat.completions.create(**ask, tool_choice="required", parallel_tool_calls=False, seed=3)
    assert len(one.choices[0].message.tool_calls) == 1
    parsed = client.chat.completions.parse(model=name, messages=messages, tool_choice="required", max_tokens=450, seed=2,
                                           parallel_tool_calls=False,
                                           tools=[openai.pydantic_function_tool(Badger, name="badger")])
    assert isinstance(parsed.choices[0].message.tool_calls[0].function.parsed_arguments, Badger), parsed

    # The answer of a tool, and an answer without calls.
    call = client.chat.completions.create(**ask, tool_choice=named, seed=1).choices[0].message
    answer = {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "rain"}
    after = client.chat.completions.create(**{**ask, "messages": [*messages, call, answer]}, tool_choice="none", seed=1)
    assert after.choices[0].message.tool_calls is None and after.choices[0].message.content
    auto = client.chat.completions.create(**ask, seed=1).choices[0]
    assert auto.finish_reason in ("stop", "length", "tool_calls")

    unique = {"list": {"type": "array", "uniqueItems": True}}
    refused(lambda: client.chat.completions.create(**{**ask, "tools": [weather(**unique)]}), openai.BadRequestError,
            "weather: /properties/list/uniqueItems")
    client.chat.completions.create(**{**ask, "tools": [weather(False, **unique)], "max_tokens": 1})
    refused(lambda: client.chat.completions.create(**ask, tool_choice={"type": "function", "function": {"name": "x"}}),
            openai.BadRequestError, "'x'")


def check(toy, model, client, url):
    name = client.models.list().data[0].id
    assert client.models.retrieve(name).id == name

    # Completions: the text of `toy infer`.
    wanted = subprocess.run([toy, "infer", model, "--prompt", "Once upon a time", "-n", "30", "--temperature", "0"], check=True,
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

    # Responses are the chats' texts; the events of a stream come in order.
    turn = dict(model=name, instructions="Tell", input="a story", max_output_tokens=24, temperature=0)
    response = client.responses.create(**turn)
    wanted_text = client.chat.completions.create(model=name, max_tokens=24, temperature=0, messages=[
        {"role": "system", "content": "Tell"}, {"role": "user", "content": "a story"}]).choices[0].message.content
    assert response.output_text == wanted_text
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_output_tokens"
    assert response.usage.output_tokens == 24 and response.store is False
    events = list(client.responses.create(**turn, stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    kinds = [e.type for e in events]
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                         "response.content_part.added"]
    assert kinds[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.incomplete"]
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == wanted_text
    assert events[-1].response.output_text == wanted_text
    assert events[-1].response.usage.output_tokens == response.usage.output_tokens
    with client.responses.stream(**turn) as stream:
        assert list(stream)[-1].response.output_text == wanted_text
    # The output of one turn is input of the next.
    items = [{"role": "user", "content": "a story"}, *(o.model_dump(exclude_none=True) for o in response.output),
             {"role": "user", "content": "more"}]
    assert client.responses.create(**{**turn, "input": items}).usage.input_tokens > response.usage.input_tokens

    async def many_responses():
        async with openai.AsyncOpenAI(base_url=url, api_key="right", max_retries=0) as parallel:
            return await asyncio.gather(*(parallel.responses.create(**turn) for _ in range(8)))
    assert {r.output_text for r in asyncio.run(many_responses())} == {wanted_text}
    bad = openai.BadRequestError
    refused(lambda: client.responses.create(**turn, previous_response_id="resp_1"), bad, "previous_response_id")
    raw = client.responses.with_raw_response.create(**{**turn, "model": "gpt-4"}, store=True, metadata={"a": "b"}, include=[])
    assert set(raw.headers["x-toy-ignored"].split(", ")) == {"store", "metadata", "include", "model"}, raw.headers
    assert raw.parse().output_text == wanted_text
    check_schemas(client, name)
    check_tools(client, name)

    # Errors are the package's own kinds.
    refused(lambda: client.embeddings.create(model=name, input="a", dimensions=7), openai.BadRequestError, "dimensions")
    assert client.completions.create(model="gpt-4", prompt="a").model == name  # there is no other one
    assert client.completions.create(model=name, prompt="a", max_tokens=10000).usage.total_tokens <= 512
    refused(lambda: client.completions.create(model=name, prompt=[5] * 600), openai.BadRequestError,
            "maximum context length is 512 tokens")
    refused(lambda: client.chat.completions.create(**{**ask, "messages": [{"role": "user", "content": "no"}]}),
            openai.BadRequestError, "not this one")
    client.chat.completions.create(**ask, tools=[])
    refused(lambda: client.chat.completions.create(**ask, extra_body={"max_token": 5}), openai.BadRequestError,
            "did you mean 'max_tokens'")
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
    """A server of "chat" with the key "right": its address."""
    with open(f"{work}/chat.jinja", "w") as jinja:
        jinja.write(template)
    with open(f"{work}/keys", "w") as keys:
        keys.write("right\n")
    server = subprocess.Popen([toy, "serve", source, "--alias", "chat", "--chat-template", f"{work}/chat.jinja",
                               "--port", "0", "--parallel", "4", "--ctx", "512", "--api-key-file", f"{work}/keys"],
                              stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            found = re.search(r"at (http://\S+);", line)
            if found:
                break
        else:
            raise AssertionError("the server did not start")
        yield found.group(1)
    finally:
        server.terminate()
        code = server.wait()
    assert code == 0, code


def main(toy, source, work):
    with serving(toy, source, work) as url:
        check(toy, source, openai.OpenAI(base_url=url + "/v1", api_key="right", max_retries=0), url + "/v1")
    print(f"openai {openai.__version__}: completions, chats, responses, streams, schemas, tools, 16 at once, embeddings, errors")


if __name__ == "__main__":
    main(*sys.argv[1:])
