"""Programs that call a model over HTTP, as environments of one step.

Runs under the Python of the worker, from 3.9 on, with the standard library and the program's own
imports.
"""

import asyncio
import collections
import inspect
import json

# Where a program finds the model: for openai.OpenAI(base_url=..., api_key=...), and model=name.
Model = collections.namedtuple("Model", "base_url api_key name")


class Program:
    """A program that calls the model itself, as often as it likes, as an environment of one step.

    A complete one, with any client of the chat-completions protocol:

        def agent(model, seed, *, highest=9):
            client = openai.OpenAI(base_url=model.base_url, api_key=model.api_key)
            number = random.Random(seed).randint(0, highest)      # the task
            said = [{"role": "user", "content": f"A number from 0 to {highest}?"}]
            reply = client.chat.completions.create(model=model.name, messages=said)
            return float(reply.choices[0].message.content == str(number))     # the reward

    It may be async. A reward of 1 or more is a success. The action of the step is where the model
    is, as JSON: `agentrl.serving.programs` gives it.
    """

    has_success = True
    calls_model = True

    def __init__(self, run, options):
        self.run, self.options, self.seed = run, options, 0

    def reset(self, *, seed):
        self.seed = seed
        return "", {}

    def step(self, action):
        reward = self.run(Model(**json.loads(action)), self.seed, **self.options)
        if inspect.isawaitable(reward):
            reward = asyncio.run(_awaited(reward))
        return "", float(reward), True, False, {"success": reward >= 1}


async def _awaited(reward):
    return await reward
