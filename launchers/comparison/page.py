"""The page of a suite's stored results, `configs/comparison/SUITE.md`."""

from launchers.comparison import rows, suites, tables

_INTRODUCTION = """# Results of the suite `{name}`

Made by `python -m launchers.pages` from [{name}.csv]({name}.csv), one row per seed; a test keeps it so. What is the same for all methods, and what a score is: [README.md](README.md).

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
    return text + (f"\nWithout results: {', '.join(missing)}.\n" if missing else "")
