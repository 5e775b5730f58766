"""Thoughts, and errors by their paths: OpenAI's and Anthropic's packages against `toy serve`.

    reasoning_client.py TOY MODEL.gguf WORK

The model continues "Q" with a thought and an answer, and then repeats both.
"""
import json
import sys

import anthropic
import openai

from openai_client import refused, serving

THOUGHT, ANSWER = "Hm, so.", "Yes, I do."
TEXT = f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"
# What earlier turns were stands in front; the second template begins the thought itself.
TEMPLATE = ("{% for m in messages %}{% if m.reasoning_content %}{{ m.reasoning_content }}{% endif %}{% endfor %}"
            "{# <think> <tool_call> #}{% if tools %}{% endif %}Q")
BEGINS = TEMPLATE + "{{ '<think>\n' }}"
ASK = [{"role": "user", "content": "a"}]


def check_chat(client, length):
    ask = dict(model="chat", messages=ASK, temperature=0, max_tokens=length, logprobs=True)
    done = client.chat.completions.create(**ask)
    message = done.choices[0].message
    assert (message.reasoning_content, message.content) == (THOUGHT, ANSWER), done
    assert 0 < done.usage.completion_tokens_details.reasoning_tokens < length == done.usage.completion_tokens
    assert len(done.choices[0].logprobs.content) == length
    parts = list(client.chat.completions.create(**ask, stream=True))
    deltas = [p.choices[0].delta for p in parts]
    assert "".join(getattr(d, "reasoning_content", None) or "" for d in deltas) == THOUGHT
    assert "".join(d.content or "" for d in deltas) == ANSWER
    with client.chat.completions.stream(**{**ask, "logprobs": False, "max_tokens": 200, "stop": ["\nQ"]}) as stream:
        for _ in stream:
            pass
        assert stream.get_final_completion().choices[0].message.content == ANSWER
    stopped = client.chat.completions.create(**ask, stop=[", I"]).choices[0]
    assert (stopped.message.reasoning_content, stopped.message.content) == (THOUGHT, "Yes"), stopped
    # The package sends back what it got.
    again = client.chat.completions.create(**{**ask, "messages": [*ASK, message, *ASK]})
    assert again.usage.prompt_tokens == done.usage.prompt_tokens + len(THOUGHT)
    # A schema is for the answer: the model may think before it.
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": "Yes, I do."}}}
    formed = client.chat.completions.create(**{**ask, "max_tokens": 200}, response_format=schema).choices[0]
    off = {"chat_template_kwargs": {"enable_thinking": False}}  # templates without the variable ignore it
    if length == len(TEXT):
        assert client.chat.completions.create(**ask, extra_body=off).choices[0].message.content == ANSWER
    else:
        refused(lambda: client.chat.completions.create(**ask, extra_body=off), openai.BadRequestError, "switched off")
    assert json.loads(formed.message.content) == ANSWER and formed.message.reasoning_content == THOUGHT, formed


def check_responses(client, length):
    ask = dict(model="chat", input="a", temperature=0, max_output_tokens=length)
    done = client.responses.create(**ask)
    thought, message = done.output
    assert thought.type == "reasoning" and thought.content[0].text == THOUGHT and thought.summary == [], thought
    assert message.type == "message" and done.output_text == ANSWER, done
    assert 0 < done.usage.output_tokens_details.reasoning_tokens < length
    events = list(client.responses.create(**ask, stream=True))
    deltas = [e.delta for e in events if e.type == "response.reasoning_text.delta"]
    assert "".join(deltas) == THOUGHT
    assert [e.text for e in events if e.type == "response.reasoning_text.done"] == [THOUGHT]
    # The package puts a stream together; it takes items of any type.
    with client.responses.stream(**ask) as stream:
        kinds = [e.type for e in stream]
    assert kinds[-1] == "response.incomplete", kinds
    assert events[-1].response.output[0].content[0].text == THOUGHT
    again = client.responses.create(**{**ask, "input": [*ASK, *done.output, *ASK]})
    assert again.usage.input_tokens == done.usage.input_tokens + len(THOUGHT)


def check_messages(client, length):
    ask = dict(model="chat", messages=ASK, max_tokens=length, extra_body={"temperature": 0})
    done = client.messages.create(**ask)
    thought, text = done.content
    assert (thought.type, thought.thinking, thought.signature) == ("thinking", THOUGHT, ""), done
    assert text.type == "text" and text.text == ANSWER, done
    assert 0 < done.usage.output_tokens_details.thinking_tokens < length
    with client.messages.stream(**ask) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_message()
    assert {"thinking", "signature", "text"} <= kinds, kinds
    assert [(b.type, getattr(b, "thinking", None) or b.text) for b in final.content] == [("thinking", THOUGHT), ("text", ANSWER)]
    assert final.usage.output_tokens_details.thinking_tokens == done.usage.output_tokens_details.thinking_tokens
    again = client.messages.create(**{**ask, "messages": [*ASK, {"role": "assistant", "content": done.content}, *ASK]})
    assert again.usage.input_tokens == done.usage.input_tokens + len(THOUGHT)
    adaptive = client.messages.create(**ask, thinking={"type": "adaptive"})
    assert adaptive.content == done.content


def error_of(call, kind):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("accepted")


def check_errors(chat, claude):
    def response(param, **fields):
        error = error_of(lambda: chat.responses.create(**{"model": "chat", "input": "a", **fields}), openai.BadRequestError)
        assert error.param == param, (error.param, error)
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    response("input[2].output", instructions="s", input=[*ASK, call, {"type": "function_call_output", "call_id": "1"}])
    response("input[1].call_id", input=[*ASK, {**call, "call_id": ""}])
    response("input[0].content[1].type", input=[{"role": "user", "content": [
        {"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "x"}]}])
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    response("tools[1].name", tools=[tool, tool])
    response("tools[0].parameters", tools=[{**tool, "parameters": {"type": "array"}}])
    response("text.format.schema", text={"format": {"type": "json_schema", "name": "n", "schema": {"uniqueItems": True}}})
    assert chat.responses.create(model="chat", input="a", max_output_tokens=100000).output  # more than fits

    def completion(param, **fields):
        error = error_of(lambda: chat.chat.completions.create(**{"model": "chat", "messages": ASK, **fields}),
                         openai.BadRequestError)
        assert error.param == param, (error.param, error)
    completion("messages[1].tool_calls[0].function.name", messages=[*ASK, {"role": "assistant", "tool_calls": [
        {"id": "1", "type": "function", "function": {"arguments": "{}"}}]}])
    function = {"type": "function", "function": {"name": "f"}}
    completion("tools[1].function.name", tools=[function, function])

    def message(words, **fields):
        error = error_of(lambda: claude.messages.create(**{"model": "chat", "messages": ASK, "max_tokens": 1, **fields}),
                         anthropic.BadRequestError)
        assert error.body["error"]["type"] == "invalid_request_error" and words in error.body["error"]["message"], error
    message("'messages[0].content[1].tool_use_id'", messages=[{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "1"}, {"type": "tool_result"}]}])
    tool = {"name": "f", "input_schema": {"type": "object"}}
    message("'tools[1].name'", tools=[tool, tool])
    message("'tools[0].input_schema'", tools=[{"name": "f", "input_schema": {"type": "array"}}])
    message("'thinking.type'", thinking={"type": "sometimes"})


def main(toy, source, work):
    for template in (TEMPLATE, BEGINS):
        length = len(TEXT) if template == TEMPLATE else len(TEXT) - len("<think>\n")
        with serving(toy, source, work, template) as url:
            chat = openai.OpenAI(base_url=url + "/v1", api_key="right", max_retries=0)
            claude = anthropic.Anthropic(base_url=url, api_key="right", max_retries=0)
            check_chat(chat, length)
            check_responses(chat, length)
            check_messages(claude, length)
            check_errors(chat, claude)
            off = dict(model="chat", messages=ASK, max_tokens=1, thinking={"type": "disabled"})
            if template == BEGINS:
                assert "thinking" in str(error_of(lambda: claude.messages.create(**off), anthropic.BadRequestError))
            else:
                claude.messages.create(**off)
    print(f"openai {openai.__version__}, anthropic {anthropic.__version__}: thoughts in chats, responses and messages, errors")


if __name__ == "__main__":
    main(*sys.argv[1:])
