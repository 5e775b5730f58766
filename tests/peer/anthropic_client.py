"""Anthropic's Python package against `toy serve`: messages, streams, async, counts, errors.

    anthropic_client.py TOY MODEL.gguf WORK
"""
import asyncio
import sys

import anthropic

from openai_client import refused, serving

# A story that goes on: what the small model of the test can do.
TEMPLATE = ("{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not this one') }}{% endif %}"
            "{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments.city }} {% endfor %}"
            "{{ m.content }} {% endfor %}")


def check(url):
    client = anthropic.Anthropic(base_url=url, api_key="right", max_retries=0)
    ask = dict(model="chat", max_tokens=24, extra_body={"temperature": 0}, system="Once upon a",
               messages=[{"role": "user", "content": "time there was"}])
    message = client.messages.create(**ask)
    text = message.content[0].text
    assert message.type == "message" and message.role == "assistant" and message.id.startswith("msg_")
    assert message.stop_reason == "max_tokens" and message.stop_sequence is None and text
    assert message.usage.output_tokens == 24
    count = client.messages.count_tokens(model="chat", system=ask["system"], messages=ask["messages"])
    assert count.input_tokens == message.usage.input_tokens

    # Blocks are the same text; several are a line each.
    blocks = client.messages.create(**{**ask, "system": [{"type": "text", "text": "Once upon a"}], "messages": [
        {"role": "user", "content": [{"type": "text", "text": "time there was", "cache_control": {"type": "ephemeral"}}]}]})
    assert blocks.content[0].text == text
    turns = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
             {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"}]
    joined = [{"role": "user", "content": "a\nb"}, *turns[1:]]
    assert client.messages.create(**{**ask, "messages": turns}).content == \
        client.messages.create(**{**ask, "messages": joined}).content

    stop = text[len(text) // 2:][:3]
    assert stop
    stopped = client.messages.create(**ask, stop_sequences=["never there", stop])
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == stop
    assert stopped.content[0].text == text[:text.index(stop)]
    warm = {client.messages.create(**{**ask, "extra_body": {}}).content[0].text for _ in range(4)}
    assert len(warm) > 1
    assert client.messages.create(**{**ask, "extra_body": {"top_k": 1}}).content[0].text == text
    assert client.messages.create(**{**ask, "extra_body": {"temperature": 1.0, "top_p": 1e-9}}).content[0].text == text

    # The events of a stream, in order, and what the package makes of them.
    kinds = [event.type for event in client.messages.create(**ask, stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    with client.messages.stream(**ask, stop_sequences=[stop]) as stream:
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(pieces) == stopped.content[0].text
    assert final.content[0].text == stopped.content[0].text
    assert (final.stop_reason, final.stop_sequence) == ("stop_sequence", stop), final
    assert final.usage.input_tokens == message.usage.input_tokens
    assert final.usage.output_tokens == stopped.usage.output_tokens

    # Earlier calls of tools are a part of the conversation.
    turns = [{"role": "user", "content": "How warm is it?"},
             {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "get", "input": {"city": "Oslo"}}]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "3 degrees"},
                                          {"type": "text", "text": "So?"}]}]
    more = client.messages.create(**{**ask, "messages": turns})
    fewer = client.messages.create(**{**ask, "messages": [turns[0], turns[2]]})
    assert more.usage.input_tokens > fewer.usage.input_tokens

    async def many():
        async with anthropic.AsyncAnthropic(base_url=url, api_key="right", max_retries=0) as parallel:
            async def streamed():
                async with parallel.messages.stream(**ask) as stream:
                    return "".join([piece async for piece in stream.text_stream])
            return await asyncio.gather(*(streamed() for _ in range(8)))
    assert set(asyncio.run(many())) == {text}

    bad = anthropic.BadRequestError
    assert client.messages.create(**{**ask, "model": "claude"}).model == "chat"  # there is no other one
    refused(lambda: client.messages.create(**{**ask, "messages": [{"role": "user", "content": "no"}]}), bad, "not this one")
    refused(lambda: client.messages.create(**{**ask, "messages": [{"role": "user", "content": "a b " * 900}]}), bad,
            "maximum context length")
    assert client.messages.create(**{**ask, "max_tokens": 32000}, timeout=300).stop_reason in ("max_tokens", "end_turn")
    refused(lambda: client.messages.create(**{**ask, "extra_body": {"temperature": 2}}), bad, "temperature")
    # What has no effect is told; an answer that was begun goes on.
    raw = client.messages.with_raw_response.create(**ask, metadata={"user_id": "me"}, service_tier="auto",
                                                   thinking={"type": "enabled", "budget_tokens": 1024})
    assert raw.headers["x-toy-ignored"] == "thinking.budget_tokens, metadata, service_tier, thinking.type", raw.headers
    assert raw.parse().content[0].text == text
    begun = [*ask["messages"], {"role": "assistant", "content": text[:len(text) // 2]}]
    assert client.messages.create(**{**ask, "messages": begun}).content[0].text
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    refused(lambda: client.messages.create(**{**ask, "messages": [{"role": "user", "content": [picture]}]}), bad, "image")
    refused(lambda: client.messages.create(**ask, extra_headers={"anthropic-version": "2020-01-01"}), bad, "2023-06-01")
    wrong = anthropic.Anthropic(base_url=url, api_key="wrong", max_retries=0)
    refused(lambda: wrong.messages.create(**ask), anthropic.AuthenticationError, "authentication_error")


def main(toy, source, work):
    with serving(toy, source, work, TEMPLATE) as url:
        check(url)
    print(f"anthropic {anthropic.__version__}: messages, streams, 8 at once, counts, errors")


if __name__ == "__main__":
    main(*sys.argv[1:])
