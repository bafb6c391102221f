"""The operating system and the allocators, in bytes. Knows nothing of reinforcement learning."""
