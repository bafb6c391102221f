"""Beside the training: samples of the process tree, events of agents, the recording, the limit."""
