"""Frameworks and clients of other servers against `toy serve`, as their users write them. A package that is missing is
told and left out.

    frameworks_client.py TOY MODEL.gguf WORK
"""
import asyncio
import importlib.util
import json
import os
import sys
import warnings
from typing import Literal

import pydantic

from openai_client import serving

warnings.filterwarnings("ignore")
os.environ.update(OPENAI_AGENTS_DISABLE_TRACING="1", LITELLM_LOCAL_MODEL_COST_MAP="True")

# Calls are written as Hermes does.
TEMPLATE = ("{% for t in tools or [] %}{{ t.function.name }} {% endfor %}{# <tool_call> #}"
            "{% for m in messages %}[{{ m.role }}] {{ m.name or '' }} {{ m.content }}"
            "{% for c in m.tool_calls or [] %}{{ c.function.name }}: {{ c.function.arguments }}{% endfor %}"
            "\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}")


class Badger(pydantic.BaseModel):
    age: int = pydantic.Field(ge=0, le=9)


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def pick(n: Literal[1, 2]) -> int:
    """Picks a number."""
    return n


def langchain(url):
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
    access = dict(base_url=url + "/v1", api_key="right", max_retries=0, model="chat")
    chat = ChatOpenAI(**access, max_tokens=12, reasoning_effort="low", temperature=0)
    assert chat.invoke([HumanMessage("hi", name="ann")]).content
    assert "".join(part.content for part in chat.stream("hi"))
    assert ChatOpenAI(**access, max_tokens=12, use_responses_api=True).invoke("hi").content
    forced = ChatOpenAI(**access, max_tokens=120).with_structured_output(Badger)
    assert 0 <= forced.invoke("a badger").age <= 9
    tooled = chat.bind_tools([tool(add)])
    tooled.invoke([HumanMessage("1+1"), AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1, "b": 1}, "id": "c1"}]),
                   ToolMessage("2", tool_call_id="c1", name="add")])
    agent = create_agent(chat, tools=[tool(add)], name="helper")
    assert agent.invoke({"messages": [HumanMessage("1+1"), AIMessage("2", name="helper"), HumanMessage("more")]})
    assert OpenAI(**access, max_tokens=4).invoke("hi")
    assert OpenAIEmbeddings(base_url=url + "/v1", api_key="right", model="chat",
                            check_embedding_ctx_length=False).embed_query("hi")


def agents(url):
    import agents as sdk
    import openai
    sdk.set_tracing_disabled(True)

    def client():
        return openai.AsyncOpenAI(base_url=url + "/v1", api_key="right", max_retries=0)

    async def parts(agent):
        agent.model = type(agent.model)(model="chat", openai_client=client())
        return [event async for event in sdk.Runner.run_streamed(agent, "hi", max_turns=3).stream_events()]

    for kind in (sdk.OpenAIChatCompletionsModel, sdk.OpenAIResponsesModel):
        def model():
            return kind(model="chat", openai_client=client())  # of the event loop that uses it first
        # A response that a limit has cut off is an error of the SDK: these end by themselves.
        for tools in ([], [sdk.function_tool(add)]):
            agent = sdk.Agent(name="helper", instructions="Help.", model=model(), tools=tools, output_type=Badger,
                              model_settings=sdk.ModelSettings(max_tokens=200, temperature=0))
            assert 0 <= sdk.Runner.run_sync(agent, "hi", max_turns=3).final_output.age <= 9
            assert asyncio.run(parts(agent))
        forced = sdk.Agent(name="helper", instructions="Help.", model=model(), tools=[sdk.function_tool(pick)],
                           tool_use_behavior="stop_on_first_tool",
                           model_settings=sdk.ModelSettings(max_tokens=200, temperature=0, tool_choice="required",
                                                            parallel_tool_calls=False))
        assert int(sdk.Runner.run_sync(forced, "1 or 2?", max_turns=3).final_output) in (1, 2)
    plain = sdk.Agent(name="helper", instructions="Help.", model_settings=sdk.ModelSettings(max_tokens=20),
                      model=sdk.OpenAIChatCompletionsModel(model="chat", openai_client=client()))
    assert sdk.Runner.run_sync(plain, "hi", max_turns=3).final_output is not None


def autogen_ext(url):
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core.models import AssistantMessage, SystemMessage, UserMessage
    from autogen_ext.models.openai import OpenAIChatCompletionClient
    info = dict(vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True)

    def client(**more):
        return OpenAIChatCompletionClient(model="chat", base_url=url + "/v1", api_key="right", max_retries=0,
                                          max_tokens=20, model_info=info, **more)
    ask = [SystemMessage(content="s"), UserMessage(content="hi", source="ann")]
    assert asyncio.run(client().create(ask)).content
    assert asyncio.run(client(include_name_in_message=True).create(
        [*ask, AssistantMessage(content="x", source="bob"), UserMessage(content="hi", source="ann")])).content
    assert asyncio.run(AssistantAgent("bob", client(), tools=[add]).run(task="1+1")).messages


def litellm(url):
    import litellm as lite
    lite.telemetry, lite.suppress_debug_info = False, True
    ask = [{"role": "user", "content": "hi"}]
    access = dict(api_key="right", max_tokens=4, num_retries=0)
    for name in ("openai/chat", "hosted_vllm/chat", "lm_studio/chat", "llamafile/chat"):
        reply = lite.completion(model=name, api_base=url + "/v1", messages=ask, user="me", **access).choices[0].message
        again = [*ask, reply.model_dump(), *ask]
        assert lite.completion(model=name, api_base=url + "/v1", messages=again, **access).choices
    marked = [{"role": "system", "content": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]}, *ask]
    assert lite.completion(model="openai/chat", api_base=url + "/v1", messages=marked, **access).choices
    assert len(list(lite.completion(model="openai/chat", api_base=url + "/v1", messages=ask, stream=True, **access)))
    assert lite.completion(model="anthropic/chat", api_base=url, messages=ask, **access).choices
    thinks = {**access, "max_tokens": 2000}
    assert lite.completion(model="anthropic/claude-sonnet-4-20250514", api_base=url, messages=ask, reasoning_effort="low",
                           **thinks).choices
    assert lite.embedding(model="openai/chat", api_base=url + "/v1", api_key="right", input=["a"]).data
    assert lite.completion(model="ollama_chat/chat", api_base=url, messages=ask, **access).choices


def pydantic_ai(url):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    provider = OpenAIProvider(base_url=url + "/v1", api_key="right")
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        model = kind("chat", provider=provider)
        assert Agent(model, model_settings={"max_tokens": 12}).run_sync("hi").output
        made = Agent(model, output_type=Badger, retries=0, model_settings={"max_tokens": 200}).run_sync("a badger")
        assert 0 <= made.output.age <= 9


def instructor(url):
    import instructor as library
    import openai
    for mode in (library.Mode.TOOLS, library.Mode.JSON_SCHEMA, library.Mode.TOOLS_STRICT):
        client = library.from_openai(openai.OpenAI(base_url=url + "/v1", api_key="right", max_retries=0), mode=mode)
        made = client.chat.completions.create(model="chat", response_model=Badger, max_retries=0, max_tokens=200,
                                              messages=[{"role": "user", "content": "a badger"}])
        assert 0 <= made.age <= 9


def ollama(url):
    import ollama as library
    client = library.Client(host=url, headers={"Authorization": "Bearer right"})
    ask = [{"role": "user", "content": "hi"}]
    options = {"num_predict": 12, "temperature": 0, "num_ctx": 512}
    whole = client.chat("chat", ask, options=options, keep_alive="5m")
    assert whole.message.content and whole.done and whole.eval_count <= 12
    parts = list(client.chat("chat", ask, options=options, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content and parts[-1].done
    made = client.chat("chat", ask, format=Badger.model_json_schema(), options={"num_predict": 200})
    assert 0 <= Badger.model_validate_json(made.message.content).age <= 9
    assert client.chat("chat", ask, tools=[add], options=options).message
    assert client.chat("chat", ask, format="json", think=False, options={"num_predict": 4}).message
    text = client.generate("chat", "Once", options=options)
    assert text.response == "".join(p.response for p in client.generate("chat", "Once", options=options, stream=True))
    assert client.generate("chat", "Once", raw=True, options=options).response
    assert len(client.embed("chat", ["a", "b"]).embeddings) == 2 and client.embeddings("chat", "a").embedding
    assert [m.model for m in client.list().models] == ["chat"] and client.ps().models
    assert "completion" in client.show("chat").capabilities
    try:
        client.chat("chat", [{"role": "king", "content": "a"}])
        raise AssertionError("accepted")
    except library.ResponseError as error:
        assert error.status_code == 400 and "king" in error.error


def main(toy, source, work):
    done, missing = [], []
    with serving(toy, source, work, TEMPLATE) as url:
        for check in (langchain, agents, autogen_ext, litellm, pydantic_ai, instructor, ollama):
            if importlib.util.find_spec(check.__name__) is None:
                missing.append(check.__name__)
                continue
            check(url)
            done.append(check.__name__)
    print(json.dumps({"done": done, "missing": missing}))
    if not done:
        sys.exit(77)


if __name__ == "__main__":
    main(*sys.argv[1:])
