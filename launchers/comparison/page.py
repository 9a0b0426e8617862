"""The page of a suite's stored results, `configs/comparison/SUITE.md`."""

from launchers.comparison import noise, rows, suites, tables

_INTRODUCTION = """# Results of the suite `{name}`

Made by `python -m launchers.pages` from [{name}.csv]({name}.csv), one row per seed; a test keeps it so. What is the same for all methods, and what a score is: [README.md](README.md).

"""  # noqa: E501

_GRADIENTS = f"""## Gradients

The policy gradient of the first {noise.TURNS} turns on the baseline's episodes (PPO's on its own) after {noise.SHARE:.0%} of the budget, as each estimator alone makes it: the squared length of its mean in units of an update's noise, and in brackets the cosine between that mean and {noise.UNBIASED}'s on the same episodes, which has no bias ({noise.BATCHES} collections of each of the ten seeds; `--noise`). A clear gradient with a low cosine is a clear wrong one:

"""  # noqa: E501


def page(name: str) -> str:
    """The page's text: all tables, and the worlds that have no results."""
    suite, found = suites.find(name), rows.read(suites.packaged(name))
    known = {row.world for row in found}
    missing = [world for world in suite.worlds if world not in known]
    text = _INTRODUCTION.format(name=name) + "\n".join(tables.text(suite, found)) + "\n"
    # Not in a fork that has no results of its own yet.
    if suite.reduced and tables.standings(suite, found):
        tau, count = tables.agreement(suite, found)
        text += (
            f"\n`--reduced` ({', '.join(suite.reduced)}) ranks the {count} methods that have "
            f"results in all worlds of the first table as these do, with Kendall's tau {tau:.2f}.\n"
        )
    clear = noise.read(suites.packaged(f"{name}_noise"))
    if clear:
        text += "\n" + _GRADIENTS + "\n".join(noise.table(suite, clear)) + "\n"
    return text + (f"\nWithout results: {', '.join(missing)}.\n" if missing else "")
