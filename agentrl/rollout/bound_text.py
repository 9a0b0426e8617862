"""A language policy bound to an environment in the graph."""

from agentrl.actors.contexts import Context
from agentrl.actors.text_agent import TextAgent
from agentrl.actors.text_source import expert, text_agent
from agentrl.checks import check_choice
from agentrl.players.scripted import check_expert
from agentrl.policies import POLICIES
from agentrl.policies.language import LanguagePolicy
from agentrl.rollout.bound import LISTENERS, BoundPolicy
from agentrl.rollout.questions import questions_of
from agentrl.rollout.runner import one_by_one
from agentrl.rollout.text_rows import text_packing
from envs.environment import Environment, EnvParams
from envs.vector import World


def bind_text(
    policy: LanguagePolicy,
    env: Environment,
    env_params: EnvParams,
    context: Context,
    turns: int,
    *,
    anchor: str | None = None,
    listeners: str = "none",
    question: str = "",
    questions: int = 0,
    segments: bool = False,
) -> BoundPolicy:
    """A language policy, for episodes of at most `turns` turns. segments: of segments.

    listeners, question, questions: see `agentrl.rollout.episodes`.

    Raises:
      ValueError: a policy, a context and an environment that do not fit.
    """
    if env.continuous:
        raise ValueError(
            f"{env.name} with these options has continuous actions, which have no words: use one "
            f"of {', '.join(POLICIES)}"
        )

    def agent(world: World) -> TextAgent:
        anchor_of = anchor or "observation"
        return text_agent(policy, world, context, turns=turns, anchor=anchor_of, segments=segments)

    def demonstrator(world, noise, thoughts):
        check_expert(world.env, world.params)
        return expert(agent(world), world, noise=noise, thoughts=thoughts)

    # Errors before anything compiles.
    first = agent(World(env, env_params))
    packing, asking = text_packing(first, env), None
    check_choice("rollout listeners", listeners, LISTENERS)
    if question:
        asking = questions_of(policy, env, agent, first, question=question, most=questions)
    elif listeners != "none":
        raise ValueError(
            f"rollout listeners={listeners!r} with a language policy that nobody asks: set "
            "config.rollout.question, or leave listeners out"
        )
    return BoundPolicy(
        actor=lambda world, params, greedy=False: agent(world).actor(params, greedy=greedy),
        demonstrator=demonstrator,
        packing=packing,
        reads_arrays=False,
        early_exit=True,
        skip_others=env.in_turns,
        # One member after the other: each stops writing when its own replies have ended.
        over_members=one_by_one,
        frozen=policy.frozen,
        questions=asking,
    )
