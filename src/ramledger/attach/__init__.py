"""How we get into a process that did not start us: remote_exec or ptrace."""
