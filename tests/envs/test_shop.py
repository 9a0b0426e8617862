"""Shop: a shelf of eight products by hand, drawn catalogues, the expert, and both wordings."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import playing
import pytest

from envs.shop import catalogue as shop_catalogue
from envs.shop import rules
from envs.shop.catalogue import ATTRIBUTES, COLOURS, NOUNS, SIZES, VOCABULARY, Catalogue, Goal
from envs.shop.env import BOUGHT, FEATURES, PAPER, RESULTS
from envs.text import join

functions = functools.partial(playing.functions, "Shop-v1")
teller = functools.partial(playing.teller, "Shop-v1")
reader = functools.partial(playing.reader, "Shop-v1")


def product(noun, attributes, price, colours, sizes):
    """(kind, offer) in the layout that the module's docstring states."""
    kind = NOUNS.index(noun) | price << 24
    for at, attribute in zip((6, 12, 18), attributes.split(), strict=True):
        kind |= ATTRIBUTES.index(attribute) << at
    offer = sum(1 << COLOURS.index(c) for c in colours.split())
    return kind, offer | sum(1 << 12 + SIZES.index(s) for s in sizes.split())


# Two families: shirts whose hidden attribute is "thin", and mugs.
SHELF = [
    product("shirt", "warm silk thin", 23, "red blue", "s m"),
    product("mug", "warm glass tin", 9, "red green", "s l"),
    product("shirt", "warm silk dry", 23, "red blue", "s m"),
    product("shirt", "warm silk thin", 23, "pink grey", "s m"),
    product("shirt", "warm silk thin", 70, "red blue", "s m"),
    product("mug", "plain glass tin", 9, "red green", "s l"),
    product("mug", "warm glass tin", 9, "teal lime", "s l"),
    product("mug", "warm glass tin", 53, "red green", "s l"),
]
BY_HAND = {"catalogue_seed": None, "products": 8, "items_per_page": 3}


def by_hand(**options):
    """(env, params, state at the start, step) of a goal on the shelf: a shirt, warm and thin."""
    env, params, reset, step = functions(**BY_HAND, **options)
    kind, offer = np.array(SHELF, np.uint32).T
    code = functools.partial(jnp.array, dtype=jnp.uint8)
    goal = Goal(
        target=code(0),
        noun=code(NOUNS.index("shirt")),
        attributes=code(sorted(map(ATTRIBUTES.index, ("warm", "thin")))),
        colour=code(COLOURS.index("blue")),
        size=code(SIZES.index("m")),
        cap=code(40),
    )
    state = reset(jax.random.key(0)).replace(
        catalogue=Catalogue(jnp.asarray(kind), jnp.asarray(offer)), goal=goal
    )
    return env, params, state, step


def play(env, step, state, *names):
    """Takes the actions of these names: (state, observation, total reward)."""
    total = 0.0
    for name in names:
        observation, state, reward, _, info = step(state, env.action_names.index(name))
        assert bool(info["valid"]), name
        total += float(reward)
    return state, np.asarray(observation), total


def naive(catalogue, words):
    """Places by sorting: [product, ...] that match, best first."""
    kind, offer = np.asarray(catalogue.kind), np.asarray(catalogue.offer)
    documents = []
    for k, o in zip(kind.tolist(), offer.tolist(), strict=True):
        has = {NOUNS[k & 63], ATTRIBUTES[k >> 6 & 63], ATTRIBUTES[k >> 12 & 63]}
        has |= {v for i, v in enumerate(COLOURS + SIZES) if o >> i & 1}
        documents.append(has)
    score = np.zeros(len(kind), int)
    for word in words:
        found = np.array([word in has for has in documents])
        df = found.sum()
        score += found * int(np.round(64 * np.log1p((len(kind) - df + 0.5) / (df + 0.5))))
    order = sorted(range(len(kind)), key=lambda p: (-score[p], p))
    return [p for p in order if score[p] > 0]


def test_catalogue_words():
    assert len(set(VOCABULARY)) == len(VOCABULARY) == 64 + 48 + 12 + 8
    assert max(map(len, VOCABULARY)) <= 6
    # Numbers of queries must fit in 31 bits.
    assert (len(VOCABULARY) + 1) ** rules.MAX_WORDS + 1000 < 2**31


def test_search_of_the_shelf():
    env, params, state, step = by_hand()
    state, seen, _ = play(env, step, state, "search")
    # shirt: 4 of 8; warm: 7 of 8; thin stands in no title. idf by hand, times 64 and rounded.
    shirt, warm = round(64 * np.log(1 + 4.5 / 4.5)), round(64 * np.log(1 + 1.5 / 7.5))
    assert (shirt, warm) == (44, 12)
    # Shirts (0, 2, 3, 4) have both, mugs 1, 6, 7 are warm, mug 5 is not found.
    assert int(state.found) == 7
    np.testing.assert_array_equal(state.listed, [0, 2, 3])
    noun, warm, silk = (NOUNS.index("shirt"), ATTRIBUTES.index("warm"), ATTRIBUTES.index("silk"))
    row = [noun + 1, warm + 1, silk + 1, 23]
    thin = ATTRIBUTES.index("thin")
    head = [RESULTS, 1, 7, noun + 1, warm + 1, thin + 1, 2, 3, 4]
    np.testing.assert_array_equal(seen, [*head, *row * 3, *[0] * 14])
    state, seen, _ = play(env, step, state, "next")
    np.testing.assert_array_equal(state.listed, [4, 1, 6])
    state, *_ = play(env, step, state, "next")
    np.testing.assert_array_equal(state.listed, [7, -1, -1])
    # One page beyond is empty, and there is none beyond that.
    state, *_ = play(env, step, state, "next", "next")
    np.testing.assert_array_equal(state.listed, [-1, -1, -1])
    state, *_ = play(env, step, state, "prev")
    np.testing.assert_array_equal(state.listed, [7, -1, -1])


@pytest.mark.parametrize(
    ("clicks", "points"),
    [
        # Attributes warm and thin, colour, size, price: 5 of 5.
        (["1", "blue", "m"], 5),
        (["1", "red", "blue", "s", "m"], 5),
        (["1"], 3),
        (["1", "red", "m"], 4),
        # The sibling without the hidden attribute, the one in other colours, the dear one.
        (["2", "blue", "m"], 4),
        (["3", "m"], 4),
        (["next", "1", "blue", "m"], 4),
        # A mug is no shirt, however warm.
        (["next", "2", "s"], 0),
        # Looking around changes nothing, but leaving the product forgets its options.
        (["1", "blue", "features", "prev", "m", "description", "prev"], 5),
        (["1", "blue", "m", "prev", "1"], 3),
    ],
)
def test_score(clicks, points):
    env, params, start, step = by_hand()
    state, _, reward = play(env, step, start, "search", *clicks, "buy")
    assert reward == pytest.approx(points / 5)
    assert int(state.page) == BOUGHT and bool(env.is_terminated(state, params))
    assert bool(env.is_success(state, params)) == (points == 5)


def test_success_only():
    env, _, start, step = by_hand(success_only=True)
    assert play(env, step, start, "search", "1", "blue", "m", "buy")[2] == 10
    assert play(env, step, start, "search", "1", "blue", "s", "buy")[2] == 0


def test_options_hide_from_the_page_but_not_from_the_state():
    env, params, state, step = by_hand()
    before, seen, _ = play(env, step, state, "search", "1")
    after, seen_after, _ = play(env, step, before, "blue")
    np.testing.assert_array_equal(seen, seen_after)
    describe = teller(**BY_HAND)
    assert describe(before) == describe(after)
    assert "blue" in env.render(after, params).split("\n")[-1]

    def same(of, a, b):
        anchor = playing.method(env, "fingerprint", of=of)
        return np.array_equal(anchor(a, params), anchor(b, params))

    assert same("observation", before, after) and not same("state", before, after)
    # Changing one's mind leads back, and so does looking at the features.
    other, *_ = play(env, step, after, "red", "features", "prev", "blue")
    assert same("state", after, other)
    home, *_ = play(env, step, after, "back")
    assert same("state", home, state)


def test_what_a_page_offers():
    env, params, state, step = by_hand()

    def legal(state):
        offered = np.asarray(playing.method(env, "legal")(state, params))
        return {n for n, ok in zip(env.action_names, offered, strict=True) if ok}

    inside = {"prev", "back"}
    shops = inside | {"description", "features", "reviews", "buy"}
    assert legal(state) == {"search"}
    state, *_ = play(env, step, state, "search")
    assert legal(state) == {"1", "2", "3", "next", "back"}
    last, *_ = play(env, step, state, "next", "next")
    assert legal(last) == {"1", "next", *inside}
    state, *_ = play(env, step, state, "3")
    assert legal(state) == shops | {"pink", "grey", "s", "m"}
    features, *_ = play(env, step, state, "features")
    assert int(features.page) == FEATURES and legal(features) == inside
    _, refused, reward, _, info = step(state, env.action_names.index("blue"))
    assert not bool(info["valid"]) and float(reward) == 0
    chex.assert_trees_all_equal(refused.replace(time=state.time), state)


def test_results_against_sorting():
    products = 96
    catalogue = shop_catalogue.constant(1, products, 2)
    rng = np.random.default_rng(0)

    @jax.jit
    @jax.vmap
    def find(words):
        results = rules.search(catalogue, words)
        places = jax.vmap(rules.product_at, in_axes=(None, 0))(results, jnp.arange(products))
        back = jax.vmap(rules.place_of, in_axes=(None, 0))(results, jnp.arange(products))
        return results.matches, places, back

    # Words that occur, unknown ones, repeated ones, and fewer than four.
    some = [*catalogue.kind[:8] & 63, *range(64, 80), *range(112, 132)]
    queries = rng.choice(some, (100, 4))
    queries[::3, 2:] = -1
    queries[::5, 1] = queries[::5, 0]
    found = jax.tree.map(np.asarray, find(queries))
    for words, matches, places, back in zip(queries, *found, strict=True):
        expected = naive(catalogue, [VOCABULARY[w] for w in words if w >= 0])
        assert int(matches) == len(expected)
        np.testing.assert_array_equal(places[: len(expected)], expected)
        place = np.full(products, -1)
        place[expected] = np.arange(len(expected))
        np.testing.assert_array_equal(back, place)


@pytest.mark.parametrize("options", [1, 2])
def test_families(options):
    catalogue = shop_catalogue.constant(3, 64, options)
    uniforms = np.random.default_rng(3).random(shop_catalogue._num_uniforms(64), np.float32)
    on_device = jax.jit(lambda u: shop_catalogue.build(u, 64, options))(uniforms)
    chex.assert_trees_all_equal(jax.tree.map(np.asarray, on_device), catalogue)
    product = shop_catalogue.unpack(catalogue.kind)
    colours, sizes = catalogue.offer & 0xFFF, catalogue.offer >> 12
    for mask, fewest in ((colours, 2), (sizes, 2 * (options == 2))):
        counts = [int(m).bit_count() for m in mask]
        assert fewest <= min(counts) <= max(counts) <= 4 * (fewest > 0)
    assert product.price.min() >= 5 and product.price.max() <= 99
    for noun in np.unique(product.noun):
        family = np.flatnonzero(product.noun == noun)
        assert len(family) == 4
        traits = {p: {int(a[p]) for a in product.attributes} for p in family}
        assert all(len(t) == 3 for t in traits.values())

        def differences(p, q, traits=traits):
            return (
                len(traits[p] - traits[q]),
                int(colours[p] != colours[q]) + int(sizes[p] != sizes[q]),
                int(product.price[p] != product.price[q]),
            )

        # One of the four is the base: the others differ from it in one thing each.
        kinds = {p: sorted(differences(p, q) for q in family if q != p) for p in family}
        base = [p for p in family if kinds[p] == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]]
        assert len(base) == 1
        dear = max(family, key=lambda p: product.price[p])
        assert product.price[dear] > 10 * (product.price[base[0]] // 10 + 4)
        other = next(p for p in family if differences(base[0], p) == (0, 1, 0))
        apart = (colours[base[0]] & colours[other]) == 0 or (sizes[base[0]] & sizes[other]) == 0
        assert apart


@functools.cache
def goals(split):
    """4096 goals of the default catalogue, as NumPy."""
    catalogue = shop_catalogue.constant(0, 64, 2)
    keys = jax.random.split(jax.random.key(5), 4096)
    draw = jax.vmap(lambda key: shop_catalogue.draw_goal(key, catalogue, 2, split))
    return catalogue, jax.tree.map(np.asarray, jax.jit(draw)(keys))


def test_goals_can_be_met_by_their_product():
    catalogue, goal = goals("seen")
    kind, offer = catalogue.kind[goal.target], catalogue.offer[goal.target]
    product = shop_catalogue.unpack(kind)
    traits = np.stack(product.attributes, axis=1)
    assert np.all((goal.attributes[:, :, None] == traits[:, None]).any(2))
    assert np.all(goal.attributes[:, 0] < goal.attributes[:, 1])
    assert np.all(offer >> goal.colour & 1) and np.all(offer >> 12 >> goal.size & 1)
    np.testing.assert_array_equal(np.bincount(goal.target, minlength=64) > 0, True)
    # The larger of two out of four multiples of 10 above the price.
    above = goal.cap // 10 - product.price // 10
    share = np.bincount(above, minlength=5) / len(above)
    np.testing.assert_allclose(share, [0, 0, 1 / 6, 2 / 6, 3 / 6], atol=0.03)
    # About two goals in three ask for the attribute that only the features page tells.
    hidden = (goal.attributes == traits[:, 2:]).any(1)
    assert 0.6 < hidden.mean() < 0.73


def test_splits_are_disjoint():
    (_, seen), (_, unseen) = goals("seen"), goals("unseen")
    pairs = [
        {(int(t), *a) for t, a in zip(g.target, g.attributes, strict=True)} for g in (seen, unseen)
    ]
    assert not pairs[0] & pairs[1]
    assert (len(pairs[0]), len(pairs[1])) == (2 * 64, 64)


@functools.cache
def expert_episodes(**options):
    """(success, length, return, whether all were legal) of the expert from 512 tasks."""
    env, params, *_ = functions(**options)
    history = playing.episodes(env, params, 512, int(params.max_steps_in_episode), seed=11)
    total, valid = history.reward.sum(axis=1), history.info["valid"].all(axis=1)
    return history.info["success"][:, -1], history.last.time, total, valid


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"options": 1, "catalogue_seed": None, "products": 32},
        {"split": "unseen", **PAPER},
    ],
    ids=str,
)
def test_expert(options):
    success, length, total, valid = expert_episodes(**options)
    assert valid.all() and success.mean() >= 0.99
    np.testing.assert_array_equal(total[success], 1.0)
    shortest = 3 + options.get("options", 2)
    assert length.min() == shortest and length.mean() < shortest + 1.2


@functools.cache
def random_states(count=24):
    """States of random legal play that never buys, stacked [episodes, count]."""
    env, params, *_ = functions()
    params = params.replace(max_steps_in_episode=99)
    buys = np.array([name == "buy" for name in env.action_names])

    def policy(key, state):
        legal = env.legal(state, params) & ~buys
        return jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))

    return playing.episodes(env, params, 8, count, policy, seed=2).after


@pytest.mark.parametrize("wording", ["compact", "faithful"])
def test_text_says_what_the_array_says(wording):
    env, params, _, _ = functions(wording=wording)
    view = env.view

    @jax.jit
    @jax.vmap
    def look(state):
        return view.describe(state, params), env.observe(state, params)

    states = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), random_states())
    fragments, observations = look(states)
    said = [join(view.lexicon, row) for row in np.asarray(fragments)]
    seen = [bytes(row) for row in np.asarray(observations)]
    assert len(set(seen)) > 50
    if wording == "faithful":
        # It tells two products by their numbers that are alike on the page of the results.
        assert len(set(zip(said, seen, strict=True))) == len(set(said))
    else:
        assert len(set(zip(said, seen, strict=True))) == len(set(said)) == len(set(seen))
    assert max(map(len, said)) <= view.max_bytes
    assert np.count_nonzero(fragments, axis=1).max() <= view.max_fragments


def test_compact_words():
    env, _, state, step = by_hand()
    describe = teller(**BY_HAND)
    goal = "want warm thin shirt blue m <$40\n"
    assert describe(state) == goal + "search"
    state, *_ = play(env, step, state, "search")
    rows = "".join(f"\n{i} warm silk shirt $23" for i in (1, 2, 3))
    assert describe(state) == goal + "page 1 found 7" + rows
    state, *_ = play(env, step, state, "2")
    assert describe(state) == goal + "item warm silk shirt $23 red blue s m"
    for name, text in [
        ("features", "features warm silk dry"),
        ("description", "description clothing"),
        ("reviews", "reviews none"),
    ]:
        page, *_ = play(env, step, state, name)
        assert describe(page) == goal + text
    state, *_ = play(env, step, state, "buy")
    assert describe(state) == goal + "bought"


def test_faithful_words():
    env, _, state, step = by_hand(wording="faithful")
    options = {**BY_HAND, "wording": "faithful"}
    describe, parsed = teller(**options), reader(**options)
    goal = (
        "Instruction: [SEP] Find me warm, thin shirt with color: blue, and size: m, "
        "and price lower than 40.00 dollars [SEP] "
    )
    assert describe(state) == f"WebShop [SEP] {goal}Search"
    state, *_ = play(env, step, state, "search", "next")
    pieces = describe(state).split(" [SEP] ")
    assert pieces[2:6] == ["Back to Search", "Page 2 (Total results: 7)", "< Prev", "Next >"]
    assert pieces[7:9] == ["Warm Silk Shirt", "$70.0"] and len(pieces) == 6 + 3 * 3
    assert len(pieces[6]) == 10 and parsed(f"click[{pieces[6].lower()}]", state) == 1
    state, *_ = play(env, step, state, "1")
    assert describe(state) == goal + (
        "Back to Search [SEP] < Prev [SEP] color [SEP] red [SEP] blue [SEP] size [SEP] s [SEP] m "
        "[SEP] Warm Silk Shirt [SEP] Price: $70.0 [SEP] Rating: N.A. [SEP] Description [SEP] "
        "Features [SEP] Reviews [SEP] Buy Now"
    )
    assert parsed("click[Buy Now]", state) == env.num_actions - 1
    state, *_ = play(env, step, state, "features")
    assert describe(state) == goal + "Back to Search [SEP] < Prev [SEP] Warm [SEP] Silk [SEP] Thin"


@pytest.mark.parametrize("wording", ["compact", "faithful"])
def test_free_search(wording):
    env, params, state, step = by_hand(wording=wording)
    parsed = reader(**BY_HAND, wording=wording)
    own = play(env, step, state, "search")[0]
    # The order of words does not matter, nor do unknown ones ("thin," has a comma) and capitals.
    for reply in ("search[warm thin shirt]", "Search[a Shirt that is thin and warm]"):
        action = parsed(reply, state)
        assert action >= env.num_actions
        _, found, _, _, info = step(state, action)
        assert bool(info["valid"])
        chex.assert_trees_all_equal(found, own)
    assert parsed("search[thin, shirt]", state) == parsed("search[shirt]", state)
    _, mugs, *_ = step(state, parsed("search[green mug]", state))
    # green (3 of 8) and mug (4 of 8): mugs 1, 5, 7 have both, mug 6 the noun alone.
    np.testing.assert_array_equal(mugs.listed, [1, 5, 7])
    assert int(mugs.found) == 4
    # Unknown words alone are no search, and on other pages there is no search bar.
    assert not bool(step(state, parsed("search[nothing here]", state))[4]["valid"])
    assert not bool(step(own, parsed("search[mug]", own))[4]["valid"])


def test_constant_and_drawn_catalogues():
    assert functions()[2](jax.random.key(0)).catalogue is None
    _, _, other, _ = functions(options=1, catalogue_seed=None, products=32)
    drawn = [other(jax.random.key(seed)).catalogue.kind for seed in range(4)]
    assert len({bytes(np.asarray(kind)) for kind in drawn}) == 4
    constants = [shop_catalogue.constant(seed, 64, 2).kind for seed in (0, 1)]
    assert isinstance(constants[0], np.ndarray) and np.any(constants[0] != constants[1])
