"""Published methods that are more than an estimator or a loss, a file each.

Annotations that look at the model before credit is given, components with state of their own, and
the samplers of tasks that belong to them. Each file is all that a method needs besides losses,
estimators and reward terms in their own packages and a config; `agentrl.learner` knows none of
them. What crosses the border is `agentrl.learner.component.Component`. Some of them, of which
METHODS.md has each component:

A method's arithmetic is functions of arrays. Where a component has several hooks, they are methods
of a NamedTuple `Hooks`, whose fields are the options and what else the hooks are made of; the
function that a config names checks the options and binds the hooks in a `Component`. One or two
short hooks stand in that function itself.

  branching        a rollout whose episodes continue twice where the policy is uncertain (ARPO)
  corrections      episodes whose errors a teacher corrects and nobody imitates (STeP, AgentRefine)
  counterfactual   a rollout that plays its tasks again with a player replaced (EAGLET)
  curiosity        random network distillation, NovelD, E3B: a network with its own optimiser
  e3b              what is new in an episode, by an inverse model's features, and in the run
  curriculum       tasks of a list drawn by the policy's success
  dagger           a teacher's labels in the states that the policy visits, of all rounds
  early_experience what other actions in an expert's states lead to, to be predicted or thought of
  eipo             answers in the policy's own states, paid an expert's exact advantage
  epo              the history of mean entropies for `losses.epo`
  expert_iteration rounds that one policy collects and the next learns from the base (ReST)
  growing_batch    the policy's own solved episodes of all rounds, imitated (ReST)
  igpo             information gain of each turn about the reference answer
  routing          which frozen worker has each task, by LinUCB over delayed outcomes (Symphony)
  sharing          what an entry of a memory that teams share was worth (Learning to Share)
  siblings         pairs of turns that left one node of a tree (Agent Q, REFUEL)
  rise             better answers in the states of the policy's own attempts, by their reward
  lots             random numbers of turns, for filters that draw some of them (SPIRAL)
  meee             a soft actor-critic with an ensemble of models, weighted by their agreement
  pvp              values that an overseer's interventions stand for, without rewards
  q_shaping        a Q learner that is told values of some actions first
  observed         the tokens that are read, for a world-model loss (social deduction)
  labelled         a source of rows that are good or bad by themselves, for `losses.kto` (STEVE)
  pairs            a source of preference pairs for `losses.dpo`, `rpo` and `weighted_dpo`
  halves           the same, several a task, the better half against the worse one (Matryoshka)
  skills           skills from own episodes per task, by which a policy teaches itself (Skill-SD)
  stare            weights of surprising positions that follow the entropy
  success_replay   earlier successes in the place of episodes of groups that failed
  thought_corrections a corrector of the policy's own thoughts, of all rounds (GTR)
  trees            a rollout of search trees: episodes continue from turns of earlier ones
  verifier         a validator's one token, yes or no, by cross-entropy (MARS-SQL)
  world_model      a learned environment in which the policy trains, too

`by_turn` and `twin_q` have what several of them use, `teaching` the episodes that a teacher
watches. Read `epo.py` first.
"""
