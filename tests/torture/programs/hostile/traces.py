"""Uses settrace, setprofile and, where there is one, sys.monitoring; each sees exactly its own."""

import os
import sys
import threading
import time

SECONDS = float(os.environ.get("TORTURE_SECONDS", "0.5"))
seen = []


def traced(number):
    total = number
    total += 1
    return total


def tracer(frame, event, _):
    seen.append((os.path.basename(frame.f_code.co_filename), frame.f_code.co_name, event))
    return tracer


def events_of(install):
    """What the hook sees of one call, without the file names of anybody else."""
    seen.clear()
    install(tracer)
    traced(1)
    install(None)
    return [event for event in seen if event[0] == "traces.py" and event[1] == "traced"]


first = events_of(sys.settrace), events_of(sys.setprofile)
end = time.monotonic() + SECONDS
while time.monotonic() < end:
    assert (events_of(sys.settrace), events_of(sys.setprofile)) == first
    threading.settrace(tracer)
    thread = threading.Thread(target=traced, args=(2,))
    thread.start()
    thread.join()
    threading.settrace(None)
    time.sleep(0.005)
if hasattr(sys, "monitoring"):
    sys.monitoring.use_tool_id(sys.monitoring.PROFILER_ID, "own")
    assert sys.monitoring.get_tool(sys.monitoring.PROFILER_ID) == "own"
print("OK", [len(events) for events in first], sys.gettrace(), sys.getprofile())
