"""The coefficients of the method of order 8: as many as there are stages."""

from tfn.scipy.integrate import dormand_prince_8 as table


def test_each_stage_has_its_coefficients():
    sizes = [len(row) for row in (*table.STAGES, table.SOLUTION, *table.FURTHER)]
    assert sizes == list(range(1, 16)) and len(table.NODES) == 16
    assert {len(row) for row in table.ERRORS} == {13} and {len(r) for r in table.POLYNOMIAL} == {16}
