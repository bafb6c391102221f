"""Starts the agent in a live process that was started without it: by remote_exec or ptrace."""
