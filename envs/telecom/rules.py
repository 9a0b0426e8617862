"""A phone, its line and their faults: the effects of the user's and of the support desk's tools.

Source: tau2-bench's telecom domain (read), its phone and back office reduced to the parts that its
faults and repairs affect.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

KINDS = ("service", "data", "mms")
SERVICE, DATA, MMS = range(3)

# The user's tools: repairs, then checks.
REPAIRS = (
    *("airplane", "reseat sim", "data", "roaming", "saver", "mode 5g", "reset apn", "reboot"),
    *("wifi calling", "vpn off", "grant sms", "grant storage", "pay"),
)
CHECKS = (
    *("check network", "check mode", "check speed", "check mms", "check saver", "check vpn"),
    *("check apn", "check wifi calling", "check permissions", "check request"),
)
OFFICE = (
    *("look line", "look bills", "look usage"),
    *("send request", "resume", "refuel", "enable roaming"),
)
TOOLS = (*REPAIRS, *CHECKS, *OFFICE)
NUMBER = {name: number for number, name in enumerate(TOOLS)}
USER_TOOLS = len(REPAIRS) + len(CHECKS)

# Facts: values of each in the order of `facts`; a known fact is 1 + value.
FACTS = {
    "airplane": ("off", "on"),
    "sim": ("ok", "missing", "locked"),
    "network": ("none", "2g", "3g", "4g", "5g"),
    "data": ("off", "on"),
    "roaming": ("off", "on"),
    "mode": ("5g", "4g", "3g", "2g"),
    "speed": ("none", "very poor", "poor", "fair", "good", "excellent"),
    "mms": ("no", "yes"),
    "saver": ("off", "on"),
    "vpn": ("off", "good", "poor"),
    "apn": ("ok", "broken"),
    "mms url": ("ok", "missing"),
    "apn reset": ("no", "at reboot"),
    "wifi calling": ("off", "on"),
    "sms": ("no", "yes"),
    "storage": ("no", "yes"),
    "request": ("no", "yes"),
    "line": ("active", "suspended"),
    "contract": ("running", "ended"),
    "line roaming": ("off", "on"),
    "bill": ("none", "overdue", "awaiting", "paid"),
    "usage": ("within", "exceeded"),
    "refuelled": ("no", "yes"),
}
FACT = {name: number for number, name in enumerate(FACTS)}
NO_BILL, OVERDUE, AWAITING, PAID = range(4)
VPN_OFF, VPN_GOOD, VPN_POOR = range(3)
SIM_OK, SIM_MISSING, SIM_LOCKED = range(3)

_BAR = ("network", "data")
_SHOWS = {
    "airplane": ("airplane", "vpn", *_BAR),
    "reseat sim": ("sim", *_BAR),
    "data": _BAR,
    "roaming": ("roaming", *_BAR),
    "saver": ("saver",),
    "mode 5g": ("mode", *_BAR),
    "reset apn": ("apn reset", *_BAR),
    "reboot": ("apn reset", "apn", "mms url", *_BAR),
    "wifi calling": ("wifi calling",),
    "vpn off": ("vpn",),
    "grant sms": ("sms",),
    "grant storage": ("storage",),
    "pay": ("request",),
    "check network": ("airplane", "sim", "roaming", *_BAR),
    "check mode": ("mode",),
    "check speed": ("speed",),
    "check mms": ("mms",),
    "check saver": ("saver",),
    "check vpn": ("vpn",),
    "check apn": ("apn", "mms url"),
    "check wifi calling": ("wifi calling",),
    "check permissions": ("sms", "storage"),
    "check request": ("request",),
    "look line": ("line", "contract", "line roaming"),
    "look bills": ("bill",),
    "look usage": ("usage", "refuelled"),
    "send request": ("bill", "request"),
    "resume": ("line",),
    "refuel": ("usage", "refuelled"),
    "enable roaming": ("line roaming",),
}
# Facts that each tool shows, bool[tools, facts].
SHOWS = np.array([[fact in _SHOWS[tool] for fact in FACTS] for tool in TOOLS])
# Tools after which the phone searches for a network again.
_SEARCHES = tuple(
    NUMBER[name]
    for name in ("airplane", "reseat sim", "data", "roaming", "mode 5g", "reset apn", "reboot")
)
# Centre of each technology's speeds in Mbps; remaining share by signal, none to excellent.
SPEEDS = np.array([0, 0.25, 3, 55, 275], np.float32)
SIGNALS = np.array([0, 0.2, 0.5, 0.8, 1], np.float32)


@struct.dataclass
class World:
    """All bool[] but mode, vpn, network, signal, bill, excess, refuelled: i8[].

    mode: preferred network (values of FACTS). network: technology, 0 for no service, and signal, as
    of the last search. excess: tenths of a GB used beyond the plan. refuelled: tenths of a GB.
    """

    airplane: jax.Array
    sim_missing: jax.Array
    sim_locked: jax.Array
    data: jax.Array
    roaming: jax.Array
    mode: jax.Array
    saver: jax.Array
    vpn: jax.Array
    apn_broken: jax.Array
    mms_url_missing: jax.Array
    apn_reset: jax.Array
    wifi_calling: jax.Array
    mms_over_wifi: jax.Array
    sms: jax.Array
    storage: jax.Array
    abroad: jax.Array
    network: jax.Array
    signal: jax.Array
    suspended: jax.Array
    contract_ended: jax.Array
    line_roaming: jax.Array
    bill: jax.Array
    excess: jax.Array
    refuelled: jax.Array


def healthy() -> World:
    """A phone and a line without faults, as tau2-bench's: the signal is good until the next
    search."""
    on = {"data", "sms", "storage"}
    numbers = {"mode": 0, "vpn": 0, "network": 4, "signal": 3, "bill": 0}
    numbers |= {"excess": -50, "refuelled": 0}
    return World(
        **{
            name: jnp.full((), numbers[name], jnp.int8)
            if name in numbers
            else jnp.full((), name in on, bool)
            for name in World.__dataclass_fields__
        }
    )


def search(world: World) -> World:
    """The phone after its search for a network: none if it is blocked, else by `mode`."""
    blocked = world.airplane | world.sim_missing | world.sim_locked
    blocked |= world.apn_broken | world.suspended
    # The signal of a technology follows its generation, 2G poor to 5G excellent.
    found = jnp.where(blocked, 0, 4 - world.mode).astype(jnp.int8)
    return world.replace(network=found, signal=found)


def exceeded(world: World) -> jax.Array:
    """Whether the data of plan and refuelling are used up, bool[]."""
    return world.excess >= world.refuelled


def data_works(world: World) -> jax.Array:
    """Whether mobile data work, bool[]."""
    roams = ~world.abroad | (world.roaming & world.line_roaming)
    return ~world.airplane & (world.network > 0) & roams & world.data & ~exceeded(world)


def speed(world: World) -> jax.Array:
    """Mbps of the speed test, 0 without a connection: f32[]."""
    mbps = jnp.asarray(SPEEDS)[world.network] * jnp.asarray(SIGNALS)[world.signal]
    mbps = mbps * jnp.where(world.vpn == VPN_POOR, 0.1, 1.0) * jnp.where(world.saver, 0.2, 1.0)
    return jnp.where(data_works(world), mbps, 0.0)


def can_send_mms(world: World) -> jax.Array:
    """Whether pictures can be sent, bool[]."""
    stopped = (world.wifi_calling & world.mms_over_wifi) | world.mms_url_missing
    return data_works(world) & (world.network != 1) & ~stopped & world.sms & world.storage


def facts(world: World) -> jax.Array:
    """1 + value of every fact, u8[facts]."""
    mbps = speed(world)
    quality = sum((mbps >= limit).astype(jnp.int8) for limit in (1, 5, 25, 100))
    values = {
        "airplane": world.airplane,
        # A missing card hides its lock.
        "sim": jnp.where(world.sim_missing, SIM_MISSING, SIM_LOCKED * world.sim_locked),
        "network": world.network,
        "data": world.data,
        "roaming": world.roaming,
        "mode": world.mode,
        "speed": jnp.where(data_works(world), 1 + quality, 0),
        "mms": can_send_mms(world),
        "saver": world.saver,
        "vpn": world.vpn,
        "apn": world.apn_broken,
        "mms url": world.mms_url_missing,
        "apn reset": world.apn_reset,
        "wifi calling": world.wifi_calling,
        "sms": world.sms,
        "storage": world.storage,
        "request": world.bill == AWAITING,
        "line": world.suspended,
        "contract": world.contract_ended,
        "line roaming": world.line_roaming,
        "bill": world.bill,
        "usage": exceeded(world),
        "refuelled": world.refuelled > 0,
    }
    return 1 + jnp.stack([values[name].astype(jnp.uint8) for name in FACTS])


def use(world: World, tool: jax.Array) -> World:
    """The effect of a tool, i32[]; checks have none, nor tools that do not apply."""
    on = {name: tool == number for name, number in NUMBER.items()}
    airplane = world.airplane ^ on["airplane"]
    renewed = on["reboot"] & world.apn_reset
    disconnected = on["vpn off"] | (on["airplane"] & airplane)
    bill = jnp.where(on["send request"] & (world.bill == OVERDUE), AWAITING, world.bill)
    bill = jnp.where(on["pay"] & (world.bill == AWAITING), PAID, bill)
    # Customers refuel 2 GB in total: tau2-bench leaves this to the desk's policy.
    refuels = on["refuel"] & (world.refuelled == 0)
    world = world.replace(
        airplane=airplane,
        sim_missing=world.sim_missing & ~on["reseat sim"],
        data=world.data ^ on["data"],
        roaming=world.roaming ^ on["roaming"],
        mode=jnp.where(on["mode 5g"], 0, world.mode).astype(jnp.int8),
        saver=world.saver ^ on["saver"],
        vpn=jnp.where(disconnected, VPN_OFF, world.vpn).astype(jnp.int8),
        apn_broken=world.apn_broken & ~renewed,
        mms_url_missing=world.mms_url_missing & ~renewed,
        apn_reset=(world.apn_reset & ~renewed) | on["reset apn"],
        wifi_calling=world.wifi_calling ^ on["wifi calling"],
        sms=world.sms | on["grant sms"],
        storage=world.storage | on["grant storage"],
        suspended=world.suspended & ~on["resume"],
        line_roaming=world.line_roaming | on["enable roaming"],
        bill=bill.astype(jnp.int8),
        refuelled=jnp.where(refuels, 20, world.refuelled).astype(jnp.int8),
    )
    searches = jnp.any(tool == np.array(_SEARCHES))
    searched = search(world)
    return world.replace(
        network=jnp.where(searches, searched.network, world.network),
        signal=jnp.where(searches, searched.signal, world.signal),
    )


def solved(world: World, kind: jax.Array) -> jax.Array:
    """Whether the customer's goal is reached, bool[]: tau2-bench's assertions."""
    service = (world.network > 0) & ((world.bill == NO_BILL) | (world.bill == PAID))
    fast = data_works(world) & (speed(world) >= 200)
    return jnp.where(kind == SERVICE, service, jnp.where(kind == DATA, fast, can_send_mms(world)))


# Groups of faults, and the kinds of tasks in which they occur.
GROUPS = {
    "airplane": (SERVICE, DATA, MMS),
    "sim missing": (SERVICE, MMS),
    "apn": (SERVICE,),
    "bill": (SERVICE,),
    "sim locked": (SERVICE,),
    "roaming": (DATA, MMS),
    "data": (DATA, MMS),
    "usage": (DATA, MMS),
    "saver": (DATA,),
    "mode": (DATA, MMS),
    "vpn": (DATA,),
    "wifi calling": (MMS,),
    "mms url": (MMS,),
    "permissions": (MMS,),
}
OCCURS = np.array([[kind in kinds for kinds in GROUPS.values()] for kind in range(3)])


def draw(
    key: jax.Array, few: jax.Array, many: jax.Array, hopeless: jax.Array
) -> tuple[jax.Array, jax.Array, World]:
    """(kind i32[], whether it cannot be solved bool[], world) with `few` to `many` faults.

    hopeless: probability of an unsolvable task: a locked card, an ended contract, or data used up
    after a refuelling.
    """
    keys = jax.random.split(key, 6)
    kind = jax.random.randint(keys[0], (), 0, 3)
    lost = jax.random.uniform(keys[1]) < hopeless
    variant = jax.random.randint(keys[2], (3,), 0, 3)
    names = tuple(GROUPS)
    # The cause of a hopeless task always occurs.
    locked = variant[0] == 0
    cause = jnp.where(locked, names.index("sim locked"), names.index("bill"))
    cause = jnp.where(kind == SERVICE, cause, names.index("usage"))
    number = np.arange(len(names))
    occurs = jnp.asarray(OCCURS)[kind] & (number != names.index("sim locked"))
    score = jax.random.uniform(keys[3], (len(names),)) - 2 * ~occurs
    score = jnp.where(lost & (number == cause), 2.0, score)
    rank = jnp.sum(score > score[:, None], axis=1)
    count = jax.random.randint(keys[4], (), few, many + 1)
    chosen = (rank < count) & (occurs | (lost & (number == cause)))
    has = dict(zip(names, chosen, strict=True))
    used_up = has["usage"] & lost
    both = variant[2] == 2
    world = healthy().replace(
        airplane=has["airplane"],
        sim_missing=has["sim missing"],
        sim_locked=has["sim locked"],
        apn_broken=has["apn"],
        suspended=has["bill"],
        bill=jnp.where(has["bill"], OVERDUE, NO_BILL).astype(jnp.int8),
        contract_ended=has["bill"] & lost & ~locked,
        abroad=has["roaming"],
        roaming=has["roaming"] & (variant[1] == 1),
        line_roaming=has["roaming"] & (variant[1] == 2),
        data=~has["data"],
        excess=jnp.where(used_up, 21, jnp.where(has["usage"], 1, -50)).astype(jnp.int8),
        refuelled=jnp.where(used_up, 20, 0).astype(jnp.int8),
        saver=has["saver"],
        mode=jnp.where(has["mode"], 3, 0).astype(jnp.int8),
        vpn=jnp.where(has["vpn"], VPN_POOR, VPN_OFF).astype(jnp.int8),
        wifi_calling=has["wifi calling"],
        mms_over_wifi=has["wifi calling"],
        mms_url_missing=has["mms url"],
        sms=~(has["permissions"] & ((variant[2] == 0) | both)),
        storage=~(has["permissions"] & ((variant[2] == 1) | both)),
    )
    return kind, lost, search(world)
