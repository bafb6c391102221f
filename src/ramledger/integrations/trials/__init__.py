"""Optuna's trials in processes of their own, held to a limit."""
