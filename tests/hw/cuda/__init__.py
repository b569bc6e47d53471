"""Tests of tfn.hw.cuda: with ptxas where it is installed, on a simulated driver, on a GPU."""
