"""Later."""
from tests.torture.tries import *
def disks(work, tries):
    return []
