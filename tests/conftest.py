"""One thread, so that bits do not depend on the load; hypothesis without clock, chance or files."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("suite", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("suite")
