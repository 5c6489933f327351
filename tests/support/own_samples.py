"""Data as people of PyTorch have them: map-style datasets of pairs (image, label)."""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import Dataset, Subset


class Digits(Dataset):
    """The first 240 digits, 8x8 pixels in [0, 1]."""

    def __init__(self):
        found = load_digits()
        self.images, self.labels = found.images[:240], found.target[:240]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i] / 16).float().unsqueeze(0), int(self.labels[i])


def digits():
    """180 digits to train on, 60 to test on."""
    every = Digits()
    return Subset(every, range(180)), Subset(every, range(180, 240))
