"""Shop-v1: search a catalogue, look at pages, choose options and buy (WebShop's pages)."""

import dataclasses
import types
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs.environment import Environment, EnvParams, EnvState
from envs.shop import catalogue as shop_catalogue
from envs.shop import rules
from envs.shop.catalogue import COLOURS, SIZES, Catalogue, Goal
from envs.text import join

SEARCH, RESULTS, ITEM, DESCRIPTION, FEATURES, REVIEWS, BOUGHT = range(7)
# Elements that can be clicked besides items and options, in order.
BUTTONS = ("next", "prev", "back", "description", "features", "reviews", "buy")

_LEADS_TO = {"back": SEARCH, "description": DESCRIPTION, "features": FEATURES}
_LEADS_TO |= {"reviews": REVIEWS, "buy": BOUGHT}
# (first, count) of the values of each option among all values.
_RANGES = ((0, len(COLOURS)), (len(COLOURS), len(SIZES)))

# WebShop's sizes, for `envs.make("Shop-v1", **shop.PAPER)`: 10 results per page, at most 50 of
# them, and verl-agent's 15 steps. 256 products are the maximum; WebShop sells 1.18 million.
PAPER = types.MappingProxyType(
    {"products": 256, "items_per_page": 10, "max_results": 50, "max_steps_in_episode": 15}
)


@struct.dataclass
class ShopState(EnvState):
    """One visit to the shop; fields that the current page does not use are 0.

    catalogue: drawn for this episode, or None if it is constant. goal: the product to buy.
    page u8[]: SEARCH to BOUGHT. query u8[4]: words of the search + 1. found u8[]: how many results
    it has. sheet u8[]: page of the results, from 0. listed i16[items], kinds u32[items]: the
    products on it, -1 and 0 for none. item u8[], kind, offer u32[]: the open product. chosen
    u8[options]: value of each option + 1, 0 for none. score f32[]: the graded reward, once bought.
    """

    catalogue: Catalogue | None
    goal: Goal
    page: jax.Array
    query: jax.Array
    found: jax.Array
    sheet: jax.Array
    listed: jax.Array
    kinds: jax.Array
    item: jax.Array
    kind: jax.Array
    offer: jax.Array
    chosen: jax.Array
    score: jax.Array


@struct.dataclass
class ShopParams(EnvParams):
    """The base class' parameters with a limit of 10 steps."""

    max_steps_in_episode: int = 10


@dataclasses.dataclass(frozen=True)
class Shop(Environment):
    """A shop of P `products` that differ in noun, three attributes, options and price.

    The goal names a noun, two attributes, a value of each option (colour; size with `options=2`)
    and a price cap. Pages: search; results (`items_per_page` per page, at most `max_results`); a
    product with its options; its description, features and reviews. A product's third attribute is
    shown on its features page only. As in WebShop's text, pages do not show the chosen options:
    anchors with of="observation" merge turns that of="state" keeps apart.

    Observation: uint8 codes, 0 for nothing. [page, page of the results, results found]; goal [noun,
    attribute, attribute, colour, size, cap / 10]; for each listed product [noun, attribute,
    attribute, price]; open product [category, noun, three attributes, price, four colours, four
    sizes] as far as the page shows them. Words are indices from 1 in their lists, prices are in
    dollars. Without sizes their five codes are left out.

    Actions: 0 searches for the goal's noun and attributes; then open each listed product, choose
    each colour (12) and each size (8), next, prev, back (to the search), description, features,
    reviews, buy. In text, `search[...]` takes up to four known words. Actions that the page does
    not offer are illegal and change nothing. `next` is always offered, so an empty page can be
    reached.

    Reward: on buying, `envs.shop.rules.score`, from 0 to 1; with `success_only`, 10 for a score of
    1, else 0 (verl-agent). Success: a score of 1. Ends with the purchase; limit 10 steps.

    Tasks: the catalogue is determined by `catalogue_seed`, or drawn for each episode if that is
    None (32 products then keep it fast). Products come in families of four, whose siblings differ
    from a base in one attribute, one option or the price. `split`: "unseen" goals name, for each
    product, a pair of attributes that "seen" goals never name for it.

    Expert: searches, opens the product that the goal was made from (privileged information),
    chooses and buys; in 3 + options steps if the search returns it on the first page.
    Source: WebShop's pages, goals and reward (read); the catalogue, which replaces Amazon's, is
    ours.
    Deviations: a search needs the search page (WebShop's code runs it from anywhere); words match
    exactly; with one noun per title the type factor is 0 or 1.
    """

    products: int = 64
    items_per_page: int = 4
    options: int = 2
    max_results: int = 50
    catalogue_seed: int | None = 0
    success_only: bool = False
    split: str = "seen"

    wordings: ClassVar[str] = "envs.shop.words"
    num_codes: ClassVar[int] = 100
    # 10 steps, twice as many as the expert needs.
    default_params: ClassVar[ShopParams] = ShopParams()

    def __post_init__(self):
        most = shop_catalogue.FAMILY * len(shop_catalogue.NOUNS)
        if self.products % shop_catalogue.FAMILY or not 4 <= self.products <= most:
            raise ValueError(f"products {self.products}: expected a multiple of 4 from 4 to {most}")
        if self.options not in (1, 2):
            raise ValueError(f"options {self.options}: expected 1 (colour) or 2 (colour and size)")
        if not 1 <= self.items_per_page <= 20 or not 1 <= self.max_results <= 90:
            raise ValueError(
                f"items_per_page {self.items_per_page}, max_results {self.max_results}: expected "
                "1 to 20 and 1 to 90"
            )
        if self.split not in ("seen", "unseen"):
            raise ValueError(f"split {self.split!r}: expected 'seen' or 'unseen'")

    @property
    def values(self) -> tuple[str, ...]:
        """Values of the options, in order of their actions."""
        return COLOURS + SIZES * (self.options == 2)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Search, products of the page, values, buttons."""
        items = (str(i + 1) for i in range(self.items_per_page))
        return ("search", *items, *self.values, *BUTTONS)

    @property
    def sheets(self) -> int:
        """Number of result pages that can have products; the next page is always empty."""
        return -(-min(self.max_results, self.products) // self.items_per_page)

    def catalogue(self, state: ShopState) -> Catalogue:
        """The products of the episode: the state's, or the fixed ones of `catalogue_seed`."""
        if state.catalogue is not None:
            return state.catalogue
        return shop_catalogue.constant(self.catalogue_seed, self.products, self.options)

    def initial(self, key: jax.Array, params: ShopParams) -> ShopState:
        """Draws a goal, and a catalogue unless it is constant; starts at the search page."""
        catalogue_key, goal_key = jax.random.split(key)
        drawn, size = None, (self.products, self.options)
        if self.catalogue_seed is None:
            drawn = shop_catalogue.draw(catalogue_key, *size)
        catalogue = drawn or shop_catalogue.constant(self.catalogue_seed, *size)
        code, word = jnp.zeros((), jnp.uint8), jnp.zeros((), jnp.uint32)
        return ShopState(
            time=jnp.zeros((), jnp.int32),
            catalogue=drawn,
            goal=shop_catalogue.draw_goal(goal_key, catalogue, self.options, self.split),
            page=code,
            query=jnp.zeros(rules.MAX_WORDS, jnp.uint8),
            found=code,
            sheet=code,
            listed=jnp.full(self.items_per_page, -1, jnp.int16),
            kinds=jnp.zeros(self.items_per_page, jnp.uint32),
            item=code,
            kind=word,
            offer=word,
            chosen=jnp.zeros(self.options, jnp.uint8),
            score=jnp.zeros((), jnp.float32),
        )

    @property
    def _buttons(self) -> dict[str, int]:
        """Button's label: its action. Buttons are the last actions."""
        first = self.num_actions - len(BUTTONS)
        return {name: first + i for i, name in enumerate(BUTTONS)}

    def transition(
        self, key: jax.Array, state: ShopState, action: jax.Array, params: ShopParams
    ) -> tuple[ShopState, jax.Array]:
        del key, params
        catalogue = self.catalogue(state)
        clicked = {name: action == number for name, number in self._buttons.items()}
        searches = (action == 0) | (action >= self.num_actions)
        opens = (action >= 1) & (action <= self.items_per_page)
        buys = clicked["buy"]
        # prev leads from a sub-page to the product and from there to the results.
        closes = clicked["prev"] & (state.page > ITEM)
        lists = searches | clicked["next"] | (clicked["prev"] & ~closes)

        page = state.page.astype(jnp.int32)
        page = jnp.where(lists, RESULTS, jnp.where(opens | closes, ITEM, page))
        for name, to in _LEADS_TO.items():
            page = jnp.where(clicked[name], to, page)

        query = self._query(state, action)
        results = rules.search(catalogue, query)
        found = jnp.minimum(results.matches, self.max_results)
        turn = (state.page == RESULTS) * (clicked["next"].astype(jnp.int32) - clicked["prev"])
        sheet = jnp.clip(state.sheet.astype(jnp.int32) + turn, 0, self.sheets)
        sheet = jnp.where(searches, 0, sheet)
        places = sheet * self.items_per_page + np.arange(self.items_per_page)
        listed = jax.vmap(rules.product_at, in_axes=(None, 0))(results, places)
        listed = jnp.where((places < found) & (page == RESULTS), listed, -1)
        kinds, _ = jax.vmap(shop_catalogue.row, in_axes=(None, 0))(catalogue, listed)

        slot = np.arange(1, self.items_per_page + 1) == action
        opened = jnp.sum(jnp.where(slot, state.listed, 0), dtype=jnp.int32)
        item = jnp.where(opens, opened, state.item.astype(jnp.int32))
        kind, offer = shop_catalogue.row(catalogue, item)
        score = rules.score(state.kind, state.chosen, state.goal)
        on_product, forgets = page >= ITEM, page == SEARCH
        state = state.replace(
            page=page.astype(jnp.uint8),
            query=jnp.where(forgets, 0, query + 1).astype(jnp.uint8),
            found=jnp.where(forgets, 0, found).astype(jnp.uint8),
            sheet=jnp.where(forgets, 0, sheet).astype(jnp.uint8),
            listed=listed.astype(jnp.int16),
            kinds=kinds,
            item=jnp.where(on_product, item, 0).astype(jnp.uint8),
            kind=jnp.where(on_product, kind, 0),
            offer=jnp.where(on_product, offer, 0),
            chosen=jnp.where(on_product, self._chosen(state, action), 0).astype(jnp.uint8),
            score=jnp.where(buys, score, 0.0),
        )
        reward = jnp.where(score >= 1, 10.0, 0.0) if self.success_only else score
        return state, jnp.where(buys, reward, 0.0)

    def _query(self, state: ShopState, action: jax.Array) -> jax.Array:
        """Words of the search after an action, i32[4]; action 0 uses the goal's."""
        attributes = state.goal.attributes.astype(jnp.int32) + shop_catalogue.ATTRIBUTE_WORD
        own = jnp.stack([*attributes[::-1], state.goal.noun.astype(jnp.int32), jnp.int32(-1)])
        asked = rules.decode_query(action - self.num_actions)
        before = state.query.astype(jnp.int32) - 1
        return jnp.where(action == 0, own, jnp.where(action >= self.num_actions, asked, before))

    def _chosen(self, state: ShopState, action: jax.Array) -> jax.Array:
        """Chosen values + 1 after an action, i32[options]."""
        after = []
        for option, (first, count) in enumerate(_RANGES[: self.options]):
            value = action - 1 - self.items_per_page - first
            before = state.chosen[option].astype(jnp.int32)
            after.append(jnp.where((value >= 0) & (value < count), value + 1, before))
        return jnp.stack(after)

    def legal(self, state: ShopState, params: ShopParams) -> jax.Array:
        """Actions that the page offers; after the purchase those of the page before it."""
        page = state.page
        item = (page == ITEM) | (page == BOUGHT)
        values = np.arange(len(self.values), dtype=np.uint32)
        offered = ((state.offer >> values) & 1) == 1
        prev = ((page == RESULTS) & (state.sheet > 0)) | (page >= ITEM)
        buttons = [page == RESULTS, prev, page != SEARCH, item, item, item, item]
        parts = [(page == SEARCH)[None], state.listed >= 0, item & offered, jnp.stack(buttons)]
        return jnp.concatenate(parts)

    def is_legal(self, state: ShopState, action: jax.Array, params: ShopParams) -> jax.Array:
        """As `legal`, including any query with a known word on the search page."""
        asks = rules.is_query(action - self.num_actions) & (state.page == SEARCH)
        return super().is_legal(state, action, params) | asks

    def observe(self, state: ShopState, params: ShopParams) -> jax.Array:
        """Codes of the page and of the goal."""
        goal, page, two = state.goal, state.page, self.options == 2
        results, item = page == RESULTS, page == ITEM
        head = [page, jnp.where(results, state.sheet + 1, 0), jnp.where(results, state.found, 0)]
        head += [goal.noun + 1, goal.attributes[0] + 1, goal.attributes[1] + 1, goal.colour + 1]
        head += [goal.size + 1] * two + [goal.cap // 10]
        listed = shop_catalogue.unpack(state.kinds)
        rows = [listed.noun + 1, listed.attributes[0] + 1, listed.attributes[1] + 1, listed.price]
        rows = jnp.where((state.listed >= 0)[:, None], jnp.stack(rows, axis=1), 0)
        product = shop_catalogue.unpack(state.kind)
        features = page == FEATURES
        category = product.noun // shop_catalogue.NOUNS_PER_CATEGORY + 1
        open_product = [
            jnp.where(page == DESCRIPTION, category, 0),
            jnp.where(item, product.noun + 1, 0),
            jnp.where(item | features, product.attributes[0] + 1, 0),
            jnp.where(item | features, product.attributes[1] + 1, 0),
            jnp.where(features, product.attributes[2] + 1, 0),
            jnp.where(item, product.price, 0),
        ]
        values = [jnp.where(item, self.offered(state, o), 0) for o in range(self.options)]
        parts = [jnp.stack(head), rows.reshape(-1), jnp.stack(open_product), *values]
        return jnp.concatenate([part.astype(jnp.uint8) for part in parts])

    def offered(self, state: ShopState, option: int) -> jax.Array:
        """Values of option 0 (colour) or 1 (size) + 1, in order, i32[4]; 0 for none."""
        first, count = _RANGES[option]
        bits = (state.offer >> np.arange(first, first + count, dtype=np.uint32)) & 1
        place = jnp.where(bits == 1, jnp.cumsum(bits), 0)
        at = place == np.arange(1, shop_catalogue.MAX_OFFERED + 1, dtype=np.uint32)[:, None]
        return jnp.sum(jnp.where(at, np.arange(1, count + 1), 0), axis=1, dtype=jnp.int32)

    def is_terminated(self, state: ShopState, params: ShopParams) -> jax.Array:
        return state.page == BOUGHT

    def is_success(self, state: ShopState, params: ShopParams) -> jax.Array:
        return (state.page == BOUGHT) & (state.score >= 1)

    def expert(self, state: ShopState, params: ShopParams) -> jax.Array:
        """Moves towards the goal's product, chooses its options, and buys."""
        goal, page, button = state.goal, state.page, self._buttons
        first_value = 1 + self.items_per_page
        results = rules.search(self.catalogue(state), state.query.astype(jnp.int32) - 1)
        place = rules.place_of(results, goal.target.astype(jnp.int32))
        sheet, slot = place // self.items_per_page, place % self.items_per_page
        turn = jnp.where(sheet > state.sheet, button["next"], button["prev"])
        on_results = jnp.where(sheet == state.sheet, 1 + slot, turn)
        listed = (place >= 0) & (place < state.found)
        on_results = jnp.where(listed, on_results, button["back"])
        on_item = jnp.int32(button["buy"])
        for option in reversed(range(self.options)):
            wanted = (goal.colour, goal.size)[option].astype(jnp.int32)
            click = first_value + _RANGES[option][0] + wanted
            on_item = jnp.where(state.chosen[option] == wanted + 1, on_item, click)
        on_item = jnp.where(state.item == goal.target, on_item, button["prev"])
        action = jnp.where(page == SEARCH, 0, button["prev"])
        action = jnp.where(page == RESULTS, on_results, action)
        return jnp.where((page == ITEM) | (page == BOUGHT), on_item, action).astype(jnp.int32)

    def render(self, state: ShopState, params: ShopParams) -> str:
        """The page in this wording, and the chosen options."""
        chosen = [
            words[int(value) - 1]
            for words, value in zip((COLOURS, SIZES), np.asarray(state.chosen), strict=False)
            if value > 0
        ]
        page = join(self.view.lexicon, self.view.describe(state, params))
        return f"{page}\nchosen: {', '.join(chosen) or 'nothing'}"
