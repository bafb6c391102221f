"""Later."""
from tests.torture.tries import *
def programs(work, tries):
    return []
