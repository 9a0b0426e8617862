"""Episodes as files: one episode per line of JSON, in a schema with a version.

  schema   the dataclasses, which are the schema, and the line of each
  files    writing, and reading with a report of lines that are no episodes
  choice   which episodes of a batch are written
  record   from Streams and Rows to episodes
  replay   an episode played again from its task, seeds and actions
  replay_host
           the same for an environment in Python
  source   a file as a source of rows for supervised terms
  encode   episodes of texts in the tokens of a policy
  viewer   a page for the browser
  triage   signs of trouble, and which episodes deserve a look; loops: of calls
  attempts answers to one question: success by turn, by vote, and answers given again
  references, attribution, counterfactual
           who made an episode fail, and in which turn
  faults, expert_faults, fault_study
           episodes with a known fault, and how often attribution finds it
  topology the graph of states that episodes of a task share; which of them teach most
  adp      lines of the Agent Data Protocol from episodes, and back

The page of the schema is README.md. Read `schema.py` first.
"""

from typing import TYPE_CHECKING

from agentrl.lazy import lazy

if TYPE_CHECKING:
    from agentrl.trajectories.choice import everything as everything
    from agentrl.trajectories.choice import failures as failures
    from agentrl.trajectories.choice import surprising as surprising
    from agentrl.trajectories.source import file as file

__getattr__, __dir__ = lazy(__name__)
