"""What each metric is called, what it means and in which unit: one table for every page.

A name may have parts in braces, which stand for what a run fills in: `win_rate/{role}/{opponent}`.
A metric of another source, task or network has its name in front: `evaluation/success_rate`,
`expert/approx_kl`, `KuhnPoker-v1/episode_return`. `describe` reads such names, too. A run may have
metrics of a user's own components, which nobody has named here.
"""

import functools
import re
from typing import NamedTuple


class Metric(NamedTuple):
    """A metric. name: as in metrics.jsonl. title: for people, without the unit.

    unit: "share" (0 to 1), "nats", "turns", ..., or "" for a plain number. family: the heading
    under which pages show it; "" for a name that is not in the table.
    """

    name: str
    title: str
    unit: str = ""
    meaning: str = ""
    family: str = ""

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The range of possible values, where both ends are known."""
        return (0.0, 1.0) if self.unit == "share" else None


# Family -> pattern -> (title, unit, meaning), in the order in which pages show them. A name has the
# first pattern that it fits.
_TABLE: dict[str, dict[str, tuple[str, str, str]]] = {
    "Results": {
        "success_rate": (
            "Success rate",
            "share",
            "episodes whose task was solved; in games, seats that won",
        ),
        "episode_return": ("Return", "", "sum of the environment's rewards, per episode and agent"),
        "win_rate/{role}/{opponent}": ("Win rate of {role} against {opponent}", "share", ""),
        "return/{role}/{opponent}": ("Return of {role} against {opponent}", "", ""),
        "draw_rate": ("Draws", "share", "matches without a winner"),
        "exploitability": (
            "Exploitability",
            "",
            "NashConv / 2 of the policy itself, exact, in Kuhn's and Leduc's poker",
        ),
        "command_probability": (
            "Probability of a command",
            "share",
            "that a bare reply is a legal command, mean over information states",
        ),
        "belief_accuracy": ("Right beliefs", "share", "of listeners in social deduction"),
        "belief": ("Belief in the answer", "share", "of listeners, in the true one"),
    },
    "Episodes": {
        "episode_length": ("Episode length", "turns", "mean over the episodes that ended"),
        "truncation_rate": (
            "Cut by a limit",
            "share",
            "episodes that a limit of turns or tokens ended",
        ),
        "invalid_action_rate": (
            "Illegal actions",
            "share",
            "turns whose action was illegal, or whose reply named none",
        ),
        "invalid_end_rate": ("Ended by an illegal move", "share", "matches"),
        "episode_seconds": ("Simulated time", "seconds", "per episode"),
        "episodes": ("Episodes", "per collection", "that ended"),
        "gate_entropy/{role}": ("Entropy of the gate of {role}", "nats", "role-gated adapters"),
        "tag/{name}/share": ("Turns of tag {name}", "share", "component segments"),
        "tag/{name}/length": ("Length of a turn of tag {name}", "tokens", "component segments"),
        "tag/{name}/entropy": ("Entropy in turns of tag {name}", "nats", "estimated, per token"),
        "tag/{name}/advantage": (
            "Credit of turns of tag {name}",
            "",
            "mean advantage of those learnt from",
        ),
        "keep_rate": ("Kept subgoals", "share", "turns that keep the subgoal"),
        "repetitions": ("Repetitions", "share", "episodes in which a turn says the same again"),
        "order_kept": ("Order kept", "share", "episodes that keep the specified behaviour so far"),
        "gate_distance": ("Distance of gates", "", "mean over pairs of roles, 0 to 1"),
        "gate_distance/min": ("Distance of gates, nearest pair", "", "0 to 1"),
        "alignment/dropped": ("Sub-trajectories dropped", "share", "M-GRPO's alignment"),
        "alignment/repeated": ("Sub-trajectories repeated", "share", "of those that count"),
        "unconfirmed": (
            "Unconfirmed claims",
            "share",
            "claims, such as bookings, that the tools do not confirm",
        ),
        "checks": ("Streams checked turn by turn", "share", "those with a positive return"),
        "looks": ("Looks", "share", "turns in which the agent looks instead of acting"),
        "looks/gain": ("Gain of a look", "", "mean over looks"),
        "runs/{partner}/{replacement}": (
            "Return with partner {partner}, less {replacement}",
            "",
            "counterfactual runs: the policy's return less that of the player in its place",
        ),
        "success/{partner}": (
            "Success with partner {partner}",
            "share",
            "counterfactual runs: of the policy's episodes with that partner",
        ),
        "success/{partner}/{replacement}": (
            "Success with partner {partner}, of {replacement}",
            "share",
            "counterfactual runs: with another player in the policy's place",
        ),
        "cost/{price}": ("Calls at price {price}", "calls", "per episode"),
        "quality/{price}": ("Success at price {price}", "share", "of questions with that price"),
        "failed_episodes": ("Failed episodes", "share", "environments in Python: lost episodes"),
        "retried_episodes": (
            "Repeated episodes",
            "share",
            "environments in Python: episodes that were played again",
        ),
        "rows_per_episode": ("Rows of an episode", "rows", "of programs that call the model"),
    },
    "Replies": {
        "response_length": ("Reply length", "tokens", "EOS included"),
        "response_cut_rate": (
            "Replies without an end",
            "share",
            "that reached the limit of tokens before EOS",
        ),
        "invalid_format_rate": (
            "Replies outside the format",
            "share",
            "that do not keep the grammar",
        ),
        "unknown_command_rate": (
            "Unknown commands",
            "share",
            "replies that name something that is not a command",
        ),
        "empty_thought_rate": (
            "Empty thoughts",
            "share",
            "replies with an empty thought, or without one",
        ),
        "behaviour_violation_rate": (
            "Violations of the behaviour",
            "share",
            "replies from which on the specified behaviour cannot be kept",
        ),
        "observation_cut_rate": ("Texts that did not fit", "share", "should be 0"),
        "summary_rate": (
            "Summaries",
            "per turn",
            "that the policy wrote in place of earlier turns",
        ),
        "tokens": ("Tokens written", "per collection", "summaries included"),
    },
    "Policy": {
        "entropy": ("Entropy", "nats", "of the policy at the update, per token or action"),
        "behaviour_entropy": (
            "Entropy when sampled",
            "nats",
            "of the distribution that was sampled from, per token",
        ),
        "entropy/turn_{k}": (
            "Entropy, turn {k}",
            "nats",
            "of the distribution sampled from, at the k-th turn of an episode",
        ),
        "entropy_reference": ("Entropy, history", "nats", "EPO: mean of the entropies so far"),
        "approx_kl": (
            "KL of the update",
            "nats",
            "from the policy that collected to the one in training",
        ),
        "kl_ref": ("KL to the reference", "nats", "per token or action"),
        "reward_kl": ("KL in the reward", "nats", "per token or action, as sampled"),
        "kl/rollout_train": (
            "KL, sampler to learner",
            "nats",
            "before the first step; 0 without staleness, up to rounding",
        ),
        "turns_kept": ("Turns kept", "share", "turns that filters of turns leave to learn from"),
        "clip_fraction": (
            "Clipped",
            "share",
            "trained positions at which the ratio, and so the loss, is clipped",
        ),
        "drift/turn_{k}": (
            "Drift, turn {k}",
            "nats",
            "KL to the policy reminded of its task, per token of the k-th turn",
        ),
    },
    "Credit": {
        "adv/mean": ("Advantage, mean", "", "over trained turns"),
        "adv/std": ("Advantage, deviation", "", "over trained turns"),
        "group_return_std": (
            "Spread within groups",
            "",
            "mean standard deviation of a group's returns; its fall is RAGEN's sign of an echo "
            "trap",
        ),
        "frac_zero_std_groups": (
            "Groups without spread",
            "share",
            "streams in groups whose returns are all equal; without signal to estimators that "
            "compare within groups",
        ),
        "anchor_group_size": (
            "Anchor group",
            "turns",
            "mean number of turns in the anchor group of a turn",
        ),
        "frac_singleton_anchor": (
            "Turns alone",
            "share",
            "turns that are alone in their anchor group, which GiGPO cannot compare",
        ),
        "anchor_size/{size}": (
            "Anchor groups of {size}",
            "share",
            "turns by the size of their anchor group",
        ),
        "rae_baseline/{task}/{role}": (
            "RAE's baseline of {role}, task {task}",
            "",
            "running mean of the returns of a role",
        ),
        "information_gain": (
            "Information gain",
            "nats",
            "IGPO: rise of the belief in the answer, per turn",
        ),
        "novelty": ("Novelty", "", "intrinsic reward per turn, before it is scaled"),
        "calls/matched": (
            "Matched calls",
            "",
            "mean reward of a tool call that is compared with the reference's",
        ),
        "lookups/redundant": ("Redundant calls", "share", "of searches and visits of pages"),
        "edits/useless": ("Useless edits", "share", "additions that change nothing"),
        "edits/marginal": ("Worth of an edit", "reward", "mean worth of an added agent, left out"),
        "edits/repeated": ("Repeated edits", "share", "additions that were there before"),
        "stare_gain": ("Weight of surprising gains", "", "STARE"),
        "stare_gate": ("Gate of the weights", "share", "STARE: updates in which they move"),
    },
    "Critic and models": {
        "explained_variance": (
            "Explained variance",
            "",
            "of the critic's targets; 1 is perfect, 0 no better than their mean",
        ),
        "critic_error": ("Critic's error", "", "mean loss of a component's critics"),
        "q_error": ("Loss of Q", "", "offline values: both twins together"),
        "v_error": ("Loss of V", "", "offline values"),
        "data_return": ("Return of the data", "", "offline values: mean over its episodes"),
        "prediction_error": ("Prediction error", "", "curiosity: of the predictor"),
        "inverse_loss": ("Loss of the inverse model", "", "E3B: of telling which action it was"),
        "inverse_accuracy": ("Actions told", "share", "E3B: by the inverse model"),
        "progress_error": ("Progress error", "", "squared error of the predicted returns"),
        "progress_correlation": ("Progress as a reward", "", "its correlation with turns' rewards"),
        "scorer_agreement": (
            "Scorer and outcome",
            "share",
            "streams called all right exactly where they succeed",
        ),
        "scorer_right": ("Turns called right", "share", "by the step scorer"),
        "scorer_correlation": ("Scorer and judge", "", "their correlation over turns"),
        "scorer_error": ("Scorer's error", "nats", "per turn, before the update's steps"),
        "discriminator_error": ("Discriminator's loss", "nats", "before the update's first step"),
        "imitation": ("Learnt reward", "", "mean per turn"),
        "imitation_correlation": ("Learnt and true reward", "", "their correlation over turns"),
        "common_reward": ("True common reward", "", "per episode, paid or not"),
        "transfer/{result}": (
            "Held-out tasks: {result}",
            "",
            "of the best walk for the task's and the learnt reward",
        ),
        "model_loss": ("World model's loss", "", "before the update's first step"),
        "held_out_loss": (
            "Held-out loss",
            "nats",
            "negative log-likelihood per token of an expert's episodes that are not learnt from",
        ),
    },
    "Objective and optimizer": {
        "loss/{term}": ("Loss: {term}", "", "a term of the objective, unweighted"),
        "weight/{term}": ("Weight: {term}", "", "of a term that follows a schedule"),
        "grad_norm": ("Gradient norm", "", "before clipping"),
        "update_norm": ("Update norm", "", "of the change of the parameters"),
        "trained_tokens": ("Tokens learnt from", "per update", "over all its steps"),
        "importance_weight": ("Importance weight", "", "mean, truncated, of a stale sampler"),
        "importance_ess": ("Effective sample", "positions", "of a stale sampler"),
        "stopped_steps": (
            "Steps not taken",
            "share",
            "above config.learner.max_kl, or after such a step",
        ),
        "kl_rejected": ("Rejected by KL", "share", 'updates, with over_max_kl="reject"'),
        "rejected_updates": (
            "Rejected, not finite",
            "share",
            "updates with a step that was not finite, which leave the parameters as they were",
        ),
        "empty_steps": (
            "Empty steps",
            "share",
            "optimizer steps without anything to learn from (no rows, or advantages of zero)",
        ),
    },
    "Opponents, buffers, tasks": {
        "pool_size": ("Opponent pool", "members", ""),
        "pool_age": ("Age of opponents", "updates", "mean over those drawn"),
        "population/fitness": ("Fitness", "", "of a member of the population, at selections"),
        "population/parent": ("Parent", "seed", "whose parameters the member has, at selections"),
        "population/{option}": ("Option {option}", "", "of a member of the population"),
        "per_seed/{option}": ("Own {option}", "", "of a seed, see config.per_seed"),
        "replayed_streams": ("Replayed episodes", "streams", "in an update"),
        "replayed_groups": ("Groups with a replay", "share", "that got a stored success"),
        "verdict_accuracy": ("Right verdicts", "share", "of a validator's, as drawn"),
        "drafts/reward_auc": ("Reward model's AUC", "share", "right drafts above wrong ones"),
        "drafts/peer_auc": ("Peers' AUC", "share", "right drafts above wrong ones, by mean grade"),
        "drafts/reward_loss": ("Reward model's loss", "nats", "cross-entropy, before its steps"),
        "drafts/{which}": ("Right drafts: {which}", "share", "valid: well-formed ones"),
        "desirable_rate": ("Desirable", "share", "of the rows with a label"),
        "kto_baseline": ("KTO's reference point", "nats", "log-ratio of mismatched rows"),
        "stored_successes": ("Stored successes", "episodes", "in the buffer"),
        "dagger/success_rate": ("Success of labelled episodes", "share", ""),
        "dagger/agreement": (
            "Agreement with the teacher",
            "share",
            "of the policy's own turns in which it does what the teacher would",
        ),
        "dagger/labels": ("Labels", "turns", "that the teacher has been asked for so far"),
        "dagger/rows": ("Labelled rows", "rows", "that can be drawn"),
        "thoughts/accepted": ("Thoughts accepted", "share", "of those that the policy writes"),
        "thoughts/hopeless": (
            "Hopeless thoughts",
            "share",
            "of those that the policy writes: wrong, and not corrected",
        ),
        "thoughts/rows": ("Corrected thoughts", "rows", "that can be drawn"),
        "meee/confidence": ("Confidence in the models", "", "MEEE: weight of imagined turns, mean"),
        "pvp/takeovers": ("Turns of the overseer", "share", "PVP"),
        "pvp/interventions": ("Interventions", "turns", "of the overseer so far"),
        "pvp/success_rate": (
            "Success of watched episodes",
            "share",
            "with its help",
        ),
        "q_shaping/weight": ("Weight of heuristics", "", "Q-shaping: 0 once they are left"),
        "ipr/pairs": ("Pairs", "share", "of the continuations of an expert's episodes"),
        "ipr/expert": ("Pairs that the expert wins", "share", ""),
        "ipr/turn": ("Turn of a step pair", "turns", "mean turn from which it is"),
        "ipr/turns": (
            "Turns sampled for pairs",
            "turns",
            "by the policy and its scorer, since the start of the run",
        ),
        "agent_r/pairs": (
            "Failures that can be spliced",
            "share",
            "of the pairs of a good and a bad episode",
        ),
        "agent_r/cut": ("Turn of a cut", "turns", "mean last turn that is of the failure"),
        "growing_batch/rows": (
            "Accepted rows",
            "rows",
            "of solved episodes, that can be drawn",
        ),
        "growing_batch/kept": (
            "Turns in the window",
            "share",
            "of the solved turns of an update, those that the growing batch keeps",
        ),
        "branch_rate": ("Branches", "share", "of the episodes"),
        "branch_budget": ("Budget of branches", "episodes", "of a group, by entropies (AEPO)"),
        "branch_turn": ("Turn of a branch", "turns", "mean of their first own turns"),
        "shared_turn_rate": ("Copied turns", "share", "that a branch shares with its parent"),
        "sampled_turns": ("Sampled turns", "turns", "of trees, per collection; copies left out"),
        "new_turn_rate": ("New turns", "share", "of sampled ones, that their tree did not have"),
        "lane_use": ("Lanes in use", "share", "turns in the steps that were computed, of trees"),
        "failed_tasks/waiting": ("Failed tasks that wait", "", ""),
        "failed_tasks/share": ("Failed tasks played again", "share", "of the groups"),
        "failed_tasks/solved": ("Failed tasks solved", "share", "of those played again"),
        "failed_tasks/lost": ("Failed tasks that left unsolved", "", "per update"),
        "curriculum/success": ("Success of drawn tasks", "share", ""),
        "curriculum/seen": ("Tasks seen", "share", ""),
        "curriculum/effective_tasks": (
            "Effective number of tasks",
            "tasks",
            "exp of the entropy of the distribution",
        ),
        "turn_limits/mean": ("Limit of turns", "turns", "mean over tasks that were solved"),
        "pruned_tasks/left": ("Tasks left", "tasks", "of the list, that are not solved yet"),
        "pruned_tasks/epoch": ("Epochs", "epochs", "over the tasks that were left"),
        "solvable_tasks/kept": ("Solvable tasks", "tasks", "that the first policy solved"),
        "task_group/share/{group}": ("Tasks of group {group}", "share", "of those drawn"),
        "task_group/success/{group}": (
            "Success in group {group}",
            "share",
            "of attempts, or their mean return",
        ),
        "task_group/potential/{group}": (
            "Learning potential of group {group}",
            "",
            "standard deviation over mean of a task's outcomes",
        ),
        "bank/admitted": ("Admitted results", "share", "of all results of all teams"),
        "bank/used": ("Recalled entries", "share", "of the entries, by another team"),
        "bank/gain": ("Gain by an entry", "reward", "outcome less that without the entry"),
        "bank/misled": (
            "Harmful recalls",
            "share",
            "of the recalled entries, without which better",
        ),
        "router/regret": (
            "Regret of routing",
            "share",
            "chance of the best worker that is there less that of the chosen one",
        ),
        "router/best": ("Tasks with a best worker", "share", ""),
        "router/outcome": ("Outcomes that arrived", "share", "of successes, of earlier updates"),
        "router/open": ("Open tickets", "tickets", "tasks whose outcome has not arrived"),
        "router/share/{worker}": ("Tasks of worker {worker}", "share", ""),
    },
    "Machine": {
        "updates_per_second": ("Updates", "per second", ""),
        "env_steps_per_second": ("Environment steps", "per second", ""),
        "tokens_per_second": ("Tokens written", "per second", ""),
        "trained_tokens_per_second": ("Tokens learnt from", "per second", ""),
        "peak_memory_gib": ("Peak memory", "GiB", ""),
        "compile_time": ("Compilation", "seconds", ""),
        "time/{part}": ("Time: {part}", "seconds", "since the last line"),
    },
    "Axes": {
        "update": ("Update", "", "since the start of the run"),
        "env_steps": ("Environment steps", "", "since the start of the run"),
        "gradient_steps": ("Optimizer steps", "", "since the start of the run"),
        "wall_time": ("Wall time", "seconds", "since the start or the last resumption"),
    },
}
FAMILIES = tuple(_TABLE)
METRICS = tuple(
    Metric(name, *words, family) for family, rows in _TABLE.items() for name, words in rows.items()
)
_SLOT = re.compile(r"\{(\w+)\}")
_PATTERNS = [re.compile(_SLOT.sub(r"(?P<\1>[^/]+)", metric.name)) for metric in METRICS]
# How roles are written in titles.
_WORDS = {"self": "itself", "pool": "the pool", "expert": "the expert"}


def _own(name: str) -> tuple[int, re.Match | None]:
    """The number of the metric whose pattern a name fits, and the match."""
    matches = ((i, pattern.fullmatch(name)) for i, pattern in enumerate(_PATTERNS))
    return next((found for found in matches if found[1]), (len(METRICS), None))


@functools.cache
def describe(name: str) -> Metric:
    """The metric of a name, its title filled in; of an unknown name one without family.

    A part in front that is no metric's own says whose metric it is: "Return, evaluation".
    """
    number, match = _own(name)
    if match:
        metric = METRICS[number]
        return metric._replace(name=name, title=_filled(metric, match.groupdict()))
    whose, slash, rest = name.partition("/")
    if slash and (of := describe(rest)).family:
        return of._replace(name=name, title=f"{of.title}, {whose}")
    return Metric(name, name)


def place(name: str) -> tuple:
    """Sorts names as the table does, unknown ones last; numbers in them by value."""
    own = name
    while _own(own)[1] is None and "/" in own:
        own = own.partition("/")[2]
    return (_own(own)[0], natural(name))


def natural(text: str) -> list[tuple[int, int | str]]:
    """Sorts texts with their numbers by value: turn_2 before turn_16."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]


def _filled(metric: Metric, parts: dict[str, str]) -> str:
    """The title with what the name has in its slots."""

    def word(slot: re.Match) -> str:
        text = parts[slot[1]]
        if slot[1] == "role" and text.isdecimal():
            return f"role {text}"
        if slot[1] == "size":
            low, _, high = text.partition("_")
            return f"{low} and more" if high == "up" else f"{low} to {high}" if high else low
        return _WORDS.get(text, text.replace("_", " "))

    return _SLOT.sub(word, metric.title)


def markdown() -> str:
    """The table of all metrics for a page in Markdown, family by family."""
    lines = ["| Metric | Name in reports | Unit | Meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        meaning = metric.meaning.replace("|", "\\|")
        lines.append(f"| `{metric.name}` | {metric.title} | {metric.unit} | {meaning} |")
    return "\n".join(lines) + "\n"
