"""The straightforward loop: transformers' `generate`, the lake in Python, an update in torch."""

import random
from typing import Any

import numpy as np

from agentrl.policies.codec import Codec, decode
from agentrl.policies.decoder_config import DecoderConfig
from launchers.benchmarks.llama import llama
from launchers.benchmarks.timing import Ready

_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up
_HOLES = 0.2


class Lake:
    """One slippery frozen lake in plain Python, with the compact wording's map."""

    def __init__(self, seed: int, size: int):
        rng = random.Random(seed)
        self.size = size
        cells = [["O" if rng.random() < _HOLES else "_" for _ in range(size)] for _ in range(size)]
        cells[0][0], cells[-1][-1] = "_", "G"
        self.cells, self.at, self.ended = cells, (0, 0), False

    def look(self) -> str:
        """The map with the player in it."""
        rows = [list(row) for row in self.cells]
        rows[self.at[0]][self.at[1]] = "P"
        return "\n".join("".join(row) for row in rows)

    def step(self, action: int, rng: random.Random) -> float:
        """Slips to either side in two of three cases; 1 for the goal."""
        down, right = _MOVES[(action + rng.choice((-1, 0, 1))) % 4]
        last = self.size - 1
        self.at = (
            min(max(self.at[0] + down, 0), last),
            min(max(self.at[1] + right, 0), last),
        )
        cell = self.cells[self.at[0]][self.at[1]]
        self.ended = cell in "OG"
        return float(cell == "G")


class _Conversations:
    """Lakes with the tokens so far: what the policy read and, where `written`, what it wrote."""

    def __init__(self, lakes: list[Lake]):
        self.lakes = lakes
        self.tokens: list[list[int]] = [[] for _ in lakes]
        self.written: list[list[bool]] = [[] for _ in lakes]
        self.returns = np.zeros(len(lakes))

    def add(self, i: int, tokens: list[int], written: bool) -> None:
        """Adds tokens to conversation i."""
        self.tokens[i] += tokens
        self.written[i] += [written] * len(tokens)


def _replies(
    torch: Any, model: Any, prompts: list[list[int]], *, pad: int, end: int, new_tokens: int
) -> list[list[int]]:
    """Sampled replies to the prompts, up to and with their EOS token."""
    longest = max(map(len, prompts))
    prompt = torch.full((len(prompts), longest), pad)
    mask = torch.zeros((len(prompts), longest), dtype=torch.long)
    for row, tokens in enumerate(prompts):
        prompt[row, longest - len(tokens) :] = torch.tensor(tokens)
        mask[row, longest - len(tokens) :] = 1
    with torch.inference_mode():
        out = model.generate(
            prompt, attention_mask=mask, do_sample=True, top_k=0, max_new_tokens=new_tokens
        )
    replies = out[:, longest:].tolist()
    return [said[: said.index(end) + 1] if end in said else said for said in replies]


def _update(
    torch: Any, model: Any, optimizer: Any, made: _Conversations, *, members: int, pad: int
) -> None:
    """One step of GRPO on all conversations, of which `members` in a row make up a group."""
    longest = max(map(len, made.tokens))
    rows = torch.full((len(made.tokens), longest), pad)
    trained = torch.zeros((len(made.tokens), longest), dtype=torch.bool)
    for i, (row, mask) in enumerate(zip(made.tokens, made.written, strict=True)):
        rows[i, : len(row)] = torch.tensor(row)
        trained[i, : len(row)] = torch.tensor(mask)
    by_group = made.returns.reshape(-1, members)
    spread = by_group.std(1, keepdims=True, ddof=1) + 1e-6
    advantage = torch.tensor(((by_group - by_group.mean(1, keepdims=True)) / spread).ravel())
    # Padding is on the right: causal attention never attends to it.
    scores = torch.log_softmax(model(rows[:, :-1]).logits.float(), -1)
    logp = scores.gather(-1, rows[:, 1:, None])[..., 0]
    ratio = torch.exp(logp - logp.detach())
    each = torch.minimum(ratio * advantage[:, None], ratio.clamp(0.8, 1.2) * advantage[:, None])
    loss = -(each * trained[:, 1:]).sum() / trained.sum()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()


def make(
    config: DecoderConfig,
    codec: Codec,
    commands: tuple[str, ...],
    *,
    groups: int,
    members: int,
    turns: int,
    reply_tokens: int,
    size: int,
) -> Ready:
    """A call: one collection of groups * members conversations and one update; work: turns.

    As usual in such loops, each turn's prompt is the whole conversation so far, padded on the left,
    and prefilled again. The old log-probabilities are those of the update's own forward pass.
    """
    torch, model = llama(config, pad=codec.pad, end=codec.end)
    # Learning rate 0: the policy does not change, and so neither does the length of its
    # episodes.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-12, weight_decay=0.0)
    texts = [decode(codec, [i]) for i in range(codec.vocab_size)]
    number = {text: i for i, text in enumerate(texts) if text}
    actions = {(number[name], codec.end): i for i, name in enumerate(commands)}
    chance, seeds, lengths = random.Random(0), iter(range(10**9)), []

    def collect() -> _Conversations:
        tasks = [next(seeds) for _ in range(groups)]
        made = _Conversations([Lake(task, size) for task in tasks for _ in range(members)])
        acted = 0
        for _ in range(turns):
            live = [i for i, lake in enumerate(made.lakes) if not lake.ended]
            if not live:
                break
            acted += len(live)
            for i in live:
                look = made.lakes[i].look()
                made.add(i, [number[glyph] for glyph in look] + list(codec.after), False)
            prompts = [made.tokens[i] for i in live]
            replies = _replies(
                torch, model, prompts, pad=codec.pad, end=codec.end, new_tokens=reply_tokens
            )
            for i, said in zip(live, replies, strict=True):
                made.add(i, said, True)
                action = actions.get(tuple(said))
                if action is not None:
                    made.returns[i] += made.lakes[i].step(action, chance)
        lengths.append(acted / len(made.lakes))
        return made

    def call() -> None:
        _update(torch, model, optimizer, collect(), members=members, pad=codec.pad)

    def facts() -> dict[str, Any]:
        return {"mean_turns": float(np.mean(lengths)), "threads": torch.get_num_threads()}

    return Ready(call, float(groups * members * turns), 0.0, facts)
