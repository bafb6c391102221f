"""Forks 200 children, 50 at a time; each ends with a code of its own."""

import os

codes = []
for first in range(0, 200, 50):
    children = []
    for number in range(first, first + 50):
        child = os.fork()
        if child == 0:
            os._exit(sum(range(number)) % 251)
        children.append(child)
    codes += [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert codes == [sum(range(number)) % 251 for number in range(200)], codes
print("OK", sum(codes))
