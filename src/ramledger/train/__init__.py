"""The reference workload: evolutionary reinforcement learning, bounded in memory and resumable.

It uses ramledger's public names only, as a user would. Read `population` first, then `trainer`.
"""
