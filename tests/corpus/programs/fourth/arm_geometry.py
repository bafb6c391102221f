"""Kinematics of a planar arm with several links."""

from typing import Any

import numpy as np


def joint_positions(lengths: Any, angles: Any) -> Any:
    """Where every joint of the arm is, for angles of shape (samples, links)."""
    total = np.cumsum(angles, axis=-1)
    steps = np.stack([np.cos(total), np.sin(total)], axis=-1) * lengths[:, None]
    return np.cumsum(steps, axis=-2)


def jacobian(lengths: Any, angles: Any) -> Any:
    """How the tip moves with each angle, of shape (2, links)."""
    joints = joint_positions(lengths, angles[None])[0]
    origins = np.vstack([np.zeros((1, 2)), joints[:-1]])
    arms = joints[-1] - origins
    return np.stack([-arms[:, 1], arms[:, 0]])


def solve_tip(lengths: Any, angles: Any, target: Any, steps: int = 20) -> Any:
    """Damped least squares towards a target of the tip."""
    for _ in range(steps):
        slope = jacobian(lengths, angles)
        error = target - joint_positions(lengths, angles[None])[0, -1]
        angles = angles + slope.T @ np.linalg.solve(slope @ slope.T + 0.05 * np.eye(2), error)
    return angles
