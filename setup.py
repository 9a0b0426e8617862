"""Packaging of agentrl: the library, its environments, launchers and configs."""

import pathlib

import setuptools

HERE = pathlib.Path(__file__).parent

setuptools.setup(
    name="agentrl",
    version="0.1.0",
    description="Reinforcement learning of agents over many turns and among other agents, in JAX",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=setuptools.find_packages(include=["agentrl*", "envs*", "launchers*", "configs*"]),
    # Marks for type checkers, and the pages.
    package_data={"": ["py.typed", "*.md", "*.csv", "*.json"]},
    install_requires=[
        "jax>=0.10,<0.12",
        "flax>=0.12",
        "optax>=0.2.8",
        "orbax-checkpoint>=0.12",
        "chex>=0.1.92",
        "gymnax>=1.0.1",
        "six",  # gymnax imports it and does not declare it
        "transformers>=5",
        "safetensors",
        "tokenizers",
        "tensorboard",
        "absl-py",
        "ml_collections>=1.1",
        "numpy>=2",
        "scipy",
        "rich",
        "pyyaml",
    ],
    extras_require={
        "dev": [
            "pytest",
            "pytest-xdist>=3.8",
            "hypothesis",
            # an allocator for the tests: launchers/test.sh
            "tbb; sys_platform == 'linux' and platform_machine == 'x86_64'",
            "ruff",
            "mypy>=1.18",
            "gguf>=0.17",
            "jinja2",  # with which transformers renders chat templates
            "pettingzoo",
            # Kubernetes' client, and published schemas of Jobs and of JobSets
            "kubernetes>=30",
            "kubernetes-validate",
            "kubeflow-trainer-api>=2.3",
            "dm_env",
            "minari[hdf5]>=0.5.4",
            "jaxmarl>=0.2",
            "optuna>=4.8",
            "submitit",
            "aiohttp>=3.12",
            "openai>=2",  # a client of launchers.serve
            # config.writers, as in "wandb" and "mlflow"
            "wandb>=0.31",
            "mlflow-skinny>=3.1",
            "sqlalchemy",
            "alembic",
            # the notebooks and how they are executed: colab/execute.py
            "matplotlib",
            "nbclient",
            "ipykernel",
            # tools, as in "tools"
            "pydantic>=2",
            "docstring_parser",
            "bm25s",
            "pyseccomp; sys_platform == 'linux'",
            # the site, as in "docs"
            "mkdocs>=1.6,<2",
            "mkdocs-material>=9.7",
            "mkdocstrings[python]>=1",
        ],
        # tools of agents (agentrl.tools); the interpreter needs libseccomp, as Debian has it
        "tools": ["pydantic>=2", "docstring_parser", "bm25s", "pyseccomp; sys_platform == 'linux'"],
        # envs.make("verifiers:ID") and envs.verifiers_bridge; 0.4 has another interface
        "verifiers": ["verifiers>=0.1.14,<0.4"],
        "jaxmarl": ["jaxmarl>=0.2"],  # envs.make("jaxmarl:MPE_simple_spread_v3")
        # the site: mkdocs build --strict -f .ci/site/mkdocs.yml
        "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.7", "mkdocstrings[python]>=1", "ruff"],
        "gguf": ["gguf>=0.17"],  # launchers.import_gguf
        # arch, which rliable needs, fails beside pandas 3
        "plots": ["matplotlib", "rliable", "pandas<3"],
        # config.writers; a local file of MLflow's needs the last two
        "wandb": ["wandb>=0.31"],
        "mlflow": ["mlflow-skinny>=3.1", "sqlalchemy", "alembic"],
        "slurm": ["submitit"],
        "kubernetes": ["kubernetes>=30"],
        # recovery by exit codes, and tasks without access to the API server
        "skypilot": ["skypilot>=0.14"],
        "serve": ["aiohttp>=3.12"],  # launchers.serve, and players behind such a server
        "sweep": ["optuna>=4.8"],  # launchers.sweep --search
        "minari": ["minari[hdf5]>=0.5.4"],  # launchers.trajectories --to_minari, --from_minari
        # what launchers.benchmarks.offline_peer runs beside ours
        "offline": ["minari[hdf5]>=0.5.4", "pillow", "d3rlpy==2.8.1"],
        # environments in Python, which may as well live in another interpreter; scienceworld
        # needs a Java runtime
        "host": [
            "textarena>=0.7.4",
            "gymnasium",
            "textworld>=1.7",
            "scienceworld>=1.2.3",
            "open_spiel>=2.0.2",
            "pettingzoo>=1.27",
            "pygame",  # which PettingZoo's classic games import
            "dm_env",
        ],
        "peers": [
            "jumanji==1.1.2",
            "xminigrid==0.9.3",
            "pgx==2.6.0",
            "jaxmarl==0.2.0",
            "textarena==0.7.4",
            "open_spiel==2.0.2",
            "gym-sokoban==0.0.6",
            "gymnasium",
            "textworld==1.7.0",
            "setuptools<81",  # gym-sokoban imports pkg_resources
        ],
    },
)
