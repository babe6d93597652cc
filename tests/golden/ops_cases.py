"""The first room: the operators of the three tables that no other room makes."""

import coverage
import elementwise_cases
import network_cases
import tensor_cases


def make(tables):
    elsewhere = coverage.complete(but="ops")
    elementwise_cases.make([row for row in tables["elementwise"] if row.name not in elsewhere])
    elementwise_cases.promotion()
    tensor_cases.make()
    network_cases.make()
