"""The two tiers of tests: what everybody runs in minutes, and all of it (`--all`, in CI).

The quick tier meets every package: mathematics and files of the house whole, every kind of
environment on some of its kind, one test per joint of acting and learning. What compiles long
programs for one more combination of what is tested already is in the full tier.
"""

import fnmatch
import pathlib
import re

# Files of the full tier, by what makes them long.
FULL = (
    # Command lines, benchmarks and notebooks, each in a process of its own.
    "launchers/*",
    "colab/test_notebooks.py",
    "test_site.py",
    "test_types.py",
    # Whole runs: resumed, killed, on several devices, from published weights.
    "run/*",
    "config/test_files.py",
    # More combinations of acting.
    "actors/test_behaviour.py",
    "actors/test_speakers.py",
    "players/test_players.py",
    "players/test_program.py",
    "players/test_search.py",
    "players/test_served.py",
    "serving/test_ezpoints_agent.py",
    "serving/test_programs.py",
    "trajectories/test_minari.py",
    "trajectories/test_replay_host.py",
    "trajectories/test_trajectories.py",
    "trajectories/test_viewer.py",
    "rollout/test_demonstrated.py",
    "rollout/test_host*.py",
    "rollout/test_one_transcript.py",
    "rollout/test_matches.py",
    "rollout/test_words.py",
    "rollout/test_judges.py",
    "rollout/test_opponents.py",
    "rollout/test_mixture.py",
    "rollout/test_word_matches.py",
    "rollout/test_word_segments.py",
    "rollout/test_words_at_once.py",
    "rollout/test_beliefs.py",
    # What holds for all components; the quick tier has three of them.
    "test_component_conformance.py",
    # More combinations of learning; that it learns.
    "learner/test_continuous.py",
    "learner/test_hierarchical_credit.py",
    "learner/test_learns.py",
    "learner/test_levels.py",
    "learner/test_listening.py",
    "methods/*",
    # Parity with other libraries, and sizes.
    "policies/test_generation.py",
    "policies/test_gguf.py",
    "policies/test_huggingface.py",
    "policies/test_lora.py",
    "policies/test_memory.py",
    "policies/test_prefill.py",
    "policies/test_layers.py",
    "policies/test_huggingface_parity.py",
    "policies/test_shared_opening.py",
    "policies/test_smollm2.py",
    "policies/test_decoder_parity.py",
    "selfplay/test_arena.py",
    "selfplay/test_lineups.py",
    "selfplay/test_neural.py",
    "selfplay/test_spoken.py",
    "tools/test_pure.py",
    "evaluation/test_credit_view.py",
    "evaluation/test_flights.py",
    "evaluation/test_terminal.py",
    "evaluation/test_touches.py",
    # Environments by themselves: the quick tier has the conformance of `CORE`.
    "envs/test_*.py",
    "envs/agent_graph/*",
    "envs/points/*",
    "envs/volleyball/*",
    "envs/text/test_reading.py",
)
# The longest files, minutes each, and the directories after them: the order in which they begin.
FIRST = (
    "learner/test_learns.py",
    "run/*",
    "methods/*",
    "launchers/*",
    "colab/*",
    "test_site.py",
    "learner/*",
)
# Of these files the quick tier runs the tests of the environments in `CORE` alone.
BY_ENVIRONMENT = ("envs/test_conformance.py", "envs/test_games.py", "envs/text/test_view.py")
CORE = ("CartPole", "FrozenLake", "Sokoban", "Coin", "TicTacToe", "KuhnPoker", "Foraging")
# Single tests of other files: the longest ones, and ways of acting beside one that is kept.
FULL_TESTS = (
    "advantages/test_token_level.py::test_the_last_rewards_weight*",
    "learner/test_update.py::test_a_step_above_the_bound_is_skipped*",
    "actors/test_text.py::*at once*",
    "test_conformance.py::test_with_every_choice*",
    "actors/test_text.py::*summary*",
    "actors/test_text.py::*fold-*",
    "actors/test_text.py::*mem1-*",
    "advantages/test_group_relative.py::test_gradients_are_stopped",
    "advantages/test_similarity.py::test_observations_that_are_equal_share_an_anchor*",
    "colab/test_one_file.py::*librarys*",
    "colab/test_one_file.py::test_gigpo_in_words*",
    "config/test_own_modules.py::test_a_source_of_pairs_of_a_users_own*",
    "config/test_own_policies.py::test_a_language_policy_is_the_librarys*",
    "config/test_requirements.py::test_terms_of_replies_work_in_segments",
    "evaluation/test_metric_names.py::test_what_a_run_writes*",
    "config/test_tasks.py::test_a_policy_plays_elsewhere_if_it_knows_the_words",
    "config/test_tasks.py::test_baselines_metrics_and_evaluations_are_of_each_task",
    "launchers/cluster/test_jobset.py::test_a_run_that_is_told_to_stop*",
    "launchers/cluster/test_jobset.py::test_pods_join*",
    "learner/test_components.py::test_a_rejected_update_leaves_what_is_carried",
    "learner/test_components.py::test_filters_choose_what_is_imitated_of_the_own_episodes",
    "learner/test_components.py::test_the_held_out_loss_is_that_of_other_tasks",
    "learner/test_components.py::test_an_expert_beside_the_rollout",
    "learner/test_components.py::test_the_guard_remembers_what_a_rejected_update_started_from",
    "learner/test_components.py::test_the_held_out_loss_costs_a_forward_pass",
    "learner/test_components.py::test_the_reference_is_what_the_warm_start_ends_with",
    "learner/test_passes.py::test_a_run_in_passes_is_the_run_at_once",
    "learner/test_pool.py::test_members_are_earlier_parameters_and_never_change",
    "learner/test_update.py::test_a_bonus_that_goes_nowhere_is_a_constant_one",
    "learner/test_update.py::test_a_cap_below_one_makes_the_loss_smaller_by_as_much",
    "learner/test_update.py::test_only_replies_are_trained_and_on_demand_what_was_read",
    "learner/test_update.py::test_steps_above_the_bound_of_kl_are_not_taken*",
    "learner/test_update.py::test_the_bonus_goes_on_where_a_checkpoint_left_it",
    "learner/test_update.py::test_the_entropy_bonus_falls_by_the_same_factor_each_update",
    "learner/test_update.py::test_weights_of_a_sampler_that_is_the_learner_change_nothing*",
    "learner/test_update.py::test_what_was_read_teaches_something_else",
    "policies/test_by_role.py::test_networks_learn_at_their_own_rates_or_stay",
    "policies/test_attention.py::test_flash_attention_means_the_same*",
    "rollout/test_rollouts.py::test_bootstrap_is_the_value_of_the_last_state*",
    "rollout/test_unroll.py::test_the_learner_scores_what_was_sampled*segments*",
    # Of what holds for all functions of credit, those with the most operations.
    *(
        f"test_conformance.py::*?{name}?"
        for name in (
            "accepted",
            "bilevel_gae",
            "dr_mas",
            "dual_level",
            "hae_by_turn",
            "hgpo",
            "marft_by_turn",
            "mars_by_position",
            "pairwise_sign",
            "switched_hae_by_turn",
            "token_gae",
            "uncertain_turns",
            "user_rl",
        )
    ),
    "selfplay/test_spoken.py::*of_the_table?whole*",
    "selfplay/test_spoken.py::*of_the_table?window*",
    "selfplay/test_spoken.py::test_a_run_reports_it",
    "selfplay/test_spoken.py::test_equal_logits_play_uniformly?Leduc*",
    "rollout/test_rollouts.py::test_what_streams_hold_is_declared*words*",
    "rollout/test_rollouts.py::test_fresh_tasks_restart_from_the_pool",
)
# Combinations of what others hold, too, that take seconds each: with `-m long` alone.
LONG_TESTS = (
    # With other agents at once; the rollouts have one agent, and agents in turns.
    "actors/test_text.py::test_on_policy_ratios_are_one*one agent*",
    "actors/test_text.py::test_on_policy_ratios_are_one*in turns*",
    "rollout/test_word_segments.py::test_on_policy_ratios_are_one*at once*",
    # Kept: a window of agents in turns, words of the runs, one of two seats, sampled play.
    "rollout/test_word_segments.py::test_on_policy_ratios_are_one?window-one agent?",
    "methods/test_calls.py::test_a_run_resumes?arrays*",
    "players/test_search.py::test_with_enough_simulations_it_does_not_lose?seating0?",
    "launchers/test_chat.py::test_the_agent_alone_plays_what_evaluation_plays?1?",
    # Llama, Gemma 3 and adapters are kept.
    "policies/test_layers.py::*?gemma2?",
    "policies/test_layers.py::*?qwen2?",
    # Hanabi, cooperation, coins and riddles are kept.
    "envs/test_jaxmarl_bridge.py::*?HeuristicEnemySMAX?",
    "envs/test_jaxmarl_bridge.py::*?overcooked?",
    "envs/test_jaxmarl_bridge.py::*?MPE_simple_tag_v3?",
    "envs/test_jaxmarl_bridge.py::*?MPE_simple_facmac_v1?",
    "selfplay/test_spoken.py::*of_the_table?turn-True?",
    "selfplay/test_spoken.py::*of_the_table?sliding-True?",
    "selfplay/test_spoken.py::test_equal_logits_play_uniformly?Leduc*",
    # Components that runs in files of their own train and, but for the verifier, resume.
    *(
        f"test_component_conformance.py::*?{name}?"
        for name in ("corrections", "dagger", "positives", "verifier")
    ),
    # Sources that play episodes of their own: of the update's batch they read the parameters alone.
    *(
        f"test_component_conformance.py::test_it_reads_nothing_outside_of_the_mask?{name}?"
        for name in (
            "agent_r",
            "early_experience",
            "eipo",
            "expert_iteration",
            "guided",
            "ipr",
            "paprika",
            "reflections",
        )
    ),
    # What the expert as a judge, and the same player as a teacher, do in words is kept.
    "players/test_served.py::test_as_a_judge*?talk_config?",
    # Kept: cells that have every pair of a view, a way of acting, a place and a form among them.
    "run/test_cells.py::test_cell?array-one-graph-episodes?",
    "run/test_cells.py::test_cell?array-once-graph-*",
    "run/test_cells.py::test_cell?array-turns-graph-segments?",
    "run/test_cells.py::test_cell?array-turns-python-episodes?",
    "run/test_cells.py::test_cell?array-one-python-segments?",
    "run/test_cells.py::test_cell?text-one-graph-*",
    "run/test_cells.py::test_cell?text-once-python-*",
    "run/test_cells.py::test_cell?text-turns-python-*",
    "rollout/test_host_cells.py::test_streams_and_rows?*-False?",
    "rollout/test_unroll.py::test_the_learner_scores_what_was_sampled?PigDice*",
    "rollout/test_unroll.py::test_the_learner_scores_what_was_sampled?Foraging*gru?",
    # Kept: groups over several seeds, words on several devices.
    "run/test_loop.py::test_seeds_side_by_side*?segments?",
    "run/test_loop.py::test_one_device_equals_eight?groups?",
    # Environments that are another one with a planner or on other rules.
    "envs/*::*?SwitchedHousehold-v1*",
    "envs/*::*?PlanarVolleyball-v1*",
    "envs/*::*?PlannedVolleyball-v1*",
    "envs/test_jaxmarl_bridge.py::*?MPE_simple_spread_v3?",
    "envs/test_jaxmarl_bridge.py::*?MPE_simple_speaker_listener_v4?",
    # One of two of a kind, or what another test of the file has among its options.
    "policies/test_layers.py::test_replies_are_the_same*?llama?",
    "policies/test_layers.py::*?remat?",
    "policies/test_shared_opening.py::test_scores_and_gradients*?options0-True?",
    "policies/test_memory.py::test_scores_where_they_are_needed*?opening0-*",
    "rollout/test_words.py::test_on_policy_ratios_are_one?bytes?",
    "rollout/test_words.py::test_on_policy_ratios_are_one?constrained?",
    "rollout/test_words.py::test_on_policy_ratios_are_one?first?",
    "rollout/test_words.py::test_on_policy_ratios_are_one?sliding?",
    "rollout/test_judges.py::test_a_judge_changes_nothing*?continuations:2-words?",
    "rollout/test_judges.py::test_a_judge_changes_nothing*?progress-words?",
    "rollout/test_judges.py::test_a_judge_changes_nothing*?expert-arrays?",
    "run/test_exported.py::test_the_chat_template*?sliding?",
    "run/test_exported.py::test_the_chat_template*?the new observation?",
    "run/test_pretrained.py::test_rows_are_what_was_read_and_written?sliding?",
    "launchers/test_chat.py::test_a_given_reply_is_in_the_context?sliding?",
    "launchers/test_chat.py::test_a_given_reply_is_in_the_context?window?",
    "methods/test_archer_words.py::*?window?",
    "methods/test_archer_words.py::test_cut_distributions*",
    "methods/test_archer_words.py::test_one_device_equals_eight",
    "methods/test_counterfactual.py::test_nothing_replaced_is_no_difference?partners0?",
    "methods/test_dagger.py::*?arrays?",
    "methods/test_guided.py::test_guided_successes*?False?",
    "methods/test_igpo.py::test_beliefs_are_those*?window?",
    "methods/test_offline_values.py::test_a_run_plays_nothing*?options0?",
    "methods/test_skill_distillation.py::test_the_teacher_scores*?window?",
    "config/test_own_modules.py::test_a_source_of_pairs*?None?",
    "trajectories/test_replay_host.py::test_episodes_are_played_again?a game in words?",
    "devices/test_placement.py::*?(1, 8, 1)?",
    "actors/test_text.py::test_on_policy_ratios_are_one?hint-at once?",
    "actors/test_text.py::test_on_policy_ratios_are_one?summary once-at once?",
    "methods/test_calls.py::test_a_frozen_role_has_no_gradient*?networks?",
    "methods/test_counterfactual.py::test_a_frozen_role_has_no_gradient",
    "methods/test_trees.py::*?None?",
    # Runs that resume: what each component carries is saved and restored by its conformance, and
    # those of archer, critic_first, curriculum, meee, offline_values and pairs are kept.
    *(
        f"methods/test_{name}.py::*resume*"
        for name in (
            "agent_r",
            "archer_words",
            "bags",
            "calls",
            "corrections",
            "counts",
            "dagger",
            "discriminator",
            "early_experience",
            "eipo",
            "ipr",
            "offline_words",
            "paprika",
            "pvp",
            "q_shaping",
            "rise",
            "routing",
            "siblings",
            "world_model",
        )
    ),
    "methods/test_growing_batch.py::test_solved_episodes_stay?arrays?",
    "methods/test_meee.py::test_one_model_or_no_trust*?options0?",
    # Second of a kind, by cost. Kept: groups, a kill in the middle of a save, updates in passes,
    # one seat of two, one context of a component.
    "run/test_loop.py::test_run_directory?talk?",
    "run/test_loop.py::test_resumed_equals_uninterrupted?segments?",
    "run/test_writers.py::test_a_killed_process*",
    "run/test_rungs.py::test_a_run_stopped_at_rungs*",
    "run/test_memory.py::test_an_evaluation_that_does_not_fit*",
    "run/test_pretrained.py::test_every_preset_of_smollm2_builds?household?",
    "run/test_exported.py::test_the_chat_template*?a text in observations?",
    "run/test_exported.py::test_the_chat_template*?strides?",
    "rollout/test_opponents.py::test_uniform_play_earns*?True?",
    "rollout/test_memory.py::test_ratios_are_one",
    "rollout/test_word_segments.py::test_on_policy_ratios_are_one?summary-one agent?",
    "rollout/test_word_segments.py::test_on_policy_ratios_are_one?whole-one agent?",
    "rollout/test_words.py::test_on_policy_ratios_are_one?strides?",
    "rollout/test_words_at_once.py::test_evaluation_is_a_player*",
    "rollout/test_one_transcript.py::test_ratio_one*?window?",
    "rollout/test_beliefs.py::test_living_crewmates*?mlp?",
    "actors/test_text.py::test_on_policy_ratios_are_one?whole-at once?",
    "actors/test_text.py::test_on_policy_ratios_are_one?fold-at once?",
    "learner/test_update.py::test_only_replies_are_trained*",
    "methods/test_branching.py::test_branches_share*?window?",
    "methods/test_decisions.py::test_spans_cover*?whole?",
    "methods/test_early_experience.py::test_what_follows*?window?",
    # What a method is with one of its parts taken away; the parts are tested one by one.
    "methods/test_q_shaping.py::test_without_heuristics*",
    "methods/test_ipr.py::test_without_steps*",
    "methods/test_agent_r.py::test_without_a_cut*",
    "methods/test_agent_r.py::test_spliced_rows*?branch?",
    "methods/test_expert_iteration.py::test_without_restart*",
    "methods/test_mah_dpo.py::test_one_head_is_dpo",
    "methods/test_paprika.py::test_one_group_is_rpo*",
    "methods/test_turn_limits.py::test_its_parts_together*",
    "methods/test_branching.py::test_a_penalty_spreads_branches",
    # Pairs that part in words, and a scorer over arrays, are kept.
    "methods/test_ipr.py::test_a_scorer_stands*?words?",
    "methods/test_ipr.py::test_pairs_part*?arrays?",
    # Of what components carry beside each other, one of each kind is kept.
    "methods/test_together.py::*?switched-stare_weights?",
    "methods/test_together.py::*?judged-curriculum?",
    "methods/test_bags.py::test_memory_alone*",
    "methods/test_task_lists.py::test_rapo_with_a_language_policy",
    "methods/test_counterfactual.py::test_a_partner_that_is_named_again*",
    "methods/test_reference_penalty.py::test_a_turn_pays*?groups_config?",
    "methods/test_rollout_weight.py::test_frozen_modules*",
    "learner/test_learns.py::*?imitation_beside-*",
    "rollout/test_opponents.py::test_a_member_matters*?True?",
    "run/test_loop.py::test_one_device_equals_eight?matches?",
    "run/test_loop.py::test_seeds_side_by_side*?matches?",
    "run/test_loop.py::test_seeds_side_by_side*?talk?",
    "rollout/test_memory.py::test_a_row_is_the_questions*?2-*",
    "run/test_adapters.py::test_adapters_need_something*",
    "run/test_cells.py::test_cell?text-once-graph-segments?",
    "run/test_cells.py::test_cell?array-one-python-episodes?",
    "run/test_loop.py::test_one_device_equals_eight?segments?",
    "run/test_loop.py::test_run_directory?segments?",
    "run/test_loop.py::test_run_directory?matches?",
    "launchers/test_beside.py::test_drafts_with_their_grades*?arrays?",
    "launchers/test_one_transcript.py::test_a_run_is_trained*?host?",
    "rollout/test_one_transcript.py::test_the_same_replies_are_the_same_rows?window?",
    "trajectories/test_replay_host.py::test_episodes_are_played_again?arrays, at once?",
    "trajectories/test_trajectories.py::test_offline_updates_from_a_file*?drawn?",
    "run/test_exported.py::test_the_chat_template*?whole, bytes?",
    "run/test_exported.py::test_the_chat_template*?a window?",
    "run/test_per_seed.py::test_environments_in_python_have_them_too",
)
# Files, and tests of one, that a pattern above has, and that are quick all the same.
QUICK = (
    "test_component_conformance.py::*?call_matching?",
    "test_component_conformance.py::*?counts?",
    "test_component_conformance.py::*?curiosity?",
    "run/test_restored.py",
    "run/test_metrics.py",
    "envs/test_protocol.py",
    "envs/test_frozen_lake.py",
    "envs/test_replays.py::*FrozenLake*",
)


def is_long(path: pathlib.PurePath, name: str) -> bool:
    """Whether a test is one of `LONG_TESTS`."""
    single = f"{path.as_posix()}::{name}"
    return any(fnmatch.fnmatchcase(single, pattern) for pattern in LONG_TESTS)


def rank(path: pathlib.PurePath) -> int:
    """Where a test's file comes: the lower, the earlier it begins."""
    matched = (number for number, pattern in enumerate(FIRST) if path.match(pattern))
    return next(matched, len(FIRST))


def is_full(path: pathlib.PurePath, name: str) -> bool:
    """Whether a test is of the full tier: its file below `tests`, and its name."""
    if any(path.match(pattern) for pattern in BY_ENVIRONMENT):
        environments = re.findall(r"\[(\w+?)-v\d", name) or re.findall(r"[\[-](\w+)-v\d", name)
        wrapped = "envs.wrappers." in name
        return wrapped or (bool(environments) and not set(environments) & set(CORE))
    single = f"{path.as_posix()}::{name}"
    if any(path.match(pattern) or fnmatch.fnmatchcase(single, pattern) for pattern in QUICK):
        return False
    return any(path.match(pattern) for pattern in FULL) or any(
        fnmatch.fnmatchcase(single, pattern) for pattern in FULL_TESTS
    )
