"""A usercustomize of the user's own."""

import sys

sys.own_usercustomize = __file__.rpartition("/")[2]
