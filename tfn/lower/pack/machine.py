"""Machines as data: the slots and units that each kind of instruction takes, and latencies.

An instruction takes one option of each of its groups, and an option is one unit or several::

    multiply by vector    one of slots 2, 3      one of multipliers 0, 1
    permute               any of slots 0 to 3    the permute unit
    add of pairs          any of slots 0 to 3    multipliers 0 and 1, or permute and shift unit

Source: Qualcomm Hexagon V67 Programmer's Reference Manual, "Instruction packets"; Hexagon V67 HVX
Programmer's Reference Manual, "HVX slot/resource/latency summary"; the same facts in LLVM's
itineraries, `HexagonDepIICHVX.td`.  For x86-64: Intel 64 and IA-32 Architectures Optimization
Reference Manual, on Sunny Cove and Golden Cove with vectors of 512 bits; A. Abel and J. Reineke
2019, "uops.info", for latencies.
"""

from __future__ import annotations

from tfn.extend import frozen

Group = tuple[tuple[str, ...], ...]
"""Alternatives, each of one or more units that are taken together."""


@frozen
class Kind:
    """A kind of instruction.

    Attributes:
        groups: an option of each is taken for a cycle.
        latency: cycles until its result can be read.
        is_early: whether it reads vectors a cycle earlier than others do, but accumulators.
    """

    groups: tuple[Group, ...]
    latency: int = 1
    is_early: bool = False


@frozen
class Machine:
    """A processor core.

    Attributes:
        slots: the columns of a schedule's table: the slots of a packet, or the ports.
        kinds: by name.
        registers: the number of registers in each file, by the letter of their names.
        in_order: whether instructions run in the order of the program, packet by packet.
        vector_file: the letter of vector registers.
    """

    name: str
    slots: tuple[str, ...]
    kinds: dict[str, Kind]
    registers: dict[str, int]
    in_order: bool
    vector_file: str = "v"

    def latency(self, producer: str, consumer: str, register: str, accumulates: bool) -> int:
        """Cycles from the begin of an instruction to that of one that reads its result."""
        cycles = self.kinds[producer].latency
        early = self.kinds[consumer].is_early and register[0] == self.vector_file
        return cycles + (1 if early and not accumulates and cycles else 0)


def _any(*units: str) -> Group:
    return tuple((unit,) for unit in units)


_ALL, _ZERO = _any("S0", "S1", "S2", "S3"), _any("S0")
_LOW, _HIGH = _any("S0", "S1"), _any("S2", "S3")
_MULTIPLIERS = _any("M0", "M1")
_VECTOR = _any("XL", "SH", "M0", "M1")  # any unit of vectors will do
_PAIR: Group = (("XL", "SH"), ("M0", "M1"))

# fmt: off
HEXAGON = Machine("hexagonv67 with HVX", ("S0", "S1", "S2", "S3"), {
    # Scalars.
    "alu":              Kind((_ALL,)),
    "alu-64":           Kind((_HIGH,)),
    "multiply":         Kind((_HIGH,), 2),
    "float":            Kind((_HIGH,), 2),
    "predicate":        Kind((_HIGH,)),
    "load":             Kind((_LOW,)),
    "store":            Kind((_LOW,)),
    "memory-operation": Kind((_ZERO,)),
    "branch":           Kind((_HIGH,)),
    "loop-setup":       Kind((_any("S3"),)),
    # Vectors.  A permute reads operands a cycle before an addition does.
    "vector":           Kind((_ALL, _VECTOR)),
    "vector-pair":      Kind((_ALL, _PAIR)),
    "vector-multiply":  Kind((_HIGH, _MULTIPLIERS), 1, True),
    "vector-multiply-pair": Kind((_HIGH, (("M0", "M1"),)), 1, True),
    "permute":          Kind((_ALL, _any("XL")), 1, True),
    "permute-shift":    Kind((_ALL, (("XL", "SH"),)), 1, True),
    "shift":            Kind((_ALL, _any("SH")), 1, True),
    "insert":           Kind((_HIGH, _MULTIPLIERS), 1),
    "vector-load":      Kind((_LOW, _VECTOR, _any("LD"))),
    "vector-load-unaligned":  Kind(((("S0", "S1"),), _any("XL"), _any("LD"))),
    "vector-store":     Kind((_ZERO, _VECTOR, _any("ST"))),
    "vector-store-new": Kind((_ZERO, _any("ST"))),
    "vector-store-unaligned": Kind(((("S0", "S1"),), _any("XL"), _any("ST")), 1, True),
    # The upper bits of an immediate take the place of an instruction.
    "extender":         Kind((_ALL,)),
    "free":             Kind((), 0),
}, {"v": 32, "r": 29, "q": 4, "p": 4}, in_order=True)
"""Registers r29 to r31 hold the stack and the return address."""

_ISSUE = _any("I0", "I1", "I2", "I3", "I4", "I5")
_LOADS, _FMA = _any("L0", "L1"), _any("P0", "P5")
_SCALAR = _any("P1", "P6", "P10")  # integer ports beside those of the vectors

X86 = Machine("x86-64 with vectors of 512 bits", ("L0", "L1", "ST", "P0", "P5", "P1", "P6", "P10"),
{
    "load":             Kind((_ISSUE, _LOADS), 5),
    "vector-load":      Kind((_ISSUE, _LOADS), 7),
    "store":            Kind((_ISSUE, _any("ST")), 1),
    "fma":              Kind((_ISSUE, _FMA), 4),
    "fma-load":         Kind((_ISSUE, _FMA, _LOADS), 4),
    "float":            Kind((_ISSUE, _FMA), 4),
    "float-load":       Kind((_ISSUE, _FMA, _LOADS), 4),
    "vector":           Kind((_ISSUE, _FMA), 1),
    "vector-load-op":   Kind((_ISSUE, _FMA, _LOADS), 1),
    "vector-multiply":  Kind((_ISSUE, _any("P0")), 5),
    "vector-multiply-load": Kind((_ISSUE, _any("P0"), _LOADS), 5),
    "shuffle":          Kind((_ISSUE, _any("P5")), 3),
    "shuffle-load":     Kind((_ISSUE, _any("P5"), _LOADS), 3),
    "divide":           Kind((_ISSUE, _any("P0")), 18),
    "mask":             Kind((_ISSUE, _any("P0")), 3),
    "move":             Kind((_ISSUE,), 0),
    "alu":              Kind((_ISSUE, _SCALAR)),
    "alu-load":         Kind((_ISSUE, _SCALAR, _LOADS), 6),
    "multiply":         Kind((_ISSUE, _any("P1")), 3),
    "lea":              Kind((_ISSUE, _SCALAR)),
    "branch":           Kind((_ISSUE, _any("P6"))),
    "free":             Kind((), 0),
}, {"v": 224, "r": 280, "k": 60}, in_order=False)
"""Two loads, one store and two multiply-adds in a cycle.

The processor orders instructions itself, and renames registers: those are counted that it has.
"""

MACHINES: dict[str, Machine] = {"hexagon": HEXAGON, "x86_64": X86}
"""By the architecture of a triple."""
# fmt: on
