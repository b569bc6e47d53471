"""Print the probabilities of the classes: python -m network 0.1 0.2 0.3 0.4"""

import sys

from network import probabilities

print(*(f"{p:.6f}" for p in probabilities([float(x) for x in sys.argv[1:]])))
