"""Many devices: named axes, the partitioner and its table `SHARD`.

Files in reading order:
    collective_rules  rules of collectives: derivatives, and what they are over lanes
"""
