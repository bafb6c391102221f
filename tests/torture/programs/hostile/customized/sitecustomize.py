"""A sitecustomize of the user's own."""

import sys

sys.own_sitecustomize = __file__.rpartition("/")[2]
