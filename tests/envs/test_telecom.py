"""Telecom: tau2-bench's tools on its recorded tasks, who knows what, users, ends, the manual."""

import functools

import jax
import numpy as np
import pytest
import recorded
from programs import fetched

import envs
from envs.telecom import rules
from envs.telecom.env import CLOSE, DESK, NOTHING, PERSONAS, TRANSFER, USER
from envs.text import join

# 33 of tau2-bench's generated telecom tasks: how each is set up, then its repairs in order with the
# outputs of the phone's checks and the task's assertions after each, recorded by running its tools.
EPISODES = recorded.episodes("tau2_telecom")
KEY = jax.random.key(0)
CALLS = {"service_issue": rules.SERVICE, "mobile_data_issue": rules.DATA, "mms_issue": rules.MMS}
TOOLS = {
    "toggle_airplane_mode": "airplane",
    "reseat_sim_card": "reseat sim",
    "toggle_data": "data",
    "toggle_roaming": "roaming",
    "toggle_data_saver_mode": "saver",
    "set_network_mode_preference": "mode 5g",
    "reset_apn_settings": "reset apn",
    "reboot_device": "reboot",
    "toggle_wifi_calling": "wifi calling",
    "disconnect_vpn": "vpn off",
    "make_payment": "pay",
    "send_payment_request": "send request",
    "resume_line": "resume",
    "refuel_data": "refuel",
    "enable_roaming": "enable roaming",
}
use, search, facts = map(fetched, (rules.use, rules.search, rules.facts))
speed, data_works = fetched(rules.speed), fetched(rules.data_works)
can_send_mms, solved = fetched(rules.can_send_mms), fetched(rules.solved)


@functools.cache
def made(**options):
    env, params = envs.make("Telecom-v1", **options)
    return env, params, fetched(env.step_env)


@functools.cache
def asked(method, **options):
    """A method of the environment that `made` makes."""
    return fetched(getattr(made(**options)[0], method))


@functools.cache
def drawn(number, **options):
    """First states, of params."""
    env = made(**options)[0]
    return fetched(
        lambda params: jax.vmap(env.initial, (0, None))(jax.random.split(KEY, number), params)
    )


def set_up(calls):
    """The world after tau2-bench's set-up functions."""
    world = rules.healthy()
    yes, no = np.array(True), np.array(False)
    faults = {
        "turn_airplane_mode_on": {"airplane": yes},
        "unseat_sim_card": {"sim_missing": yes},
        "lock_sim_card": {"sim_locked": yes},
        "break_apn_settings": {"apn_broken": yes},
        "break_apn_mms_setting": {"mms_url_missing": yes},
        "break_vpn": {"vpn": np.int8(rules.VPN_POOR)},
        "turn_data_off": {"data": no},
        "turn_data_saver_mode_on": {"saver": yes},
        "turn_roaming_on": {"roaming": yes},
        "turn_roaming_off": {"roaming": no},
        "enable_roaming": {"line_roaming": yes},
        "disable_roaming": {"line_roaming": no},
        "set_network_mode_preference": {"mode": np.int8(3)},
        "set_wifi_calling": {"wifi_calling": yes, "mms_over_wifi": yes},
        "set_user_location": {"abroad": yes},
        "refuel_data": {"refuelled": np.int8(20)},
        "suspend_line_for_overdue_bill": {"suspended": yes, "bill": np.int8(rules.OVERDUE)},
    }
    quiet = {"break_apn_mms_setting", "break_vpn", "turn_data_saver_mode_on", "set_wifi_calling"}
    quiet |= {"enable_roaming", "disable_roaming", "set_user_location", "refuel_data"}
    quiet |= {"suspend_line_for_overdue_bill", "remove_app_permission", "set_data_usage"}
    quiet |= {"set_user_info"}
    for name, arguments in calls:
        if name == "set_data_usage":
            world = world.replace(excess=np.int8(round(10 * arguments["data_used_gb"]) - 150))
        elif name == "remove_app_permission":
            world = world.replace(**{arguments["permission"]: no})
        else:
            world = world.replace(**faults.get(name, {}))
        if arguments.get("contract_ended"):
            world = world.replace(contract_ended=yes)
        if name not in quiet:
            world = search(world)
    return world


def known(world):
    """Facts in words."""
    values = facts(world) - 1
    return {name: rules.FACTS[name][v] for name, v in zip(rules.FACTS, values, strict=True)}


def check_probe(world, probe):
    """The phone's checks say what tau2-bench's say."""
    facts = known(world)
    net = dict(line.split(": ") for line in probe["net"].split("\n"))
    sims = {"active": "ok", "missing": "missing", "locked_pin": "locked"}
    signals = ("none", "poor", "fair", "good", "excellent")
    assert facts["airplane"] == net["Airplane Mode"].lower()
    assert facts["sim"] == sims[net["SIM Card Status"]]
    assert (facts["network"] == "none") == (net["Cellular Connection"] == "no_service")
    assert facts["network"] == net["Cellular Network Type"].lower()
    assert signals[int(world.signal)] == net["Cellular Signal"]
    assert (facts["data"] == "on") == (net["Mobile Data Enabled"] == "Yes")
    assert (facts["roaming"] == "on") == (net["Data Roaming Enabled"] == "Yes")
    if "failed" in probe["speed"]:
        assert facts["speed"] == "none"
    else:
        np.testing.assert_allclose(speed(world), float(probe["speed"].split()[3]), atol=0.006)
        assert f"({facts['speed']})" in probe["speed"].lower()
    assert (facts["mms"] == "yes") == (" can send" in probe["mms"])
    assert f"mode is {facts['saver']}" in probe["restr"].lower()
    assert (facts["vpn"] == "poor") == ("POOR" in probe["vpn"])
    assert (facts["vpn"] == "off") == ("OFF" in probe["vpn"])
    assert probe["wificall"].endswith(f"turned {facts['wifi calling'].upper()}.")
    modes = {"5g": "4g_5g_preferred", "2g": "2g_only"}
    assert probe["mode"].endswith(modes[facts["mode"]])


def assertion(world, name, arguments):
    """tau2-bench's assertions."""
    expected = arguments.get("expected_status")
    return {
        "assert_service_status": lambda: (world.network > 0) == (expected == "connected"),
        "assert_no_overdue_bill": lambda: world.bill in (rules.NO_BILL, rules.PAID),
        "assert_mobile_data_status": lambda: data_works(world) == expected,
        "assert_internet_speed": lambda: speed(world) >= arguments["expected_speed"],
        "assert_can_send_mms": lambda: can_send_mms(world) == expected,
        "assert_data_refueling_amount": lambda: (
            world.refuelled == 10 * arguments["expected_amount"]
        ),
    }[name]()


@pytest.mark.parametrize("number", range(len(EPISODES)))
def test_recorded_tasks(number):
    episode = EPISODES[number]
    world = set_up(episode["init"])
    kind = np.int32(CALLS[episode["id"][1:].split("]")[0]])
    moments = [{"probe": episode["probe0"], "asserts": episode["assert0"]}, *episode["steps"]]
    for moment in moments:
        name = moment.get("name")
        if name == "grant_app_permission":
            tool = f"grant {moment['args']['permission']}"
        else:
            tool = TOOLS.get(name)
        if tool is not None:
            world = use(world, np.int32(rules.NUMBER[tool]))
        else:
            assert name in (None, "transfer_to_human_agents")
        check_probe(world, moment["probe"])
        found = [bool(assertion(world, *told)) for told in episode["assertions"]]
        assert found == moment["asserts"]
    # The repairs solve the task, unless it is one that can only be handed on.
    handed_on = moments[-1]["name"] == "transfer_to_human_agents"
    assert bool(solved(world, kind)) != handed_on


def starts(number, **options):
    return drawn(number, **options)(made(**options)[1])


def test_tasks_have_as_many_faults_as_asked_for():
    _, params, _ = made()
    all_solved = fetched(jax.vmap(rules.solved))
    for few, many, hopeless in ((1, 1, 0.0), (2, 4, 0.0), (2, 3, 1.0)):
        limits = params.replace(min_faults=few, max_faults=many, hopeless=hopeless)
        states = drawn(512)(limits)
        world = states.world
        groups = [
            world.airplane, world.sim_missing, world.sim_locked, world.apn_broken, world.suspended,
            world.abroad, ~world.data, world.excess > 0, world.saver, world.mode > 0,
            world.vpn > 0, world.wifi_calling, world.mms_url_missing, ~(world.sms & world.storage),
        ]  # fmt: skip
        count = np.stack(groups).sum(axis=0)
        assert count.min() == few and count.max() == many
        assert (np.asarray(states.hopeless) == (hopeless == 1)).all()
        assert not all_solved(world, states.kind).any()
        lost = world.sim_locked | world.contract_ended | (world.excess >= 20)
        np.testing.assert_array_equal(lost, states.hopeless)
        assert set(np.asarray(states.kind)) == {0, 1, 2}


def test_each_knows_only_what_it_was_shown():
    env, params, step = made(user="learned")
    state = jax.tree.map(lambda x: x[0], starts(1, user="learned"))
    state = state.replace(
        kind=np.int32(rules.DATA),
        world=search(rules.healthy().replace(saver=np.array(True))),
    )
    tool = rules.NUMBER
    for name in ("look line", "check saver", "check saver", "look usage"):
        _, state, *_ = step(KEY, state, np.int32(tool[name]), params)
    view, observe = env.view, asked("observe", user="learned")
    describe = fetched(view.describe)
    desk, user = (join(view.lexicon, describe(state, params, s)) for s in (0, 1))
    assert "\nsaver on" in desk and "\nline active" in desk and "\nusage within" in desk
    assert "\nsaver on" in user and "line" not in user and "usage" not in user
    # Anything else may be otherwise: they see the same.
    world = state.world
    hidden = state.replace(
        hopeless=~state.hopeless,
        world=world.replace(
            airplane=~world.airplane, vpn=np.int8(2), network=np.int8(0), bill=np.int8(1)
        ),
    )
    np.testing.assert_array_equal(observe(state, params), observe(hidden, params))
    for seat in (DESK, USER):
        texts = [describe(s, params, seat) for s in (state, hidden)]
        np.testing.assert_array_equal(*texts)
    # What only the desk has looked up, the user does not see.
    other = state.replace(told=np.ones_like(state.told))
    seen = [observe(s, params) for s in (state, other)]
    np.testing.assert_array_equal(seen[0][USER], seen[1][USER])
    assert (seen[0][DESK] != seen[1][DESK]).any()
    # What was known stays as last seen when the world has moved on.
    moved = state.replace(world=world.replace(saver=~world.saver))
    np.testing.assert_array_equal(observe(moved, params), observe(state, params))


def test_legality_tells_nothing():
    env, params, _ = made(user="learned")
    states = starts(64, user="learned")
    legal_of = fetched(jax.vmap(env.legal, (0, None)))
    legal = legal_of(states, params)
    assert (legal == legal[0]).all() and legal[0].sum() == len(rules.TOOLS) + 2
    waiting = states.replace(pending=np.ones(64, bool))
    legal = legal_of(waiting, params)
    assert (legal == legal[0]).all() and legal[0].sum() == rules.USER_TOOLS + 1


def test_a_learned_user_moves_when_asked():
    env, params, step = made(user="learned")
    state = jax.tree.map(lambda x: x[0], starts(1, user="learned"))
    reboot, check = rules.NUMBER["reboot"], rules.NUMBER["check network"]
    _, state, *_ = step(KEY, state, np.int32(reboot), params)
    acting, expert = (asked(method, user="learned") for method in ("acting", "expert"))
    assert acting(state, params).tolist() == [False, True] and int(state.asked) == reboot + 1
    assert int(expert(state, params)) == reboot and not state.told.any()
    _, after, *_ = step(KEY, state, np.int32(check), params)
    assert acting(after, params).tolist() == [True, False] and int(after.did) == check + 1
    assert after.told[rules.FACT["airplane"]] > 0 and after.seen[rules.FACT["airplane"]] > 0
    _, after, *_ = step(KEY, state, np.int32(NOTHING), params)
    assert int(after.did) == NOTHING + 1 and not after.told.any()


def test_personas_follow_as_often_as_stated():
    env, params, _ = made(**PERSONAS["hard"])
    assert (float(params.follow), float(params.precise)) == (0.7, 0.8)
    state = jax.tree.map(lambda x: x[0], starts(1))
    step = fetched(jax.vmap(env.step_env, (0, None, None, None)))
    keys = jax.random.split(KEY, 20_000)
    reboot, check = rules.NUMBER["reboot"], rules.NUMBER["check network"]
    did = np.asarray(step(keys, state, np.int32(reboot), params)[1].did) - 1
    np.testing.assert_allclose((did == NOTHING).mean(), 0.3, atol=0.015)
    # Of any repair one in 13 is the right one by chance.
    np.testing.assert_allclose((did == reboot).mean(), 0.7 * (0.8 + 0.2 / 13), atol=0.015)
    assert did[did != NOTHING].max() < len(rules.REPAIRS)
    after = step(keys, state, np.int32(check), params)[1]
    right = np.asarray(after.did) - 1 == check
    np.testing.assert_allclose((after.told[right, rules.FACT["sim"]] > 0).mean(), 0.8, atol=0.015)
    # Office tools do not depend on the user.
    after = step(keys, state, np.int32(rules.NUMBER["look line"]), params)[1]
    assert (after.told[:, rules.FACT["line"]] > 0).all() and (after.did == 0).all()


def test_ends():
    env, params, step = made()
    states = starts(64)
    for hopeless in (False, True):
        found = int(np.flatnonzero(np.asarray(states.hopeless) == hopeless)[0])
        state = jax.tree.map(lambda x, i=found: x[i], states)
        for action, good in ((CLOSE, False), (TRANSFER, hopeless)):
            _, _, reward, terminated, info = step(KEY, state, np.int32(action), params)
            assert bool(terminated) and reward.tolist() == [good, good]
            assert info["success"].tolist() == [good, good]
        repaired = state.replace(world=search(rules.healthy()))
        _, _, reward, *_ = step(KEY, repaired, np.int32(CLOSE), params)
        assert reward.tolist() == [not hopeless] * 2


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({}, 1.0),
        ({"user": "solo", "max_faults": 9}, 1.0),
        ({"user": "learned", "max_faults": 6}, 1.0),
        (dict(PERSONAS["easy"]), 0.98),
        (dict(PERSONAS["hard"]), 0.95),
    ],
)
def test_the_manual_solves_the_tasks(options, least):
    env, params, _ = made(**options)

    def play(key):
        def step(state, key):
            out = env.step_env(key, state, env.expert(state, params), params)
            return out[1], out[2][0]

        keys = jax.random.split(key, int(params.max_steps_in_episode))
        return jax.lax.scan(step, env.initial(key, params), keys)[1].sum()

    rewards = jax.jit(jax.vmap(play))(jax.random.split(KEY, 512))
    assert rewards.mean() >= least
