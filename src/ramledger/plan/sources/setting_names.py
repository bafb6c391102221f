"""What people call the settings of a training: `REPLAY_MEMORY_SIZE` is buffer_size."""

_NAMES = {
    "buffer_size": "buffer_size replay_size memory_size mem_size replay_buffer_size "
    "replay_memory_size replay_memory buffer_capacity memory_capacity max_memory max_mem "
    "replay_capacity mem_capacity buffer_limit max_buffer_size buffer_len replay_len memory_limit "
    "replay_buffer_capacity maxlen maxlenofqueue experience_size max_memory_size max_mem_size "
    "buffer_max_size max_replay_size replay_limit memory_len replay_memory_capacity capacity "
    "max_len replay_buffer_len rb_size replay_max_size n_replay size_buffer buffer_maxlen "
    "max_experiences",
    "batch_size": "batch_size minibatch_size mini_batch_size batchsize sample_batch_size "
    "buffer_batch_size train_batch_size batch n_batch mini_batch sgd_minibatch_size",
    "n_envs": "n_envs num_envs num_env nenvs n_env num_processes num_actors num_cpu num_cpus "
    "n_parallel_envs env_num parallel_envs num_parallel_envs number_of_envs nb_envs n_workers_env",
    "n_steps": "n_steps num_steps rollout_length rollout_steps t_horizon horizon horizon_length "
    "update_timestep update_timesteps rollout_len steps_per_update n_rollout_steps nsteps "
    "unroll_length timesteps_per_batch rollout_fragment_length rollout_size num_rollout_steps "
    "steps_per_rollout max_rollout_len steps_per_epoch nb_steps n_step_rollout traj_length",
    "total_steps": "total_steps total_timesteps max_timesteps max_training_timesteps num_timesteps "
    "max_train_steps total_frames n_timesteps num_env_steps training_steps num_training_steps "
    "max_frames total_env_steps num_train_steps train_steps total_num_steps max_env_steps "
    "timesteps total_training_steps number_of_frames",
    "learning_starts": "learning_starts start_timesteps start_steps warmup_steps replay_start_size "
    "learning_start initial_exploration random_steps min_replay_size warm_up_steps learn_start "
    "replay_start min_buffer_size start_learning",
    "n_epochs": "n_epochs update_epochs k_epochs k_epoch ppo_epoch ppo_epochs num_update_epochs",
    "population": "population population_size pop_size popsize num_population n_population",
    "frame_stack": "frame_stack num_stack stack_size n_stack frame_history_length history_length "
    "stacked_frames num_stacked_frames frame_stacks",
    "episode_length": "max_ep_len max_episode_steps episode_length ep_length max_episode_length "
    "max_ep_length",
    "env": "env env_id env_name gym_id environment environment_name env_str game_name gym_env",
    "algorithm": "algorithm algo algo_name agent_type",
    "device": "device",
}  # fmt: skip
_FIELDS = {
    name.replace("_", ""): field for field, names in _NAMES.items() for name in names.split()
}


def field_named(name: str) -> str | None:
    """The field of a config that people also call `name`, however it is spelled."""
    plain = name.lower().replace("_", "").replace("-", "").replace(" ", "")
    return _FIELDS.get(plain)
