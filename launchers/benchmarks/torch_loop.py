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

    def collect() -> tuple[list[list[int]], list[list[bool]], np.ndarray]:
        tasks = [next(seeds) for _ in range(groups)]
        lakes = [Lake(task, size) for task in tasks for _ in range(members)]
        tokens: list[list[int]] = [[] for _ in lakes]
        written: list[list[bool]] = [[] for _ in lakes]
        returns, acted = np.zeros(len(lakes)), 0
        for _ in range(turns):
            live = [i for i, lake in enumerate(lakes) if not lake.ended]
            if not live:
                break
            acted += len(live)
            for i in live:
                seen = [number[glyph] for glyph in lakes[i].look()] + list(codec.after)
                tokens[i] += seen
                written[i] += [False] * len(seen)
            longest = max(len(tokens[i]) for i in live)
            prompt = torch.full((len(live), longest), codec.pad)
            mask = torch.zeros((len(live), longest), dtype=torch.long)
            for row, i in enumerate(live):
                prompt[row, longest - len(tokens[i]) :] = torch.tensor(tokens[i])
                mask[row, longest - len(tokens[i]) :] = 1
            with torch.inference_mode():
                out = model.generate(
                    prompt,
                    attention_mask=mask,
                    do_sample=True,
                    top_k=0,
                    max_new_tokens=reply_tokens,
                )
            for i, said in zip(live, out[:, longest:].tolist(), strict=True):
                stop = said.index(codec.end) + 1 if codec.end in said else len(said)
                said = said[:stop]
                tokens[i] += said
                written[i] += [True] * len(said)
                action = actions.get(tuple(said))
                if action is not None:
                    returns[i] += lakes[i].step(action, chance)
        lengths.append(acted / len(lakes))
        return tokens, written, returns

    def update(tokens: list[list[int]], written: list[list[bool]], returns: np.ndarray) -> None:
        longest = max(map(len, tokens))
        rows = torch.full((len(tokens), longest), codec.pad)
        trained = torch.zeros((len(tokens), longest), dtype=torch.bool)
        for i, (row, mask) in enumerate(zip(tokens, written, strict=True)):
            rows[i, : len(row)] = torch.tensor(row)
            trained[i, : len(row)] = torch.tensor(mask)
        by_group = returns.reshape(groups, members)
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

    def call() -> None:
        update(*collect())

    def facts() -> dict[str, Any]:
        return {"mean_turns": float(np.mean(lengths)), "threads": torch.get_num_threads()}

    return Ready(call, float(groups * members * turns), 0.0, facts)
