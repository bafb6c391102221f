"""Judgement: statements and recordings become advice and findings. Never touches the machine."""
