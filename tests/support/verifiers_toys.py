"""Environments of the package verifiers for tests: of one turn, of several, and with tools."""

import datasets
import verifiers as vf


def _exact(completion, answer, parser):
    return float(parser.parse_answer(completion) == answer)


async def _length(completion):
    """Characters of all replies."""
    return float(sum(len(m["content"] or "") for m in completion if m["role"] == "assistant"))


def load_environment(number=4):
    """As verifiers finds it by the id verifiers-toys."""
    return sums(number)


def sums(highest=4):
    """One turn: a sum, for 1 and a hundredth for each character."""
    rows = [{"question": f"{i}+{i}=", "answer": str(2 * i)} for i in range(highest)]
    rubric = vf.Rubric(funcs=[_exact, _length], weights=[1.0, 0.01])
    return vf.SingleTurnEnv(
        dataset=datasets.Dataset.from_list(rows),
        system_prompt="Answer with a number.",
        few_shot=[{"role": "user", "content": "8+1="}, {"role": "assistant", "content": "9"}],
        rubric=rubric,
    )


class _Higher(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["found"] = False
        return state

    @vf.stop
    async def found_it(self, state):
        return state["found"]

    async def env_response(self, messages, state, **kwargs):
        said, number = messages[-1]["content"], state["answer"]
        if said == "raise":
            raise ValueError("asked for")
        if said == "give up":
            raise vf.ToolError("no more")
        state["found"] = said == number
        if state["found"]:
            state["final_env_response"] = [{"role": "user", "content": "Right."}]
        return [{"role": "user", "content": "more" if said < number else "less"}]


def _found(state):
    return 1.0 if state["found"] else 0.0


def guesses(max_turns=3):
    """Several turns: a digit to be found."""
    rows = [{"question": f"Guess {i}", "answer": str(i)} for i in (3, 7)]
    data = datasets.Dataset.from_list(rows)
    rubric = vf.Rubric(funcs=[_found, _length], weights=[0.75, 0.0])
    return _Higher(dataset=data, eval_dataset=data.select([1]), rubric=rubric, max_turns=max_turns)


def price(item: str) -> int:
    """What an item costs.

    Args:
        item: its name
    """
    return {"apple": 3, "pear": 4}[item]


def shop():
    """Tools: a price, as often as wanted; a reply without a call is the answer."""
    rows = [{"question": "An apple and a pear?", "answer": "7"}]
    return vf.ToolEnv(
        dataset=datasets.Dataset.from_list(rows), tools=[price], rubric=vf.Rubric(funcs=[_exact])
    )


def compared():
    """A reward function over a group."""

    def longest(completions) -> list:
        return [0.0 for _ in completions]

    rows = [{"question": "?", "answer": "!"}]
    return vf.SingleTurnEnv(
        dataset=datasets.Dataset.from_list(rows), rubric=vf.Rubric(funcs=[longest])
    )
