"""A program that finds a number: a loop, a tool, and a client that knows nothing of this library.

`configs/words/programs.py` trains the model that it calls.
"""

import random

import openai

# Making one takes longer than an episode.
HTTP = openai.DefaultHttpxClient()


def agent(model, seed, *, highest=7, guesses=3):
    """1 if the model names the number within so many guesses, else 0."""
    number = random.Random(seed).randint(1, highest)

    def compare(guess: int) -> str:
        """The tool: whether the number is higher or lower than a guess."""
        return "higher" if guess < number else "lower" if guess > number else "right"

    client = openai.OpenAI(base_url=model.base_url, api_key=model.api_key, http_client=HTTP)
    said = [{"role": "user", "content": "guess"}]
    for _ in range(guesses):
        answer = client.chat.completions.create(model=model.name, messages=said)
        reply = answer.choices[0].message.content
        digits = [letter for letter in reply if letter.isdigit()]
        result = compare(int(digits[0])) if digits else "digits"
        if result == "right":
            return 1.0
        said += [{"role": "assistant", "content": reply}, {"role": "user", "content": result}]
    return 0.0
