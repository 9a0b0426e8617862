"""EZPoints played by a program: a loop, a tool, and the package openai; nothing of this library.

The game is that of `EZPoints-v1` in its words. `configs/published/smollm2_program.py` trains the
model that it calls; by itself it plays any server of the chat-completions protocol:

    python configs/_shared/ezpoints_agent.py http://127.0.0.1:8000/v1 smollm2_sft
"""

import random
import sys

import openai

RULES = (
    "Write a formula with the value 12 that uses each of the 2 cards once. Every command is "
    "appended to it: a card's number or one of + *. The command = has the formula judged, right or "
    "wrong. Answer with one command and nothing else."
)
# Making one takes longer than an episode.
HTTP = openai.DefaultHttpxClient()


def deal(seed):
    """Two cards whose sum or product is 12."""
    chance = random.Random(seed)
    first = min(chance.randint(2, 13), 10)
    by_product = 12 % first == 0 and chance.random() < 0.5
    cards = [first, 12 // first if by_product else 12 - first]
    return cards[::-1] if chance.random() < 0.5 else cards


def append(formula, cards, token):
    """The tool: appends a token that may be appended."""
    of_cards = [str(card) for card in cards]
    if token in ("+", "*") or of_cards.count(token) > formula.count(token):
        formula.append(token)


def right(formula, cards):
    """Whether the formula is one operation on both cards with the value 12."""
    a, b = cards
    values = {"+": a + b, "*": a * b}
    numbers = sorted(formula[::2]) == sorted([str(a), str(b)])
    return len(formula) == 3 and numbers and values.get(formula[1]) == 12


def agent(model, seed, *, turns=8):
    """1 for a formula that is right when it is submitted, else 0."""
    client = openai.OpenAI(base_url=model.base_url, api_key=model.api_key, http_client=HTTP)
    cards, formula = deal(seed), []
    said = [{"role": "system", "content": RULES}]
    for _ in range(turns):
        shown = f"Numbers: [{cards[0]}, {cards[1]}]. Current formula: {''.join(formula)}."
        said.append({"role": "user", "content": shown})
        answer = client.chat.completions.create(model=model.name, messages=said, max_tokens=4)
        reply = answer.choices[0].message.content
        if reply.strip() == "=":
            return float(right(formula, cards))
        append(formula, cards, reply.strip())
        said.append({"role": "assistant", "content": reply})
    return 0.0


class Server:
    """A server of the protocol, as `agent` wants it."""

    def __init__(self, base_url, name):
        self.base_url, self.api_key, self.name = base_url, "none", name


if __name__ == "__main__":
    won = [agent(Server(*sys.argv[1:]), seed) for seed in range(64)]
    print(f"{sum(won):.0f} of {len(won)}")
