"""Iterations and phases: stated, or found in call stacks; growth by function."""
