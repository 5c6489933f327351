"""What all packages of this project stand on: names, errors, devices, random numbers."""
