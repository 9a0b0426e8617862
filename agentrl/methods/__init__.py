"""Published methods that are more than an estimator or a loss, a file each.

Annotations that look at the model before credit is given, components with state of their own, and
reward terms that read them. Each file is all that a method needs beside a config; none of them is
known to `agentrl.learner`.
"""
