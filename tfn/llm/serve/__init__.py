"""The server of language models: OpenAI's interface over HTTP, and a page to chat with.

In reading order:
    command: `python -m tfn.llm serve`.
    app: the routes.
    asgi: answers and bodies.
    guard: who may ask.
    fields: fields of requests, as tables.
    prompts: from fields to tokens and wishes.
    flow: between the engine's thread and the loop of the server.
    reply: answers, whole or as streams.
    tools: calls of tools in their text.
    forms: their JSON.
    refusal: errors, and theirs.
    metrics: counts for Prometheus.
    report: what the console shows.
    page.html: the page.
"""
