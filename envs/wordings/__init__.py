"""Words for each environment: one module an environment, one function a wording."""
