"""Stands in for OpenAI's client, which Debian does not have: as much of it as upstream's tests of the server call, over
`requests`. tests/clients tries OpenAI's real client, that of npm."""
import json

import requests


class Answer:
    """An object of an answer. What it does not have is None, as optional fields of the real client are."""

    def __init__(self, fields):
        self.__dict__.update(fields)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "output_text":
            parts = [part for item in self.output for part in item.content or []]
            return "".join(part.text for part in parts if part.type == "output_text")
        return None


class Route:
    def __init__(self, client, path):
        self.client = client
        self.path = path

    def create(self, stream=False, **body):
        response = requests.post(
            self.client.base_url + self.path,
            headers={"Authorization": f"Bearer {self.client.api_key}"},
            json={**body, "stream": stream},
            stream=stream,
            timeout=600,
        )
        response.raise_for_status()
        if not stream:
            return json.loads(response.text, object_hook=Answer)
        return self.events(response)

    @staticmethod
    def events(response):
        for line in response.iter_lines():
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                yield json.loads(line[6:], object_hook=Answer)


class OpenAI:
    def __init__(self, api_key, base_url):
        self.api_key = api_key
        self.base_url = base_url
        self.chat = Answer({"completions": Route(self, "/chat/completions")})
        self.completions = Route(self, "/completions")
        self.embeddings = Route(self, "/embeddings")
        self.responses = Route(self, "/responses")
