"""Policies behind a socket: the common chat-completions protocol for a run or a published model.

`served.Served` is what crosses its border: parameters, tokens and the format of prompts. `engine`
writes replies of several requests at once, `protocol` reads requests and writes answers, `app` is
the HTTP application. `programs` is a rollout of programs that call such a server, recorded by
`sessions`. Read `engine.py` first.
"""
