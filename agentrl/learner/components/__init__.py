"""Components of the library, a file each; see `agentrl.learner.component` for the contract."""
