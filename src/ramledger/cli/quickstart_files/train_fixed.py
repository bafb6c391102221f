"""The training of train.py without its leak: the newest four recordings are kept.

Each iteration tries a population, improves it and evaluates it. It takes about half a minute.
"""

from collections import deque

import numpy as np

ITERATIONS = 60


class CartPole:
    """A pole on a cart: it falls unless the cart is pushed in time."""

    def reset(self, random):
        self.state = random.uniform(-0.05, 0.05, 4)
        self.steps = 0
        return self.state

    def step(self, action):
        position, speed, angle, turn = self.state
        push = 10.0 if action else -10.0
        pull = (push + 0.05 * turn**2 * np.sin(angle)) / 1.1
        turning = (9.8 * np.sin(angle) - np.cos(angle) * pull) / (
            0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
        )
        moving = pull - 0.05 * turning * np.cos(angle) / 1.1
        self.state = np.array(
            [
                position + 0.02 * speed,
                speed + 0.02 * moving,
                angle + 0.02 * turn,
                turn + 0.02 * turning,
            ]
        )
        self.steps += 1
        fell = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return self.state, 1.0, fell, self.steps >= 200

    def render(self):
        """A picture of 64 x 96 pixels."""
        picture = np.zeros((64, 96), np.uint8)
        column = int(np.clip(48 + 16 * self.state[0], 2, 93))
        tip = int(np.clip(column + 40 * np.sin(self.state[2]), 0, 95))
        picture[48:52, column - 2 : column + 3] = 255
        picture[10:48, min(column, tip) : max(column, tip) + 1] = 128
        return picture


class Trainer:
    def __init__(self):
        self.env = CartPole()
        self.random = np.random.default_rng(1)
        self.mean, self.spread = np.zeros(4), np.ones(4)
        self.recordings = deque(maxlen=4)

    def play(self, policy, record=False):
        state, pictures, score, done = self.env.reset(self.random), [], 0.0, False
        while not done:
            state, reward, fell, too_long = self.env.step(state @ policy > 0)
            score, done = score + reward, fell or too_long
            if record:
                pictures.append(self.env.render())
        return score, pictures

    def collect(self, size):
        """Try a population of policies."""
        policies = self.mean + self.spread * self.random.normal(size=(size, 4))
        return policies, np.array([self.play(policy)[0] for policy in policies])

    def learn(self, policies, scores):
        """Move to the best tenth."""
        best = policies[np.argsort(scores)[-len(policies) // 10 :]]
        self.mean, self.spread = best.mean(axis=0), best.std(axis=0) + 0.1

    def evaluate(self, episodes):
        """Play as well as it can, and keep pictures of it."""
        scores = []
        for _ in range(episodes):
            score, pictures = self.play(self.mean, record=True)
            self.recordings.append(pictures)
            scores.append(score)
        return np.mean(scores)


def main():
    trainer = Trainer()
    for iteration in range(ITERATIONS):
        policies, scores = trainer.collect(200)
        trainer.learn(policies, scores)
        score = trainer.evaluate(2)
        print(f"iteration {iteration:2d}  score {score:5.1f}", flush=True)


if __name__ == "__main__":
    main()
