"""Self-play in words with a baseline for each game and seat: SPIRAL in small, from scratch.

Liu et al. (2025), SPIRAL, https://arxiv.org/abs/2506.24119, trained a language model of 4B
parameters on three games; here a transformer of some 90,000 learns one of them, or all three
together ("three"), a fragment a token. As there: every turn is read by itself, both seats are
trained, a reply that is no legal command loses (-1.5, and 0.5 for the other), the loss is a sum
over tokens by a constant, nothing pulls to a reference. The policy of "three" is held to legal
commands: a language model knows how to write before it plays, this one does not.
`--config.advantage.decay=1.0` is without the baselines, which then stay 0.

    python -m launchers.train --config=configs/spiral.py:TicTacToe-v1 --workdir=runs/spiral
    python -m launchers.train --config=configs/spiral.py:three --workdir=runs/spiral_three

The policy of "three" has words for Nim, Liar's Dice and Pig besides, which it never meets; what it
has learnt for them is measured by

    python -m launchers.evaluate --workdir=runs/spiral_three --env=Nim-v1

Tic-tac-toe with and without the baselines, three seeds, 80 updates of 64 matches, held to legal
commands (two minutes each on one core that other jobs used too):

    python -m launchers.train --config=configs/spiral.py:TicTacToe-v1 --workdir=runs/spiral \\
        --config.policy.constrained=True --config.rollout.num_groups=64 \\
        --config.learner.microbatch=32 --config.num_seeds=3 --config.updates=80 \\
        --config.log_every=10 --config.evaluation.every=0

The baseline of seat 0 goes to 0.35, for who begins wins twice as often; without it the gradient's
norm is 0.0214 instead of 0.0208 (difference 0.0006 [-0.0002, 0.0014]), the spread of advantages
0.048 [0.019, 0.077] larger, and nothing else differs that three seeds could show. Not held to legal
commands, for 60 updates all matches end by an illegal reply; there the norm is 0.018 with baselines
and 0.0245 without (difference 0.006 [0.003, 0.010]), for nearly every outcome is the same -1.5. A
reply is a word and its end, two tokens: how replies shrink is not to be seen here.

"three" and tic-tac-toe alone, both held to legal commands, three seeds, 60 updates of 32 matches of
each game (2 min 40 s and under a minute):

    O="--config.policy.constrained=True --config.rollout.num_groups=32 --config.num_seeds=3 \\
        --config.updates=60 --config.log_every=10 --config.evaluation.every=0"
    python -m launchers.train --config=configs/spiral.py:three --workdir=runs/three $O \\
        --config.learner.microbatch=32
    python -m launchers.train --config=configs/spiral.py:TicTacToe-v1 --workdir=runs/one $O \\
        --config.learner.microbatch=48
    python -m launchers.arena --game=TicTacToe-v1 --matches=400 \\
        --players=random,mcts:25,runs/one#all,runs/three#all

Against random play in tic-tac-toe "three" returns 0.370, 0.285, 0.372 a match, the other 0.260,
0.273, 0.407; against mcts:25 -0.71 and -0.73; the other is ahead by 0.08 on average in the nine
pairs. In Nim, which it never met, "three" is at 0.075, -0.055, 0.010 against random play, in Pig at
-0.320, 0.155, -0.555.

With "thoughts_" before a game's name replies are a thought and a move: taught first to name the
move in both, then trained by who wins. Whether the thought shrinks, as SPIRAL saw without the
baselines, is in empty_thought_rate and response_length.

    python -m launchers.train --config=configs/spiral.py:thoughts_TicTacToe-v1 \
        --workdir=runs/spiral_thoughts --config.num_seeds=3

Three seeds, 300 updates after the warm start (two to five minutes on a core that other jobs used
too), with and without (--config.advantage.decay=1.0) the baselines. Tic-tac-toe: mean norm of the
gradient 0.060, 0.050, 0.024 and 0.112, 0.063, 0.027; empty thoughts in the last 20 updates 0.003,
0.007, 0.001 and 0.010, 0.059, 0.000; all matches end by an illegal move in the second seed of both.
Kuhn's poker, five deals: 0.0047, 0.0053, 0.0069 and 0.0064, 0.0069, 0.0072; thoughts stay. With
--config.learner.entropy_coefficient=0.01 and baselines, 400 updates, they grow to the limit of
tokens in two seeds and vanish in the third, and with them the form of the replies.

That self-play drifts into games that an illegal move ends is no accident of one seed. A penalty on
the turn of the illegal reply (--config.reward.invalid_action_penalty.coefficient=0.5; RAE takes it
off that turn alone, and keeps it out of the baseline) from the same warm starts, seeds 0 to 5:

    S=--config=configs/spiral.py:thoughts_TicTacToe-v1
    python -m launchers.train $S --workdir=runs/taught --config.num_seeds=3 --config.updates=200
    python -m launchers.train $S --workdir=runs/penalty --config.num_seeds=3 \
        --config.init_from=runs/taught --config.warm_start.updates=0 --config.updates=300 \
        --config.reward.invalid_action_penalty.coefficient=0.5
    python -m launchers.evaluate --workdir=runs/penalty

and the same with --config.seed=3; three to four minutes of processor time for three seeds.

    seed                                 0      1      2      3      4      5      mean
    matches ended by an illegal move, mean over the 300 updates
      without                            0.23   0.23   0.06   0.55   0.34   0.73   0.36
      with                               0.04   0.05   0.23   0.05   0.77   0.40   0.26
    the same in the last 20 updates
      without                            0.02   0.02   0.02   0.95   1.00   1.00
      with                               0.02   0.02   1.00   0.01   0.88   0.50
    return against random play, 1,024 matches (taught: -0.18 -0.26 -0.28 -0.25 -0.07 -0.36)
      without                           -0.50  -0.59  -0.17  -1.35  -1.48  -1.31  -0.90
      with                              -0.10  -0.02  -1.32   0.10  -1.48  -0.98  -0.63

Five seeds without and three with it have twenty updates in which more than half of the matches end
so; the differences of the means are -0.10 [-0.46, 0.26] and 0.27 [-0.62, 1.16]: nothing that six
seeds could show, and no cure; with the penalty seed 4 loses the form of its replies besides (0.5
malformed). With a coefficient of 2.0 seeds 0 to 2 all drift: means of 0.21, 0.21 and 0.19, in the
last 20 updates 0.94, 0.03 and 0.52, returns of -0.47, -0.15 and -0.60. In all eleven the draws that
were taught end first (from 0.66 to 0.97 down to 0 or nearly; seed 5 hardly draws from the start),
and with them the boards of which the expert's episodes say much. Elsewhere replies are illegal and
nearly certain, 0.03 to 0.2 nats a token, with few exceptions. A likely reading: what is certain is
hardly learnt from, whatever it costs, for the gradient of its probability is in proportion to p (1
- p); and where the same seat loses each time, its baseline leaves nothing else. Held to legal
commands, as above, none of it can happen.

Frozen opponents instead of itself: --config.rollout.opponent=pool --config.pool.capacity=16
"""

import ml_collections

from agentrl import rollout
from agentrl.training import credit
from agentrl.training.base_config import base_config
from agentrl.training.config import env_section, env_sections, section
from configs import language

# Its games by its rules, with room for the longest without illegal moves; some that are held out.
THREE = {
    "TicTacToe-v1": {"max_steps_in_episode": 9},
    "KuhnPoker-v1": {
        "rounds": 5,
        "opener": 1,
        "pot_grows": False,
        "reward": "last_round",
        "max_steps_in_episode": 15,
    },
    "SimpleNegotiation-v1": {"rules": "spiral", "max_steps_in_episode": 10},
}
HELD_OUT = ("Nim-v1", "LiarsDice-v1", "PigDice-v1")
ILLEGAL = {"illegal_allowance": 0, "illegal_reward": -1.5, "illegal_other_reward": 0.5}


def get_config(game: str = "TicTacToe-v1") -> ml_collections.ConfigDict:
    if game.startswith("thoughts_"):
        return thoughts(game.removeprefix("thoughts_"))
    config = base_config()
    config.updates = 400
    config.log_every = 20
    if game == "three":
        config.env = env_sections(
            *(env_section(name, **ILLEGAL, **rules) for name, rules in THREE.items())
        )
        config.lexicon = HELD_OUT
    else:
        config.env = env_section(game, **ILLEGAL, **THREE.get(game, {}))
    config.policy = language.policy()
    config.rollout = section(rollout.episodes, num_groups=128, group_size=1)
    config.context = section(rollout.contexts.window, history=0)
    config.advantage = section(credit.rae)
    config.reward.invalid_action_penalty = {"coefficient": 0.0}
    config.learner.update(
        minibatches=2, microbatch=64, aggregation="constant", entropy_coefficient=0.003
    )
    if game == "three":
        # Of 350 words hardly any reply is a command by chance: unconstrained, all but one in a
        # thousand were still illegal after 40 updates, and where all lose alike nothing is learnt.
        config.policy.constrained = True
        # An offer is longer than the others' rows.
        config.learner.lengths = 3
    config.optimizer.learning_rate = 1e-3
    config.evaluation.every = 100
    return config


def thoughts(game: str) -> ml_collections.ConfigDict:
    config = get_config(game)
    config.policy.grammar = "action"
    config.rollout.num_groups, config.context.max_new_tokens = 64, 16
    config.learner.update(microbatch=32, entropy_coefficient=0.0)
    config.warm_start.update(updates=60, episodes=32, learning_rate=3e-3, thoughts=True)
    if game == "TicTacToe-v1":
        # Its expert's play against itself is one line; on other boards nothing would be known.
        config.warm_start.update(updates=200, noise=0.3)
    config.updates = config.warm_start.updates + 300
    config.log_every = 20
    config.optimizer.learning_rate = 3e-4
    config.evaluation.every = 0
    return config
