"""Where RL people already are: one small file a framework, each loaded only by who asks for it."""
