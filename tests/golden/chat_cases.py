"""Conversations for chat templates: 30 that between them have everything that templates ask about."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "the weather of a place; \"now\" or later",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "Name of the place"},
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "days": {"type": ["integer", "null"], "default": 1},
                "hours": {"type": "array", "items": {"type": "number"}},
                "detail": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"wind": {"type": "boolean"}},
                                                          "required": ["wind"]}]},
            },
            "required": ["place"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object",
                                                                                             "properties": {}}}}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, arguments, number=1):
    return {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = message("system", "You are brief.")
HI, HELLO = message("user", "Hi!"), message("assistant", "Hello.")
MORE, FINE = message("user", "How are you?"), message("assistant", "Fine, thanks.\n")
ASK = message("user", "Weather in Ulm?")
CALLS = message("assistant", None, tool_calls=[call("get_weather", {"place": "Ulm", "days": 2})])
RESULT = message("tool", "{\"temp\": -1.5}", name="get_weather", tool_call_id="call00001")
ANSWER = message("assistant", "It freezes.")

CASES = [
    dict(messages=[HI]),
    dict(messages=[HI], add_generation_prompt=True),
    dict(messages=[SYSTEM, HI], add_generation_prompt=True),
    dict(messages=[HI, HELLO]),
    dict(messages=[SYSTEM, HI, HELLO]),
    dict(messages=[SYSTEM, HI, HELLO, MORE], add_generation_prompt=True),
    dict(messages=[SYSTEM, HI, HELLO, MORE, FINE]),
    dict(messages=[HI, HELLO, MORE, FINE, HI, HELLO]),
    dict(messages=[message("user", "  spaces \n"), message("assistant", "\n\n around \t")]),
    dict(messages=[message("user", "Grüße, 世界! 👋🏽 \u00a0é"), message("assistant", "\u3000ÀÇ — 'quoted' \"twice\" \\ \u2028")]),
    dict(messages=[message("user", ""), message("assistant", "")]),
    dict(messages=[message("system", ""), HI]),
    dict(messages=[message("user", "<b>&amp;</b> {{ not a template }} {% if %}"), HELLO]),
    dict(messages=[message("system", "/no_think Short."), HI, HELLO, MORE], add_generation_prompt=True),
    dict(messages=[message("system", "Alone /system_override"), HI], add_generation_prompt=True),
    dict(messages=[ASK], tools=[WEATHER], add_generation_prompt=True),
    dict(messages=[SYSTEM, ASK], tools=[WEATHER, CLOCK], add_generation_prompt=True),
    dict(messages=[ASK, CALLS], tools=[WEATHER]),
    dict(messages=[ASK, CALLS, RESULT], tools=[WEATHER], add_generation_prompt=True),
    dict(messages=[SYSTEM, ASK, CALLS, RESULT, ANSWER, HI, HELLO], tools=[WEATHER]),
    dict(messages=[ASK, message("assistant", "Let me see.", tool_calls=[call("get_weather", {"place": "Ulm"}),
                                                                      call("clock", {}, 2)]),
                   RESULT, message("tool", "12:00", tool_call_id="call00002"), ANSWER], tools=[WEATHER, CLOCK]),
    dict(messages=[ASK, message("assistant", "", tool_calls=[call("get_weather", "{\"place\": \"Ulm\"}")]), RESULT]),
    dict(messages=[HI, message("assistant", "Hello.", reasoning_content="A greeting.\nSay hello.")]),
    dict(messages=[HI, message("assistant", "<think>\nHm.\n</think>\n\nHello."), MORE,
                   message("assistant", "<think>\nWell.\n</think>\n\nFine.")]),
    dict(messages=[SYSTEM, ASK, message("assistant", "", thinking="I need the tool.", tool_calls=CALLS["tool_calls"]), RESULT],
         tools=[WEATHER], add_generation_prompt=True),
    dict(messages=[HI], add_generation_prompt=True, variables={"enable_thinking": False, "reasoning_effort": "high"}),
    dict(messages=[message("user", [{"type": "text", "text": "Look: "}, {"type": "image"},
                                    {"type": "text", "text": " nice? "}])], add_generation_prompt=True),
    dict(messages=[HELLO, HI]),
    dict(messages=[HI, message("critic", "Bad."), HELLO]),
    dict(messages=[]),
]
