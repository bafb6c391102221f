"""One thread a process: on a busy machine, OpenMP's spinning threads only wait for each other."""

import torch

torch.set_num_threads(1)
