"""What is done with a trained run: play with it by name, search, export, study its gradients.

Nothing here is part of training: `agentrl.run` trains, and reads a run back (`run.restored.Run`).
Read `contestants.py` first, which makes players of runs for `launchers.arena` and `launchers.play`.
"""
