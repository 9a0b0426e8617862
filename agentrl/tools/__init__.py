"""Tools of agents: functions with a schema, environments that call them, closed processes.

`environment.ToolEnvironment` makes an environment in Python of tools, tasks and a reward. Nothing
here imports jax, so that worker processes start at once. Needs the extra "tools":
pip install 'agentrl[tools]'. Pure tools of integers need neither: `pure_environment` (with jax)
plays them in the compiled rollout, `OnHost` in Python.
"""

from agentrl.tools.environment import Episode as Episode
from agentrl.tools.environment import ToolEnvironment as ToolEnvironment
from agentrl.tools.environment import demonstrations as demonstrations
from agentrl.tools.environment import reward as reward
from agentrl.tools.function import Rewarded as Rewarded
from agentrl.tools.function import tool as tool
from agentrl.tools.library import calculator as calculator
from agentrl.tools.library import search as search
from agentrl.tools.library import table as table
from agentrl.tools.pure import pure_tool as pure_tool
from agentrl.tools.sandbox import interpreter as interpreter
