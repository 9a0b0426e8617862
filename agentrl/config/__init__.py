"""Configs: sections that name functions, the keys that every config has, and what they build.

`section(function, option=...)` makes a section of a function's options; `build(config)` binds a
whole config to an `Experiment`, the type that crosses the border, or says what does not fit. Read
`bind.py` first, then `base.py`.
"""

from agentrl.config.base import base_config as base_config
from agentrl.config.bind import check_variant as check_variant
from agentrl.config.bind import roles_section as roles_section
from agentrl.config.bind import section as section
from agentrl.config.bind import term as term
from agentrl.config.environments import env_section as env_section
from agentrl.config.environments import env_sections as env_sections
