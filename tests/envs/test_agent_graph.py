"""AgentGraph-v1: edits by hand, play against the closed form, whole teams in one reply."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest
from programs import fetched

import envs
from agentrl import policies
from agentrl.actors.text_source import foreseen_commands
from agentrl.policies import codec as codecs
from envs.agent_graph.rules import REASONS
from envs.mod_sum.rules import REFLECT, SOLO, VERIFY
from envs.text import make_grammar, parse

NAME = "AgentGraph-v1"
OPTIONS = {"nodes": (4, 6), "parts": (1, 3), "breadth": 2, "chained": 0.5, "tampered": (0, 1)}
make = functools.partial(playing.make, NAME)
KEY = jax.random.key(0)


def number(env, name):
    return np.int32(env.action_names.index(name))


def test_edits_by_hand():
    env, params = make(nodes=(6, 6))
    _, _, reset, step = playing.functions(NAME, nodes=(6, 6))
    state = reset(KEY)
    legal = playing.method(env, "legal")

    def take(state, name):
        assert legal(state, params)[number(env, name)], name
        return step(state, number(env, name))[1]

    for name in ("solo 2", "vote 1 <1", "reflect 3 <1 <2"):
        state = take(state, name)
    assert state.count == 3 and state.kind[:3].tolist() == [0, 1, 2]
    team = fetched(env.team)
    found = team(state)
    assert found.assign.astype(int).tolist()[:3] == [
        [1, 1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 1, 1],
    ]
    assert np.argwhere(found.reads).tolist() == [[1, 0], [2, 0], [2, 1]]
    # Who comes after the second agent moves up, and takes the nodes that follow.
    state = take(state, "drop 2")
    found = team(state)
    assert state.count == 2 and np.argwhere(found.reads).tolist() == [[1, 0]]
    assert found.assign.sum(axis=1).tolist() == [2, 3, 0, 0] and found.assign[1, 2]
    assert not legal(state, params)[number(env, "solo 2")]
    assert not legal(state, params)[number(env, "solo 1 <3")]
    assert not legal(state, params)[number(env, "drop 3")]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["run"], "nobody"),
        (["solo 6", "run"], "valid"),
        (["solo 3", "solo 3", "run"], "no edges"),
        (["solo 3", "solo 3", "solo 0 <1", "run"], "sinks"),
        (["solo 3 <1", "run"], "self loop"),
        (["solo 3 <2", "run"], "undeclared"),
        (["solo 3 <2", "solo 3 <1", "run"], "sinks"),
        (["solo 1 <2", "solo 1 <1", "solo 1", "run"], "unreachable"),
        (["solo 1", "solo 1 <1 <3", "solo 1 <2", "solo 1 <3", "run"], "cycle"),
    ],
)
def test_what_runs_is_judged_by_the_kernel(names, reason):
    options = {"nodes": (6, 6), "forward": False}
    env, params, reset, _ = playing.functions(NAME, **options)
    step, state = fetched(env.step_env), reset(KEY)
    for name in names:
        params = params.replace(invalid=-1.0, right=1.0, handed=1.0, tired=1.0)
        _, state, reward, over, info = step(KEY, state, number(env, name), params)
        assert bool(info["valid"])
    assert bool(over) and REASONS[int(state.reason)] == reason
    assert float(reward) == (1.0 if reason == "valid" else -1.0)


def test_play_meets_the_closed_form_and_the_expert_is_ahead():
    """Random teams and the expert's: mean reward within 4 standard errors of what is expected."""
    env, params = envs.make(NAME, **OPTIONS, price=0.01, right=0.95)
    ahead = {}
    for policy in ("expert", "at_random"):
        act = functools.partial(getattr(playing, policy), env, params)
        history = playing.episodes(env, params, 1024, 8, act)
        runs = (history.action == env.num_actions - 1) & ~history.over
        expected = fetched(jax.vmap(jax.vmap(lambda s: env.expected(s, params))))(history.state)
        error = (history.reward - expected)[runs]
        assert abs(error.mean()) < 4 * error.std() / np.sqrt(len(error))
        ahead[policy] = expected[runs].mean()
    assert ahead["expert"] > ahead["at_random"] + 0.3
    # One agent for a short chain, more for a long one; who verifies does so where it helps.
    target = fetched(env.target)
    starts = playing.starts(env, params, 64)
    goals = fetched(jax.vmap(lambda s: env.target(s, params)))(starts)
    doubtful = (starts.graph.shown != starts.graph.constants).any(axis=1)
    assert (goals.kind[doubtful, 0] == VERIFY).all() and (goals.kind[~doubtful, 0] != VERIFY).all()
    assert target(jax.tree.map(lambda x: x[0], starts), params.replace(price=1.0)).count == 1


def test_the_expert_writes_a_whole_team_in_one_reply():
    """It is read back, command by command, as the team that the expert would build."""
    env, params = make(**OPTIONS)
    view = env.view
    policy = policies.transformer(
        view, width=8, layers=1, heads=1, kv_heads=1, hidden=8, grammar="answer", think="none",
        max_actions=5,
    )  # fmt: skip
    grammar = make_grammar("answer", think="none", max_actions=5)
    state = playing.starts(env, params, 1)
    state = jax.tree.map(lambda x: x[0], state)

    @jax.jit
    def written(state):
        said = foreseen_commands(env, state, params, 5)
        reply = codecs.replies(policy.codec, grammar, said, 64)
        text, length = codecs.to_bytes(policy.codec, reply.tokens, reply.length)
        parsed = parse(grammar, view, view.slots(state, params), text, length)
        return parsed, env.target(state, params)

    parsed, goal = jax.device_get(written(state))
    assert parsed.valid_format and parsed.known and parsed.count == goal.count + 1
    step = fetched(env.step_env)
    for action in parsed.actions[: parsed.count - 1]:
        state = step(KEY, state, action, params)[1]
    np.testing.assert_array_equal(state.reads, goal.reads)
    np.testing.assert_array_equal(state.share, goal.share)
    assert parsed.actions[parsed.count - 1] == env.num_actions - 1


def test_rounds_and_layers():
    options = {"nodes": (6, 6), "rounds": 2, "layered": True, "tampered": (1, 1)}
    env, params, reset, step = playing.functions(NAME, **options)
    legal, state = playing.method(env, "legal"), reset(KEY)
    assert not legal(state, params)[number(env, "layer")]  # an empty one
    state = step(state, number(env, "solo 3"))[1]
    assert not legal(state, params)[number(env, "solo 3 <1")]  # of the same layer
    state = step(state, number(env, "layer"))[1]
    state = step(state, number(env, "solo 3 <1"))[1]
    _, state, _, over, info = step(state, number(env, "run"))
    # A tampered constant: wrong, unless a mistake made good for it; then there is another round.
    assert not over and not info["success"] and state.count == 0 and state.round == 1
    assert state.wrong.any() and not state.reads.any()
    # Told by the first result, the expert verifies.
    target = playing.method(env, "target")
    assert target(state, params).kind[0] == VERIFY
    assert target(reset(KEY), params).kind[0] in (SOLO, REFLECT, 1)


def test_density_is_charged_above_the_bound_of_the_level():
    env, params = make(nodes=(6, 6))
    state = playing.functions(NAME, nodes=(6, 6))[2](KEY)
    charge = fetched(lambda state, params: env.charge(6, env.team(state), params))
    step = playing.functions(NAME, nodes=(6, 6))[3]
    for name in ("solo 2", "solo 2 <1", "solo 2 <1 <2"):
        state = step(state, number(env, name))[1]
    # Three of four agents, all edges, a chain: (0.75 + 1 + 0) / 2.5, above 0.6.
    assert float(charge(state, params.replace(dense=2.0))) == pytest.approx(2 * 0.1, abs=1e-6)
    assert float(charge(state, params.replace(dense=2.0, medium=0.7))) == 0.0
    costs = 3 + 6 * 0.1 + 3 * 0.2
    assert float(charge(state, params.replace(price=0.1))) == pytest.approx(0.1 * costs, abs=1e-5)


def test_what_an_agent_is_worth_by_leaving_it_out():
    env, params = make(nodes=(6, 6))
    _, _, reset, step = playing.functions(NAME, nodes=(6, 6))
    params = params.replace(right=1.0, tired=1.0, handed=1.0, price=0.1, reading=0.2)
    # Two who work, one who hears and says nothing of use, one who was dropped, then run.
    names = ["solo 3", "solo 3", "drop 2", "solo 0 <1", "solo 3 <1 <2", "run", "run"]
    actions = np.array([number(env, name) for name in names])
    mask = np.arange(7) < 6
    state = reset(KEY)
    worth, added = fetched(env.edit_marginals)(state, params, actions, mask)
    assert added.tolist() == [True, True, False, True, True, False, False]
    # Without the first agent a guess is left, 1/7 at once and the saved cost; the idle one costs a
    # call and two edges; without the last one the idle agent answers, and guesses.
    first = 1 - 1 / 7 - 0.1 * (1 + 3 * 0.1 + 2 * 0.2)
    last = 1 - 1 / 7 - 0.1 * (1 + 3 * 0.1 + 2 * 0.2)
    expected = [first, 0, 0, -0.1 * (1 + 2 * 0.2), last, 0, 0]
    np.testing.assert_allclose(worth, expected, atol=1e-5)


def test_illegal_edits_are_worth_nothing_and_change_nothing():
    """As replies in words can be: no command, dropping nobody, more nodes than are left."""
    env, params = make(nodes=(6, 6))
    state = playing.functions(NAME, nodes=(6, 6))[2](KEY)
    judged = fetched(env.edit_marginals)

    def marginals(names):
        actions = np.array([-1 if name is None else number(env, name) for name in names])
        return judged(state, params, actions, np.ones(len(names), bool))

    worth, added = marginals(["solo 3", None, "drop 2", "solo 4", "solo 3 <1", "run", None, None])
    plain, _ = marginals(["solo 3", "solo 3 <1", "run", None, None, None, None, None])
    assert added.tolist() == [True, False, False, False, True, False, False, False]
    np.testing.assert_allclose(worth[[0, 4]], plain[:2], atol=1e-6)
    assert plain[0] > 0.1 and np.all(worth[[1, 2, 3, 5, 6, 7]] == 0)
    # Limit eight: a legal edit in the last turn lets the team work, an illegal one does not.
    unsaid = ["solo 3", "solo 3 <1", "solo 0 <1", "drop 3", "solo 0 <1", "drop 3", "solo 0 <1"]
    worth, _ = marginals([*unsaid, "drop 3"])
    np.testing.assert_allclose(worth[:2], plain[:2], atol=1e-6)
    worth, _ = marginals([*unsaid, "drop 4"])
    assert not np.any(worth)


def test_a_node_and_its_edges_are_one_action_whose_log_probabilities_add_up():
    """Role 1 of three, hearing the first of two agents: ln 0.3 + ln 0.8 + ln 0.75."""
    role = jnp.log(jnp.array([0.5, 0.3, 0.2]))
    edge = jnp.log(jnp.array([[0.2, 0.8], [0.75, 0.25]]))
    joint = role[:, None, None] + edge[0][None, :, None] + edge[1][None, None, :]
    assert float(jax.nn.log_softmax(joint.reshape(-1))[1 * 4 + 2]) == pytest.approx(-1.714798)


def test_the_last_edit_of_a_round_lets_the_team_work():
    """Nobody says `run`: the team works as it is after the last edit, in each round."""
    env, params, reset, step = playing.functions(NAME, nodes=(6, 6), rounds=2, tampered=(1, 1))
    state = reset(KEY)
    names = ["solo 3", "solo 3 <1", "drop 2", "solo 3 <1"] * 2
    for name in names:
        assert state.round == 0
        _, state, reward, over, _ = step(state, number(env, name))
    # The eighth edit completes a valid team. It believes the tampered constant, and is wrong.
    assert state.round == 1 and state.count == 0 and not over
    for name in ("solo 1", "solo 1", *(["drop 2", "solo 1"] * 3)):
        _, state, reward, over, _ = step(state, number(env, name))
    assert over and state.round == 2
    assert REASONS[int(state.reason)] != "valid" and float(reward) == params.invalid
